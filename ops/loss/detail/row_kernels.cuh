// The kernels of a formula of rows on CUDA, and the choice between them and those of single numbers.
#pragma once

#include <bevel/ops/loss/detail/element_kernels.cuh>

namespace bevel::detail {

// Row number `i` of an array; in one access (two in f64) where the array is aligned.
template <class T>
__device__ __forceinline__ Row<Number<compute_t<T>>> load_row(const void* data, std::int64_t i, bool is_aligned) {
  using C = compute_t<T>;
  T values[4];
  const T* from = static_cast<const T*>(data) + 4 * i;
  if (!is_aligned) {
    for (int k = 0; k < 4; ++k) values[k] = from[k];
  } else if constexpr (sizeof(T) == 2) {
    *reinterpret_cast<uint2*>(values) = *reinterpret_cast<const uint2*>(from);
  } else {
    for (int k = 0; k < static_cast<int>(sizeof(T)) / 4; ++k)
      reinterpret_cast<uint4*>(values)[k] = reinterpret_cast<const uint4*>(from)[k];
  }
  return {{static_cast<C>(values[0]), static_cast<C>(values[1]), static_cast<C>(values[2]), static_cast<C>(values[3])}};
}

template <class T, class C>
__device__ __forceinline__ void store_row(void* data, std::int64_t i, const Row<Number<C>>& row, bool is_aligned) {
  alignas(16) T values[4];
  for (int k = 0; k < 4; ++k) values[k] = round_to<T>(row[k].value);
  T* to = static_cast<T*>(data) + 4 * i;
  if (!is_aligned) {
    for (int k = 0; k < 4; ++k) to[k] = values[k];
  } else if constexpr (sizeof(T) == 2) {
    *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(values);
  } else {
    for (int k = 0; k < static_cast<int>(sizeof(T)) / 4; ++k)
      reinterpret_cast<uint4*>(to)[k] = reinterpret_cast<const uint4*>(values)[k];
  }
}

// One row: formula, weight, value, gradients. In a plain pass, which is the usual one, there are no weights, and no
// gradient but the input's: several rows are then read at once.
template <class F, class T, bool Gradient>
struct RowBody {
  using C = compute_t<T>;
  using R = Row<Number<C>>;

  const F& formula;
  const LossPass& pass;
  const LossUniform<C>& uniform;
  bool is_aligned;
  double sum = 0;

  __device__ __forceinline__ bool is_plain() const {
    return !pass.weight && !uniform.is_zero && !pass.d_target && (!Gradient || pass.d_input);
  }

  __device__ __forceinline__ R load(const void* data, std::int64_t i) const { return load_row<T>(data, i, is_aligned); }

  template <bool plain>
  __device__ __forceinline__ void run(std::int64_t i, const R& input, const R& target) {
    Number<C> weight = C(1);
    if (!plain && pass.weight) weight = static_cast<C>(static_cast<const T*>(pass.weight)[i]);
    Number<C> value;
    if constexpr (Gradient) {
      const RowLoss<Number<C>> loss = row_with_d_input(formula, input, target);
      value = loss.value;
      Number<C> upstream = uniform.upstream;
      if (pass.upstream_each) upstream = static_cast<C>(static_cast<const T*>(pass.upstream)[i]);
      if (plain || pass.d_input) store<plain>(pass.d_input, i, loss.d_input, weight, upstream);
      if (!plain && pass.d_target)
        store<plain>(pass.d_target, i, row_d_target(formula, input, target), weight, upstream);
    } else {
      value = formula(input, target);
    }
    if (!pass.value) return;
    value = adjusted<plain>(value, weight);
    if (pass.value_each)
      static_cast<T*>(pass.value)[i] = round_to<T>((value * uniform.seed).value);
    else
      sum += value.value;
  }

  template <bool plain>
  __device__ __forceinline__ Number<C> adjusted(Number<C> value, Number<C> weight) const {
    if (plain) return value;
    if (pass.weight) value = weighed(value, weight);
    return uniform.is_zero ? Number<C>(0) : value;
  }

