// Passes on the CPU. A chunk of the elements is the unit of threads and of partial sums; it is worked through in tiles
// that stay in the first-level cache, where a formula's own loops read and write plain arrays.
#include <bevel/core/parallel.h>
#include <bevel/ops/kernel/isa.h>
#include <bevel/ops/loss/detail/loss_kernels.h>
#include <bevel/ops/loss/raw.h>

#include <algorithm>
#include <cstring>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace bevel::detail {

namespace {

// In numbers, of which a row has four.
constexpr std::int64_t chunk_size = 32768;
constexpr std::int64_t tile_size = 512;

// How far ahead inputs are asked for: the processor's own prefetching stops between the loops over a tile.
constexpr std::int64_t prefetch_bytes = 4096;

// Gradients of so many bytes are written past the caches.
constexpr std::int64_t streamed_bytes = std::int64_t{1} << 24;

template <class T>
const T* at(const void* data, std::int64_t i) {
  return static_cast<const T*>(data) + i;
}
template <class T>
T* at(void* data, std::int64_t i) {
  return static_cast<T*>(data) + i;
}

double number(DeviceNumber n) {
  return n.is_f64 ? *static_cast<const double*>(n.data) : *static_cast<const float*>(n.data);
}

// The pass with its scale and normaliser folded into `factor`.
LossPass resolved(LossPass pass) {
  if (pass.scale.data) pass.factor *= number(pass.scale);
  if (pass.normalizer.data) {
    const double normalizer = number(pass.normalizer);
    pass.is_zero = pass.is_zero || normalizer == 0;
    pass.factor = pass.is_zero ? 0 : pass.factor / normalizer;
  }
  pass.scale = pass.normalizer = {};
  return pass;
}

template <class To, class From>
void convert(const From* from, To* to, std::int64_t count) {
  for_best_isa([&]() __attribute__((always_inline)) {
    const From* __restrict in = from;
    To* __restrict out = to;
    const std::int64_t n = count;
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<To>(in[i]);
  });
}

// Copies past the caches: the memory need not be read before it is written, which saves a quarter of the traffic of a
// fused pass. For results so large that the caches would not keep them anyway.
void stream_bytes(const void* from, void* to, std::size_t bytes) {
#if defined(__SSE2__)
  const auto* in = static_cast<const char*>(from);
  auto* out = static_cast<char*>(to);
  const std::size_t head = std::min(bytes, (64 - reinterpret_cast<std::uintptr_t>(to) % 64) % 64);
  std::memcpy(out, in, head);
  std::size_t i = head;
  for (; i + 64 <= bytes; i += 64)
    for (std::size_t k = 0; k < 64; k += 16)
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + i + k),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i + k)));
  std::memcpy(out + i, in + i, bytes - i);
#else
  std::memcpy(to, from, bytes);
#endif
}

// Makes streamed stores visible to other threads.
void finish_streaming() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// Running sums in f64. So many of them, whatever the instruction set, that all give the same bits.
constexpr int sum_lanes = 16;

// Adds sums of two neighbours to them.
template <class C>
void add_up(const C* values, std::int64_t count, double (&sums)[sum_lanes]) {
  for_best_isa([&]() __attribute__((always_inline)) {
    double own[sum_lanes];
    std::copy_n(sums, sum_lanes, own);
    std::int64_t i = 0;
    for (; i + 2 * sum_lanes <= count; i += 2 * sum_lanes)
      for (int lane = 0; lane < sum_lanes; ++lane)
        own[lane] += static_cast<double>(values[i + lane] + values[i + sum_lanes + lane]);
    for (int lane = 0; i + lane < count; ++lane) own[lane % sum_lanes] += static_cast<double>(values[i + lane]);
    std::copy_n(own, sum_lanes, sums);
  });
}

// values[i] = w values[i], and 0 where the weight is 0.
template <class C>
void weigh(C* values, const C* weights, std::int64_t count) {
  for_best_isa([&]() __attribute__((always_inline)) {
    C* __restrict v = values;
    const C* __restrict w = weights;
    const std::int64_t n = count;
    for (std::int64_t i = 0; i < n; ++i) {
      const C product = w[i] * v[i];
      v[i] = w[i] == 0 ? C(0) : product;
    }
  });
}

template <class C>
void multiply(C* values, C factor, std::int64_t count) {
  for_best_isa([&]() __attribute__((always_inline)) {
    C* __restrict v = values;
    const C f = factor;
    const std::int64_t n = count;
    for (std::int64_t i = 0; i < n; ++i) v[i] *= f;
  });
}

