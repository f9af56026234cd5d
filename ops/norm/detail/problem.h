// What the kernels of batch and group normalisation are told, and how they are called.
//
// Both are one scheme. A set is what is normalised together: a channel of the batch, or a group of channels of a
// picture. With a pivot near the set's mean, of the type that is computed in, so that x - pivot is exact,
//   y  = activation(a * (x - pivot) + b)      a = weight / deviation, b = bias + a * (pivot - mean)
//   du = dy * activation'(a * (x - pivot) + b)
//   dx = a * du + slope * (x - pivot) + offset
// where slope and offset come from sums of du and du * (x - pivot) over the set's maps: with u' = (x - mean) /
// deviation and M elements, dx = a * du - sum(a * du) / M - u' * sum(a * du * u') / M. In evaluation of batch
// normalisation both are 0. The sums are also the gradients of weight (of du * u') and bias (of du).
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/activation.h>
#include <bevel/ops/evonorm/detail/problem.h>

namespace bevel::norm {

using evo::Array;

struct Problem {
  evo::Problem maps;  // sizes, dtype, layout, groups, eps, momentum, training
  bool batch = false;
  Activation activation = Activation::none;

  // Whether statistics do not depend on the input.
  bool fixed() const { return batch && !maps.training; }
  std::int64_t sets() const { return batch ? maps.channels : maps.samples * maps.groups; }
  std::int64_t set_channels() const { return batch ? 1 : maps.channels / maps.groups; }
  std::int64_t set_elements() const { return (batch ? maps.samples : 1) * maps.pixels * set_channels(); }
  // Tables of coefficients by channel: one for all samples, or one each.
  std::int64_t tables() const { return batch ? 1 : maps.samples; }
};

// Undefined: weight and bias that are 1 and 0, running statistics that are not kept.
struct ForwardArguments {
  Tensor x, weight, bias, running_mean, running_var, y;
};

// Gradients that are not wanted are undefined.
struct BackwardArguments {
  Tensor x, statistics, dy, dx, dweight, dbias;
};

// Returns the statistics that backward needs, in a form known to the backend alone.
Tensor forward(Cpu backend, const Problem& problem, const ForwardArguments& arguments);
Tensor forward(Cuda backend, const Problem& problem, const ForwardArguments& arguments);
void backward(Cpu backend, const Problem& problem, const BackwardArguments& arguments);
void backward(Cuda backend, const Problem& problem, const BackwardArguments& arguments);

inline Array array(const Tensor& tensor) {
  return tensor.defined() ? Array(tensor.raw()) : Array();
}

}  // namespace bevel::norm
