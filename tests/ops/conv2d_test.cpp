#include "ops/autocast_check.h"
#include "testing.h"

#include <bevel/core/parallel.h>
#include <bevel/ops/conv2d/conv2d.h>
#include <bevel/ops/conv2d/detail/conv.h>
#include <bevel/ops/conv2d/settings.h>
#include <bevel/ops/gradcheck.h>
#include <bevel/ops/matmul/matmul.h>
#include <bevel/ops/pointwise/binary.h>
#include <bevel/ops/pointwise/cast.h>

#include <bit>
#include <cstdio>
#include <fstream>

namespace bevel {
namespace {

using namespace testing;

using Conv2dTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, Conv2dTest, ::testing::ValuesIn(build_devices()), device_name);

// Settings for the length of a scope.
struct WithConvSettings {
  explicit WithConvSettings(const ConvSettings& settings) { set_conv_settings(settings); }
  ~WithConvSettings() { set_conv_settings({}); }
};

// The backends to go through on a device.
std::vector<ConvBackend> backends(Device device) {
  if (!device.is_cuda()) return {ConvBackend::automatic};
  if (!has_cudnn) return {ConvBackend::columns};
  return {ConvBackend::columns, ConvBackend::cudnn};
}

struct Case {
  std::int64_t batch, height, width, channels, out;
  Pair kernel;
  Conv2dOptions options{};
};

const Case cases[] = {
    {1, 1, 1, 1, 1, 1},
    {2, 5, 7, 3, 4, 1},
    {2, 5, 7, 3, 4, 3},
    {1, 9, 8, 3, 16, 3, {.padding = 1}},
    {2, 9, 8, 4, 17, 3, {.stride = 2, .padding = 1}},
    {1, 8, 9, 5, 24, {3, 2}, {.stride = {2, 3}, .padding = {0, 2}}},
    {1, 11, 10, 2, 9, 3, {.padding = 2, .dilation = 2}},
    {1, 12, 13, 3, 5, {2, 3}, {.stride = {3, 2}, .padding = {2, 3}, .dilation = {3, 2}}},
    {2, 6, 7, 8, 12, 3, {.padding = 1, .groups = 4}},
    {1, 7, 6, 6, 6, 3, {.stride = 2, .padding = 1, .groups = 6}},
    {1, 5, 5, 4, 8, 3, {.padding = 1, .dilation = {1, 2}, .groups = 2}},
    {2, 6, 5, 3, 7, 1, {.stride = 2}},
    {1, 6, 6, 2, 3, 1, {.padding = 2}},               // pixels that no picture reaches
    {1, 4, 4, 2, 3, 2, {.stride = 3, .padding = 3}},  // padding larger than the kernel
    {1, 3, 3, 2, 3, 5, {.padding = 1}},               // the kernel is the padded picture
    {0, 5, 5, 2, 3, 3},
};

std::string text(const Case& c) {
  return message("[", c.batch, ", ", c.height, ", ", c.width, ", ", c.channels, "] -> ", c.out, " kernel ", c.kernel,
                 " stride ", c.options.stride, " padding ", c.options.padding, " dilation ", c.options.dilation,
                 " groups ", c.options.groups, " ", c.options.layout);
}

Shape picture(Layout layout, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
  return layout == Layout::nhwc ? Shape{n, h, w, c} : Shape{n, c, h, w};
}

Shape input_shape(const Case& c) {
  return picture(c.options.layout, c.batch, c.height, c.width, c.channels);
}
Shape weight_shape(const Case& c) {
  return {c.out, c.kernel.h, c.kernel.w, c.channels / c.options.groups};
}
Shape output_shape(const Case& c) {
  const auto size = [](std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                       std::int64_t dilation) { return (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1; };
  const Conv2dOptions& o = c.options;
  return picture(o.layout, c.batch, size(c.height, c.kernel.h, o.stride.h, o.padding.h, o.dilation.h),
                 size(c.width, c.kernel.w, o.stride.w, o.padding.w, o.dilation.w), c.out);
}

std::size_t place(Layout layout, const Shape& s, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
  const bool nhwc = layout == Layout::nhwc;
  return static_cast<std::size_t>(nhwc ? ((n * s[1] + h) * s[2] + w) * s[3] + c
                                       : ((n * s[1] + c) * s[2] + h) * s[3] + w);
}

// The definition, and what it makes of an upstream gradient: sums over every product x * w * dy.
struct Plain {
  std::vector<double> output, input_gradient, weight_gradient, bias_gradient;

  Plain(const Case& c, const std::vector<double>& x, const std::vector<double>& w, const std::vector<double>& bias,
        const std::vector<double>& dy)
      : input_gradient(x.size()), weight_gradient(w.size()), bias_gradient(static_cast<std::size_t>(c.out)) {
    const Shape in = input_shape(c);
    const Shape out = output_shape(c);
    const Layout layout = c.options.layout;
    const bool nhwc = layout == Layout::nhwc;
    const std::int64_t group_in = c.channels / c.options.groups;
    const std::int64_t group_out = c.out / c.options.groups;
    output.resize(static_cast<std::size_t>(out.numel()));
    for (std::int64_t n = 0; n < c.batch; ++n)
      for (std::int64_t i = 0; i < out[nhwc ? 1 : 2]; ++i)
        for (std::int64_t j = 0; j < out[nhwc ? 2 : 3]; ++j)
          for (std::int64_t o = 0; o < c.out; ++o) {
            const std::size_t y = place(layout, out, n, i, j, o);
            double sum = bias.empty() ? 0 : bias[static_cast<std::size_t>(o)];
            bias_gradient[static_cast<std::size_t>(o)] += dy[y];
            for (std::int64_t kh = 0; kh < c.kernel.h; ++kh)
              for (std::int64_t kw = 0; kw < c.kernel.w; ++kw)
                for (std::int64_t l = 0; l < group_in; ++l) {
                  const std::int64_t h = i * c.options.stride.h + kh * c.options.dilation.h - c.options.padding.h;
                  const std::int64_t v = j * c.options.stride.w + kw * c.options.dilation.w - c.options.padding.w;
                  if (h < 0 || h >= c.height || v < 0 || v >= c.width) continue;
                  const std::size_t at = place(layout, in, n, h, v, o / group_out * group_in + l);
                  const auto weight =
                      static_cast<std::size_t>(((o * c.kernel.h + kh) * c.kernel.w + kw) * group_in + l);
                  sum += x[at] * w[weight];
                  input_gradient[at] += dy[y] * w[weight];
                  weight_gradient[weight] += dy[y] * x[at];
                }
            output[y] = sum;
          }
  }
};

void against_plain_loops(Device device) {
  for (Case c : cases)
    for (const Layout layout : {Layout::nhwc, Layout::nchw})
      for (const Dtype dtype : {f32, f64, bf16, f16})
        for (const bool with_bias : {false, true}) {
          c.options.layout = layout;
          const auto leaf = [&](const Shape& shape, std::uint64_t seed) {
            return random_tensor(shape, {.dtype = dtype, .device = device, .seed = seed, .requires_grad = true});
          };
          const Tensor x = leaf(input_shape(c), 1);
          const Tensor w = leaf(weight_shape(c), 2);
          const Tensor bias = with_bias ? leaf({c.out}, 3) : Tensor();
          const Tensor y = conv2d(x, w, bias, c.options);
          ASSERT_EQ(y.shape(), output_shape(c)) << text(c);
          const Tensor dy = random_tensor(y.shape(), {.dtype = dtype, .device = device, .seed = 4});
          y.backward(dy);
          const Plain plain(c, x.to_vector(), w.to_vector(), with_bias ? bias.to_vector() : std::vector<double>{},
                            dy.to_vector());
          const double t = dtype == f64 ? 1e-12 : dtype == f32 ? 1e-5 : dtype == f16 ? 1e-3 : 1e-2;
          EXPECT_TRUE(close(y, plain.output, t, 2 * t)) << text(c) << " " << dtype;
          EXPECT_TRUE(close(x.grad(), plain.input_gradient, t, 2 * t)) << text(c) << " " << dtype;
          EXPECT_TRUE(close(w.grad(), plain.weight_gradient, t, 4 * t)) << text(c) << " " << dtype;
          if (!with_bias) continue;
          EXPECT_TRUE(close(bias.grad(), plain.bias_gradient, t, 4 * t)) << text(c) << " " << dtype;
        }
}

TEST_P(Conv2dTest, ValuesAndGradientsAgainstPlainLoops) {
  for (const ConvBackend backend : backends(device())) {
    const WithConvSettings settings({.backend = backend});
    SCOPED_TRACE(static_cast<int>(backend));
    against_plain_loops(device());
  }
}

TEST_P(Conv2dTest, Gradients) {
  for (const Case& c : {Case{2, 4, 5, 2, 3, 3, {.padding = 1}}, Case{1, 5, 4, 4, 2, {3, 2}, {.stride = 2, .groups = 2}},
                        Case{1, 5, 6, 2, 2, 2, {.padding = 1, .dilation = 2, .layout = Layout::nchw}}}) {
    const auto f = [&](const std::vector<Tensor>& in) {
      return conv2d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), c.options);
    };
    const std::vector<Tensor> inputs{random_leaf(input_shape(c), device(), 1),
                                     random_leaf(weight_shape(c), device(), 2), random_leaf({c.out}, device(), 3)};
    EXPECT_TRUE(gradcheck(f, inputs)) << text(c);
    EXPECT_TRUE(gradgradcheck(f, inputs)) << text(c);
    EXPECT_TRUE(gradgradcheck(f, {inputs[0], inputs[1]})) << text(c);
  }
}

