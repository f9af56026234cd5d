#include <bevel/ops/pointwise/random.h>

#include <bevel/ops/pointwise/detail/random_kernels.h>

#include <numeric>
#include <vector>

namespace bevel {

namespace {

RandomState reserve(Generator& generator, std::int64_t elements, int elements_per_counter) {
  return generator.reserve(static_cast<std::uint64_t>((elements + elements_per_counter - 1) / elements_per_counter));
}

int elements_per_counter(Dtype dtype) {
  return dtype == f64 || dtype == i64 ? 2 : 4;
}

Tensor make(const char* name, const Shape& shape, TensorOptions options) {
  require(is_floating(options.dtype), name, ": a floating dtype expected; got ", options.dtype);
  return Tensor::empty(shape, options);
}

}  // namespace

Tensor rand(const Shape& shape, TensorOptions options, Generator& generator) {
  Tensor out = make("rand", shape, options);
  const RandomState state = reserve(generator, out.numel(), elements_per_counter(options.dtype));
  on(options.device, [&](auto backend) { pointwise::rand_kernel(backend, state, out); });
  return out;
}

Tensor randn(const Shape& shape, TensorOptions options, Generator& generator) {
  Tensor out = make("randn", shape, options);
  const RandomState state = reserve(generator, out.numel(), elements_per_counter(options.dtype));
  on(options.device, [&](auto backend) { pointwise::randn_kernel(backend, state, out); });
  return out;
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, TensorOptions options, Generator& generator) {
  require(low < high, "randint: low must be below high; low is ", low, ", high is ", high);
  options.dtype = i64;
  Tensor out = Tensor::empty(shape, options);
  const RandomState state = reserve(generator, out.numel(), elements_per_counter(i64));
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  on(options.device, [&](auto backend) { pointwise::randint_kernel(backend, state, low, range, out); });
  return out;
}

Tensor bernoulli(double p, const Shape& shape, TensorOptions options, Generator& generator) {
  require(p >= 0 && p <= 1, "bernoulli: the probability must lie in [0, 1]; got ", p);
  require(is_floating(options.dtype) || options.dtype == boolean, "bernoulli: a floating dtype or bool expected; got ",
          options.dtype);
  Tensor out = Tensor::empty(shape, options);
  const RandomState state = reserve(generator, out.numel(), 4);
  on(options.device,
     [&](auto backend) { pointwise::bernoulli_kernel(backend, state, pointwise::threshold_of(p), out); });
  return out;
}

Tensor randperm(std::int64_t n, Device device, Generator& generator) {
  require(n >= 0, "randperm: n must not be negative; got ", n);
  detail::refuse_while_recording("randperm");  // it is made on the host
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const RandomState state = reserve(generator, n, 2);
  for (std::int64_t i = n - 1; i > 0; --i) {  // Fisher and Yates: element i changes places with one not after it
    const Philox4 p = pointwise::words_of_block(state, i / 2);
    const pointwise::Integers below{state, 0, static_cast<std::uint64_t>(i) + 1};
    const int first = static_cast<int>(i % 2) * 2;
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(below.number(p.word[first], p.word[first + 1]))]);
  }
  return Tensor::from_values({n}, order).to(device);
}

}  // namespace bevel
