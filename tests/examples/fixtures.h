// Files that the tests of the examples make for themselves, and the messages they expect.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bbox_regression/image.h"

namespace fixtures {

// A folder of its own that goes away with the object.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// Writes `text` as it is, making the folders it needs.
void write_text(const std::filesystem::path& path, const std::string& text);

// A smooth picture that JPEG changes little: red rises to the right, green downwards, blue is constant.
bbox::Image gradient(int width, int height);

enum class Jpeg { grey, rgb, progressive, cmyk, ycck };
// Grey takes the red channel; the CMYK kinds are Adobe's, with black 255.
void write_jpeg(const std::filesystem::path& path, const bbox::Image& image, Jpeg kind, int quality = 98);

// A PNG of libpng's colour type and depth from raw rows.
struct RawPng {
  int width = 0, height = 0, depth = 8, colour_type = 0;
  std::vector<std::uint8_t> data;
};
// `palette` holds RGB triples, where the type wants one.
void write_raw_png(const std::filesystem::path& path, const RawPng& png, const std::vector<std::uint8_t>& palette = {});

// Keeps only the first `size` bytes of a file.
void cut(const std::filesystem::path& path, std::uintmax_t size);

// The message of the bevel::Error that `call` throws; "no error" where it throws none.
std::string message_of(const std::function<void()>& call);

// Folder of the real data sets: $BEVEL_DATA, else `../shared/data` beside the source tree; empty where there is none.
std::filesystem::path data_folder();

}  // namespace fixtures
