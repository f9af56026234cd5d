// The kernels of a formula on CUDA.
//
// A block works on a tile: `loss_threads` threads, a few packs of 16 bytes each, all of which are read before the first
// is computed. Blocks for tiles side by side use the memory better than a fixed grid that strides over it, whose blocks
// drift apart. Values to be summed are added up within a pack in the compute type and beyond it in f64, in an order
// fixed by the size alone: thread, block, blocks by index (workspace.cuh).
#pragma once

#include <bevel/ops/raw.h>
#include <bevel/core/cuda/launch.cuh>
#include <bevel/ops/loss/detail/packs.cuh>
#include <bevel/ops/loss/detail/workspace.cuh>

#include <algorithm>
#include <cstdint>

namespace bevel::detail {

inline constexpr int loss_in_flight = 4;  // packs that a thread reads at once
// Blocks that a multiprocessor shall hold: the registers of a thread follow from it.
template <class F>
inline constexpr int loss_blocks_per_multiprocessor = HeavyFormula<F> ? 4 : 3;

// How `items` (packs, or rows) are cut into tiles of `loss_threads` times `rounds`, one for each block.
struct LossTiles {
  unsigned blocks;
  unsigned rounds;  // items of a thread

  explicit LossTiles(std::int64_t items) {
    constexpr std::int64_t few = 1 << 17;  // up to here all blocks run at once, so the more the better
    constexpr std::int64_t most = std::int64_t{LossWorkspace::max_blocks} * loss_threads * loss_in_flight;
    rounds = items <= few ? 1u : static_cast<unsigned>((items + most - 1) / most) * loss_in_flight;
    const std::int64_t tile = std::int64_t{loss_threads} * rounds;
    blocks = static_cast<unsigned>(std::max<std::int64_t>(1, (items + tile - 1) / tile));
  }
};

// Brings the first bytes of a block's tile into the second-level cache while the kernel before this one still runs.
// That touches no memory as the program sees it, so it may precede begin_kernel: what is changed meanwhile changes
// there, too.
__device__ __forceinline__ void prefetch_tile(const void* input, const void* target, std::int64_t offset,
                                              std::int64_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr unsigned first_blocks = 512;  // those that may be waiting
  if (threadIdx.x != 0 || blockIdx.x >= first_blocks || bytes < 16) return;
  const auto prefetch = [&](const void* data) {
    const std::uintptr_t address =
        (reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(offset)) & ~std::uintptr_t{15};
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(static_cast<unsigned>(bytes) & ~15u));
  };
  prefetch(input);
  prefetch(target);
#endif
}

// Adds up `sum` over the grid and writes factor times the total to the pass's value.
template <class C>
__device__ __forceinline__ void reduce_loss(double sum, const LossWorkspace& workspace, const LossUniform<C>& uniform,
                                            const LossPass& pass) {
  grid_sum(sum, workspace, [&](double total) {
    reduced_elements<C>(pass).store(pass.value, 0, uniform.is_zero ? C(0) : static_cast<C>(total * uniform.factor));
  });
}

// The elements of one pack: formula, weights, value, gradients. What is the same for all elements of a pass is asked by
// branches that all threads take alike. The usual passes are plain ones, for which several packs are read at once; all
// others go pack by pack.
template <class F, class T, bool Value, bool Gradient>
struct LossBody {
  using C = compute_t<T>;

  const F& formula;
  const LossPass& pass;
  const LossUniform<C>& uniform;
  double sum = 0;

  // Whether there are only values without gradients, or the input's gradient alone, or that and a sum; and no weights.
  __device__ __forceinline__ bool is_plain() const {
    const bool is_either = !Value || !Gradient || !(pass.value_each || pass.upstream_each);
    return is_either && !pass.weight && !uniform.is_zero && !pass.d_target && (!Gradient || pass.d_input);
  }

