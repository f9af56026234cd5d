#include <bevel/nn/checkpoint.h>
#include <bevel/nn/linear.h>
#include <bevel/nn/sequential.h>

#include <unistd.h>

#include <cstring>
#include <fstream>

#include "testing.h"

namespace bevel {
namespace {

using bevel::testing::bit_equal;
using bevel::testing::DeviceTest;
using bevel::testing::random_tensor;
using bevel::testing::throws_error;

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / message("bevel_checkpoint_", ::getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path file(const char* name) const { return path_ / name; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
// A file with this header and that many bytes of data.
std::string file_of(const std::string& header, std::size_t data = 0) {
  const std::uint64_t length = header.size();
  std::string result(8, '\0');
  std::memcpy(result.data(), &length, 8);
  return result + header + std::string(data, '\1');
}

class CheckpointTest : public DeviceTest {
 protected:
  Folder folder_;
};
INSTANTIATE_TEST_SUITE_P(Devices, CheckpointTest, ::testing::ValuesIn(testing::build_devices()), testing::device_name);

TEST_P(CheckpointTest, RoundTrip) {
  NamedTensors tensors;
  for (const Dtype dtype : {u8, f32, boolean, f64, bf16, i64, f16, i32})
    tensors.push_back({message("a.", name(dtype)),
                       random_tensor({3, 5}, {.dtype = dtype, .device = device(), .low = 0, .high = 100, .seed = 4})});
  tensors.push_back({"scalar", Tensor::scalar(3, {.device = device()})});
  tensors.push_back({"empty \"\\\n\x01 ü", Tensor::zeros({0, 4})});
  const nn::Metadata metadata{{"epoch", "3"}, {"quote\"", "line\nbreak, tab\t, ü"}};
  const auto path = folder_.file("x.safetensors");
  nn::save_checkpoint(path, tensors, metadata);
  const nn::Checkpoint loaded = nn::load_checkpoint(path);
  EXPECT_EQ(loaded.metadata, metadata);
  ASSERT_EQ(loaded.tensors.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(loaded.tensors[i].name, tensors[i].name);
    EXPECT_EQ(loaded.tensors[i].tensor.device(), cpu);
    EXPECT_TRUE(bit_equal(loaded.tensors[i].tensor, tensors[i].tensor)) << tensors[i].name;
  }
  EXPECT_EQ(folder_.files(), 1u);  // no temporary file is left
}

TEST_P(CheckpointTest, Weights) {
  nn::Sequential from{nn::Linear{3, 4}, nn::Linear{4, 2}};
  nn::Sequential to{nn::Linear{3, 4}, nn::Linear{4, 2}};
  from.to(device());
  const auto path = folder_.file("w.safetensors");
  nn::save_weights(path, from, {{"kind", "test"}});
  EXPECT_EQ(nn::load_weights(path, to).at("kind"), "test");
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(bit_equal(to.parameters()[i], from.parameters()[i]));
}

TEST_P(CheckpointTest, WeightsOfAnotherModelChangeNothing) {
  const auto path = folder_.file("w.safetensors");
  nn::save_weights(path, nn::Sequential{nn::Linear{3, 4}, nn::Linear{4, 2}});
  nn::Sequential net{nn::Linear{3, 4}, nn::Linear{4, 5}};
  net.to(device());
  const Tensor before = net.parameters()[0].detach().clone();
  EXPECT_TRUE(throws_error([&] { nn::load_weights(path, net); },
                           {"load_weights", path.string(), "'1.weight' should be f32 [5, 4], and is f32 [2, 4]"}));
  EXPECT_TRUE(bit_equal(net.parameters()[0], before));
}

class CheckpointFileTest : public ::testing::Test {
 protected:
  ::testing::AssertionResult refuses(const std::string& bytes, const std::string& part) {
    write(path_, bytes);
    return throws_error([&] { nn::load_checkpoint(path_); }, {"load_checkpoint: " + path_.string(), part});
  }
  Folder folder_;
  std::filesystem::path path_ = folder_.file("x");
};

TEST_F(CheckpointFileTest, EveryCutIsFound) {
  nn::save_checkpoint(path_, NamedTensors{{"a", Tensor::from({3}, {1, 2, 3})}, {"b", Tensor::scalar(1)}});
  const std::string whole = read(path_);
  EXPECT_EQ((whole.size() - 16) % 8, 0u);
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_TRUE(refuses(whole.substr(0, size), "")) << size;
  EXPECT_TRUE(refuses(whole + "x", "bytes"));
}

TEST_F(CheckpointFileTest, EveryChangedByteIsFound) {
  nn::save_checkpoint(path_, NamedTensors{{"a", Tensor::from({3}, {1, 2, 3})}}, {{"key", "value"}});
  const std::string whole = read(path_);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] ^= 4;
    if (damaged.find("bevel.checksum") == std::string::npos) continue;  // a file of another tool, as far as one can see
    EXPECT_TRUE(refuses(damaged, "")) << i;
  }
}

TEST_F(CheckpointFileTest, FilesOfOtherToolsAreRead) {
  write(path_, file_of(R"( {"w" : { "data_offsets":[0,8], "shape":[2], "dtype":"F32"}, "\u00fc\ud83d\ude00\/":)"
                       R"({"dtype":"U8","shape":[],"data_offsets":[8,9]}}  )",
                       9));
  const nn::Checkpoint loaded = nn::load_checkpoint(path_);
  ASSERT_EQ(loaded.tensors.size(), 2u);
  EXPECT_EQ(loaded.tensors[1].name, "ü😀/");
  EXPECT_EQ(loaded.tensors[1].tensor.item(), 1);
  EXPECT_TRUE(loaded.metadata.empty());
}

TEST_F(CheckpointFileTest, BrokenHeaders) {
  EXPECT_TRUE(refuses("", "0 bytes"));
  EXPECT_TRUE(refuses("not a checkpoint at all", "no checkpoint"));
  for (
      const auto& [header, part] : std::vector<std::pair<std::string, std::string>>{
          {"", "expected {"},
          {"{", "a string"},
          {"{}x", "nothing more"},
          {"{\"a", "end of a string"},
          {"{\"a\\q\":1}", "escape"},
          {"{\"\\u12g4\":1}", "hexadecimal"},
          {"{\"\\ud800x\":1}", "surrogate"},
          {"{\"a\" 1}", "expected :"},
          {"{\"a\":1}", "expected {"},
          {"{\"a\":{}}", "dtype, shape and data_offsets"},
          {"{\"a\":{\"other\":1}}", "dtype, shape or data_offsets"},
          {"{\"__metadata__\":{\"a\":1}}", "a string"},
          {R"({"a":{"dtype":"F8","shape":[1],"data_offsets":[0,4]}})", "dtype F8"},
          {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "not negative"},
          {R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", "] or ,"},
          {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", "Shape"},
          {R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,4]}})", ""},
          {R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4]}})", "a number"},
          {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "two data_offsets"},
          {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,5]}})", "has data_offsets 0 and 5"},
          {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "has data_offsets 4 and 0"},
          {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})", "begins at byte 1, expected 0"},
          {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "take 8 bytes, and the file has 4"},
          {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}})",
           "'a' is there twice"}})
    EXPECT_TRUE(refuses(file_of(header, 4), part)) << header;
}

