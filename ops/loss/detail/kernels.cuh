// The kernels of a formula on CUDA.
//
// A fixed grid of `blocks_per_multiprocessor` blocks each strides over packs of 16 bytes. Values to be summed are added
// up within a pack in the compute type and beyond it in f64, in an order fixed by the size and the device: thread,
// warp, block, and the last block to finish adds the blocks' sums by index.
#pragma once

#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/loss/detail/evaluate.h>
#include <bevel/ops/loss/detail/pass.h>

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

namespace bevel::detail {

inline constexpr int loss_threads = 256;
inline constexpr int loss_blocks_per_multiprocessor = 4;
inline constexpr int loss_max_blocks = 2048;

// Where the blocks of a kernel leave their sums. One for each stream: kernels of a stream never overlap.
struct LossWorkspace {
  double* partials;   // loss_max_blocks
  unsigned* arrived;  // 0 between kernels
};
LossWorkspace loss_workspace(Cuda backend);

template <class T>
struct alignas(16) LossPack {
  static constexpr int width = 16 / sizeof(T);
  T at[width];
};

template <class T>
__device__ __forceinline__ LossPack<T> load_pack(const void* data, std::int64_t pack) {
  LossPack<T> result;
  *reinterpret_cast<uint4*>(&result) = __ldg(static_cast<const uint4*>(data) + pack);
  return result;
}

template <class T>
__device__ __forceinline__ void store_pack(void* data, std::int64_t pack, const LossPack<T>& values) {
  static_cast<uint4*>(data)[pack] = *reinterpret_cast<const uint4*>(&values);
}

template <class T, class C>
__device__ __forceinline__ T round_to(C value) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    const __nv_bfloat16 rounded = __float2bfloat16_rn(value);
    return *reinterpret_cast<const T*>(&rounded);
  } else {
    return static_cast<T>(value);
  }
}

__device__ __forceinline__ double load_number(DeviceNumber number) {
  return number.is_f64 ? *static_cast<const double*>(number.data) : *static_cast<const float*>(number.data);
}

// What is the same for all elements of a pass.
template <class C>
struct LossUniform {
  double factor;
  Number<C> seed;      // the factor in the compute type
  Number<C> upstream;  // 1 where there is one for each element
  bool is_zero;

  __device__ __forceinline__ explicit LossUniform(const LossPass& pass) : factor(pass.factor), is_zero(pass.is_zero) {
    if (pass.scale.data) factor *= load_number(pass.scale);
    if (pass.normalizer.data) {
      const double normalizer = load_number(pass.normalizer);
      is_zero = is_zero || normalizer == 0;
      factor = is_zero ? 0.0 : factor / normalizer;
    }
    seed = static_cast<C>(factor);
    upstream = pass.upstream && !pass.upstream_each ? *static_cast<const C*>(pass.upstream) : C(1);
  }
};

// Value and derivatives of one element, as the formula gives them.
template <class C>
struct LossElement {
  Number<C> value{C(0)};
  Number<C> d_input{C(0)};
  Number<C> d_target{C(0)};

  // Weight 0 selects out.
  __device__ __forceinline__ void weigh(Number<C> weight) {
    const bool out = weight.value == 0;
    value = select(out, Number<C>(0), weight * value);
    d_input = select(out, Number<C>(0), weight * d_input);
    d_target = select(out, Number<C>(0), weight * d_target);
  }
};

template <bool Value, bool Gradient, class C, class F>
__device__ __forceinline__ LossElement<C> loss_element(const F& f, Number<C> input, Number<C> target,
                                                       const LossPass& pass) {
  LossElement<C> element;
  if constexpr (Gradient) {
    const Dual<Number<C>> loss = loss_with_d_input(f, input, target);
    element.value = loss.value;
    element.d_input = loss.derivative;
    if constexpr (ErrorFormula<F>)
      element.d_target = -loss.derivative;
    else if (pass.d_target)
      element.d_target = loss_d_target(f, input, target);
  } else {
    element.value = loss_value(f, input, target);
  }
  return element;
}

