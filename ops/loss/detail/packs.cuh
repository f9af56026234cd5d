// What the kernels of the losses share: packs of elements, roundings, what is the same for all elements of a pass.
#pragma once

#include <bevel/ops/loss/detail/evaluate.h>
#include <bevel/ops/loss/detail/pass.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace bevel::detail {

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
    *reinterpret_cast<uint4*>(&result) = static_cast<const uint4*>(data)[index];
  return result;
}

// The same where nothing is written: what has been read then makes room first. (With stores beside the loads that is
// slower.)
template <class T>
__device__ __forceinline__ LossPack<T> load_passing_pack(const void* data, std::int64_t index) {
  LossPack<T> result;
  *reinterpret_cast<uint4*>(&result) = __ldcs(static_cast<const uint4*>(data) + index);
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

}  // namespace bevel::detail