// Many pictures, channels beyond a block, long rows: every way in which the work is cut.
const Case large_cases[] = {
    {9, 24, 31, 16, 33, 3, {.padding = 1}},
    {3, 40, 64, 3, 16, 3, {.stride = 2, .padding = 1}},
    {2, 10, 10, 70, 130, 3, {.padding = 1}},
    {2, 30, 30, 32, 32, 3, {.padding = 1, .groups = 32}},
    {20, 7, 7, 128, 64, 1},
    {1, 6, 6, 300, 600, 3},  // few partial sums of the filter gradient
};

std::vector<Tensor> run(const Case& c, Dtype dtype, Device device) {
  const auto leaf = [&](const Shape& shape, std::uint64_t seed) {
    return random_tensor(shape, {.dtype = dtype, .device = device, .seed = seed, .requires_grad = true});
  };
  const Tensor x = leaf(input_shape(c), 1);
  const Tensor w = leaf(weight_shape(c), 2);
  const Tensor bias = leaf({c.out}, 3);
  const Tensor y = conv2d(x, w, bias, c.options);
  y.backward(random_tensor(y.shape(), {.dtype = dtype, .device = device, .seed = 4}));
  return {y, x.grad(), w.grad(), bias.grad()};
}

double square_mean(const Tensor& x) {
  double sum = 0;
  for (const double value : x.to_vector()) sum += value * value;
  return sum / static_cast<double>(x.numel());
}