template <class C>
void multiply(C* values, const C* factors, std::int64_t count) {
  for_best_isa([&]() __attribute__((always_inline)) {
    C* __restrict v = values;
    const C* __restrict f = factors;
    const std::int64_t n = count;
    for (std::int64_t i = 0; i < n; ++i) v[i] *= f[i];
  });
}

// One thread's scratch for a tile of elements of T.
template <class T>
class TileWork {
  using C = compute_t<T>;

 public:
  TileWork(const LossKernels& kernels, const LossPass& pass)
      : kernels_(kernels),
        pass_(pass),
        width_(kernels.width()),
        streams_(pass.count * width_ * static_cast<std::int64_t>(sizeof(T)) >= streamed_bytes) {}
  ~TileWork() {
    if (streams_) finish_streaming();
  }
  TileWork(const TileWork&) = delete;
  TileWork& operator=(const TileWork&) = delete;

  // Works on the elements [begin, begin + count), count · width <= tile_size.
  void run(std::int64_t begin, std::int64_t count) {
    begin_ = begin;
    count_ = count;
    LossTile<C> tile{.count = count,
                     .input = load(pass_.input, input_),
                     .target = load(pass_.target, target_),
                     .value = value_,
                     .d_input = nullptr,
                     .d_target = nullptr,
                     .seed = 1};
    if (std::is_same_v<T, C>) tile.ahead = prefetch_bytes / static_cast<std::int64_t>(sizeof(T));
    const bool is_error = kernels_.of_error();
    if (pass_.is_second) {
      tile.direction_input = load(pass_.direction_input, direction_input_);
      tile.direction_target = load(pass_.direction_target, direction_target_);
    }
    if (pass_.is_second || pass_.d_input || (is_error && pass_.d_target)) tile.d_input = d_input_;
    if (pass_.is_second || (!is_error && pass_.d_target)) {
      tile.d_target = d_target_;
      if (!tile.d_input) tile.d_input = d_input_;
    }
    if (stores_at_once()) {
      tile.seed = static_cast<C>(pass_.factor);
      if (!streams_) tile.d_input = reinterpret_cast<C*>(at<T>(pass_.d_input, begin * width_));
    }
    kernels_.evaluate(tile);
    if (stores_at_once() && streams_) write(d_input_, pass_.d_input);
    finish(is_error);
  }

  // Of the values of all tiles so far.
  double sum() const {
    double result = 0;
    for (const double of_lane : sums_) result += of_lane;
    return result;
  }

 private:
  // The usual case: the formula's loop itself computes the final gradient.
  bool stores_at_once() const {
    return std::is_same_v<T, C> && pass_.d_input && !pass_.d_target && !pass_.is_second && !pass_.weight &&
           !pass_.upstream && !pass_.is_zero;
  }

  void finish(bool is_error) {
    if (is_error && pass_.d_target && !pass_.is_second)
      for (std::int64_t i = 0; i < count_; ++i) d_target_[i] = -d_input_[i];
    if (pass_.weight) load_weights();
    if (pass_.value) finish_values();
    if (stores_at_once()) return;
    if (pass_.upstream) load_upstream();
    if (pass_.weight) spread(weight_);
    if (pass_.upstream) spread(upstream_);
    if (pass_.d_input) store_gradient(d_input_, pass_.d_input);
    if (pass_.d_target) store_gradient(d_target_, pass_.d_target);
  }

  void finish_values() {
    if (pass_.weight) weigh(value_, weight_, count_);
    if (pass_.is_zero) std::fill_n(value_, count_, C(0));
    if (!pass_.value_each) return add_up(value_, count_, sums_);
    multiply(value_, static_cast<C>(pass_.factor), count_);
    convert(value_, at<T>(pass_.value, begin_), count_);
  }

  void store_gradient(C* gradient, void* to) {
    const std::int64_t numbers = count_ * width_;
    if (pass_.weight) weigh(gradient, weight_, numbers);
    multiply(gradient, static_cast<C>(pass_.factor), numbers);
    if (pass_.upstream) multiply(gradient, upstream_, numbers);
    if (pass_.is_zero) std::fill_n(gradient, numbers, C(0));
    write(gradient, to);
  }

  // The tile's numbers of a gradient.
  void write(const C* values, void* to) const {
    const std::int64_t numbers = count_ * width_;
    T* const out = at<T>(to, begin_ * width_);
    if (std::is_same_v<T, C> && streams_)
      stream_bytes(values, out, static_cast<std::size_t>(numbers) * sizeof(T));
    else
      convert(values, out, numbers);
  }

