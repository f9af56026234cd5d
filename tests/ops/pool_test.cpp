#include "testing.h"

#include <bevel/core/parallel.h>
#include <bevel/ops/gradcheck.h>
#include <bevel/ops/pool/pool.h>

namespace bevel {
namespace {

using namespace testing;

using PoolTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, PoolTest, ::testing::ValuesIn(build_devices()), device_name);

struct Case {
  std::int64_t batch, height, width, channels;
  Pair kernel;
  Pair stride = 0;
  Pair padding = 0;
};

const Case cases[] = {
    {1, 1, 1, 1, 1},       {2, 6, 8, 3, 2},
    {2, 7, 5, 3, 2},  // a rest that no window sees
    {1, 7, 6, 5, 3, 2, 1}, {1, 6, 9, 2, {2, 3}, {1, 2}, {1, 0}},
    {2, 5, 5, 4, 3, 1, 2}, {1, 9, 9, 2, 2, 3},  // gaps between windows
    {1, 4, 5, 33, {4, 5}}, {0, 4, 4, 2, 2},
};

std::string text(const Case& c) {
  return message("[", c.batch, ", ", c.height, ", ", c.width, ", ", c.channels, "] kernel ", c.kernel, " stride ",
                 c.stride, " padding ", c.padding);
}

struct Plain {
  std::vector<double> max, max_gradient, avg, avg_gradient;
  Shape shape;

  Plain(const Case& c, Layout layout, bool count_include_pad, const std::vector<double>& x,
        const std::function<double(std::size_t)>& upstream)
      : max_gradient(x.size()), avg_gradient(x.size()) {
    const Pair stride = c.stride == Pair(0) ? c.kernel : c.stride;
    const std::int64_t rows = (c.height + 2 * c.padding.h - c.kernel.h) / stride.h + 1;
    const std::int64_t columns = (c.width + 2 * c.padding.w - c.kernel.w) / stride.w + 1;
    const bool nhwc = layout == Layout::nhwc;
    shape = nhwc ? Shape{c.batch, rows, columns, c.channels} : Shape{c.batch, c.channels, rows, columns};
    const auto at = [&](std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t channel, std::int64_t height,
                        std::int64_t width) {
      return static_cast<std::size_t>(nhwc ? ((n * height + h) * width + w) * c.channels + channel
                                           : ((n * c.channels + channel) * height + h) * width + w);
    };
    max.resize(static_cast<std::size_t>(shape.numel()));
    avg.resize(max.size());
    for (std::int64_t n = 0; n < c.batch; ++n)
      for (std::int64_t channel = 0; channel < c.channels; ++channel)
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < columns; ++j) {
            std::vector<std::size_t> seen;
            for (std::int64_t h = i * stride.h - c.padding.h; h < i * stride.h - c.padding.h + c.kernel.h; ++h)
              for (std::int64_t w = j * stride.w - c.padding.w; w < j * stride.w - c.padding.w + c.kernel.w; ++w)
                if (h >= 0 && h < c.height && w >= 0 && w < c.width)
                  seen.push_back(at(n, h, w, channel, c.height, c.width));
            const std::size_t y = at(n, i, j, channel, rows, columns);
            const auto count =
                count_include_pad ? static_cast<double>(c.kernel.h * c.kernel.w) : static_cast<double>(seen.size());
            std::size_t best = seen[0];
            for (const std::size_t pixel : seen) {
              if (x[pixel] > x[best]) best = pixel;
              avg[y] += x[pixel] / count;
              avg_gradient[pixel] += upstream(y) / count;
            }
            max[y] = x[best];
            max_gradient[best] += upstream(y);
          }
  }
};

