// What is measured: a case is one operator at one shape, dtype and pass.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/layout.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bevel::bench {

// A pass over memory that cannot be avoided: tensors of the case's size read and written once.
struct Traffic {
  int reads = 1;
  int writes = 0;

  int tensors() const { return reads + writes; }
};

// One of the rotating sets of tensors.
struct Workset {
  std::function<void()> drop;  // lets go of what run() made
  std::function<void()> run;   // drop(), then one call through the public API, whose results stay alive
};

struct Case {
  std::string op;     // smooth_l1
  std::string shape;  // 2^28
  Dtype dtype = f32;
  std::string detail;   // mean; S0 nhwc
  std::string pass;     // forward, loss+gradient, ...
  std::string variant;  // fused, unfused, or nothing
  std::int64_t tensor_bytes = 0;
  std::vector<Traffic> floor;
  bool quick = false;  // part of a --quick run
  // Set `index`, its inputs filled with random numbers.
  std::function<Workset(Device device, std::uint64_t index)> make;
  std::int64_t operations = 0;               // of a matrix product inside, if there is one: two for each multiply-add
  std::function<std::string()> engine = {};  // after a call: what computed it

  // op/shape/dtype/detail/pass/variant, spaces as underscores.
  std::string name() const;
  std::int64_t bytes() const;
};

// A shape and how it is written: 2^28, 32x64x56x56.
struct NamedShape {
  std::string text;
  Shape shape;
};
// Reads 2^28, 2^24x4 or 32x64x56x56.
NamedShape parse_shape(const std::string& text);

// Which cases to list. Nothing in a list means the defaults of the operator.
struct Selection {
  Device device = cpu;
  std::vector<NamedShape> shapes = {};
  std::vector<Dtype> dtypes = {};
};

std::vector<Case> smooth_l1_cases(const Selection& selection);
std::vector<Case> loss_cases(const Selection& selection);
std::vector<Case> evonorm_cases(const Selection& selection);
std::vector<Case> conv2d_cases(const Selection& selection);
std::vector<Case> regressor_cases(const Selection& selection);
std::vector<Case> optimizer_cases(const Selection& selection);

// Batch and group normalisation at one shape, NxCxHxW, as part of evonorm_cases.
void append_norm_cases(std::vector<Case>& cases, const NamedShape& named, Dtype dtype, Layout layout,
                       std::int64_t groups, bool quick);

// Uniform in [low, high); made from a pool of random numbers, repeated, so that large tensors are filled at the speed
// of memory. Of boxes the last two coordinates are larger by high - low: so each box has an area.
struct Range {
  double low = -2;
  double high = 2;
  bool boxes = false;
};
Tensor random(const Shape& shape, Dtype dtype, Device device, std::uint64_t seed, Range range = {});

}  // namespace bevel::bench
