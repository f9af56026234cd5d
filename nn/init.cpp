#include <bevel/core/autograd.h>
#include <bevel/core/philox.h>
#include <bevel/nn/init.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace bevel::nn {

namespace {

// Overwrites `weight` by next(), called once an element in row-major order.
template <class F>
void fill(const char* function, const Tensor& weight, F&& next) {
  visit_floating(weight.dtype(), function, [&]<class T>() {
    std::vector<T> values(static_cast<std::size_t>(weight.numel()));
    for (T& value : values) value = static_cast<T>(static_cast<compute_t<T>>(next()));
    const NoGrad guard;
    weight.copy_from(Tensor::from_values(weight.shape(), values));
  });
}

// Pairs of uniform doubles in [0, 1), one counter a pair.
class Uniforms {
 public:
  Uniforms(Generator& generator, std::int64_t pairs)
      : state_(generator.reserve(static_cast<std::uint64_t>(pairs))), next_(state_.offset) {}

  std::pair<double, double> pair() {
    const Philox4 words = philox(state_.seed, next_++);
    return {uniform_double(words.word[0], words.word[1]), uniform_double(words.word[2], words.word[3])};
  }

 private:
  RandomState state_;
  std::uint64_t next_;
};

struct Fans {
  double in;
  double out;
};

Fans fans(const char* function, const Tensor& weight, std::int64_t kernel_area) {
  require(weight.rank() >= 2 && weight.numel() > 0, function,
          ": a weight of at least two axes is needed; its shape is ", weight.shape());
  require(kernel_area >= 1, function, ": kernel_area must be at least 1; got ", kernel_area);
  const std::int64_t in = weight.numel() / weight.size(0);
  return {static_cast<double>(in), static_cast<double>(weight.size(0) * kernel_area)};
}

double kaiming_deviation(const char* function, const Tensor& weight, const KaimingOptions& options) {
  const auto [in, out] = fans(function, weight, options.kernel_area);
  return gain(options.nonlinearity, options.slope) / std::sqrt(options.fan == Fan::in ? in : out);
}

double xavier_deviation(const char* function, const Tensor& weight, const XavierOptions& options) {
  const auto [in, out] = fans(function, weight, options.kernel_area);
  return options.gain * std::sqrt(2 / (in + out));
}

}  // namespace

double gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::relu:
      return std::numbers::sqrt2;
    case Nonlinearity::leaky_relu:
      return std::sqrt(2 / (1 + slope * slope));
    case Nonlinearity::tanh:
      return 5.0 / 3.0;
    default:
      return 1;
  }
}

void uniform(const Tensor& weight, double low, double high, Generator& generator) {
  Uniforms uniforms(generator, weight.numel());
  fill("uniform", weight, [&] { return low + (high - low) * uniforms.pair().first; });
}

void normal(const Tensor& weight, double mean, double deviation, Generator& generator) {
  Uniforms uniforms(generator, weight.numel());
  fill("normal", weight, [&] {  // Box-Muller; 1 - u lies in (0, 1], where the logarithm is finite
    const auto [u, angle] = uniforms.pair();
    return mean + deviation * std::sqrt(-2 * std::log(1 - u)) * std::cos(2 * std::numbers::pi * angle);
  });
}

void constant(const Tensor& weight, double value) {
  fill("constant", weight, [&] { return value; });
}

void kaiming_uniform(const Tensor& weight, KaimingOptions options, Generator& generator) {
  const double bound = std::sqrt(3.0) * kaiming_deviation("kaiming_uniform", weight, options);
  uniform(weight, -bound, bound, generator);
}

void kaiming_normal(const Tensor& weight, KaimingOptions options, Generator& generator) {
  normal(weight, 0, kaiming_deviation("kaiming_normal", weight, options), generator);
}

void xavier_uniform(const Tensor& weight, XavierOptions options, Generator& generator) {
  const double bound = std::sqrt(3.0) * xavier_deviation("xavier_uniform", weight, options);
  uniform(weight, -bound, bound, generator);
}

void xavier_normal(const Tensor& weight, XavierOptions options, Generator& generator) {
  normal(weight, 0, xavier_deviation("xavier_normal", weight, options), generator);
}

void default_init(const Tensor& weight, const Tensor& bias, Generator& generator) {
  const double bound = 1 / std::sqrt(fans("default_init", weight, 1).in);
  uniform(weight, -bound, bound, generator);
  if (bias.defined()) uniform(bias, -bound, bound, generator);
}

}  // namespace bevel::nn
