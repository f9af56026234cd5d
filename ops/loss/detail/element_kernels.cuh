// The kernels of a formula of single numbers on CUDA.
#pragma once

#include <bevel/ops/raw.h>
#include <bevel/ops/loss/detail/element_body.cuh>

#include <cstdint>

namespace bevel::detail {

// `packs` whole packs are read 16 bytes at a time, the elements after them one by one.
template <Compiler compiler, class F, class T, bool Value, bool Gradient>
__global__ void __launch_bounds__(loss_threads, loss_blocks_per_multiprocessor<F, compute_t<T>>)
    loss_kernel(const __grid_constant__ LossPass pass, const F formula, std::int64_t packs, unsigned rounds,
                LossWorkspace workspace) {
  using C = compute_t<T>;
  const std::int64_t tile = static_cast<std::int64_t>(rounds) * loss_threads;
  const std::int64_t begin = blockIdx.x * tile;
  const std::int64_t end = ::min(begin + tile, packs);
  prefetch_tile(pass.input, pass.target, begin * 16,
                ::min(end - begin, std::int64_t{loss_threads} * (1 + Gradient)) * 16);
  wait_for_predecessor();
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
  release_successor();
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