TEST_F(CheckpointFileTest, ReadingFromNowhere) {
  EXPECT_TRUE(throws_error([&] { nn::load_checkpoint(folder_.file("missing")); }, {"missing", "cannot be opened"}));
  EXPECT_TRUE(throws_error([&] { nn::load_checkpoint(folder_.file("")); }, {"cannot be opened"}));
}

TEST_F(CheckpointFileTest, FailedWritesLeaveTheOldFile) {
  nn::save_checkpoint(path_, {}, {{"old", "yes"}});
  const Tensor a = Tensor::scalar(1);
  EXPECT_TRUE(
      throws_error([&] { nn::save_checkpoint(path_, NamedTensors{{"a", a}, {"a", a}}); }, {"'a' is given twice"}));
  EXPECT_TRUE(throws_error([&] { nn::save_checkpoint(path_, {}, {{"bevel.checksum", ""}}); }, {"bevel.checksum"}));
  EXPECT_EQ(nn::load_checkpoint(path_).metadata.at("old"), "yes");
  EXPECT_TRUE(throws_error([&] { nn::save_checkpoint(folder_.file("no/such/folder"), {}); },
                           {"save_checkpoint", "no/such/folder", "cannot be written"}));
  EXPECT_EQ(folder_.files(), 1u);
}

}  // namespace
}  // namespace bevel
