#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <jpeglib.h>

#include <bevel/core/error.h>

#include "codecs.h"

namespace bbox {
namespace {

// libjpeg reports errors by calling a function that must not return; this one jumps back to where decoding began.
struct Failure {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX] = "";
  char warning[JMSG_LENGTH_MAX] = "";
  bool incomplete = false;  // a warning said that picture data is missing
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* failure = reinterpret_cast<Failure*>(info->err);
  info->err->format_message(info, failure->message);
  std::longjmp(failure->back, 1);
}

void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;  // traces
  auto* failure = reinterpret_cast<Failure*>(info->err);
  char text[JMSG_LENGTH_MAX];
  info->err->format_message(info, text);
  if (std::strstr(text, "remature end") != nullptr) {
    failure->incomplete = true;
    std::memcpy(failure->warning, text, sizeof text);
  }
}

// The decoder and its buffers, kept outside the function that setjmp returns into twice.
struct Decoder {
  jpeg_decompress_struct info{};
  Failure failure;
  Image image;
  std::vector<std::uint8_t> row;

  Decoder() {
    info.err = jpeg_std_error(&failure.manager);
    failure.manager.error_exit = on_error;
    failure.manager.emit_message = on_message;
  }
  ~Decoder() { jpeg_destroy_decompress(&info); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
};

void open(Decoder& decoder, std::span<const std::uint8_t> bytes, const std::string& name) {
  jpeg_create_decompress(&decoder.info);
  jpeg_mem_src(&decoder.info, bytes.data(), bytes.size());
  jpeg_read_header(&decoder.info, TRUE);
  check_size(decoder.info.image_width, decoder.info.image_height, name);
}

// Adobe writes CMYK with 255 for no ink, and says so by its marker; then each colour is ink times black.
void cmyk_to_rgb(const std::uint8_t* cmyk, int pixels, bool inverted, std::uint8_t* rgb) {
  for (int i = 0; i < pixels; ++i, cmyk += 4, rgb += 3) {
    for (int c = 0; c < 3; ++c) {
      const int colour = inverted ? cmyk[c] : 255 - cmyk[c];
      const int black = inverted ? cmyk[3] : 255 - cmyk[3];
      rgb[c] = static_cast<std::uint8_t>((colour * black + 127) / 255);
    }
  }
}

void decode(Decoder& decoder) {
  jpeg_decompress_struct& info = decoder.info;
  const bool cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  info.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&info);
  const int width = static_cast<int>(info.output_width);
  decoder.image = blank(width, static_cast<int>(info.output_height));
  if (cmyk) decoder.row.resize(static_cast<std::size_t>(width) * 4);
  while (info.output_scanline < info.output_height) {
    std::uint8_t* to = decoder.image.at(0, static_cast<int>(info.output_scanline));
    JSAMPROW row = cmyk ? decoder.row.data() : to;
    if (jpeg_read_scanlines(&info, &row, 1) == 1 && cmyk) {
      cmyk_to_rgb(decoder.row.data(), width, info.saw_Adobe_marker != 0, to);
    }
  }
  jpeg_finish_decompress(&info);
}

}  // namespace

ImageSize jpeg_size(std::span<const std::uint8_t> bytes, const std::string& name) {
  Decoder decoder;
  if (setjmp(decoder.failure.back) != 0) bevel::fail(name, ": broken JPEG: ", decoder.failure.message);
  open(decoder, bytes, name);
  return {static_cast<int>(decoder.info.image_width), static_cast<int>(decoder.info.image_height)};
}

Image decode_jpeg(std::span<const std::uint8_t> bytes, const std::string& name) {
  Decoder decoder;
  if (setjmp(decoder.failure.back) != 0) bevel::fail(name, ": broken JPEG: ", decoder.failure.message);
  open(decoder, bytes, name);
  decode(decoder);
  bevel::require(!decoder.failure.incomplete, name, ": truncated JPEG: ", decoder.failure.warning);
  return std::move(decoder.image);
}

}  // namespace bbox