  // `batch` packs of a plain pass, loss_threads apart, all of which are read before the first is computed.
  template <int batch>
  __device__ __forceinline__ void run_plain(std::int64_t index) {
    constexpr int width = loss_width<T>;
    LossPack<T> input[batch];
    LossPack<T> target[batch];
    LossPack<T> upstream[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const std::int64_t p = index + b * loss_threads;
      input[b] = load_pack<T>(pass.input, p);
      target[b] = load_pack<T>(pass.target, p);
      if constexpr (!Value)
        if (pass.upstream_each) upstream[b] = load_pack<T>(pass.upstream, p);
    }
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const std::int64_t p = index + b * loss_threads;
      Number<C> value[width];
      Number<C> d_input[width];
      evaluate(input[b], target[b], value, d_input);
      if constexpr (Value && Gradient) add_up(value);
      if constexpr (Value && !Gradient) store_value(p, value);
      if constexpr (Gradient && Value) store_gradient(p, d_input, pass.d_input);
      if constexpr (Gradient && !Value) store_gradient(p, d_input, upstream[b], pass.d_input);
    }
  }

  // One pack of any pass.
  template <int width>
  __device__ __forceinline__ void run(std::int64_t index) {
    const auto input = load_pack<T, width>(pass.input, index);
    const auto target = load_pack<T, width>(pass.target, index);
    LossPack<T, width> upstream;
    if constexpr (Gradient)
      if (pass.upstream_each) upstream = load_pack<T, width>(pass.upstream, index);
    Number<C> value[width];
    Number<C> d_input[width];
    evaluate(input, target, value, d_input);
    if constexpr (Value) {
      adjust(index, value);
      store_value(index, value);
    }
    if constexpr (Gradient) {
      if (pass.d_target) {
        Number<C> d_target[width];
        for (int k = 0; k < width; ++k) {
          if constexpr (ErrorFormula<F>)
            d_target[k] = -d_input[k];
          else
            d_target[k] =
                loss_d_target(formula, Number<C>(static_cast<C>(input.at[k])), Number<C>(static_cast<C>(target.at[k])));
        }
        adjust(index, d_target);
        store_gradient(index, d_target, upstream, pass.d_target);
      }
      if (pass.d_input) {
        adjust(index, d_input);
        store_gradient(index, d_input, upstream, pass.d_input);
      }
    }
  }

 private:
  template <int width>
  __device__ __forceinline__ void evaluate(const LossPack<T, width>& input, const LossPack<T, width>& target,
                                           Number<C> (&value)[width], Number<C> (&d_input)[width]) const {
    for (int k = 0; k < width; ++k) {
      const Number<C> x = static_cast<C>(input.at[k]);
      const Number<C> t = static_cast<C>(target.at[k]);
      if constexpr (Gradient) {
        const Dual<Number<C>> loss = loss_with_d_input(formula, x, t);
        value[k] = loss.value;
        d_input[k] = loss.derivative;
      } else {
        value[k] = loss_value(formula, x, t);
      }
    }
  }

  // Weights, and a normaliser of 0.
  template <int width>
  __device__ __forceinline__ void adjust(std::int64_t index, Number<C> (&values)[width]) const {
    if (pass.weight && pass.weight_row == 1) {
      const LossPack<T, width> weights = load_pack<T, width>(pass.weight, index);
      for (int k = 0; k < width; ++k) values[k] = weighed(values[k], Number<C>(static_cast<C>(weights.at[k])));
    } else if (pass.weight) {
      const auto* weights = static_cast<const T*>(pass.weight);
      const std::int64_t first = index * width;
      std::int64_t row = first / pass.weight_row;
      std::int64_t column = first - row * pass.weight_row;
      for (int k = 0; k < width; ++k) {
        values[k] = weighed(values[k], Number<C>(static_cast<C>(weights[row])));
        if (++column == pass.weight_row) {
          column = 0;
          ++row;
        }
      }
    }
    if (uniform.is_zero)
      for (int k = 0; k < width; ++k) values[k] = Number<C>(0);
  }

  template <int width>
  __device__ __forceinline__ void store_value(std::int64_t index, const Number<C> (&value)[width]) {
    if (pass.value_each) {
      Number<C> scaled[width];
      for (int k = 0; k < width; ++k) scaled[k] = value[k] * uniform.seed;
      store_pack(pass.value, index, round_pack<T>(scaled));
    } else {
      add_up(value);
    }
  }

  template <int width>
  __device__ __forceinline__ void add_up(const Number<C> (&value)[width]) {
    Number<C> pack_sum = value[0];
    for (int k = 1; k < width; ++k) pack_sum = pack_sum + value[k];
    sum += pack_sum.value;
  }

  // With the upstream gradient that is the same for all.
  template <int width>
  __device__ __forceinline__ void store_gradient(std::int64_t index, const Number<C> (&derivative)[width],
                                                 void* gradient) const {
    Number<C> scaled[width];
    for (int k = 0; k < width; ++k) scaled[k] = (derivative[k] * uniform.seed) * uniform.upstream;
    store_pack(gradient, index, round_pack<T>(scaled));
  }

  // With one for each element, where there is.
  template <int width>
  __device__ __forceinline__ void store_gradient(std::int64_t index, const Number<C> (&derivative)[width],
                                                 const LossPack<T, width>& upstream, void* gradient) const {
    if (!pass.upstream_each) return store_gradient(index, derivative, gradient);
    Number<C> scaled[width];
    for (int k = 0; k < width; ++k)
      scaled[k] = (derivative[k] * uniform.seed) * Number<C>(static_cast<C>(upstream.at[k]));
    store_pack(gradient, index, round_pack<T>(scaled));
  }
};

