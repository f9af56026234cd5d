// Smooth L1, the heart of the library: sizes from a batch of boxes to what fills a GPU.
#include "bench/loss_case.h"

#include <bevel/ops/loss/smooth_l1.h>

#include <algorithm>

namespace bevel::bench {

namespace {

struct Size {
  const char* shape;
  Dtype dtype;
  bool quick;
  bool none;  // also without reduction
};

constexpr Size gpu_sizes[] = {{"2^28", f32, true, true},        {"2^28", bf16, true, false},
                              {"2^26", f32, true, false},       {"2^26", bf16, false, true},
                              {"32x64x56x56", f32, true, true}, {"32x64x56x56", bf16, false, false},
                              {"4096x4", f32, true, false}};
constexpr Size cpu_sizes[] = {{"2^24", f32, true, true},
                              {"2^24", bf16, false, false},
                              {"32x64x56x56", f32, true, false},
                              {"4096x4", f32, true, false}};

void append(std::vector<Case>& cases, const NamedShape& shape, Dtype dtype, bool quick, bool none) {
  const LossFunction function = [](const Tensor& input, const Tensor& target, Reduction reduction, bool fused) {
    return smooth_l1(input, target, {.beta = 1, .reduction = reduction, .fused = fused});
  };
  const LossCase loss{"smooth_l1", shape, dtype, quick, function};
  for (Case& each : mean_cases(loss)) cases.push_back(std::move(each));
  if (!none) return;
  for (Case& each : none_cases(loss)) cases.push_back(std::move(each));
}

}  // namespace

std::vector<Case> smooth_l1_cases(const Selection& selection) {
  std::vector<Case> cases;
  const std::vector<Dtype> dtypes = selection.dtypes.empty() ? std::vector<Dtype>{f32} : selection.dtypes;
  for (const NamedShape& shape : selection.shapes)
    for (const Dtype dtype : dtypes) append(cases, shape, dtype, true, true);
  if (!selection.shapes.empty()) return cases;

  const std::span<const Size> sizes = selection.device.is_cuda() ? std::span<const Size>(gpu_sizes) : cpu_sizes;
  for (const Size& size : sizes) {
    if (selection.dtypes.empty()) {
      append(cases, parse_shape(size.shape), size.dtype, size.quick, size.none);
    } else if (size.dtype == f32) {  // the f32 rows name every size
      for (const Dtype dtype : dtypes) append(cases, parse_shape(size.shape), dtype, size.quick, size.none);
    }
  }
  return cases;
}

}  // namespace bevel::bench