double relative_error(const Tensor& x, const Tensor& reference) {
  return std::sqrt(square_mean(sub(cast(x.to(cpu), f64), reference)) / square_mean(reference));
}

TEST(Conv2dCpu, LargeCasesAgainstPlainLoops) {
  for (const Case& c : large_cases) {
    const auto got = run(c, f32, cpu);
    const Plain plain(c, random_tensor(input_shape(c), {.dtype = f32, .seed = 1}).to_vector(),
                      random_tensor(weight_shape(c), {.dtype = f32, .seed = 2}).to_vector(),
                      random_tensor({c.out}, {.dtype = f32, .seed = 3}).to_vector(),
                      random_tensor(output_shape(c), {.dtype = f32, .seed = 4}).to_vector());
    EXPECT_TRUE(close(got[0], plain.output, 1e-5, 1e-4)) << text(c);
    EXPECT_TRUE(close(got[1], plain.input_gradient, 1e-5, 1e-4)) << text(c);
    EXPECT_TRUE(close(got[2], plain.weight_gradient, 1e-5, 2e-4)) << text(c);
    EXPECT_TRUE(close(got[3], plain.bias_gradient, 1e-5, 2e-4)) << text(c);
  }
}

TEST(Conv2dCpu, DoesNotDependOnTheThreadCount) {
  const int threads = num_threads();
  for (const Case& c : large_cases) {
    set_num_threads(1);
    const auto one = run(c, f32, cpu);
    set_num_threads(3);
    const auto three = run(c, f32, cpu);
    set_num_threads(threads);
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(bit_equal(one[i], three[i])) << text(c) << " " << i;
  }
}