// `packs` whole packs are read 16 bytes at a time, the elements after them one by one.
template <Compiler compiler, class F, class T, bool Value, bool Gradient>
__global__ void __launch_bounds__(loss_threads, loss_blocks_per_multiprocessor<F>)
    loss_kernel(const __grid_constant__ LossPass pass, const F formula, std::int64_t packs, unsigned rounds,
                LossWorkspace workspace) {
  using C = compute_t<T>;
  const std::int64_t tile = static_cast<std::int64_t>(rounds) * loss_threads;
  const std::int64_t begin = blockIdx.x * tile;
  const std::int64_t end = min(begin + tile, packs);
  prefetch_tile(pass.input, pass.target, begin * 16,
                min(end - begin, std::int64_t{loss_threads} * (1 + Gradient)) * 16);
  gpu::begin_kernel();
  const LossUniform<C> uniform(pass);
  LossBody<F, T, Value, Gradient> body{formula, pass, uniform};
  std::int64_t p = begin + threadIdx.x;
  if (body.is_plain())
    for (; p + (loss_in_flight - 1) * loss_threads < end; p += loss_in_flight * loss_threads)
      body.template run_plain<loss_in_flight>(p);
  for (; p < end; p += loss_threads) body.template run<loss_width<T>>(p);
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * loss_threads + threadIdx.x;
  for (std::int64_t i = packs * loss_width<T> + thread; i < pass.count;
       i += static_cast<std::int64_t>(gridDim.x) * loss_threads)
    body.template run<1>(i);
  if constexpr (Value)
    if (!pass.value_each) reduce_loss(body.sum, workspace, uniform, pass);
}

// The second pass is rare and not bound by its loads: one kernel reads all dtypes that are computed in C.
template <Compiler compiler, class F, class C>
__global__ void __launch_bounds__(loss_threads)
    loss_second_kernel(const __grid_constant__ LossPass pass, const F formula, LossWorkspace workspace) {
  gpu::begin_kernel();
  const LossUniform<C> uniform(pass);
  const AnyElements<C> elements{pass.dtype};
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * loss_threads;
  double sum = 0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * loss_threads + threadIdx.x; i < pass.count;
       i += stride) {
    const auto direction = [&](const void* data) { return Number<C>(data ? elements.load(data, i) : C(0)); };
    const SecondOrder<C> second =
        loss_second<C>(formula, Number<C>(elements.load(pass.input, i)), Number<C>(elements.load(pass.target, i)),
                       direction(pass.direction_input), direction(pass.direction_target));
    const Number<C> upstream = pass.upstream_each ? Number<C>(elements.load(pass.upstream, i)) : uniform.upstream;
    const Number<C> weight = pass.weight ? Number<C>(elements.load(pass.weight, i / pass.weight_row)) : Number<C>(1);
    const auto adjusted = [&](Number<C> v) {
      if (pass.weight) v = weighed(v, weight);
      return uniform.is_zero ? Number<C>(0) : v;
    };
    const auto gradient = [&](Number<C> v) { return ((adjusted(v) * uniform.seed) * upstream).value; };
    if (pass.value_each)
      elements.store(pass.value, i, (adjusted(second.slope) * uniform.seed).value);
    else
      sum += adjusted(second.slope).value;
    if (pass.d_input) elements.store(pass.d_input, i, gradient(second.d_input));
    if (pass.d_target) elements.store(pass.d_target, i, gradient(second.d_target));
  }
  if (pass.value && !pass.value_each) reduce_loss(sum, workspace, uniform, pass);
}