TEST_P(PoolTest, ValuesAndGradientsAgainstPlainLoops) {
  for (const Case& c : cases)
    for (const Layout layout : {Layout::nhwc, Layout::nchw})
      for (const Dtype dtype : {f32, f64, bf16, f16})
        for (const bool include : {true, false}) {
          const Shape shape = layout == Layout::nhwc ? Shape{c.batch, c.height, c.width, c.channels}
                                                     : Shape{c.batch, c.channels, c.height, c.width};
          const RandomOptions options{.dtype = dtype, .device = device(), .seed = 5, .requires_grad = true};
          const Tensor x = random_tensor(shape, options);
          const Tensor max = max_pool2d(x, c.kernel, {.stride = c.stride, .padding = c.padding, .layout = layout});
          const Tensor dy = random_tensor(max.shape(), {.dtype = dtype, .device = device(), .seed = 6});
          max.backward(dy);
          const Tensor max_gradient = x.grad();
          x.set_grad({});
          const Tensor avg = avg_pool2d(
              x, c.kernel, {.stride = c.stride, .padding = c.padding, .count_include_pad = include, .layout = layout});
          avg.backward(dy);
          const auto upstream = dy.to_vector();
          const Plain plain(c, layout, include, x.to_vector(), [&](std::size_t i) { return upstream[i]; });
          ASSERT_EQ(max.shape(), plain.shape) << text(c);
          ASSERT_EQ(avg.shape(), plain.shape) << text(c);
          const double t = dtype == f64 ? 1e-14 : dtype == f32 ? 1e-6 : dtype == f16 ? 2e-3 : 1e-2;
          EXPECT_TRUE(close(max, plain.max, 0, 0)) << text(c) << " " << layout << " " << dtype;
          EXPECT_TRUE(close(max_gradient, plain.max_gradient, t, t)) << text(c) << " " << layout << " " << dtype;
          EXPECT_TRUE(close(avg, plain.avg, t, t)) << text(c) << " " << layout << " " << dtype << include;
          EXPECT_TRUE(close(x.grad(), plain.avg_gradient, t, t)) << text(c) << " " << layout << " " << dtype << include;
        }
}

TEST_P(PoolTest, Gradients) {
  for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
    const auto max = [=](const std::vector<Tensor>& in) {
      return max_pool2d(in[0], 3, {.stride = 2, .padding = 1, .layout = layout});
    };
    const auto avg = [=](const std::vector<Tensor>& in) {
      return avg_pool2d(in[0], {2, 3}, {.stride = 1, .padding = {0, 1}, .count_include_pad = false, .layout = layout});
    };
    const auto global = [=](const std::vector<Tensor>& in) { return global_avg_pool(in[0], layout); };
    const std::vector<Tensor> input{random_leaf({2, 4, 5, 3}, device(), 1)};
    for (const GradcheckFunction& f : {GradcheckFunction(max), GradcheckFunction(avg), GradcheckFunction(global)}) {
      EXPECT_TRUE(gradcheck(f, input)) << layout;
      EXPECT_TRUE(gradgradcheck(f, input)) << layout;
    }
  }
}

TEST_P(PoolTest, TheFirstMaximumGetsTheGradient) {
  const Tensor x = Tensor::from({1, 2, 2, 1}, {3, 7, 7, 7}, {.device = device(), .requires_grad = true});
  max_pool2d(x, 2).backward(Tensor::from({1, 1, 1, 1}, {5}, {.device = device()}));
  EXPECT_TRUE(close(x.grad(), std::vector<double>{0, 5, 0, 0}));
}

TEST_P(PoolTest, NanIsTheMaximumAndInfinityIsAValue) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  for (const Dtype dtype : {f32, f64, bf16, f16}) {
    const Tensor x = Tensor::from({1, 2, 6, 1}, {1, nan, inf, 1, -inf, -inf, nan, 2, 1, 1, -inf, -inf},
                                  {.dtype = dtype, .device = device(), .requires_grad = true});
    const Tensor y = max_pool2d(x, 2);
    EXPECT_TRUE(close(y, std::vector<double>{nan, inf, -inf})) << dtype;
    y.backward(Tensor::from({1, 1, 3, 1}, {1, 2, 3}, {.dtype = dtype, .device = device()}));
    EXPECT_TRUE(close(x.grad(), std::vector<double>{0, 1, 2, 0, 3, 0, 0, 0, 0, 0, 0, 0})) << dtype;
    EXPECT_TRUE(std::isnan(avg_pool2d(x, 2).to_vector()[0])) << dtype;
  }
}

