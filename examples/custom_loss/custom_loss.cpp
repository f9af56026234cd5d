// A loss from its formula, in a plain C++ file: the CPU kernels.
#include "run.h"

int main() {
  return run([](const auto& input, const auto& target) { return bevel::pointwise_loss(Cauchy{0.5}, input, target); },
             bevel::cpu);
}
