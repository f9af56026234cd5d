// Comparisons, logic, where and cast.
#include <bevel/ops/gradcheck.h>
#include <bevel/ops/pointwise/cast.h>
#include <bevel/ops/pointwise/compare.h>
#include <bevel/ops/pointwise/create.h>
#include <bevel/ops/pointwise/where.h>

#include "testing.h"

namespace bevel::testing {
namespace {

using SelectTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, SelectTest, ::testing::ValuesIn(build_devices()), device_name);

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr Dtype all_dtypes[] = {f32, f64, bf16, f16, i32, i64, u8, boolean};

TEST_P(SelectTest, ComparisonsOfEveryDtype) {
  for (const Dtype dtype : all_dtypes) {
    SCOPED_TRACE(dtype);
    const Tensor a = Tensor::from({2, 3}, {0, 1, 1, 0, 1, 0}, {.dtype = dtype, .device = device()});
    const Tensor b = Tensor::from({3}, {0, 1, 0}, {.dtype = dtype, .device = device()});
    EXPECT_EQ(eq(a, b).dtype(), boolean);
    EXPECT_TRUE(close(eq(a, b), {1, 1, 0, 1, 1, 1}));
    EXPECT_TRUE(close(ne(a, b), {0, 0, 1, 0, 0, 0}));
    EXPECT_TRUE(close(lt(b, a), {0, 0, 1, 0, 0, 0}));
    EXPECT_TRUE(close(gt(a, b), {0, 0, 1, 0, 0, 0}));
    EXPECT_TRUE(close(le(a, b), {1, 1, 0, 1, 1, 1}));
    EXPECT_TRUE(close(ge(b, a), {1, 1, 0, 1, 1, 1}));
    EXPECT_TRUE(close(gt(a, 0.0), {0, 1, 1, 0, 1, 0}));
    EXPECT_TRUE(close(ge(a, 1.0), {0, 1, 1, 0, 1, 0}));
    EXPECT_TRUE(close(lt(a, 1.0), {1, 0, 0, 1, 0, 1}));
    EXPECT_TRUE(close(le(a, 0.0), {1, 0, 0, 1, 0, 1}));
    EXPECT_TRUE(close(ne(a, 0.0), {0, 1, 1, 0, 1, 0}));
    EXPECT_TRUE(close(eq(a, 0.0), {1, 0, 0, 1, 0, 1}));
  }
}

TEST_P(SelectTest, NanComparesToNothing) {
  for (const Dtype dtype : {f32, f64, bf16, f16}) {
    const Tensor a = Tensor::from({2}, {nan, 1}, {.dtype = dtype, .device = device()});
    const Tensor b = Tensor::from({2}, {nan, nan}, {.dtype = dtype, .device = device()});
    EXPECT_TRUE(close(eq(a, b), {0, 0}));
    EXPECT_TRUE(close(ne(a, b), {1, 1}));
    for (const Tensor& ordered : {lt(a, b), le(a, b), gt(a, b), ge(a, b)}) EXPECT_TRUE(close(ordered, {0, 0}));
  }
}

TEST_P(SelectTest, Logic) {
  const Tensor a = Tensor::from({4}, {0, 0, 1, 1}, {.dtype = boolean, .device = device()});
  const Tensor b = Tensor::from({4}, {0, 1, 0, 1}, {.dtype = boolean, .device = device()});
  EXPECT_TRUE(close(logical_and(a, b), {0, 0, 0, 1}));
  EXPECT_TRUE(close(logical_or(a, b), {0, 1, 1, 1}));
  EXPECT_TRUE(close(logical_not(a), {1, 1, 0, 0}));
  const Tensor x = Tensor::zeros({4}, {.device = device()});
  EXPECT_TRUE(throws_error([&] { logical_and(a, x); }, {"logical_and", "f32"}));
  EXPECT_TRUE(throws_error([&] { logical_not(x); }, {"logical_not", "f32"}));
  EXPECT_TRUE(throws_error([&] { lt(a, x); }, {"lt", "bool", "f32"}));
}

TEST_P(SelectTest, WhereOfEveryDtypeBroadcasts) {
  for (const Dtype dtype : all_dtypes) {
    SCOPED_TRACE(dtype);
    const Tensor condition = Tensor::from({2, 1}, {1, 0}, {.dtype = boolean, .device = device()});
    const Tensor a = Tensor::from({3}, {1, 0, 1}, {.dtype = dtype, .device = device()});
    const Tensor b = Tensor::from({2, 3}, {0, 0, 0, 1, 1, 0}, {.dtype = dtype, .device = device()});
    EXPECT_EQ(where(condition, a, b).dtype(), dtype);
    EXPECT_TRUE(close(where(condition, a, b), {1, 0, 1, 1, 1, 0}));
    EXPECT_TRUE(close(where(condition, a, 0.0), {1, 0, 1, 0, 0, 0}));
    EXPECT_TRUE(close(where(condition, 1.0, a), {1, 1, 1, 1, 0, 1}));
  }
  const Tensor x = Tensor::zeros({2}, {.device = device()});
  EXPECT_TRUE(throws_error([&] { where(x, x, x); }, {"where", "boolean", "f32"}));
  const Tensor condition = Tensor::zeros({2}, {.dtype = boolean, .device = device()});
  EXPECT_TRUE(throws_error([&] { where(condition, x, Tensor::zeros({3}, x.options())); }, {"where", "[2]", "[3]"}));
}

TEST_P(SelectTest, WhereGradients) {
  const Tensor condition = gt(random_tensor({4, 3}, {.device = device(), .seed = 9}), 0.0);
  for (const auto& [sa, sb] : {std::pair<Shape, Shape>{{4, 3}, {4, 3}}, {{3}, {4, 1}}, {{}, {2, 4, 3}}}) {
    const std::vector<Tensor> inputs{random_leaf(sa, device(), 1), random_leaf(sb, device(), 2)};
    const auto function = [&](const std::vector<Tensor>& in) { return where(condition, in[0], in[1]); };
    EXPECT_TRUE(gradcheck(function, inputs)) << sa << sb;
    EXPECT_TRUE(gradgradcheck(function, inputs)) << sa << sb;
  }
}

TEST_P(SelectTest, WhereShieldsFromNan) {
  const Tensor condition = Tensor::from({2}, {1, 0}, {.dtype = boolean, .device = device()});
  const Tensor a = Tensor::from({2}, {1, nan}, {.device = device(), .requires_grad = true});
  where(condition, a, 0.0).backward(Tensor::from({2}, {2, nan}, {.device = device()}));
  EXPECT_TRUE(close(a.grad(), {2, 0}));
}

TEST_P(SelectTest, CastBetweenAllDtypes) {
  for (const Dtype from : all_dtypes)
    for (const Dtype to : all_dtypes) {
      SCOPED_TRACE(message(from, " to ", to));
      const bool logical = from == boolean || to == boolean;
      const Tensor x = Tensor::from({5}, {0, 1, 3, 100, 2}, {.dtype = from, .device = device()});
      const Tensor y = cast(x, to);
      EXPECT_EQ(y.dtype(), to);
      EXPECT_TRUE(close(y, logical ? std::vector<double>{0, 1, 1, 1, 1} : std::vector<double>{0, 1, 3, 100, 2}));
      EXPECT_EQ(same(x, y), from == to);
    }
}

TEST_P(SelectTest, CastRounds) {
  const Tensor x = Tensor::from({6}, {1 + 0x1p-8, 1 + 3 * 0x1p-9, -2.7, 2.7, 1e6, 0x1p-24}, {.device = device()});
  EXPECT_TRUE(close(cast(x, bf16), {1, 1 + 0x1p-7, -2.703125, 2.703125, 999424, 0x1p-24}, 0, 0));
  EXPECT_TRUE(close(
      cast(x, f16),
      {1 + 0x1p-8, 1 + 3 * 0x1p-9, -2.69921875, 2.69921875, std::numeric_limits<double>::infinity(), 0x1p-24}, 0, 0));
  EXPECT_TRUE(close(cast(x, i64), {1, 1, -2, 2, 1000000, 0}, 0, 0));
  EXPECT_TRUE(close(cast(Tensor::from({2}, {nan, 0.1}, {.device = device()}), boolean), {1, 1}));
}

TEST_P(SelectTest, CastIsDifferentiable) {
  const Tensor x = Tensor::from({2}, {1.5, -2}, {.dtype = f64, .device = device(), .requires_grad = true});
  const Tensor y = cast(x, bf16);
  y.backward(Tensor::from({2}, {3, 0.5}, {.dtype = bf16, .device = device()}));
  EXPECT_EQ(x.grad().dtype(), f64);
  EXPECT_TRUE(close(x.grad(), {3, 0.5}));
  EXPECT_FALSE(cast(x, i32).requires_grad());
  const auto there_and_back = [](const std::vector<Tensor>& in) { return cast(cast(in[0], f64), f64); };
  EXPECT_TRUE(gradcheck(there_and_back, {x.detach().set_requires_grad()}));
}

}  // namespace
}  // namespace bevel::testing
