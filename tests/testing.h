// What the tests share: devices, random tensors, comparisons.
#pragma once

#include <bevel/core/autograd.h>
#include <bevel/core/philox.h>
#include <bevel/core/tensor.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace bevel::testing {

// The devices that this build has code for. A test on one that the machine lacks is skipped by DeviceTest.
inline std::vector<Device> build_devices() {
  if (has_cuda) return {cpu, cuda(0)};
  return {cpu};
}

// The devices that this machine has now.
inline std::vector<Device> devices() {
  if (cuda_device_count() > 0) return {cpu, cuda(0)};
  return {cpu};
}

inline std::string device_name(const ::testing::TestParamInfo<Device>& info) {
  return info.param.is_cuda() ? "cuda" : "cpu";
}

// A fixture run once for each device:
//   using FooTest = DeviceTest;
//   INSTANTIATE_TEST_SUITE_P(Devices, FooTest, ::testing::ValuesIn(build_devices()), device_name);
//   TEST_P(FooTest, Bar) { ... device() ... }
class DeviceTest : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
  static Device device() { return GetParam(); }
};

// Uniform in [low, high), from Philox: the same on every device. Order of the fields as given.
struct RandomOptions {
  Dtype dtype = f64;
  Device device = cpu;
  double low = -1;
  double high = 1;
  std::uint64_t seed = 1;
  bool requires_grad = false;
};

inline Tensor random_tensor(const Shape& shape, const RandomOptions& options = {}) {
  Tensor host = Tensor::empty(shape, {.dtype = options.dtype});
  visit(options.dtype, [&]<class T>() {
    T* values = host.data<T>();
    for (std::int64_t i = 0; i < host.numel(); ++i) {
      const Philox4 words = philox(options.seed, static_cast<std::uint64_t>(i), 77);
      const double unit = uniform_double(words.word[0], words.word[1]);
      values[i] = static_cast<T>(static_cast<compute_t<T>>(options.low + (options.high - options.low) * unit));
    }
  });
  Tensor result = host.to(options.device);
  return result.set_requires_grad(options.requires_grad);
}

// A leaf that requires a gradient, f64: what gradcheck wants.
inline Tensor random_leaf(const Shape& shape, Device device = cpu, std::uint64_t seed = 1, double low = -1,
                          double high = 1) {
  return random_tensor(shape, {.device = device, .low = low, .high = high, .seed = seed, .requires_grad = true});
}

// |a - b| <= atol + rtol * |b| for every element; NaN equals NaN, an infinity equals itself. `b` is the reference.
inline ::testing::AssertionResult close(const std::vector<double>& a, const std::vector<double>& b, double rtol,
                                        double atol) {
  if (a.size() != b.size())
    return ::testing::AssertionFailure() << a.size() << " elements against " << b.size() << " expected";
  std::size_t failures = 0;
  std::ostringstream text;
  text.precision(10);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool equal = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                       (std::isfinite(b[i]) && std::abs(a[i] - b[i]) <= atol + rtol * std::abs(b[i]));
    if (!equal && ++failures <= 5) text << "\n  element " << i << ": " << a[i] << ", expected " << b[i];
  }
  if (failures == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << failures << " of " << a.size() << " elements differ" << text.str();
}

inline ::testing::AssertionResult close(const Tensor& a, const Tensor& b, double rtol = 1e-6, double atol = 1e-7) {
  if (!(a.shape() == b.shape()))
    return ::testing::AssertionFailure() << "shape " << a.shape() << ", expected " << b.shape();
  return close(a.to_vector(), b.to_vector(), rtol, atol);
}

inline ::testing::AssertionResult close(const Tensor& a, const std::vector<double>& b, double rtol = 1e-6,
                                        double atol = 1e-7) {
  return close(a.to_vector(), b, rtol, atol);
}

// Shape, dtype and every bit of the elements are the same, wherever they are.
inline ::testing::AssertionResult bit_equal(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype())
    return ::testing::AssertionFailure() << a.dtype() << " " << a.shape() << " against " << b.dtype() << " "
                                         << b.shape();
  const Tensor x = a.detach().to(cpu);
  const Tensor y = b.detach().to(cpu);
  const auto* p = static_cast<const unsigned char*>(x.raw());
  const auto* q = static_cast<const unsigned char*>(y.raw());
  const std::int64_t width = size_of(a.dtype());
  for (std::int64_t i = 0; i < a.bytes(); ++i)
    if (p[i] != q[i])
      return ::testing::AssertionFailure()
             << "element " << i / width << " differs: " << x.to_vector()[static_cast<std::size_t>(i / width)]
             << " against " << y.to_vector()[static_cast<std::size_t>(i / width)];
  return ::testing::AssertionSuccess();
}

// Passes if f() throws bevel::Error whose message contains every one of `parts`.
template <class F>
::testing::AssertionResult throws_error(F&& f, const std::vector<std::string>& parts) {
  try {
    f();
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const std::string& part : parts)
      if (text.find(part) == std::string::npos)
        return ::testing::AssertionFailure() << "the message \"" << text << "\" lacks \"" << part << "\"";
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "no bevel::Error was thrown";
}

}  // namespace bevel::testing
