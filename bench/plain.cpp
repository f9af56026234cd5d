#include "bench/plain.h"

#include <bevel/core/parallel.h>
#include <bevel/ops/kernel/isa.h>

#include <benchmark/benchmark.h>

#include <algorithm>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace bevel::bench {

namespace {

using Word = std::uint64_t;
constexpr std::int64_t tile_words = std::int64_t{1} << 16;

template <int Reads>
[[gnu::always_inline]] inline Word read_words(const std::array<const Word*, most_reads>& in, std::int64_t begin,
                                              std::int64_t end) {
  Word all = 0;
  for (std::int64_t i = begin; i < end; ++i)
    for (int r = 0; r < Reads; ++r) all ^= in[static_cast<std::size_t>(r)][i];
  return all;
}

template <int Reads>
[[gnu::always_inline]] inline void write_words(const std::array<const Word*, most_reads>& in, Word* __restrict out,
                                               std::int64_t begin, std::int64_t end) {
  const Word* __restrict a = in[0];
  const Word* __restrict b = in[Reads > 1 ? 1 : 0];
  const Word* __restrict c = in[Reads > 2 ? 2 : 0];
  for (std::int64_t i = begin; i < end; ++i) {
    Word value = a[i];
    if constexpr (Reads > 1) value ^= b[i];
    if constexpr (Reads > 2) value ^= c[i];
    out[i] = value;
  }
}

// Stores past the cache: the line written is not read first.
template <int Reads>
void stream_words(const std::array<const Word*, most_reads>& in, Word* out, std::int64_t begin, std::int64_t end) {
#if defined(__SSE2__)
  const auto load = [&](int r, std::int64_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(in[static_cast<std::size_t>(r)] + i));
  };
  std::int64_t i = begin;
  for (; i + 2 <= end; i += 2) {
    __m128i value = load(0, i);
    if constexpr (Reads > 1) value = _mm_xor_si128(value, load(1, i));
    if constexpr (Reads > 2) value = _mm_xor_si128(value, load(2, i));
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + i), value);
  }
  write_words<Reads>(in, out, i, end);
  _mm_sfence();
#else
  write_words<Reads>(in, out, begin, end);
#endif
}

template <int Reads>
void run_tile(const std::array<const Word*, most_reads>& in, Word* out, bool streaming, std::int64_t begin,
              std::int64_t end) {
  if (!out) {
    Word all = 0;
    for_best_isa([&]() __attribute__((always_inline)) { all = read_words<Reads>(in, begin, end); });
    benchmark::DoNotOptimize(all);
  } else if (streaming) {
    stream_words<Reads>(in, out, begin, end);
  } else {
    for_best_isa([&]() __attribute__((always_inline)) { write_words<Reads>(in, out, begin, end); });
  }
}

}  // namespace

int plain_ways(Cpu) {
  return 2;
}

void run_plain(Cpu, const PlainPass& pass, int way) {
  std::array<const Word*, most_reads> in{};
  for (std::size_t r = 0; r < most_reads; ++r) in[r] = static_cast<const Word*>(pass.reads[r]);
  Word* const out = static_cast<Word*>(pass.write);
  const bool streaming = way == 1;
  parallel_ranges(pass.bytes / static_cast<std::int64_t>(sizeof(Word)), tile_words,
                  [&](std::int64_t begin, std::int64_t end) {
                    if (pass.read_count == 1) run_tile<1>(in, out, streaming, begin, end);
                    if (pass.read_count == 2) run_tile<2>(in, out, streaming, begin, end);
                    if (pass.read_count == 3) run_tile<3>(in, out, streaming, begin, end);
                  });
}

double Ceiling::measure(Traffic traffic, std::int64_t tensor_bytes) {
  const std::int64_t bytes = std::max<std::int64_t>(16, tensor_bytes / 16 * 16);
  const std::int64_t sets = rotation_.sets(traffic.tensors() * bytes);
  const std::int64_t words = bytes / 4;
  std::vector<Tensor> buffers;
  std::vector<PlainPass> passes;
  for (std::int64_t set = 0; set < sets; ++set) {
    PlainPass pass{.read_count = traffic.reads, .bytes = bytes};
    for (int r = 0; r < traffic.reads; ++r) {
      buffers.push_back(random({words}, f32, device_, static_cast<std::uint64_t>(set * most_reads + r)));
      pass.reads[static_cast<std::size_t>(r)] = buffers.back().raw();
    }
    if (traffic.writes > 0) {
      buffers.push_back(Tensor::empty({words}, {.device = device_}));
      pass.write = buffers.back().raw();
    }
    passes.push_back(pass);
  }
  return on(device_, [&](auto backend) {
    double best = 0;
    for (int way = 0; way < plain_ways(backend); ++way) {
      const Calls calls = [&](std::int64_t i) { run_plain(backend, passes[static_cast<std::size_t>(i % sets)], way); };
      const double time = time_bare(backend, calls, sets, min_time_);
      if (best == 0 || time < best) best = time;
    }
    return best;
  });
}

double Ceiling::seconds(Traffic traffic, std::int64_t tensor_bytes) {
  require(traffic.reads >= 1 && traffic.reads <= most_reads && traffic.writes <= 1, "Ceiling: no plain pass reads ",
          traffic.reads, " and writes ", traffic.writes, " tensors");
  double& known = known_[{traffic.reads, traffic.writes, tensor_bytes}];
  if (known == 0) known = measure(traffic, tensor_bytes);
  return known;
}

double Ceiling::seconds(const std::vector<Traffic>& floor, std::int64_t tensor_bytes) {
  double sum = 0;
  for (const Traffic& traffic : floor) sum += seconds(traffic, tensor_bytes);
  return sum;
}

}  // namespace bevel::bench