TEST_P(PoolTest, GlobalAverage) {
  for (const Dtype dtype : {f32, f64, bf16, f16}) {
    const Tensor x = random_tensor({2, 5, 7, 3}, {.dtype = dtype, .device = device()});
    const auto values = x.to_vector();
    std::vector<double> expected(6);
    for (std::size_t i = 0; i < values.size(); ++i) expected[i / 105 * 3 + i % 3] += values[i] / 35;
    const double t = dtype == bf16 ? 1e-2 : dtype == f16 ? 1e-3 : 1e-6;
    const Tensor y = global_avg_pool(x);
    EXPECT_EQ(y.shape(), (Shape{2, 3}));
    EXPECT_TRUE(close(y, expected, t, 1e-7)) << dtype;
  }
  const Tensor x = Tensor::from({1, 2, 1, 3}, {1, 2, 3, 4, 5, 6}, {.device = device()});
  EXPECT_TRUE(close(global_avg_pool(x, Layout::nchw), std::vector<double>{2, 5}));
}

TEST(PoolCpu, DoesNotDependOnTheThreadCount) {
  const int threads = num_threads();
  const auto run = [](int count) {
    set_num_threads(count);
    const Tensor x = random_tensor({7, 31, 33, 16}, {.dtype = f32, .requires_grad = true});
    const Tensor y = avg_pool2d(max_pool2d(x, 3, {.stride = 2, .padding = 1}), 3, {.stride = 1});
    y.backward(random_tensor(y.shape(), {.dtype = f32, .seed = 2}));
    return std::vector<Tensor>{y, x.grad()};
  };
  const auto one = run(1);
  const auto three = run(3);
  set_num_threads(threads);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(bit_equal(one[i], three[i])) << i;
}

TEST_P(PoolTest, Errors) {
  const Tensor x = Tensor::zeros({1, 4, 5, 2}, {.device = device()});
  EXPECT_TRUE(throws_error([&] { max_pool2d(x, {5, 2}); }, {"max_pool2d", "height is 5", "picture 4"}));
  EXPECT_TRUE(throws_error([&] { avg_pool2d(x, 2, {.padding = 2}); }, {"avg_pool2d", "padding", "2"}));
  EXPECT_TRUE(throws_error([&] { avg_pool2d(x, 2, {.padding = -1}); }, {"avg_pool2d", "padding", "-1"}));
  EXPECT_TRUE(throws_error([&] { max_pool2d(x, 2, {.stride = {1, -1}}); }, {"max_pool2d", "stride", "-1"}));
  EXPECT_TRUE(throws_error([&] { max_pool2d(x, 0); }, {"max_pool2d", "kernel", "0"}));
  const Tensor flat = Tensor::zeros({4, 5}, {.device = device()});
  EXPECT_TRUE(throws_error([&] { global_avg_pool(flat); }, {"global_avg_pool", "4 axes", "[4, 5]"}));
  const Tensor integers = Tensor::zeros({1, 4, 4, 1}, {.dtype = i32, .device = device()});
  EXPECT_TRUE(throws_error([&] { max_pool2d(integers, 2); }, {"max_pool2d", "i32"}));
  const Tensor nothing = Tensor::zeros({1, 0, 4, 1}, {.device = device()});
  EXPECT_TRUE(throws_error([&] { global_avg_pool(nothing); }, {"global_avg_pool", "empty", "[1, 0, 4, 1]"}));
}

}  // namespace
}  // namespace bevel