TEST(Conv2dCuda, AgreesWithTheCpuAndItself) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  for (const Case& c : large_cases) {
    const auto reference = run(c, f64, cpu);
    for (const ConvBackend backend : backends(cuda()))
      for (const Dtype dtype : {f32, bf16, f16}) {
        const WithConvSettings settings({.backend = backend});
        const auto first = run(c, dtype, cuda());
        const auto second = run(c, dtype, cuda());
        const double t = dtype == f32 ? 1e-5 : dtype == f16 ? 2e-3 : 2e-2;
        for (std::size_t i = 0; i < first.size(); ++i) {
          const auto words = [&] {
            return message(text(c), " ", dtype, " ", i, " backend ", static_cast<int>(backend));
          };
          EXPECT_TRUE(bit_equal(first[i], second[i])) << words();
          const double size = std::sqrt(square_mean(reference[i]));
          EXPECT_TRUE(close(first[i], reference[i].to_vector(), t, (dtype == f32 ? 3 : 6) * t * size)) << words();
        }
      }
  }
}

// The library's own kernels for few channels: every edge of a picture, blocks that end within one, shares of one row.
const Case narrow_cases[] = {
    {3, 8, 64, 3, 32, 3, {.stride = 2, .padding = 1}},
    {70, 32, 64, 3, 32, 3, {.stride = 2, .padding = 1}},
    {2, 22, 128, 3, 32, 3, {.stride = 2, .padding = 1}},
    {1, 4, 32, 32, 32, 3, {.padding = 1}},
    {90, 7, 32, 32, 32, 3, {.padding = 1}},
    {5, 9, 64, 32, 32, 3, {.padding = 1}},
    {9, 12, 64, 32, 64, 3, {.stride = 2, .padding = 1}},
};

// What computes the gradient of the weights.
std::string filter_engine(const Case& c, Dtype dtype) {
  const Tensor x = random_tensor(input_shape(c), {.dtype = dtype, .device = cuda(), .seed = 1});
  const Tensor w = random_tensor(weight_shape(c), {.dtype = dtype, .device = cuda(), .seed = 2, .requires_grad = true});
  const Tensor y = conv2d(x, w, {}, c.options);
  y.backward(random_tensor(y.shape(), {.dtype = dtype, .device = cuda(), .seed = 3}));
  return detail::last_conv_engine();
}

TEST(Conv2dCuda, DirectKernelsForFewChannels) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const WithConvSettings settings({.backend = ConvBackend::direct});
  set_matmul_precision(Precision::tf32);
  for (const Case& c : narrow_cases) {
    const auto reference = run(c, f64, cpu);
    for (const Dtype dtype : {f32, bf16, f16}) {
      if (c.out == 64 && dtype != f32) continue;
      const auto first = run(c, dtype, cuda());
      EXPECT_EQ(filter_engine(c, dtype), "direct") << text(c) << " " << dtype;
      const auto second = run(c, dtype, cuda());
      const double most = dtype == bf16 ? 6e-3 : 1e-3;
      for (std::size_t i = 0; i < first.size(); ++i) {
        EXPECT_TRUE(bit_equal(first[i], second[i])) << text(c) << " " << dtype << " " << i;
        EXPECT_LT(relative_error(first[i], reference[i]), most) << text(c) << " " << dtype << " " << i;
      }
    }
  }
  set_matmul_precision(Precision::full);
}

