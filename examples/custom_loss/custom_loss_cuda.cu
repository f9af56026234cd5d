// The same in a file that nvcc compiles: the kernels for the CPU and for CUDA.
#include "run.h"

int main() {
  const LossFunction loss = [](const bevel::Tensor& input, const bevel::Tensor& target) {
    return bevel::pointwise_loss(Cauchy{0.5}, input, target);
  };
  const int on_cpu = run(loss, bevel::cpu);
  return bevel::cuda_device_count() > 0 ? on_cpu + run(loss, bevel::cuda()) : on_cpu;
}
