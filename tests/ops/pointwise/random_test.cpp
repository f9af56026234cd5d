// Random tensors and dropout.
#include <bevel/ops/pointwise/random.h>

#include <bevel/ops/gradcheck.h>
#include <bevel/ops/pointwise/create.h>
#include <bevel/ops/pointwise/detail/random_kernels.h>
#include <bevel/ops/pointwise/dropout.h>

#include <algorithm>

#include "testing.h"

namespace bevel::testing {
namespace {

using RandomTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, RandomTest, ::testing::ValuesIn(build_devices()), device_name);

// The known answers of the authors' Random123 library for ten rounds of Philox 4x32.
TEST(Philox, KnownAnswers) {
  struct Answer {
    std::uint64_t seed, counter, stream;
    std::uint32_t word[4];
  };
  const Answer answers[] = {
      {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {~0ull, ~0ull, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Answer& answer : answers) {
    const Philox4 words = philox(answer.seed, answer.counter, answer.stream);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(words.word[i], answer.word[i]) << std::hex << words.word[i];
  }
}

// Element i comes from word i % 4 of counter i / 4.
TEST_P(RandomTest, StreamIsTheOneDocumented) {
  Generator generator(42);
  generator.set_state({42, 1000});
  const auto single = rand({7}, {.device = device()}, generator).to_vector<float>();
  EXPECT_EQ(generator.state().offset, 1002u);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(single[i], uniform_float(philox(42, 1000 + i / 4).word[i % 4])) << i;
  const auto twice = rand({5}, {.dtype = f64, .device = device()}, generator).to_vector();
  EXPECT_EQ(generator.state().offset, 1005u);
  for (std::size_t i = 0; i < 5; ++i) {
    const Philox4 words = philox(42, 1002 + i / 2);
    EXPECT_EQ(twice[i], uniform_double(words.word[i % 2 * 2], words.word[i % 2 * 2 + 1])) << i;
  }
}

TEST_P(RandomTest, UniformMoments) {
  for (const Dtype dtype : {f32, f64}) {
    Generator generator(1);
    const auto values = rand({1 << 18}, {.dtype = dtype, .device = device()}, generator).to_vector();
    double sum = 0, squares = 0;
    for (const double value : values) {
      ASSERT_GE(value, 0);
      ASSERT_LT(value, 1);
      sum += value;
      squares += (value - 0.5) * (value - 0.5);
    }
    const double n = static_cast<double>(values.size());
    EXPECT_NEAR(sum / n, 0.5, 0.003);
    EXPECT_NEAR(squares / n, 1.0 / 12, 0.001);
  }
}

TEST_P(RandomTest, NormalMoments) {
  for (const Dtype dtype : {f32, f64, bf16, f16}) {
    Generator generator(7);
    const auto values = randn({1 << 18}, {.dtype = dtype, .device = device()}, generator).to_vector();
    double moment[5] = {};
    double neighbours = 0;
    std::int64_t beyond_two = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(std::isfinite(values[i]));
      double power = 1;
      for (int k = 1; k <= 4; ++k) moment[k] += power *= values[i];
      if (i > 0) neighbours += values[i] * values[i - 1];
      beyond_two += std::abs(values[i]) > 1.959963984540054;
    }
    const double n = static_cast<double>(values.size());
    EXPECT_NEAR(moment[1] / n, 0, 0.01) << dtype;
    EXPECT_NEAR(moment[2] / n, 1, 0.015) << dtype;
    EXPECT_NEAR(moment[3] / n, 0, 0.03) << dtype;
    EXPECT_NEAR(moment[4] / n, 3, 0.1) << dtype;
    EXPECT_NEAR(neighbours / n, 0, 0.01) << dtype;
    EXPECT_NEAR(static_cast<double>(beyond_two) / n, 0.05, 0.003) << dtype;
  }
}

TEST(RandomFunctions, PortableFunctionsAgreeWithTheCLibrary) {
  for (int i = 0; i < 20000; ++i) {
    const Philox4 words = philox(5, static_cast<std::uint64_t>(i));
    const double u = std::ldexp(uniform_double(words.word[0], words.word[1]) + 0x1p-53, -(i % 30));
    EXPECT_NEAR(pointwise::portable_log(u), std::log(u), 4e-16 * std::abs(std::log(u)) + 1e-17) << u;
    const double t = uniform_double(words.word[2], words.word[3]);
    const auto [sine, cosine] = pointwise::portable_sine_cosine(t);
    EXPECT_NEAR(sine, std::sin(2 * M_PI * t), 1e-15) << t;
    EXPECT_NEAR(cosine, std::cos(2 * M_PI * t), 1e-15) << t;
  }
  EXPECT_EQ(pointwise::portable_log(1.0), 0);
}

TEST(RandomCuda, SameBitsAsTheCpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const auto both = [](auto&& make) {
    Generator a(99);
    Generator b(99);
    return bit_equal(make(cuda(0), a), make(cpu, b));
  };
  for (const Dtype dtype : {f32, f64, bf16, f16}) {
    const Shape shape{100003};
    EXPECT_TRUE(both([&](Device device, Generator& g) { return rand(shape, {.dtype = dtype, .device = device}, g); }));
    EXPECT_TRUE(both([&](Device device, Generator& g) { return randn(shape, {.dtype = dtype, .device = device}, g); }));
    EXPECT_TRUE(both([&](Device device, Generator& g) {
      return dropout(full(shape, 1.3, {.dtype = dtype, .device = device}), 0.3, true, g);
    }));
  }
  EXPECT_TRUE(both([](Device device, Generator& g) { return randint(-5, 1000, {777}, {.device = device}, g); }));
  EXPECT_TRUE(
      both([](Device device, Generator& g) { return bernoulli(0.4, {777}, {.dtype = boolean, .device = device}, g); }));
  EXPECT_TRUE(both([](Device device, Generator& g) { return randperm(1000, device, g); }));
}

// Written down once: the stream of a seed must not change from release to release.
TEST_P(RandomTest, GoldenBits) {
  Generator generator(2024);
  const auto bits = [](const Tensor& x) {
    std::vector<std::uint32_t> result;
    for (const float value : x.to_vector<float>()) result.push_back(std::bit_cast<std::uint32_t>(value));
    return result;
  };
  const std::vector<std::uint32_t> uniform{1058704235, 1049198880, 1065094825, 1034630240};
  const std::vector<std::uint32_t> normal{3215687413, 1058153642, 3202845803, 1037408232, 1065366275};
  EXPECT_EQ(bits(rand({4}, {.device = device()}, generator)), uniform);
  EXPECT_EQ(bits(randn({5}, {.device = device()}, generator)), normal);
}

TEST_P(RandomTest, IntegersAndOrders) {
  Generator generator(3);
  const auto dice = randint(1, 7, {60000}, {.device = device()}, generator).to_vector<std::int64_t>();
  std::vector<int> count(8);
  for (const auto face : dice) {
    ASSERT_GE(face, 1);
    ASSERT_LE(face, 6);
    ++count[static_cast<std::size_t>(face)];
  }
  for (std::size_t face = 1; face <= 6; ++face) EXPECT_NEAR(count[face], 10000, 400);
  const Tensor wide = randint(INT64_MIN, INT64_MAX, {100}, {.device = device()}, generator);
  EXPECT_TRUE(std::ranges::any_of(wide.to_vector<std::int64_t>(), [](auto x) { return x < 0; }));

  const Tensor order = randperm(1000, device(), generator);
  EXPECT_EQ(order.dtype(), i64);
  EXPECT_EQ(order.device(), device());
  auto values = order.to_vector<std::int64_t>();
  EXPECT_FALSE(std::ranges::is_sorted(values));
  std::ranges::sort(values);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<std::int64_t>(i));
  EXPECT_EQ(randperm(0, device(), generator).numel(), 0);
}

TEST_P(RandomTest, Bernoulli) {
  Generator generator(4);
  for (const Dtype dtype : {f32, f64, boolean})
    for (const double p : {0.0, 0.3, 1.0}) {
      double sum = 0;
      for (const double value : bernoulli(p, {100000}, {.dtype = dtype, .device = device()}, generator).to_vector()) {
        ASSERT_TRUE(value == 0 || value == 1);
        sum += value;
      }
      EXPECT_NEAR(sum / 100000, p, p == 0.3 ? 0.006 : 0) << dtype;
    }
}

TEST_P(RandomTest, DropoutKeepsTheMean) {
  for (const Dtype dtype : {f32, f64, bf16, f16})
    for (const double p : {0.1, 0.5, 0.9}) {
      manual_seed(5);
      const Tensor x = ones({100003}, {.dtype = dtype, .device = device()});
      const Tensor y = dropout(x, p);
      double sum = 0;
      double kept = 0;
      for (const double value : y.to_vector()) {
        ASSERT_TRUE(value == 0 || std::abs(value * (1 - p) - 1) < 0.01) << value;
        sum += value;
        kept += value != 0;
      }
      EXPECT_NEAR(kept / 100003, 1 - p, 0.006) << p << dtype;
      EXPECT_NEAR(sum / 100003, 1, 0.04) << p << dtype;
    }
}

TEST_P(RandomTest, DropoutAtItsEnds) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = Tensor::from({3}, {1, infinity, NAN}, {.device = device(), .requires_grad = true});
  EXPECT_TRUE(same(dropout(x, 0), x));
  EXPECT_TRUE(same(dropout(x, 0.5, false), x));
  const Tensor y = dropout(x, 1);
  EXPECT_TRUE(close(y, {0, 0, 0}));
  y.backward(ones_like(y));
  EXPECT_TRUE(close(x.grad(), {0, 0, 0}));
  EXPECT_EQ(dropout(Tensor::zeros({0}, {.device = device()}), 0.5).numel(), 0);
}

