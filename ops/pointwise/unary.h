// Functions of one floating tensor, element by element.
//
// f32 and f64, and bf16 and f16 computed in f32. All are differentiable twice; a third derivative is an Error. NaN
// gives NaN. Where nothing else is said, infinities and domain errors are as in C's <math.h>.
#pragma once

#include <bevel/core/tensor.h>

namespace bevel {

Tensor exp(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor sqrt(const Tensor& x);  // the derivative at 0 is infinite
Tensor square(const Tensor& x);
Tensor abs(const Tensor& x);  // the derivative at 0 is 0
Tensor reciprocal(const Tensor& x);
// x^exponent; exponent 0 gives 1 with derivative 0, for every x.
Tensor pow(const Tensor& x, double exponent);
// min(max(x, low), high); the derivative is 1 at the bounds. Error unless low <= high.
Tensor clamp(const Tensor& x, double low, double high);

Tensor relu(const Tensor& x);                             // the derivative at 0 is 0
Tensor leaky_relu(const Tensor& x, double slope = 0.01);  // x > 0 ? x : slope * x; the derivative at 0 is slope
Tensor sigmoid(const Tensor& x);
Tensor silu(const Tensor& x);  // x sigmoid(x); NaN at -inf, where that is -inf * 0
Tensor tanh(const Tensor& x);
Tensor gelu(const Tensor& x);      // x Phi(x), the exact form by erf; NaN at -inf, where that is -inf * 0
Tensor softplus(const Tensor& x);  // log(1 + e^x)
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);

}  // namespace bevel