  // From one value a row to one a number.
  void spread(C* values) const {
    if (width_ == 1) return;
    for (std::int64_t i = count_ * width_; i-- > 0;) values[i] = values[i / width_];
  }

  // A prefetch never faults, so it may run past the end, where pointers must not go: hence addresses as numbers.
  void prefetch(const void* from) const {
    const auto first =
        reinterpret_cast<std::uintptr_t>(from) + static_cast<std::uintptr_t>(begin_ * width_) * sizeof(T);
    const std::uintptr_t bytes = static_cast<std::uintptr_t>(count_ * width_) * sizeof(T);
    for (std::uintptr_t byte = 0; byte < bytes; byte += 64)
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      __builtin_prefetch(reinterpret_cast<const void*>(first + prefetch_bytes + byte));
  }

  // `width` numbers an element.
  const C* load(const void* from, C* scratch) {
    const std::int64_t numbers = count_ * width_;
    if (!from) {
      std::fill_n(scratch, numbers, C(0));
      return scratch;
    }
    if constexpr (std::is_same_v<T, C>) return at<T>(from, begin_ * width_);
    prefetch(from);
    convert(at<T>(from, begin_ * width_), scratch, numbers);
    return scratch;
  }

  void load_weights() {
    for (std::int64_t i = 0; i < count_; ++i)
      weight_[i] = static_cast<C>(*at<T>(pass_.weight, (begin_ + i) / pass_.weight_row));
  }

  void load_upstream() {
    if (pass_.upstream_each)
      convert(at<T>(pass_.upstream, begin_), upstream_, count_);
    else
      std::fill_n(upstream_, count_,
                  pass_.reduced_is_half ? static_cast<C>(*at<T>(pass_.upstream, 0)) : *at<C>(pass_.upstream, 0));
  }

  const LossKernels& kernels_;
  const LossPass& pass_;
  const std::int64_t width_;
  const bool streams_;
  std::int64_t begin_ = 0;
  std::int64_t count_ = 0;
  double sums_[sum_lanes] = {};
  alignas(64) C input_[tile_size];
  alignas(64) C target_[tile_size];
  alignas(64) C direction_input_[tile_size];
  alignas(64) C direction_target_[tile_size];
  alignas(64) C value_[tile_size];
  alignas(64) C d_input_[tile_size];
  alignas(64) C d_target_[tile_size];
  alignas(64) C weight_[tile_size];
  alignas(64) C upstream_[tile_size];
};

template <class T>
void run_typed(const LossKernels& kernels, const LossPass& pass) {
  const std::int64_t chunk = chunk_size / kernels.width();
  const std::int64_t tile = tile_size / kernels.width();
  std::vector<double> sums(static_cast<std::size_t>((pass.count + chunk - 1) / chunk));
  parallel_ranges(pass.count, chunk, [&](std::int64_t begin, std::int64_t end) {
    TileWork<T> work(kernels, pass);
    for (std::int64_t i = begin; i < end; i += tile) work.run(i, std::min(tile, end - i));
    sums[static_cast<std::size_t>(begin / chunk)] = work.sum();
  });
  if (!pass.value || pass.value_each) return;
  double total = 0;
  for (const double sum : sums) total += sum;
  using C = compute_t<T>;
  const C value = pass.is_zero ? C(0) : static_cast<C>(total * pass.factor);
  if (pass.reduced_is_half)
    *at<T>(pass.value, 0) = static_cast<T>(value);
  else
    *at<C>(pass.value, 0) = value;
}

}  // namespace

void run_pass(Cpu, const LossKernels& kernels, const LossPass& pass) {
  visit_floating(pass.dtype, "loss", [&]<class T>() { run_typed<T>(kernels, resolved(pass)); });
}

}  // namespace bevel::detail

namespace bevel::raw {

void scale_gradient(Cpu, const raw::GradientScale& scale) {
  visit_floating(scale.dtype, "loss", [&]<class T>() {
    using C = compute_t<T>;
    const C f = scale.factor_is_half ? static_cast<C>(*static_cast<const T*>(scale.factor))
                                     : *static_cast<const C*>(scale.factor);
    const T* in = static_cast<const T*>(scale.from);
    T* out = static_cast<T*>(scale.to);
    if (f == 1 && in == out) return;
    parallel_ranges(scale.count, 32768, [&](std::int64_t begin, std::int64_t end) {
      for_best_isa([&]() __attribute__((always_inline)) {
        for (std::int64_t i = begin; i < end; ++i) out[i] = static_cast<T>(static_cast<C>(in[i]) * f);
      });
    });
  });
}

}  // namespace bevel::raw
