// Initial values of weights. All draw from a Generator on the host, so a seed gives the same weights on every device.
//
// A weight of shape [out, ...] maps numel / out inputs to each output: for Linear [out, in], for Conv2d one filter. Its
// fans are those of Glorot and Bengio ("Understanding the difficulty of training deep feedforward neural networks",
// AISTATS 2010) and He et al. ("Delving deep into rectifiers", ICCV 2015):
//   fan_in  = inputs of one output  = in * kernel area
//   fan_out = outputs of one input  = out * kernel area
#pragma once

#include <bevel/core/random.h>
#include <bevel/core/tensor.h>

#include <cstdint>

namespace bevel::nn {

enum class Nonlinearity { linear, relu, leaky_relu, tanh, sigmoid };
enum class Fan { in, out };

// The factor that keeps the variance through a nonlinearity: sqrt(2) for relu, sqrt(2 / (1 + slope^2)) for leaky_relu,
// 5/3 for tanh, 1 for linear and sigmoid. `slope` counts for leaky_relu only.
double gain(Nonlinearity nonlinearity, double slope = 0.01);

// Order of the fields: fan, nonlinearity, slope, kernel_area.
struct KaimingOptions {
  Fan fan = Fan::in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
  double slope = 0;              // of leaky_relu; 0 makes it relu
  std::int64_t kernel_area = 1;  // kernel height * width of a convolution; counts for fan_out only
};

// Each of these overwrites the elements of `weight` (floating, any device), without recording.
void uniform(const Tensor& weight, double low, double high, Generator& generator = default_generator());
void normal(const Tensor& weight, double mean, double deviation, Generator& generator = default_generator());
void constant(const Tensor& weight, double value);

// Uniform in ±gain·sqrt(3 / fan), or normal with deviation gain / sqrt(fan).
void kaiming_uniform(const Tensor& weight, KaimingOptions options = {}, Generator& generator = default_generator());
void kaiming_normal(const Tensor& weight, KaimingOptions options = {}, Generator& generator = default_generator());

// Order of the fields: gain, kernel_area.
struct XavierOptions {
  double gain = 1;
  std::int64_t kernel_area = 1;
};

// Uniform in ±gain·sqrt(6 / (fan_in + fan_out)), or normal with deviation gain·sqrt(2 / (fan_in + fan_out)).
void xavier_uniform(const Tensor& weight, XavierOptions options = {}, Generator& generator = default_generator());
void xavier_normal(const Tensor& weight, XavierOptions options = {}, Generator& generator = default_generator());

// What Linear and Conv2d start with, as usual in the field: weights uniform in ±1/sqrt(fan_in) (which is
// kaiming_uniform with leaky_relu of slope sqrt(5)), and so the bias, which may be undefined.
void default_init(const Tensor& weight, const Tensor& bias, Generator& generator = default_generator());

}  // namespace bevel::nn
