#include "bench/case.h"

#include <bevel/core/philox.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace bevel::bench {

std::string Case::name() const {
  std::string result = op + "/" + shape + "/" + bevel::name(dtype);
  for (const std::string* part : {&detail, &pass, &variant})
    if (!part->empty()) result += "/" + *part;
  std::replace(result.begin(), result.end(), ' ', '_');
  return result;
}

std::int64_t Case::bytes() const {
  std::int64_t tensors = 0;
  for (const Traffic& traffic : floor) tensors += traffic.tensors();
  return tensors * tensor_bytes;
}

namespace {
std::int64_t parse_size(std::string part, const std::string& text) {
  const bool is_power = part.rfind("2^", 0) == 0;
  if (is_power) part = part.substr(2);
  const bool is_number = !part.empty() && part.size() < 13 && part.find_first_not_of("0123456789") == std::string::npos;
  require(is_number, "shape: expected something like 2^28, 2^24x4 or 32x64x56x56; got '", text, "'");
  const std::int64_t number = std::stoll(part);
  require(!is_power || number <= 40, "shape: 2^40 is the limit; got '", text, "'");
  return is_power ? std::int64_t{1} << number : number;
}
}  // namespace

NamedShape parse_shape(const std::string& text) {
  std::vector<std::int64_t> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    sizes.push_back(parse_size(text.substr(begin, end - begin), text));
    begin = end + 1;
  }
  return {text, Shape(std::span<const std::int64_t>(sizes))};
}

namespace {
constexpr std::int64_t pool_size = std::int64_t{1} << 17;

template <class T>
void fill_pool(T* values, Range range) {
  for (std::int64_t i = 0; i < pool_size; ++i) {
    const Philox4 words = philox(2026, static_cast<std::uint64_t>(i), 0);
    double value = range.low + (range.high - range.low) * uniform_double(words.word[0], words.word[1]);
    if (range.boxes && i % 4 >= 2) value += range.high - range.low;
    values[i] = static_cast<T>(static_cast<compute_t<T>>(value));
  }
}

// The numbers that every random tensor is made of.
const Tensor& random_pool(Dtype dtype, Range range) {
  static auto& pools = *new std::map<std::tuple<Dtype, double, double, bool>, Tensor>;
  Tensor& pool = pools[{dtype, range.low, range.high, range.boxes}];
  if (pool.defined()) return pool;
  pool = Tensor::empty({pool_size}, {.dtype = dtype});
  visit_floating(dtype, "random", [&]<class T>() { fill_pool(pool.data<T>(), range); });
  return pool;
}
}  // namespace

Tensor random(const Shape& shape, Dtype dtype, Device device, std::uint64_t seed, Range range) {
  const Tensor& pool = random_pool(dtype, range);
  const Tensor result = Tensor::empty(shape, {.dtype = dtype, .device = device});
  const std::int64_t count = result.numel();
  // Each tensor starts elsewhere in the pool. The period is a whole number of boxes, and no power of two, which would
  // make channels alike.
  const auto begin = static_cast<std::int64_t>((seed * 7919 + 13) % (pool_size / 8)) * 4;
  std::int64_t filled = std::min(count, pool_size / 2 - 4);
  if (count > 0) result.view({filled}).copy_from(pool.view({filled}, begin));
  while (filled < count) {
    const std::int64_t next = std::min(filled, count - filled);
    result.view({next}, filled).copy_from(result.view({next}));
    filled += next;
  }
  return result;
}

}  // namespace bevel::bench
