// What a kernel does with the elements of one pack of 16 bytes.
#pragma once

#include <bevel/ops/loss/detail/tiles.cuh>

namespace bevel::detail {

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
    const bool only_reads = Value && !Gradient && !pass.value_each;
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const std::int64_t p = index + b * loss_threads;
      input[b] = only_reads ? load_passing_pack<T>(pass.input, p) : load_pack<T>(pass.input, p);
      target[b] = only_reads ? load_passing_pack<T>(pass.target, p) : load_pack<T>(pass.target, p);
      if constexpr (!Value)
        if (pass.upstream_each) upstream[b] = load_pack<T>(pass.upstream, p);
    }
    all_are_read();
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

}  // namespace bevel::detail
