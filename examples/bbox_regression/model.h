// The network: from a picture to the one box in it.
#pragma once

#include <bevel/nn/module.h>
#include <bevel/nn/sequential.h>

#include <cstdint>
#include <ostream>
#include <string>

namespace bbox {

// What follows a convolution: EvoNorm of groups of channels (S0) or with statistics of the batch (B0); to compare with,
// batch normalisation with relu, or group normalisation with silu.
enum class Norm : std::uint8_t { S0, B0, batch, group };

// As on the command line.
const char* name(Norm norm);
// Error for any other text.
Norm parse_norm(const std::string& text);
inline std::ostream& operator<<(std::ostream& out, Norm norm) {
  return out << name(norm);
}

// Order of the fields as given.
struct ModelOptions {
  int size = 128;  // side of the pictures, which are square; at least 16
  int width = 32;  // channels of the first two layers; later pairs have twice, four and eight times as many
  Norm norm = Norm::S0;
  int groups = 8;          // of S0 and group; must divide width
  bool recompute = false;  // norms are computed again in backward: the same bits in half the memory, and slower

  bool operator==(const ModelOptions&) const = default;
};

// Errors: a size below 16, a width or groups below 1, groups that do not divide the width (S0, group).
void check(const ModelOptions& options);

// Eight convolutions of 3x3 without bias, 3 - w - w - 2w - 2w - 4w - 4w - 8w - 8w channels, every odd one with stride
// 2, each followed by the norm; the mean over the map that is left; a linear layer to (cx, cy, w, h) in shares of the
// sides.
class Regressor : public bevel::nn::Module {
 public:
  // Draws the initial weights from bevel::default_generator(). Errors: those of check().
  explicit Regressor(const ModelOptions& options);

  // [N, size, size, 3] to [N, 4]. Error for another shape.
  bevel::Tensor forward(const bevel::Tensor& pictures) override;
  void visit(bevel::nn::Visitor& visitor) override;

  const ModelOptions& options() const { return options_; }

 private:
  ModelOptions options_;
  bevel::nn::Sequential layers_;
};

// A fingerprint of all parameters and buffers (64-bit FNV-1a over their bytes, in order): equal for equal bits.
std::uint64_t checksum(const bevel::nn::Module& module);

}  // namespace bbox
