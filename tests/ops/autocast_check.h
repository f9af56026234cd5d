// What autocast promises of an operator with input, weight and bias.
#pragma once

#include "testing.h"

#include <bevel/ops/autocast.h>
#include <bevel/ops/pointwise/cast.h>

namespace bevel::testing {

// Under Autocast op(input, weight, bias) of f32 leaves gives the bits that it gives for leaves rounded to the half
// type, and gradients of f32 close to those.
template <class Op>
void check_autocast(const Op& op, Device device, const Shape& input, const Shape& weight, const Shape& bias) {
  for (const Dtype half : {bf16, f16}) {
    SCOPED_TRACE(message("to ", half));
    const auto leaf = [&](const Shape& shape, std::uint64_t seed) {
      return random_tensor(shape, {.dtype = f32, .device = device, .seed = seed, .requires_grad = true});
    };
    const Tensor x = leaf(input, 1);
    const Tensor w = leaf(weight, 2);
    const Tensor b = leaf(bias, 3);
    const Tensor y = [&] {
      const Autocast scope(half);
      return op(x, w, b);
    }();
    ASSERT_EQ(y.dtype(), half);
    const Tensor upstream = random_tensor(y.shape(), {.dtype = half, .device = device, .seed = 4});
    y.backward(upstream);

    const auto rounded = [&](const Tensor& t) { return cast(t.detach(), half).set_requires_grad(); };
    const Tensor xh = rounded(x);
    const Tensor wh = rounded(w);
    const Tensor bh = rounded(b);
    const Tensor yh = op(xh, wh, bh);
    yh.backward(upstream);
    EXPECT_TRUE(bit_equal(y, yh));
    EXPECT_EQ(w.grad().dtype(), f32);
    EXPECT_EQ(b.grad().dtype(), f32);
    const double t = half == bf16 ? 1e-2 : 1e-3;
    EXPECT_TRUE(close(x.grad(), xh.grad(), t, t));
    EXPECT_TRUE(close(w.grad(), wh.grad(), t, 2 * t));
    EXPECT_TRUE(close(b.grad(), bh.grad(), t, 2 * t));
    EXPECT_EQ(op(x, w, b).dtype(), f32) << "after the scope";
  }
}

}  // namespace bevel::testing
