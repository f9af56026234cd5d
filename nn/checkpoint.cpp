#include <bevel/nn/checkpoint.h>
#include <bevel/nn/detail/safetensors.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <numeric>
#include <set>
#include <system_error>
#include <vector>

namespace bevel::nn {

namespace {

static_assert(std::endian::native == std::endian::little, "checkpoints are written as they lie in memory");

constexpr const char* checksum_key = "bevel.checksum";
constexpr std::string_view no_checksum = "0000000000000000";

// 64-bit FNV-1a.
class Checksum {
 public:
  void add(const void* data, std::size_t bytes) {
    const auto* p = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) hash_ = (hash_ ^ p[i]) * 0x100000001b3u;
  }
  std::string digits() const {
    std::string result(no_checksum);
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = "0123456789abcdef"[(hash_ >> (60 - 4 * i)) & 15];
    return result;
  }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

// Where the digits of the checksum stand in a header; npos in a file of another tool.
std::size_t checksum_position(const std::string& header) {
  const std::string before = message('"', checksum_key, "\":\"");
  const std::size_t found = header.find(before);
  if (found == std::string::npos || found + before.size() + no_checksum.size() > header.size())
    return std::string::npos;
  return found + before.size();
}

// A file that is gone again unless it is kept.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& final)
      : final_(final), path_(final.string() + ".tmp" + std::to_string(::getpid())) {
    out_.open(path_, std::ios::binary | std::ios::trunc);
    require(out_.is_open(), "the file cannot be written");
  }
  ~TemporaryFile() {
    std::error_code ignored;
    if (!kept_) std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(const void* data, std::size_t bytes) {
    out_.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  }
  // Gives the file its name once its bytes are on the disk.
  void keep() {
    out_.close();
    const int descriptor = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
    const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
    if (descriptor >= 0) ::close(descriptor);
    require(out_.good() && synced, "the file cannot be written; is the disk full?");
    std::filesystem::rename(path_, final_);
    kept_ = true;
  }

 private:
  std::filesystem::path final_;
  std::filesystem::path path_;
  std::ofstream out_;
  bool kept_ = false;
};

void write_file(const std::filesystem::path& path, std::span<const NamedTensor> tensors, const Metadata& metadata) {
  require(!metadata.contains(checksum_key), "the metadata must not have the key ", checksum_key);
  // Wide elements come first in the file, so that all are aligned.
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size_of(tensors[a].tensor.dtype()) > size_of(tensors[b].tensor.dtype());
  });
  detail::Header header;
  header.metadata = metadata;
  header.metadata[checksum_key] = no_checksum;
  std::set<std::string> names;
  for (const NamedTensor& entry : tensors) {
    require(names.insert(entry.name).second, "'", entry.name, "' is given twice");
    require(entry.name != "__metadata__", "a tensor cannot have the name ", entry.name);
    header.entries.push_back({entry.name, entry.tensor.dtype(), entry.tensor.shape()});
  }
  std::uint64_t offset = 0;
  for (const std::size_t i : order) {
    header.entries[i].begin = offset;
    offset += static_cast<std::uint64_t>(tensors[i].tensor.bytes());
    header.entries[i].end = offset;
  }
  std::string text = detail::write_header(header);
  text.append((8 - text.size() % 8) % 8, ' ');

  std::vector<Tensor> values;
  Checksum checksum;
  checksum.add(text.data(), text.size());
  for (const std::size_t i : order) {
    values.push_back(tensors[i].tensor.detach().to(cpu));
    checksum.add(values.back().raw(), static_cast<std::size_t>(values.back().bytes()));
  }
  text.replace(checksum_position(text), no_checksum.size(), checksum.digits());

  TemporaryFile file(path);
  const std::uint64_t length = text.size();
  file.write(&length, sizeof length);
  file.write(text.data(), text.size());
  for (const Tensor& value : values) file.write(value.raw(), static_cast<std::size_t>(value.bytes()));
  file.keep();
}

