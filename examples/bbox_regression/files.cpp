#include "files.h"

#include <bevel/core/error.h>

#include <fstream>

namespace bbox {

std::vector<std::uint8_t> read_bytes(const std::filesystem::path& path) {
  std::error_code error;
  bevel::require(std::filesystem::exists(path, error), path.string(), ": no such file");
  bevel::require(std::filesystem::is_regular_file(path, error), path.string(), ": not a file");
  const auto size = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  bevel::require(!error && file, path.string(), ": cannot be opened");
  std::vector<std::uint8_t> bytes(size);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  bevel::require(file.gcount() == static_cast<std::streamsize>(size), path.string(), ": cannot be read to its end");
  return bytes;
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  bevel::require(file.good(), path.string(), ": cannot be written");
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  bevel::require(std::filesystem::is_directory(folder), folder.string(), ": this folder cannot be made",
                 error ? ": " + error.message() : std::string());
}

}  // namespace bbox
