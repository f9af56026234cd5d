// Batch normalisation with relu and group normalisation with silu in training, to compare EvoNorm with.
#include <bevel/core/autograd.h>
#include <bevel/ops/norm/norm.h>

#include "bench/case.h"

namespace bevel::bench {

namespace {

struct NormSet {
  Tensor x, weight, bias, running_mean, running_var, upstream, output;
};

Workset make_set(const Shape& shape, std::int64_t channels, std::int64_t groups, Layout layout, Dtype dtype, bool batch,
                 bool backward, Device device, std::uint64_t index) {
  const Dtype parameter_dtype = compute_dtype(dtype);
  const auto set = std::make_shared<NormSet>();
  const auto parameter = [&](std::uint64_t seed, Range range) {
    return random({channels}, parameter_dtype, device, 6 * index + seed, range);
  };
  set->x = random(shape, dtype, device, 6 * index).set_requires_grad(backward);
  set->weight = parameter(1, {0.5, 1.5}).set_requires_grad(backward);
  set->bias = parameter(2, {-0.5, 0.5}).set_requires_grad(backward);
  if (batch) set->running_mean = parameter(3, {-0.5, 0.5});
  if (batch) set->running_var = parameter(4, {0.5, 1});
  if (backward) set->upstream = random(shape, dtype, device, 6 * index + 5);

  const auto drop = [set] {
    set->output = {};
    for (const Tensor* leaf : {&set->x, &set->weight, &set->bias}) leaf->set_grad({});
  };
  return {drop, [=] {
            drop();
            set->output = batch ? batch_norm(set->x, set->weight, set->bias, set->running_mean, set->running_var,
                                             {.activation = Activation::relu, .layout = layout})
                                : group_norm(set->x, set->weight, set->bias,
                                             {.groups = groups, .activation = Activation::silu, .layout = layout});
            if (backward) set->output.backward(set->upstream);
          }};
}

}  // namespace

void append_norm_cases(std::vector<Case>& cases, const NamedShape& named, Dtype dtype, Layout layout,
                       std::int64_t groups, bool quick) {
  const Shape& nchw = named.shape;
  const bool nhwc = layout == Layout::nhwc;
  const std::int64_t channels = nchw[1], bytes = nchw.numel() * size_of(dtype);
  const Shape shape = nhwc ? Shape{nchw[0], nchw[2], nchw[3], channels} : nchw;
  for (const bool batch : {false, true}) {
    const std::string detail = std::string(batch ? "batchnorm+relu" : "groupnorm+silu") + (nhwc ? " nhwc" : " nchw");
    for (const bool backward : {false, true}) {
      // A batch's statistics need a pass of their own; a picture's could be kept on chip.
      std::vector<Traffic> floor = batch ? std::vector<Traffic>{{1, 0}, {1, 1}} : std::vector<Traffic>{{1, 1}};
      if (backward && batch) floor.push_back({2, 0});
      if (backward) floor.push_back({2, 1});
      cases.push_back({"norm", named.text, dtype, detail, backward ? "forward+backward" : "forward", "", bytes,
                       std::move(floor), quick && backward, [=](Device device, std::uint64_t index) {
                         return make_set(shape, channels, groups, layout, dtype, batch, backward, device, index);
                       }});
    }
  }
}

}  // namespace bevel::bench
