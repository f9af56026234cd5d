// Kernel-level EvoNorm gives what the function on tensors gives.
#include <bevel/ops/evonorm/raw.h>

#include "ops/evonorm_reference.h"
#include "ops/kernel_level.h"

namespace bevel::testing {
namespace {

struct Case {
  EvoShape shape;
  EvoNorm variant;
  Layout layout;
  Dtype dtype;
};

// What a case's layer reads and writes, on the tensors' side.
struct Layer {
  Tensor x, gamma, beta, v, running_var, dy;
};

class RawEvoNormTest : public DeviceTest {
 protected:
  static Layer layer(const Case& c) {
    const auto random = [&](const Shape& shape, Dtype dtype, double low, double high, std::uint64_t seed) {
      return random_tensor(shape, {.dtype = dtype, .device = device(), .low = low, .high = high, .seed = seed});
    };
    const Dtype wide = compute_dtype(c.dtype);
    const Shape pictures = c.shape.shape(c.layout), channels{c.shape.c};
    return {random(pictures, c.dtype, -2, 3, 1),
            random(channels, wide, 0.5, 1.5, 2),
            random(channels, wide, -1, 1, 3),
            has_v(c.variant) ? random(channels, wide, 0.2, 2, 4) : Tensor(),
            has_batch_term(c.variant) ? random(channels, wide, 0.5, 2, 5) : Tensor(),
            random(pictures, c.dtype, -1, 1, 6)};
  }
  static void check(const Case& c, bool training, bool nonlinearity);
};
INSTANTIATE_TEST_SUITE_P(Devices, RawEvoNormTest, ::testing::ValuesIn(build_devices()), device_name);

const void* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.raw() : nullptr;
}

Tensor like(const Tensor& tensor) {
  return tensor.defined() ? Tensor::empty(tensor.shape(), tensor.options()) : Tensor();
}

void RawEvoNormTest::check(const Case& c, bool training, bool nonlinearity) {
  const EvoNormOptions options{.variant = c.variant,
                               .groups = c.shape.groups,
                               .training = training,
                               .nonlinearity = nonlinearity,
                               .layout = c.layout};
  const Layer own = layer(c);
  const Tensor running_var = own.running_var.defined() ? own.running_var.clone() : Tensor();
  for (const Tensor& leaf : {own.x, own.gamma, own.beta, own.v})
    if (leaf.defined()) leaf.set_requires_grad();
  const Tensor expected = evonorm(own.x, own.gamma, own.beta, own.v, own.running_var, options);
  expected.backward(own.dy);

  const raw::EvoNormProblem problem{.variant = c.variant,
                                    .layout = c.layout,
                                    .dtype = c.dtype,
                                    .samples = c.shape.n,
                                    .pixels = c.shape.h * c.shape.w,
                                    .channels = c.shape.c,
                                    .groups = c.shape.groups,
                                    .eps = options.eps,
                                    .momentum = options.momentum,
                                    .training = training,
                                    .affine = !nonlinearity};
  const Tensor nothing = byte_tensor(0, device());
  const raw::EvoNormMemory memory =
      on_kernel_level(nothing, [&](const auto& where) { return raw::evonorm_memory(where, problem); });
  const Tensor y = like(own.x), statistics = byte_tensor(memory.statistics, device());
  const Tensor dx = like(own.x), dgamma = like(own.gamma), dbeta = like(own.beta), dv = like(own.v);
  on_kernel_level(byte_tensor(memory.forward_workspace, device()), [&](const auto& where) {
    raw::evonorm_forward(where, problem,
                         {.x = own.x.raw(),
                          .gamma = own.gamma.raw(),
                          .beta = own.beta.raw(),
                          .v = data_or_null(own.v),
                          .running_var = const_cast<void*>(data_or_null(running_var)),
                          .y = y.raw(),
                          .statistics = statistics.raw()});
  });
  on_kernel_level(byte_tensor(memory.backward_workspace, device()), [&](const auto& where) {
    raw::evonorm_backward(where, problem,
                          {.x = own.x.raw(),
                           .gamma = own.gamma.raw(),
                           .v = data_or_null(own.v),
                           .statistics = statistics.raw(),
                           .dy = own.dy.raw(),
                           .dx = dx.raw(),
                           .dgamma = dgamma.raw(),
                           .dbeta = dbeta.raw(),
                           .dv = const_cast<void*>(data_or_null(dv))});
  });
  const std::string what = message(c.variant, " ", c.layout, " ", c.dtype, " ", c.shape, training ? " training" : "");
  EXPECT_TRUE(bit_equal(y, expected.detach())) << what;
  EXPECT_TRUE(bit_equal(dx, own.x.grad())) << what;
  EXPECT_TRUE(bit_equal(dgamma, own.gamma.grad())) << what;
  EXPECT_TRUE(bit_equal(dbeta, own.beta.grad())) << what;
  if (dv.defined() && nonlinearity) {
    EXPECT_TRUE(bit_equal(dv, own.v.grad())) << what;
  }
  if (running_var.defined()) {
    EXPECT_TRUE(bit_equal(running_var, own.running_var)) << what;
  }
}

// Shapes of one read and of two passes, cut into runs, and of packs that do not fit.
TEST_P(RawEvoNormTest, ForwardAndBackwardAreThoseOfTensors) {
  const EvoShape shapes[] = {{2, 8, 8, 16, 4}, {3, 7, 5, 6, 3}, {2, 160, 130, 8, 2}, {1, 1, 1, 4, 2}};
  for (const EvoShape& shape : shapes)
    for (const EvoNorm variant : all_variants)
      for (const Layout layout : both_layouts)
        for (const Dtype dtype : {f32, f64, bf16}) check({shape, variant, layout, dtype}, true, true);
}

TEST_P(RawEvoNormTest, EvaluationAndAffine) {
  for (const EvoNorm variant : all_variants) {
    check({{2, 8, 8, 16, 4}, variant, Layout::nhwc, f32}, false, true);
    check({{2, 8, 8, 16, 4}, variant, Layout::nchw, f16}, true, false);
  }
}

// Many samples of few channels, few samples of many pixels: the memory asked for is enough for both.
TEST_P(RawEvoNormTest, TheMemoryAskedForIsEnough) {
  for (const EvoShape& shape : {EvoShape{130, 3, 3, 2, 1}, EvoShape{1, 300, 300, 3, 1}, EvoShape{2, 5, 5, 512, 512}})
    for (const EvoNorm variant : {EvoNorm::B1, EvoNorm::S0})
      for (const Layout layout : both_layouts) check({shape, variant, layout, f32}, true, true);
}

TEST_P(RawEvoNormTest, Errors) {
  const Tensor nothing = byte_tensor(0, device());
  raw::EvoNormProblem problem{.samples = 2, .pixels = 4, .channels = 6, .groups = 4};
  const auto memory = [&] {
    return on_kernel_level(nothing, [&](const auto& where) { return raw::evonorm_memory(where, problem); });
  };
  EXPECT_TRUE(throws_error(memory, {"4 groups do not divide 6 channels"}));
  problem.groups = 3;
  problem.pixels = 0;
  EXPECT_TRUE(throws_error(memory, {"sizes must be at least 1", "0 pixels"}));
  problem.pixels = 4;
  problem.dtype = i32;
  EXPECT_TRUE(throws_error(memory, {"not defined for i32"}));
  problem.dtype = f32;
  const Tensor x = Tensor::zeros({2, 2, 2, 6}, {.device = device()});
  const raw::EvoNormForward without_v{.x = x.raw(),
                                      .gamma = x.raw(),
                                      .beta = x.raw(),
                                      .v = nullptr,
                                      .running_var = nullptr,
                                      .y = x.raw(),
                                      .statistics = x.raw()};
  const auto forward = [&] {
    on_kernel_level(nothing, [&](const auto& where) { raw::evonorm_forward(where, problem, without_v); });
  };
  EXPECT_TRUE(throws_error(forward, {"S0 needs v"}));
  problem.variant = EvoNorm::B1;
  problem.training = false;
  EXPECT_TRUE(throws_error(forward, {"B1 in evaluation needs running_var"}));
}

}  // namespace
}  // namespace bevel::testing
