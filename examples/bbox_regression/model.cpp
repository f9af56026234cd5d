#include "model.h"

#include <bevel/nn/conv2d.h>
#include <bevel/nn/evonorm2d.h>
#include <bevel/nn/linear.h>
#include <bevel/nn/norm.h>
#include <bevel/nn/pool2d.h>

namespace bbox {

namespace nn = bevel::nn;

namespace {

constexpr Norm all_norms[] = {Norm::S0, Norm::B0, Norm::batch, Norm::group};

void add_norm(nn::Sequential& layers, std::int64_t channels, const ModelOptions& options) {
  using bevel::Activation;
  switch (options.norm) {
    case Norm::S0:
      layers.push_back(nn::EvoNorm2d{
          channels, {.variant = bevel::EvoNorm::S0, .groups = options.groups, .recompute = options.recompute}});
      break;
    case Norm::B0:
      layers.push_back(nn::EvoNorm2d{channels, {.variant = bevel::EvoNorm::B0, .recompute = options.recompute}});
      break;
    case Norm::batch:
      layers.push_back(nn::BatchNorm2d{channels, {.activation = Activation::relu, .recompute = options.recompute}});
      break;
    case Norm::group:
      layers.push_back(
          nn::GroupNorm{options.groups, channels, {.activation = Activation::silu, .recompute = options.recompute}});
      break;
  }
}

}  // namespace

const char* name(Norm norm) {
  constexpr const char* names[] = {"S0", "B0", "batch", "group"};
  return names[static_cast<int>(norm)];
}

Norm parse_norm(const std::string& text) {
  for (const Norm norm : all_norms)
    if (text == name(norm)) return norm;
  bevel::fail("unknown norm \"", text, "\"; there are S0, B0, batch and group");
}

void check(const ModelOptions& options) {
  bevel::require(options.size >= 16, "Regressor: size must be at least 16, not ", options.size);
  bevel::require(options.width >= 1, "Regressor: width must be at least 1, not ", options.width);
  const bool grouped = options.norm == Norm::S0 || options.norm == Norm::group;
  bevel::require(!grouped || (options.groups >= 1 && options.width % options.groups == 0),
                 "Regressor: groups must divide the width; groups is ", options.groups, ", width ", options.width);
}

Regressor::Regressor(const ModelOptions& options) : options_(options) {
  check(options);
  std::int64_t from = 3;
  for (int layer = 0; layer < 8; ++layer) {
    const std::int64_t to = std::int64_t{options.width} << (layer / 2);
    const std::int64_t stride = layer % 2 == 0 ? 2 : 1;
    layers_.push_back(nn::Conv2d{from, to, {.kernel = 3, .stride = stride, .padding = 1, .bias = false}});
    add_norm(layers_, to, options);
    from = to;
  }
  layers_.push_back(nn::GlobalAvgPool{});
  layers_.push_back(nn::Linear{from, 4});
}

bevel::Tensor Regressor::forward(const bevel::Tensor& pictures) {
  const std::int64_t side = options_.size;
  const bool fits =
      pictures.rank() == 4 && pictures.size(1) == side && pictures.size(2) == side && pictures.size(3) == 3;
  bevel::require(fits, "Regressor: pictures must be [N, ", side, ", ", side, ", 3]; got ", pictures.shape());
  return layers_(pictures);
}

void Regressor::visit(nn::Visitor& visitor) {
  visitor("layers", layers_);
}

std::uint64_t checksum(const nn::Module& module) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const bevel::NamedTensor& entry : module.state()) {
    const bevel::Tensor host = entry.tensor.detach().to(bevel::cpu);
    const auto* bytes = static_cast<const unsigned char*>(host.raw());
    for (std::int64_t i = 0; i < host.bytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
  }
  return hash;
}

}  // namespace bbox
