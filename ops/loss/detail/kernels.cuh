// The kernels of a formula on CUDA.
//
// A fixed grid of `blocks_per_multiprocessor` blocks each strides over packs of 16 bytes. Values to be summed are added
// up within a pack in the compute type and beyond it in f64, in an order fixed by the size and the device: thread,
// warp, block, and the last block to finish adds the blocks' sums by index.
#pragma once

#include <bevel/core/cuda/check.h>
#include <bevel/ops/loss/detail/evaluate.h>
#include <bevel/ops/loss/detail/pass.h>
#include <bevel/ops/raw.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

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

inline LossWorkspace loss_workspace(const raw::OnStream& where, const LossPass& pass) {
  if (!pass.value || pass.value_each) return {};
  constexpr std::size_t counter_bytes = 256;
  static_assert(counter_bytes + loss_max_blocks * sizeof(double) <= raw::loss_workspace_bytes);
  require(where.workspace && where.workspace_bytes >= raw::loss_workspace_bytes, "loss: needs a workspace of ",
          raw::loss_workspace_bytes, " bytes; got ", where.workspace ? where.workspace_bytes : 0);
  auto* data = static_cast<char*>(where.workspace);
  return {reinterpret_cast<double*>(data + counter_bytes), reinterpret_cast<unsigned*>(data)};
}

// Neighbouring elements that move as one access: 16 bytes, or a single element where that is impossible.
template <class T, int width = 16 / static_cast<int>(sizeof(T))>
struct alignas(width * sizeof(T)) LossPack {
  T at[width];
};
template <class T>
inline constexpr int loss_width = 16 / static_cast<int>(sizeof(T));

// Pack number `index` of an array.
template <class T, int width = loss_width<T>>
__device__ __forceinline__ LossPack<T, width> load_pack(const void* data, std::int64_t index) {
  LossPack<T, width> result;
  if constexpr (width == 1)
    result.at[0] = static_cast<const T*>(data)[index];
  else
    *reinterpret_cast<uint4*>(&result) = __ldg(static_cast<const uint4*>(data) + index);
  return result;
}

template <class T, int width>
__device__ __forceinline__ void store_pack(void* data, std::int64_t index, const LossPack<T, width>& values) {
  if constexpr (width == 1)
    static_cast<T*>(data)[index] = values.at[0];
  else
    __stcs(static_cast<uint4*>(data) + index, *reinterpret_cast<const uint4*>(&values));  // not read again soon
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

// A pack of values rounded to T, two at a time where there is an instruction for it.
template <class T, class C, int width>
__device__ __forceinline__ LossPack<T, width> round_pack(const Number<C> (&values)[width]) {
  LossPack<T, width> pack;
  if constexpr (std::is_same_v<T, bfloat16> && width % 2 == 0) {
    for (int k = 0; k < width; k += 2)
      reinterpret_cast<__nv_bfloat162*>(pack.at)[k / 2] = __floats2bfloat162_rn(values[k].value, values[k + 1].value);
  } else if constexpr (std::is_same_v<T, float16> && width % 2 == 0) {
    for (int k = 0; k < width; k += 2)
      reinterpret_cast<__half2*>(pack.at)[k / 2] = __floats2half2_rn(values[k].value, values[k + 1].value);
  } else {
    for (int k = 0; k < width; ++k) pack.at[k] = round_to<T>(values[k].value);
  }
  return pack;
}

__device__ __forceinline__ double load_number(DeviceNumber number) {
  return number.is_f64 ? *static_cast<const double*>(number.data) : *static_cast<const float*>(number.data);
}

// Elements of a dtype that the kernel's type does not tell, computed in C.
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

// Reduced values and their upstream gradient.
template <class C>
__device__ __forceinline__ AnyElements<C> reduced_elements(const LossPass& pass) {
  return {pass.reduced_is_half ? pass.dtype : dtype_of<C>};
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
    upstream = C(1);
    if (pass.upstream && !pass.upstream_each) upstream = reduced_elements<C>(pass).load(pass.upstream, 0);
  }
};

// weight · value; weight 0 selects out.
template <class C>
__device__ __forceinline__ Number<C> weighed(Number<C> value, Number<C> weight) {
  return select(weight.value == 0, Number<C>(0), weight * value);
}