// The blocks of a kernel that strides over `items` by its grid.
inline unsigned loss_stride_blocks(std::int64_t items) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((items + loss_threads - 1) / loss_threads, 1, 1024));
}

// Whether every pointer of the pass allows loads of 16 bytes.
inline bool is_packable(const LossPass& pass) {
  std::uintptr_t bits = 0;
  for (const void* data :
       {pass.input, pass.target, static_cast<const void*>(pass.d_input), static_cast<const void*>(pass.d_target)})
    bits |= reinterpret_cast<std::uintptr_t>(data);
  if (pass.upstream_each) bits |= reinterpret_cast<std::uintptr_t>(pass.upstream);
  if (pass.value_each) bits |= reinterpret_cast<std::uintptr_t>(pass.value);
  if (pass.weight_row == 1) bits |= reinterpret_cast<std::uintptr_t>(pass.weight);
  return bits % 16 == 0;
}

template <Compiler compiler, class T, class F>
void launch_loss_pass(const raw::OnStream& where, const F& formula, const LossPass& pass) {
  const std::int64_t packs = is_packable(pass) ? pass.count / loss_width<T> : 0;
  const LossTiles tiles(packs ? packs : pass.count);
  const gpu::LaunchShape shape{
      .blocks = tiles.blocks, .threads = loss_threads, .stream = static_cast<cudaStream_t>(where.stream)};
  const auto f = formula_in<compute_t<T>>(formula);
  using G = std::remove_cv_t<decltype(f)>;
  const auto launch = [&](auto* kernel) {
    gpu::launch(kernel, shape, "loss_kernel", pass, f, packs, tiles.rounds, LossWorkspace(where, pass));
  };
  if (!pass.wants_gradient())
    launch(loss_kernel<compiler, G, T, true, false>);
  else if (pass.value)
    launch(loss_kernel<compiler, G, T, true, true>);
  else
    launch(loss_kernel<compiler, G, T, false, true>);
}

template <Compiler compiler, class C, class F>
void launch_second_pass(const raw::OnStream& where, const F& formula, const LossPass& pass) {
  const auto f = formula_in<C>(formula);
  gpu::launch(loss_second_kernel<compiler, std::remove_cv_t<decltype(f)>, C>,
              {.blocks = loss_stride_blocks(pass.count),
               .threads = loss_threads,
               .stream = static_cast<cudaStream_t>(where.stream)},
              "loss_second_kernel", pass, f, LossWorkspace(where, pass));
}

// Runs one pass of a formula that is not of rows.
template <Compiler compiler, class F>
void launch_element_loss(const raw::OnStream& where, const F& formula, const LossPass& pass) {
  if (pass.is_second)
    return pass.dtype == Dtype::f64 ? launch_second_pass<compiler, double>(where, formula, pass)
                                    : launch_second_pass<compiler, float>(where, formula, pass);
  switch (pass.dtype) {
    case Dtype::f64:
      return launch_loss_pass<compiler, double>(where, formula, pass);
    case Dtype::bf16:
      return launch_loss_pass<compiler, bfloat16>(where, formula, pass);
    case Dtype::f16:
      return launch_loss_pass<compiler, float16>(where, formula, pass);
    default:
      return launch_loss_pass<compiler, float>(where, formula, pass);
  }
}

}  // namespace bevel::detail