// Adds up `sum` over the grid and lets the last block write factor times the total to `result`.
template <class C>
__device__ __forceinline__ void reduce_loss(double sum, const LossWorkspace& workspace, const LossUniform<C>& uniform,
                                            C* result) {
  constexpr int warps = loss_threads / 32;
  __shared__ double of_warp[warps];
  __shared__ bool is_last;
  const auto block_sum = [&](double mine) {
    for (int step = 16; step > 0; step /= 2) mine += __shfl_down_sync(0xffffffffu, mine, step);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    double total = 0;
    if (threadIdx.x == 0)
      for (int warp = 0; warp < warps; ++warp) total += of_warp[warp];
    return total;  // of thread 0
  };
  const auto write = [&](double total) { *result = uniform.is_zero ? C(0) : static_cast<C>(total * uniform.factor); };

  const double block = block_sum(sum);
  if (gridDim.x == 1) {
    if (threadIdx.x == 0) write(block);
    return;
  }
  if (threadIdx.x == 0) {
    workspace.partials[blockIdx.x] = block;
    __threadfence();
    is_last = atomicInc(workspace.arrived, gridDim.x - 1) == gridDim.x - 1;  // the last one sets it back to 0
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  double mine = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += loss_threads) mine += __ldcg(workspace.partials + i);
  const double total = block_sum(mine);
  if (threadIdx.x == 0) write(total);
}

// One element of a pack, or a whole pack: weights, value, gradients. `first` is the index of its first element.
template <class F, class T, bool Value, bool Gradient>
struct LossBody {
  using C = compute_t<T>;
  static constexpr int width = LossPack<T>::width;

  const F& formula;
  const LossPass& pass;
  const LossUniform<C>& uniform;
  double sum = 0;

  __device__ __forceinline__ Number<C> weight_of(std::int64_t i) const {
    const auto* weights = static_cast<const T*>(pass.weight);
    if (pass.weight_row == 1) return static_cast<C>(weights[i]);
    // A division of 32 bits is many times faster than one of 64.
    const std::int64_t row = pass.count <= 0xffffffffLL
                                 ? static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(pass.weight_row)
                                 : i / pass.weight_row;
    return static_cast<C>(weights[row]);
  }

  __device__ __forceinline__ T gradient(Number<C> derivative, Number<C> upstream) const {
    return round_to<T>(((derivative * uniform.seed) * upstream).value);
  }

  __device__ __forceinline__ LossElement<C> element(T input, T target, std::int64_t i) const {
    LossElement<C> result = loss_element<Value, Gradient>(formula, Number<C>(static_cast<C>(input)),
                                                          Number<C>(static_cast<C>(target)), pass);
    if (pass.weight) result.weigh(weight_of(i));
    if (uniform.is_zero) result = {};
    return result;
  }

  __device__ __forceinline__ Number<C> upstream_of(std::int64_t i) const {
    return pass.upstream_each ? Number<C>(static_cast<C>(static_cast<const T*>(pass.upstream)[i])) : uniform.upstream;
  }

  __device__ __forceinline__ void one(std::int64_t i) {
    const LossElement<C> loss = element(static_cast<const T*>(pass.input)[i], static_cast<const T*>(pass.target)[i], i);
    if constexpr (Value) {
      if (pass.value_each)
        static_cast<T*>(pass.value)[i] = round_to<T>((loss.value * uniform.seed).value);
      else
        sum += loss.value.value;
    }
    if constexpr (Gradient) {
      const Number<C> upstream = upstream_of(i);
      if (pass.d_input) static_cast<T*>(pass.d_input)[i] = gradient(loss.d_input, upstream);
      if (pass.d_target) static_cast<T*>(pass.d_target)[i] = gradient(loss.d_target, upstream);
    }
  }