// The tensors' bytes must follow one another from 0 to the end of the file.
void check_offsets(std::vector<detail::HeaderEntry> entries, std::uint64_t data_bytes) {
  std::set<std::string> names;
  for (const detail::HeaderEntry& entry : entries) {
    require(names.insert(entry.name).second, "'", entry.name, "' is there twice");
    std::int64_t bytes = 0;
    require(!__builtin_mul_overflow(entry.shape.numel(), size_of(entry.dtype), &bytes) && entry.end >= entry.begin &&
                entry.end - entry.begin == static_cast<std::uint64_t>(bytes),
            "'", entry.name, "' (", entry.dtype, " ", entry.shape, ") has data_offsets ", entry.begin, " and ",
            entry.end);
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  std::uint64_t end = 0;
  for (const detail::HeaderEntry& entry : entries) {
    require(entry.begin == end, "'", entry.name, "' begins at byte ", entry.begin, ", expected ", end);
    end = entry.end;
  }
  require(end == data_bytes, "the tensors take ", end, " bytes, and the file has ", data_bytes, " for them");
}

Checkpoint read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  require(in.is_open() && !std::filesystem::is_directory(path), "the file cannot be opened");
  const std::uint64_t file_bytes = std::filesystem::file_size(path);
  std::uint64_t length = 0;
  require(file_bytes >= sizeof length, "the file has ", file_bytes, " bytes and is no checkpoint");
  in.read(reinterpret_cast<char*>(&length), sizeof length);
  require(length <= file_bytes - sizeof length, "the header should have ", length, " bytes, and the file has ",
          file_bytes, ": it was cut short or is no checkpoint");
  std::string text(length, ' ');
  in.read(text.data(), static_cast<std::streamsize>(length));
  require(in.good(), "the file cannot be read");
  detail::Header header = detail::read_header(text);
  check_offsets(header.entries, file_bytes - sizeof length - length);

  const std::size_t place = checksum_position(text);
  const bool checked = header.metadata.contains(checksum_key) && place != std::string::npos;
  const std::string expected = checked ? text.substr(place, no_checksum.size()) : std::string();
  if (checked) text.replace(place, no_checksum.size(), no_checksum);
  Checksum checksum;
  checksum.add(text.data(), text.size());

  Checkpoint result;
  std::vector<const detail::HeaderEntry*> in_file_order;
  in_file_order.reserve(header.entries.size());
  for (const detail::HeaderEntry& entry : header.entries) in_file_order.push_back(&entry);
  std::stable_sort(in_file_order.begin(), in_file_order.end(), [](const auto* a, const auto* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
  });
  std::map<std::string_view, Tensor> tensors;
  for (const detail::HeaderEntry* entry : in_file_order) {
    const Tensor tensor = Tensor::empty(entry->shape, {.dtype = entry->dtype});
    in.read(static_cast<char*>(tensor.raw()), static_cast<std::streamsize>(tensor.bytes()));
    require(in.good(), "the file cannot be read");
    if (checked) checksum.add(tensor.raw(), static_cast<std::size_t>(tensor.bytes()));
    tensors.emplace(entry->name, tensor);
  }
  require(!checked || checksum.digits() == expected, "the checksum is ", checksum.digits(), ", expected ", expected,
          ": the file was damaged");
  for (const detail::HeaderEntry& entry : header.entries) result.tensors.push_back({entry.name, tensors[entry.name]});
  header.metadata.erase(checksum_key);
  result.metadata = std::move(header.metadata);
  return result;
}

// Puts the function and the path in front of what went wrong.
template <class F>
auto with_path(const char* function, const std::filesystem::path& path, F&& f) {
  try {
    return f();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    fail(function, ": ", path.string(), ": ", error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    fail(function, ": ", path.string(), ": ", error.code().message());
  }
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                     const Metadata& metadata) {
  with_path("save_checkpoint", path, [&] { write_file(path, tensors, metadata); });
}

Checkpoint load_checkpoint(const std::filesystem::path& path) {
  return with_path("load_checkpoint", path, [&] { return read_file(path); });
}

void save_weights(const std::filesystem::path& path, const Module& module, const Metadata& metadata) {
  save_checkpoint(path, module.state(), metadata);
}

Metadata load_weights(const std::filesystem::path& path, Module& module) {
  Checkpoint checkpoint = load_checkpoint(path);
  with_path("load_weights", path, [&] { module.load_state(checkpoint.tensors); });
  return std::move(checkpoint.metadata);
}

}  // namespace bevel::nn
