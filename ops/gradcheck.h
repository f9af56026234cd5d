// gradcheck: proves the gradient of a function by finite differences.
//
//   EXPECT_TRUE(gradcheck([](const auto& in) { return smooth_l1(in[0], in[1]); }, {input, target}));
//
// For random upstream gradients u the analytic gradient of sum(u * f(inputs)) is compared with central differences,
// element by element of every input that requires a gradient. In GoogleTest's EXPECT_TRUE a failure prints the report:
// the input, the index, the analytic and the numeric value.
#pragma once

#include <bevel/core/autograd.h>

#include <concepts>
#include <functional>
#include <string>
#include <vector>

namespace bevel {

// Order of the fields: step, atol, rtol, seed, max_elements.
struct GradcheckOptions {
  double step = 1e-5;  // of the central difference, times max(1, |x|)
  double atol = 1e-7;  // passes if |analytic - numeric| <= atol + rtol * |numeric|
  double rtol = 1e-5;
  std::uint64_t seed = 1;         // of the upstream gradients
  std::int64_t max_elements = 0;  // of an input, evenly spread, are checked; 0: all
};

struct GradcheckReport {
  bool passed = false;
  std::string text;  // what was compared, and on failure the worst places

  explicit operator bool() const { return passed; }

  // To testing::AssertionResult, without knowing GoogleTest: any type made from bool that takes text and hands it out.
  template <class R>
    requires std::constructible_from<R, bool> && requires(R& result, const std::string& line) {
      result << line;
      result.failure_message();
    }
  operator R() const {
    R result(passed);
    result << text;
    return result;
  }
};

using GradcheckFunction = std::function<Tensor(const std::vector<Tensor>&)>;
using GradcheckFunctions = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// Inputs: leaves; those that require a gradient must be f64 and are checked. The default generator is set back before
// every call of `function`, so that dropout draws the same mask; `function` must have no other state. The outputs must
// be f64. Errors of the function itself are thrown, not reported.
GradcheckReport gradcheck(const GradcheckFunction& function, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options = {});

// The same for a function with several outputs.
GradcheckReport gradcheck_outputs(const GradcheckFunctions& function, const std::vector<Tensor>& inputs,
                                  const GradcheckOptions& options = {});

// Second order: gradcheck of the gradient itself, as a function of the inputs and the upstream gradient.
GradcheckReport gradgradcheck(const GradcheckFunction& function, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options = {});

}  // namespace bevel