// A NaN in one pixel reaches the outputs that see it, and no others.
TEST(Conv2dCuda, DirectKernelsKeepNanWhereItIs) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  set_matmul_precision(Precision::tf32);
  for (const Case& c : {narrow_cases[0], narrow_cases[3]})
    for (const Dtype dtype : {f32, bf16, f16}) {
      Tensor host = random_tensor(input_shape(c), {.dtype = f32, .seed = 1});
      for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::bit_cast<float>(0x7FFFFFFFU)}) {
        host.data<float>()[(1 * c.width + 5) * c.channels + 1] = value;  // row 1, column 5
        const Tensor w = random_tensor(weight_shape(c), {.dtype = f32, .seed = 2});
        const auto got = conv2d(cast(host.to(cuda()), dtype), cast(w.to(cuda()), dtype), {}, c.options).to_vector();
        const auto expected = conv2d(host, w, {}, c.options).to_vector();
        for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(std::isnan(got[i]), std::isnan(expected[i])) << text(c);
      }
    }
  set_matmul_precision(Precision::full);
}

// f32 as TF32: close to 10 bits of mantissa, and not closer, or the tensor cores were not used.
TEST(Conv2dCuda, RoundsAsTheSettingSays) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const Case c{4, 16, 16, 32, 32, 3, {.padding = 1}};
  const auto reference = run(c, f64, cpu);
  for (const ConvBackend backend : backends(cuda())) {
    const WithConvSettings settings({.backend = backend});
    const auto full = run(c, f32, cuda());
    set_matmul_precision(Precision::tf32);
    const auto rounded = run(c, f32, cuda());
    set_matmul_precision(Precision::full);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_LT(relative_error(full[i], reference[i]), 1e-6) << i;
      EXPECT_LT(relative_error(rounded[i], reference[i]), 1e-3) << i;
      EXPECT_GT(relative_error(rounded[i], reference[i]), 1e-5) << i;
    }
  }
}

// Engines chosen by the clock are written down, and the file decides the next time.
TEST(Conv2dCuda, TimedEnginesAreKeptInAFile) {
  if (cuda_device_count() == 0 || !has_cudnn) GTEST_SKIP() << "no GPU or no cuDNN here";
  const std::string path = ::testing::TempDir() + "bevel_engines.txt";
  std::remove(path.c_str());
  const Case c{2, 12, 12, 8, 16, 3, {.padding = 1}};
  const auto lines = [&] {
    std::ifstream file(path);
    std::vector<std::string> found;
    for (std::string line; std::getline(file, line);) found.push_back(line);
    return found;
  };
  const WithConvSettings settings({.backend = ConvBackend::cudnn, .timed = true, .choices = path});
  const auto first = run(c, f32, cuda());
  const auto written = lines();
  ASSERT_EQ(written.size(), 3U);
  EXPECT_NE(written[0].find("forward f32"), std::string::npos) << written[0];
  EXPECT_NE(written[0].find("\teng"), std::string::npos) << written[0];
  const auto second = run(c, f32, cuda());
  EXPECT_EQ(lines(), written);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(bit_equal(first[i], second[i]));
  std::remove(path.c_str());
}

