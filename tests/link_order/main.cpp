// One formula compiled by g++ and by nvcc in one program: each call must reach the code of its own compiler, whatever
// the order in which the two objects are linked.
#include <bevel/ops/loss/smooth_l1.h>

#include <cstdio>

#include "ops/loss/two_compilers/formula.h"

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("failed: %s\n", what);
  ++failures;
}

bool is_near(double value, double expected) {
  return std::abs(value - expected) < 1e-5 * expected;
}

}  // namespace

int main() {
  using namespace bevel;
  const Tensor input = Tensor::from({3}, {1, -2, 3});
  const Tensor target = Tensor::zeros({3});
  const LossOptions options{.reduction = Reduction::sum};
  expect(is_near(testing::cubic_from_cpp(input, target, options).item(), 12), "the CPU, called from the .cpp file");
  expect(is_near(testing::cubic_from_cuda(input, target, options).item(), 12), "the CPU, called from the .cu file");
  if (cuda_device_count() > 0) {
    const Tensor x = input.to(cuda());
    const Tensor t = target.to(cuda());
    expect(is_near(testing::cubic_from_cuda(x, t, options).item(), 12), "CUDA, called from the .cu file");
    bool has_thrown = false;
    try {
      testing::cubic_from_cpp(x, t, options);
    } catch (const Error& error) {
      has_thrown = std::string(error.what()).find("nvcc") != std::string::npos;
    }
    expect(has_thrown, "the error on CUDA, called from the .cpp file");
  }
  return failures;
}
