// All shipped losses at one size.
#include "bench/loss_case.h"

namespace bevel::bench {

std::vector<Case> loss_cases(const Selection&) {
  return {};
}

}  // namespace bevel::bench