// The gradient of the weights in f32 from operands of half types, as mixed precision wants it.
TEST_P(Conv2dTest, WideFilterGradient) {
  const detail::ConvShape shape{.batch = 3,
                                .height = 9,
                                .width = 8,
                                .channels = 8,
                                .out_height = 5,
                                .out_width = 4,
                                .out_channels = 16,
                                .kernel_h = 3,
                                .kernel_w = 3,
                                .stride = 2,
                                .padding = 1,
                                .dilation = 1,
                                .groups = 1};
  const auto gradient = [&](const Tensor& x, const Tensor& dy, Dtype dtype) {
    Tensor result = Tensor::empty(shape.weight(), {.dtype = dtype, .device = x.device()});
    on(x.device(), [&](auto backend) { detail::conv_filter_gradient(backend, shape, x, dy, result); });
    return result;
  };
  for (const Dtype dtype : {bf16, f16}) {
    const Tensor x = random_tensor(shape.input(), {.dtype = dtype, .device = device(), .seed = 1});
    const Tensor dy = random_tensor(shape.output(), {.dtype = dtype, .device = device(), .seed = 2});
    const Tensor reference = gradient(cast(x, f64).to(cpu), cast(dy, f64).to(cpu), f64);
    for (const ConvBackend backend : backends(device())) {
      const WithConvSettings settings({.backend = backend});
      const double t = backend != ConvBackend::cudnn ? 1e-5 : dtype == f16 ? 1e-3 : 1e-2;
      EXPECT_TRUE(close(gradient(x, dy, f32), reference, t, t)) << dtype << " " << static_cast<int>(backend);
    }
  }
}

// More columns than one workspace holds: chunks of pixels, and of pictures in the gradients.
TEST(Conv2dCuda, ChunksOfAWorkspace) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const Case c{6, 128, 128, 32, 8, 5, {.padding = 2}};  // 6 pictures of 50 MiB
  const auto got = run(c, f32, cuda());
  const auto reference = run(c, f32, cpu);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(close(got[i], reference[i], 1e-4, 2e-2)) << i;
}

TEST_P(Conv2dTest, AutocastRoundsOperandsAndKeepsGradientsWide) {
  const Case c{2, 9, 8, 8, 16, 3, {.stride = 2, .padding = 1}};
  const auto op = [&](const Tensor& x, const Tensor& w, const Tensor& b) { return conv2d(x, w, b, c.options); };
  check_autocast(op, device(), input_shape(c), weight_shape(c), {c.out});
}

// The first layer of a network under Autocast: pictures in f32, which need no gradient, are not copied, and give the
// bits that the copy gives; from memory that is not aligned, too, and with a derivative of the gradient of the weights.
TEST(Conv2dCuda, FirstLayersRoundPicturesAsTheyRead) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  for (const Case& c : {Case{8, 64, 64, 3, 32, 3, {.stride = 2, .padding = 1}}, narrow_cases[0]})
    for (const Dtype half : {bf16, f16})
      for (const std::int64_t offset : {0, 1}) {
        const Shape shape = input_shape(c);
        const Tensor all = random_tensor({shape.numel() + 1}, {.dtype = f32, .device = cuda(), .seed = 1});
        const Tensor x = all.view(shape, offset);
        const Tensor w = random_tensor(weight_shape(c), {.dtype = f32, .device = cuda(), .seed = 2});
        const auto pass = [&](const Tensor& pictures) {
          w.set_requires_grad().set_grad({});
          const Autocast scope(half);
          const Tensor y = conv2d(pictures, w, {}, c.options);
          EXPECT_EQ(detail::last_conv_engine(), "direct");
          const Tensor upstream = random_tensor(y.shape(), {.dtype = half, .device = cuda(), .seed = 3});
          const Tensor dw =
              grad(std::span(&y, 1), std::span(&w, 1), {.retain_graph = true, .grad_outputs = {upstream}})[0];
          y.backward(upstream);
          EXPECT_TRUE(bit_equal(w.grad(), dw));
          return std::vector<Tensor>{y.detach(), dw};
        };
        const auto read = pass(x), copied = pass(cast(all, half).view(shape, offset).clone());
        for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(bit_equal(read[i], copied[i])) << text(c) << " " << half;

        const Tensor y = [&] {
          const Autocast scope(half);
          return conv2d(x, w, {}, c.options);
        }();
        const Tensor u = random_tensor(y.shape(), {.dtype = half, .device = cuda(), .seed = 4, .requires_grad = true});
        const Tensor dw = grad(std::span(&y, 1), std::span(&w, 1), {.create_graph = true, .grad_outputs = {u}})[0];
        const Tensor du = grad(std::span(&dw, 1), std::span(&u, 1), {.grad_outputs = {w.detach()}})[0];
        EXPECT_LT(relative_error(du, cast(y.detach().to(cpu), f64)), 1e-2);  // their own convolution
      }
}