  template <bool plain>
  __device__ __forceinline__ void store(void* to, std::int64_t i, R row, Number<C> weight, Number<C> upstream) const {
    for (int k = 0; k < 4; ++k) row[k] = (adjusted<plain>(row[k], weight) * uniform.seed) * upstream;
    store_row<T>(to, i, row, is_aligned);
  }
};

inline constexpr int rows_in_flight = 4;

template <Compiler compiler, class F, class T, bool Gradient>
__global__ void __launch_bounds__(loss_threads, loss_blocks_per_multiprocessor<F, compute_t<T>>)
    row_loss_kernel(const __grid_constant__ LossPass pass, const F formula, bool is_aligned, unsigned rounds,
                    LossWorkspace workspace) {
  using C = compute_t<T>;
  using R = Row<Number<C>>;
  constexpr std::int64_t row_bytes = 4 * sizeof(T);
  const std::int64_t tile = static_cast<std::int64_t>(rounds) * loss_threads;
  const std::int64_t begin = blockIdx.x * tile;
  const std::int64_t end = ::min(begin + tile, pass.count);
  if (is_aligned)
    prefetch_tile(pass.input, pass.target, begin * row_bytes,
                  ::min(end - begin, std::int64_t{loss_threads} * (1 + Gradient)) * row_bytes);
  wait_for_predecessor();
  const LossUniform<C> uniform(pass);
  RowBody<F, T, Gradient> body{formula, pass, uniform, is_aligned};
  std::int64_t i = begin + threadIdx.x;
  if (body.is_plain())
    for (; i + (rows_in_flight - 1) * loss_threads < end; i += rows_in_flight * loss_threads) {
      R input[rows_in_flight];
      R target[rows_in_flight];
#pragma unroll
      for (int k = 0; k < rows_in_flight; ++k) {
        input[k] = body.load(pass.input, i + k * loss_threads);
        target[k] = body.load(pass.target, i + k * loss_threads);
      }
      all_are_read();
#pragma unroll
      for (int k = 0; k < rows_in_flight; ++k) body.template run<true>(i + k * loss_threads, input[k], target[k]);
    }
  for (; i < end; i += loss_threads) body.template run<false>(i, body.load(pass.input, i), body.load(pass.target, i));
  release_successor();
  if (pass.value && !pass.value_each) reduce_loss(body.sum, workspace, uniform, pass);
}

// All dtypes that are computed in C; see loss_second_kernel.
template <Compiler compiler, class F, class C>
__global__ void __launch_bounds__(loss_threads)
    row_second_kernel(const __grid_constant__ LossPass pass, const F formula, LossWorkspace workspace) {
  gpu::begin_kernel();
  const LossUniform<C> uniform(pass);
  const AnyElements<C> elements{pass.dtype};
  const auto row = [&](const void* data, std::int64_t i) {
    Row<Number<C>> result;
    for (int k = 0; k < 4; ++k) result[k] = data ? elements.load(data, 4 * i + k) : C(0);
    return result;
  };
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * loss_threads;
  double sum = 0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * loss_threads + threadIdx.x; i < pass.count;
       i += stride) {
    const RowSecondOrder<C> second = row_second<C>(formula, row(pass.input, i), row(pass.target, i),
                                                   row(pass.direction_input, i), row(pass.direction_target, i));
    const Number<C> weight = pass.weight ? elements.load(pass.weight, i) : C(1);
    const Number<C> upstream = pass.upstream_each ? Number<C>(elements.load(pass.upstream, i)) : uniform.upstream;
    const auto adjusted = [&](Number<C> v) {
      if (pass.weight) v = weighed(v, weight);
      return uniform.is_zero ? Number<C>(0) : v;
    };
    const auto store = [&](void* to, const Row<Number<C>>& values) {
      for (int k = 0; k < 4; ++k)
        elements.store(to, 4 * i + k, ((adjusted(values[k]) * uniform.seed) * upstream).value);
    };
    const Number<C> slope = adjusted(second.slope);
    if (pass.value_each)
      elements.store(pass.value, i, (slope * uniform.seed).value);
    else
      sum += slope.value;
    if (pass.d_input) store(pass.d_input, second.d_input);
    if (pass.d_target) store(pass.d_target, second.d_target);
  }
  if (pass.value && !pass.value_each) reduce_loss(sum, workspace, uniform, pass);
}

template <Compiler compiler, class T, class F>
void launch_row_pass(const raw::OnStream& where, const F& formula, const LossPass& pass) {
  const auto f = formula_in<compute_t<T>>(formula);
  using G = std::remove_cv_t<decltype(f)>;
  std::uintptr_t bits = 0;
  for (const void* data :
       {pass.input, pass.target, static_cast<const void*>(pass.d_input), static_cast<const void*>(pass.d_target)})
    bits |= reinterpret_cast<std::uintptr_t>(data);
  const bool is_aligned = bits % std::min<std::size_t>(16, 4 * sizeof(T)) == 0;
  if (pass.is_second) {
    gpu::launch(row_second_kernel<compiler, G, compute_t<T>>,
                {.blocks = loss_stride_blocks(pass.count),
                 .threads = loss_threads,
                 .stream = static_cast<cudaStream_t>(where.stream)},
                "row_second_kernel", pass, f, LossWorkspace(where, pass));
    return;
  }
  const LossTiles tiles(pass.count);
  const gpu::LaunchShape shape{
      .blocks = tiles.blocks, .threads = loss_threads, .stream = static_cast<cudaStream_t>(where.stream)};
  const auto launch = [&](auto* kernel) {
    gpu::launch(kernel, shape, "row_loss_kernel", pass, f, is_aligned, tiles.rounds, LossWorkspace(where, pass));
  };
  if (pass.wants_gradient())
    launch(row_loss_kernel<compiler, G, T, true>);
  else
    launch(row_loss_kernel<compiler, G, T, false>);
}

template <Compiler compiler, class F>
void launch_row_loss(const raw::OnStream& where, const F& formula, const LossPass& pass) {
  switch (pass.dtype) {
    case Dtype::f64:
      return launch_row_pass<compiler, double>(where, formula, pass);
    case Dtype::bf16:
      return launch_row_pass<compiler, bfloat16>(where, formula, pass);
    case Dtype::f16:
      return launch_row_pass<compiler, float16>(where, formula, pass);
    default:
      return launch_row_pass<compiler, float>(where, formula, pass);
  }
}

// Runs one pass of the formula.
template <Compiler compiler, class F>
void launch_loss(const raw::OnStream& where, const F& formula, const LossPass& pass) {
  if constexpr (RowFormula<F>)
    launch_row_loss<compiler>(where, formula, pass);
  else
    launch_element_loss<compiler>(where, formula, pass);
}

}  // namespace bevel::detail