  __device__ __forceinline__ void whole(std::int64_t pack, const LossPack<T>& input, const LossPack<T>& target) {
    LossPack<T> upstream;
    if constexpr (Gradient)
      if (pass.upstream_each) upstream = load_pack<T>(pass.upstream, pack);
    LossPack<T> value, d_input, d_target;
    Number<C> pack_sum = C(0);
    for (int k = 0; k < width; ++k) {
      const LossElement<C> loss = element(input.at[k], target.at[k], pack * width + k);
      if constexpr (Value) {
        value.at[k] = round_to<T>((loss.value * uniform.seed).value);
        pack_sum = pack_sum + loss.value;
      }
      if constexpr (Gradient) {
        const Number<C> u = pass.upstream_each ? Number<C>(static_cast<C>(upstream.at[k])) : uniform.upstream;
        d_input.at[k] = gradient(loss.d_input, u);
        d_target.at[k] = gradient(loss.d_target, u);
      }
    }
    if constexpr (Value) {
      if (pass.value_each)
        store_pack(pass.value, pack, value);
      else
        sum += pack_sum.value;
    }
    if constexpr (Gradient) {
      if (pass.d_input) store_pack(pass.d_input, pack, d_input);
      if (pass.d_target) store_pack(pass.d_target, pack, d_target);
    }
  }
};

// `packs` whole packs are read 16 bytes at a time, the elements after them one by one.
template <Compiler compiler, class F, class T, bool Value, bool Gradient>
__global__ void __launch_bounds__(loss_threads, loss_blocks_per_multiprocessor)
    loss_kernel(const __grid_constant__ LossPass pass, const F formula, std::int64_t packs, LossWorkspace workspace) {
  using C = compute_t<T>;
  const LossUniform<C> uniform(pass);
  LossBody<F, T, Value, Gradient> body{formula, pass, uniform};
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * loss_threads;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * loss_threads + threadIdx.x;
  std::int64_t p = thread;
  for (; p + stride < packs; p += 2 * stride) {  // four loads in flight
    const LossPack<T> input0 = load_pack<T>(pass.input, p);
    const LossPack<T> target0 = load_pack<T>(pass.target, p);
    const LossPack<T> input1 = load_pack<T>(pass.input, p + stride);
    const LossPack<T> target1 = load_pack<T>(pass.target, p + stride);
    body.whole(p, input0, target0);
    body.whole(p + stride, input1, target1);
  }
  if (p < packs) body.whole(p, load_pack<T>(pass.input, p), load_pack<T>(pass.target, p));
  for (std::int64_t i = packs * LossPack<T>::width + thread; i < pass.count; i += stride) body.one(i);
  if constexpr (Value)
    if (!pass.value_each) reduce_loss(body.sum, workspace, uniform, static_cast<C*>(pass.value));
}

// The second pass is rare and not bound by its loads: one kernel reads all dtypes that are computed in C.
template <class C>
struct AnyElements {
  Dtype dtype;

  __device__ __forceinline__ C load(const void* data, std::int64_t i) const {
    if constexpr (std::is_same_v<C, double>) {
      return static_cast<const double*>(data)[i];
    } else {
      if (dtype == Dtype::bf16) return static_cast<const bfloat16*>(data)[i];
      if (dtype == Dtype::f16) return static_cast<const float16*>(data)[i];
      return static_cast<const float*>(data)[i];
    }
  }
  __device__ __forceinline__ void store(void* data, std::int64_t i, C value) const {
    if constexpr (std::is_same_v<C, double>) {
      static_cast<double*>(data)[i] = value;
    } else {
      if (dtype == Dtype::bf16)
        static_cast<bfloat16*>(data)[i] = bfloat16(value);
      else if (dtype == Dtype::f16)
        static_cast<float16*>(data)[i] = float16(value);
      else
        static_cast<float*>(data)[i] = value;
    }
  }
};

