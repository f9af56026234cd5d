// Creation and changes in place.
#include <bevel/ops/pointwise/binary.h>
#include <bevel/ops/pointwise/create.h>
#include <bevel/ops/pointwise/inplace.h>

#include "testing.h"

namespace bevel::testing {
namespace {

using CreateTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, CreateTest, ::testing::ValuesIn(build_devices()), device_name);

constexpr Dtype all_dtypes[] = {f32, f64, bf16, f16, i32, i64, u8, boolean};

TEST_P(CreateTest, FullOfEveryDtype) {
  for (const Dtype dtype : all_dtypes)
    for (const std::int64_t size : {0, 1, 5, 16, 33, 40001}) {
      const Tensor x = full({size}, 1, {.dtype = dtype, .device = device()});
      EXPECT_TRUE(close(x, std::vector<double>(static_cast<std::size_t>(size), 1))) << dtype << " " << size;
    }
  EXPECT_TRUE(close(full({2}, -2.5, {.device = device()}), {-2.5, -2.5}));
  const Tensor x = ones({2, 2}, {.dtype = f64, .device = device()});
  EXPECT_TRUE(close(x, {1, 1, 1, 1}));
  EXPECT_TRUE(bit_equal(zeros_like(x), Tensor::zeros({2, 2}, x.options())));
  EXPECT_TRUE(bit_equal(ones_like(x), x));
  EXPECT_TRUE(close(full_like(x, 7), {7, 7, 7, 7}));
  EXPECT_TRUE(ones({2}, {.device = device(), .requires_grad = true}).requires_grad());
}

TEST_P(CreateTest, Sequences) {
  EXPECT_TRUE(close(arange(5, {.dtype = i64, .device = device()}), {0, 1, 2, 3, 4}));
  EXPECT_TRUE(close(arange(2, 3, 0.25, {.device = device()}), {2, 2.25, 2.5, 2.75}));
  EXPECT_TRUE(close(arange(3, 0, -1, {.dtype = i32, .device = device()}), {3, 2, 1}));
  EXPECT_EQ(arange(3, 0, 1, {.device = device()}).numel(), 0);
  EXPECT_EQ(arange(0, {.device = device()}).numel(), 0);
  EXPECT_TRUE(close(arange(1, 2, 0.3, {.dtype = f64, .device = device()}), {1, 1.3, 1.6, 1.9}, 1e-15));
  const Tensor line = linspace(0, 0.3, 7, {.dtype = f64, .device = device()});
  EXPECT_TRUE(close(line, {0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3}, 1e-15));
  EXPECT_EQ(line.to_vector().back(), 0.3);
  EXPECT_TRUE(close(linspace(2, 9, 1, {.device = device()}), {2}));
  EXPECT_TRUE(close(eye(3, {.dtype = i32, .device = device()}), {1, 0, 0, 0, 1, 0, 0, 0, 1}));
  const Tensor many = arange(100003, {.dtype = i64, .device = device()});
  const auto values = many.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<std::int64_t>(i));
}

TEST_P(CreateTest, SequenceErrors) {
  EXPECT_TRUE(throws_error([] { arange(0, 1, 0); }, {"arange", "step 0"}));
  EXPECT_TRUE(throws_error([] { arange(-1); }, {"arange", "-1"}));
  EXPECT_TRUE(throws_error([] { linspace(0, 1, 3, {.dtype = i32}); }, {"linspace", "i32"}));
}

TEST_P(CreateTest, ChangesInPlace) {
  for (const Dtype dtype : {f32, f64, bf16, f16}) {
    const Tensor t = Tensor::from({3}, {1, 2, 3}, {.dtype = dtype, .device = device()});
    const auto version = t.version();
    add_(t, Tensor::from({3}, {4, 0, -4}, t.options()), 0.5);
    EXPECT_TRUE(close(t, {3, 2, 1})) << dtype;
    mul_(t, 2);
    EXPECT_TRUE(close(t, {6, 4, 2})) << dtype;
    copy_(t, Tensor::from({3}, {7, 8, 9}, t.options()));
    EXPECT_TRUE(close(t, {7, 8, 9})) << dtype;
    fill_(t, 0.25);
    EXPECT_TRUE(close(t, {0.25, 0.25, 0.25})) << dtype;
    EXPECT_EQ(t.version(), version + 4);
    add_(t, t);
    EXPECT_TRUE(close(t, {0.5, 0.5, 0.5})) << dtype;
  }
  const Tensor whole = Tensor::from({2}, {3, 4}, {.dtype = i64, .device = device()});
  mul_(whole, -2);
  EXPECT_TRUE(close(whole, {-6, -8}));
  // A view changes its part only.
  const Tensor t = Tensor::zeros({4}, {.device = device()});
  fill_(t.view({2}, 1), 1);
  EXPECT_TRUE(close(t, {0, 1, 1, 0}));
}

TEST_P(CreateTest, ChangesInPlaceRespectTheGraph) {
  const Tensor leaf = Tensor::from({2}, {1, 2}, {.device = device(), .requires_grad = true});
  EXPECT_TRUE(throws_error([&] { fill_(leaf, 0); }, {"fill_", "NoGrad"}));
  EXPECT_TRUE(throws_error([&] { mul_(leaf, 0); }, {"mul_", "NoGrad"}));
  EXPECT_TRUE(throws_error([&] { add_(leaf, leaf.detach()); }, {"add_", "NoGrad"}));
  EXPECT_TRUE(close(leaf, {1, 2}));
  const Tensor loss = mul(leaf, leaf);
  no_grad([&] { fill_(leaf, 3); });
  EXPECT_TRUE(close(leaf, {3, 3}));
  EXPECT_THROW(loss.backward(ones_like(loss)), Error);
}

TEST_P(CreateTest, InPlaceErrorsChangeNothing) {
  const Tensor t = Tensor::from({2}, {1, 2}, {.device = device()});
  EXPECT_TRUE(throws_error([&] { add_(t, Tensor::zeros({3}, t.options())); }, {"add_", "[2]", "[3]"}));
  EXPECT_TRUE(throws_error([&] { add_(t, Tensor::zeros({2}, {.dtype = f64, .device = device()})); }, {"add_", "f64"}));
  const Tensor whole = Tensor::from({2}, {1, 2}, {.dtype = i32, .device = device()});
  EXPECT_TRUE(throws_error([&] { mul_(whole, 0.5); }, {"mul_", "i32", "0.5"}));
  EXPECT_TRUE(throws_error([&] { add_(whole, whole); }, {"add_", "i32"}));
  EXPECT_TRUE(close(t, {1, 2}));
  EXPECT_TRUE(close(whole, {1, 2}));
}

}  // namespace
}  // namespace bevel::testing
