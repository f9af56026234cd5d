// EvoNorm in training, forward and with backward, in both layouts, and the norms that it is compared with.
#include "bench/case.h"

#include <bevel/core/autograd.h>
#include <bevel/ops/evonorm/evonorm.h>

namespace bevel::bench {

namespace {

constexpr std::int64_t most_groups = 32;

struct EvoNormCase {
  NamedShape shape;  // N, C, H, W in either layout
  Dtype dtype = f32;
  EvoNorm variant = EvoNorm::S0;
  Layout layout = Layout::nhwc;
  bool quick = false;
};

struct EvoNormSet {
  Tensor x, gamma, beta, v, running_var, upstream, output;
};

// The 32 groups of the published comparisons, or as many as there are channels.
std::int64_t groups_of(std::int64_t channels) {
  std::int64_t groups = std::min(most_groups, channels);
  while (channels % groups != 0) --groups;
  return groups;
}

Workset make_set(const EvoNormCase& c, bool backward, Device device, std::uint64_t index) {
  const Shape& nchw = c.shape.shape;
  const Shape shape = c.layout == Layout::nchw ? nchw : Shape{nchw[0], nchw[2], nchw[3], nchw[1]};
  const Dtype parameter_dtype = c.dtype == f64 ? f64 : f32;
  const auto set = std::make_shared<EvoNormSet>();
  const auto parameter = [&](std::uint64_t seed, Range range) {
    return random({nchw[1]}, parameter_dtype, device, seed, range).set_requires_grad(backward);
  };
  set->x = random(shape, c.dtype, device, 7 * index).set_requires_grad(backward);
  set->gamma = parameter(7 * index + 1, {0.5, 1.5});
  set->beta = parameter(7 * index + 2, {-0.5, 0.5});
  if (has_v(c.variant)) set->v = parameter(7 * index + 3, {0.5, 1.5});
  if (has_batch_term(c.variant)) set->running_var = random({nchw[1]}, parameter_dtype, device, 7 * index + 4, {0.5, 1});
  if (backward) set->upstream = random(shape, c.dtype, device, 7 * index + 5);

  const auto drop = [set] {
    set->output = {};
    for (const Tensor* leaf : {&set->x, &set->gamma, &set->beta, &set->v})
      if (leaf->defined()) leaf->set_grad({});
  };
  const EvoNormOptions options{.variant = c.variant, .groups = groups_of(nchw[1]), .layout = c.layout};
  return {drop, [=] {
            drop();
            set->output = evonorm(set->x, set->gamma, set->beta, set->v, set->running_var, options);
            if (backward) set->output.backward(set->upstream);
          }};
}

void append(std::vector<Case>& cases, const EvoNormCase& c) {
  const std::int64_t bytes = c.shape.shape.numel() * size_of(c.dtype);
  const std::string detail = std::string(name(c.variant)) + (c.layout == Layout::nhwc ? " nhwc" : " nchw");
  for (const bool backward : {false, true}) {
    // At best x is read once in each direction, the statistics being kept on chip.
    std::vector<Traffic> floor{{1, 1}};
    if (backward) floor.push_back({2, 1});
    cases.push_back({"evonorm", c.shape.text, c.dtype, detail, backward ? "forward+backward" : "forward", "", bytes,
                     std::move(floor), c.quick && backward, [c, backward](Device device, std::uint64_t index) {
                       return make_set(c, backward, device, index);
                     }});
  }
}

}  // namespace

std::vector<Case> evonorm_cases(const Selection& selection) {
  std::vector<NamedShape> shapes = selection.shapes;
  const bool is_default = shapes.empty();
  if (is_default && selection.device.is_cuda())
    for (const char* text : {"128x256x56x56", "32x64x56x56", "256x512x14x14", "8x2048x7x7"})
      shapes.push_back(parse_shape(text));
  else if (is_default)
    shapes = {parse_shape("32x64x56x56")};
  std::vector<Dtype> dtypes = selection.dtypes;
  if (dtypes.empty()) dtypes = selection.device.is_cuda() ? std::vector<Dtype>{f32, bf16} : std::vector<Dtype>{f32};

  std::vector<Case> cases;
  for (const NamedShape& shape : shapes) {
    require(shape.shape.rank() == 4, "evonorm: the shape must be NxCxHxW; got ", shape.text);
    const bool is_wide = shape.shape.numel() >= std::int64_t{1} << 22;
    for (const Dtype dtype : dtypes)
      for (const Layout layout : {Layout::nhwc, Layout::nchw})
        for (const EvoNorm variant : {EvoNorm::S0, EvoNorm::B0, EvoNorm::S1, EvoNorm::S2, EvoNorm::B1, EvoNorm::B2}) {
          const bool quick = !is_default || (has_v(variant) && is_wide);
          append(cases, {shape, dtype, variant, layout, quick});
        }
    for (const Dtype dtype : dtypes)
      for (const Layout layout : {Layout::nhwc, Layout::nchw})
        append_norm_cases(cases, shape, dtype, layout, groups_of(shape.shape[1]), !is_default || is_wide);
  }
  return cases;
}

}  // namespace bevel::bench