// Adds up `sum` over the grid and lets the last block write factor times the total to the pass's value.
template <class C>
__device__ __forceinline__ void reduce_loss(double sum, const LossWorkspace& workspace, const LossUniform<C>& uniform,
                                            const LossPass& pass) {
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
  const auto write = [&](double total) {
    reduced_elements<C>(pass).store(pass.value, 0, uniform.is_zero ? C(0) : static_cast<C>(total * uniform.factor));
  };

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

// The elements of one pack: formula, weights, value, gradients. What is the same for all elements of a pass is asked by
// branches that all threads take alike; the usual case (no weight, gradient of the input alone) passes them by.
template <class F, class T, bool Value, bool Gradient>
struct LossBody {
  using C = compute_t<T>;

  const F& formula;
  const LossPass& pass;
  const LossUniform<C>& uniform;
  double sum = 0;

  // Pack number `index`.
  template <int width>
  __device__ __forceinline__ void run(std::int64_t index, const LossPack<T, width>& input,
                                      const LossPack<T, width>& target) {
    Number<C> value[width];
    Number<C> d_input[width];
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
        store_gradient(index, d_target, pass.d_target);
      }
      if (pass.d_input) {
        adjust(index, d_input);
        store_gradient(index, d_input, pass.d_input);
      }
    }
  }

 private:
  // Weights, and a normaliser of 0.
  template <int width>
  __device__ __forceinline__ void adjust(std::int64_t index, Number<C> (&values)[width]) const {
    if (pass.weight) {
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
      Number<C> pack_sum = value[0];
      for (int k = 1; k < width; ++k) pack_sum = pack_sum + value[k];
      sum += pack_sum.value;
    }
  }

  template <int width>
  __device__ __forceinline__ void store_gradient(std::int64_t index, const Number<C> (&derivative)[width],
                                                 void* gradient) const {
    Number<C> scaled[width];
    if (pass.upstream_each) {
      const LossPack<T, width> upstream = load_pack<T, width>(pass.upstream, index);
      for (int k = 0; k < width; ++k)
        scaled[k] = (derivative[k] * uniform.seed) * Number<C>(static_cast<C>(upstream.at[k]));
    } else {
      for (int k = 0; k < width; ++k) scaled[k] = (derivative[k] * uniform.seed) * uniform.upstream;
    }
    store_pack(gradient, index, round_pack<T>(scaled));
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
  // Two packs in flight, but not where they are read and written in equal steps: there one is faster.
  if constexpr (!(Value && Gradient)) {
    const bool two = !Gradient || pass.upstream_each;
    for (; two && p + stride < packs; p += 2 * stride) {
      const LossPack<T> input0 = load_pack<T>(pass.input, p);
      const LossPack<T> target0 = load_pack<T>(pass.target, p);
      const LossPack<T> input1 = load_pack<T>(pass.input, p + stride);
      const LossPack<T> target1 = load_pack<T>(pass.target, p + stride);
      body.run(p, input0, target0);
      body.run(p + stride, input1, target1);
    }
  }
  for (; p < packs; p += stride) body.run(p, load_pack<T>(pass.input, p), load_pack<T>(pass.target, p));
  for (std::int64_t i = packs * loss_width<T> + thread; i < pass.count; i += stride)
    body.run(i, load_pack<T, 1>(pass.input, i), load_pack<T, 1>(pass.target, i));
  if constexpr (Value)
    if (!pass.value_each) reduce_loss(body.sum, workspace, uniform, pass);
}

// The second pass is rare and not bound by its loads: one kernel reads all dtypes that are computed in C.
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

// Of the current device.
inline int loss_blocks(std::int64_t items) {
  const int multiprocessors = gpu::current_device_attribute<cudaDevAttrMultiProcessorCount>();
  const int most = std::min(loss_max_blocks, loss_blocks_per_multiprocessor * multiprocessors);
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
void launch_loss_pass(const raw::OnStream& where, const F& formula, const LossPass& pass) {
  const cudaStream_t stream = static_cast<cudaStream_t>(where.stream);
  const LossWorkspace workspace = loss_workspace(where, pass);
  constexpr int width = loss_width<T>;
  const std::int64_t packs = is_packable(pass) ? pass.count / width : 0;
  const int blocks = loss_blocks(packs ? packs : pass.count);
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
void launch_second_pass(const raw::OnStream& where, const F& formula, const LossPass& pass) {
  const auto f = formula_in<C>(formula);
  loss_second_kernel<compiler, std::remove_cv_t<decltype(f)>, C>
      <<<loss_blocks(pass.count), loss_threads, 0, static_cast<cudaStream_t>(where.stream)>>>(
          pass, f, loss_workspace(where, pass));
  gpu::check(cudaGetLastError(), "loss_second_kernel");
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