TEST(Conv2dCuda, FirstLayersKeepNoCopyOfPictures) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const Case c{8, 64, 64, 3, 32, 3, {.stride = 2, .padding = 1}};
  const Tensor x = random_tensor(input_shape(c), {.dtype = f32, .device = cuda()});
  const Tensor w = random_tensor(weight_shape(c), {.dtype = f32, .device = cuda(), .requires_grad = true});
  const Autocast scope(bf16);
  const auto call = [&] { return conv2d(x, w, {}, c.options); };
  const Tensor first = call();  // makes the rounded weights
  release_cached_memory(cuda());
  const std::size_t before = memory_stats(cuda()).live;
  const Tensor y = call();
  EXPECT_LT(memory_stats(cuda()).live - before, static_cast<std::size_t>(y.bytes() + x.bytes() / 8));
}

TEST_P(Conv2dTest, Errors) {
  const TensorOptions here{.device = device()};
  const Tensor x = Tensor::zeros({2, 6, 5, 4}, here);
  const Tensor w = Tensor::zeros({8, 3, 3, 4}, here);
  const auto error = [&](const Tensor& weight, const Conv2dOptions& options, const std::vector<std::string>& parts) {
    return throws_error([&] { conv2d(x, weight, {}, options); }, parts);
  };
  EXPECT_TRUE(error(Tensor::zeros({8, 3, 3, 5}, here), {}, {"conv2d", "[2, 6, 5, 4]", "[8, 3, 3, 5]"}));
  EXPECT_TRUE(error(w, {.layout = Layout::nchw}, {"conv2d", "[2, 6, 5, 4]", "nchw", "[8, 3, 3, 4]"}));
  EXPECT_TRUE(error(w, {.groups = 3}, {"conv2d", "groups = 3", "4", "8"}));
  EXPECT_TRUE(error(w, {.groups = 2}, {"conv2d", "2 groups", "[8, 3, 3, 4]"}));
  EXPECT_TRUE(error(w, {.groups = 0}, {"conv2d", "groups", "0"}));
  EXPECT_TRUE(error(w, {.stride = {1, 0}}, {"conv2d", "stride", "(1, 0)"}));
  EXPECT_TRUE(error(w, {.padding = -1}, {"conv2d", "padding", "(-1, -1)"}));
  EXPECT_TRUE(error(w, {.dilation = 0}, {"conv2d", "dilation", "(0, 0)"}));
  EXPECT_TRUE(error(w, {.dilation = 3}, {"conv2d", "7", "height 6", "dilation 3"}));
  EXPECT_TRUE(error(Tensor::zeros({8, 3, 6, 4}, here), {}, {"conv2d", "6", "width 5", "padding 0"}));
  EXPECT_TRUE(error(Tensor::zeros({8, 36}, here), {}, {"conv2d", "weight", "4 axes", "[8, 36]"}));
  EXPECT_TRUE(error(Tensor::zeros({8, 3, 3, 4}, {.dtype = f64, .device = device()}), {}, {"conv2d", "f32", "f64"}));
  EXPECT_TRUE(throws_error([&] { conv2d(x, w, Tensor::zeros({4}, here)); }, {"conv2d", "bias", "[8]", "[4]"}));
}

}  // namespace
}  // namespace bevel