TEST_P(RandomTest, DropoutGradientUsesTheSameMask) {
  const Tensor x = ones({4099}, {.device = device(), .requires_grad = true});
  const Tensor y = dropout(x, 0.4);
  y.backward(ones_like(y));
  EXPECT_TRUE(bit_equal(x.grad(), y.detach()));
  EXPECT_FALSE(close(dropout(x, 0.4), y));
  const auto function = [](const std::vector<Tensor>& in) { return dropout(in[0], 0.4); };
  EXPECT_TRUE(gradcheck(function, {random_leaf({3, 7}, device())}));
  EXPECT_TRUE(gradgradcheck(function, {random_leaf({3, 7}, device())}));
}

TEST_P(RandomTest, Errors) {
  const Tensor x = ones({2}, {.device = device()});
  for (const double p : {-0.1, 1.5, static_cast<double>(NAN)}) {
    EXPECT_TRUE(throws_error([&] { dropout(x, p); }, {"dropout", "[0, 1]"}));
    EXPECT_TRUE(throws_error([&] { bernoulli(p, {2}); }, {"bernoulli", "[0, 1]"}));
  }
  EXPECT_TRUE(throws_error([&] { dropout(Tensor::zeros({2}, {.dtype = i32}), 0.5); }, {"dropout", "i32"}));
  EXPECT_TRUE(throws_error([&] { rand({2}, {.dtype = i32}); }, {"rand", "i32"}));
  EXPECT_TRUE(throws_error([&] { randint(2, 2, {2}); }, {"randint", "2"}));
  EXPECT_TRUE(throws_error([&] { randperm(-1); }, {"randperm", "-1"}));
}

}  // namespace
}  // namespace bevel::testing