template <Compiler compiler, class F, class C>
__global__ void __launch_bounds__(loss_threads)
    loss_second_kernel(const __grid_constant__ LossPass pass, const F formula, LossWorkspace workspace) {
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
    LossElement<C> loss{second.slope, second.d_input, second.d_target};
    if (pass.weight) loss.weigh(elements.load(pass.weight, i / pass.weight_row));
    if (uniform.is_zero) loss = {};
    const Number<C> upstream = pass.upstream_each ? Number<C>(elements.load(pass.upstream, i)) : uniform.upstream;
    if (pass.value_each)
      elements.store(pass.value, i, (loss.value * uniform.seed).value);
    else
      sum += loss.value.value;
    if (pass.d_input) elements.store(pass.d_input, i, ((loss.d_input * uniform.seed) * upstream).value);
    if (pass.d_target) elements.store(pass.d_target, i, ((loss.d_target * uniform.seed) * upstream).value);
  }
  if (pass.value && !pass.value_each) reduce_loss(sum, workspace, uniform, static_cast<C*>(pass.value));
}

inline int loss_blocks(Cuda backend, std::int64_t items) {
  const int most = std::min(loss_max_blocks, loss_blocks_per_multiprocessor * gpu::multiprocessors(backend.device));
  return static_cast<int>(std::clamp<std::int64_t>((items + loss_threads - 1) / loss_threads, 1, most));
}

// Whether every pointer of the pass allows loads of 16 bytes.
inline bool is_packable(const LossPass& pass) {
  std::uintptr_t bits = 0;
  for (const void* data :
       {pass.input, pass.target, static_cast<const void*>(pass.d_input), static_cast<const void*>(pass.d_target)})
    bits |= reinterpret_cast<std::uintptr_t>(data);
  if (pass.upstream_each) bits |= reinterpret_cast<std::uintptr_t>(pass.upstream);
  if (pass.value_each) bits |= reinterpret_cast<std::uintptr_t>(pass.value);
  return bits % 16 == 0;
}

template <Compiler compiler, class T, class F>
void launch_loss_pass(Cuda backend, const F& formula, const LossPass& pass) {
  const cudaStream_t stream = gpu::stream(backend);
  const LossWorkspace workspace = loss_workspace(backend);
  constexpr int width = LossPack<T>::width;
  const std::int64_t packs = is_packable(pass) ? pass.count / width : 0;
  const int blocks = loss_blocks(backend, packs ? packs : pass.count);
  const auto f = formula_in<compute_t<T>>(formula);
  using G = std::remove_cv_t<decltype(f)>;
  if (!pass.wants_gradient())
    loss_kernel<compiler, G, T, true, false><<<blocks, loss_threads, 0, stream>>>(pass, f, packs, workspace);
  else if (pass.value)
    loss_kernel<compiler, G, T, true, true><<<blocks, loss_threads, 0, stream>>>(pass, f, packs, workspace);
  else
    loss_kernel<compiler, G, T, false, true><<<blocks, loss_threads, 0, stream>>>(pass, f, packs, workspace);
  gpu::check(cudaGetLastError(), "loss_kernel");
}

template <Compiler compiler, class C, class F>
void launch_second_pass(Cuda backend, const F& formula, const LossPass& pass) {
  const auto f = formula_in<C>(formula);
  loss_second_kernel<compiler, std::remove_cv_t<decltype(f)>, C>
      <<<loss_blocks(backend, pass.count), loss_threads, 0, gpu::stream(backend)>>>(pass, f, loss_workspace(backend));
  gpu::check(cudaGetLastError(), "loss_second_kernel");
}

// Runs one pass of the formula on the current stream.
template <Compiler compiler, class F>
void launch_loss(Cuda backend, const F& formula, const LossPass& pass) {
  const gpu::DeviceGuard guard(backend.device);
  if (pass.is_second)
    return pass.dtype == Dtype::f64 ? launch_second_pass<compiler, double>(backend, formula, pass)
                                    : launch_second_pass<compiler, float>(backend, formula, pass);
  switch (pass.dtype) {
    case Dtype::f64:
      return launch_loss_pass<compiler, double>(backend, formula, pass);
    case Dtype::bf16:
      return launch_loss_pass<compiler, bfloat16>(backend, formula, pass);
    case Dtype::f16:
      return launch_loss_pass<compiler, float16>(backend, formula, pass);
    default:
      return launch_loss_pass<compiler, float>(backend, formula, pass);
  }
}

}  // namespace bevel::detail
