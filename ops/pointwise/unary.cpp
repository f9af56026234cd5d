#include <bevel/ops/pointwise/unary.h>

#include <bevel/core/autograd.h>
#include <bevel/ops/pointwise/binary.h>
#include <bevel/ops/pointwise/detail/relu_gradient.h>
#include <bevel/ops/pointwise/detail/unary_kernels.h>

namespace bevel {

namespace {

using namespace pointwise;

template <class F>
void run_kernel(const F& f, int order, const Tensor& out, const Tensor& dy, const Tensor& x) {
  const auto in = [&]<class List>(List list) {
    constexpr std::size_t index = List::template index<F>;
    if constexpr (index < List::count)
      on(x.device(), [&](auto backend) { unary_kernel(backend, list, {index, &f, order, out, dy, x}); });
  };
  in(Algebraic());
  in(Exponential());
  in(Smooth());
  in(Periodic());
}

// dy * f^(order)(x), recorded. The highest order has no derivative with respect to x and says so.
template <class F>
Tensor derivative(const F& f, int order, const Tensor& dy, const Tensor& x) {
  Tensor out = Tensor::empty(x.shape(), x.options());
  run_kernel(f, order, out, dy, x);
  record(F::name, out, {dy, x}, {dy, x}, [f, order](const Backward& backward) {
    const Tensor upstream = backward.grad();
    Gradients gradients(2);
    if (backward.needs(0)) gradients[0] = derivative(f, order, upstream, backward.saved(1));
    if (backward.needs(1)) {
      require(order < highest_order, F::name, ": derivatives beyond order ", highest_order, " are not available");
      gradients[1] = derivative(f, order + 1, mul(upstream, backward.saved(0)), backward.saved(1));
    }
    return gradients;
  });
  return out;
}

template <class F>
Tensor unary(const F& f, const Tensor& x) {
  require_floating(x, F::name, "x");
  Tensor out = Tensor::empty(x.shape(), x.options());
  run_kernel(f, 0, out, Tensor(), x);
  record(F::name, out, {x}, {x},
         [f](const Backward& backward) { return Gradients{derivative(f, 1, backward.grad(), backward.saved(0))}; });
  return out;
}

}  // namespace

Tensor exp(const Tensor& x) {
  return unary(Exp{}, x);
}
Tensor expm1(const Tensor& x) {
  return unary(Expm1{}, x);
}
Tensor log(const Tensor& x) {
  return unary(Log{}, x);
}
Tensor log1p(const Tensor& x) {
  return unary(Log1p{}, x);
}
Tensor sqrt(const Tensor& x) {
  return unary(Sqrt{}, x);
}
Tensor square(const Tensor& x) {
  return unary(Square{}, x);
}
Tensor abs(const Tensor& x) {
  return unary(Abs{}, x);
}
Tensor reciprocal(const Tensor& x) {
  return unary(Reciprocal{}, x);
}
Tensor pow(const Tensor& x, double exponent) {
  if (exponent == 2) return square(x);
  return unary(Pow{exponent}, x);
}
Tensor clamp(const Tensor& x, double low, double high) {
  require(low <= high, "clamp: low must not be above high; low is ", low, ", high is ", high);
  return unary(Clamp{low, high}, x);
}
Tensor relu(const Tensor& x) {
  return unary(Relu{}, x);
}
Tensor leaky_relu(const Tensor& x, double slope) {
  return unary(LeakyRelu{slope}, x);
}
Tensor sigmoid(const Tensor& x) {
  return unary(Sigmoid{}, x);
}
Tensor silu(const Tensor& x) {
  return unary(Silu{}, x);
}
Tensor tanh(const Tensor& x) {
  return unary(Tanh{}, x);
}
Tensor gelu(const Tensor& x) {
  return unary(Gelu{}, x);
}
Tensor softplus(const Tensor& x) {
  return unary(Softplus{}, x);
}
Tensor sin(const Tensor& x) {
  return unary(Sin{}, x);
}
Tensor cos(const Tensor& x) {
  return unary(Cos{}, x);
}

Tensor detail::relu_gradient(const Tensor& dy, const Tensor& y) {
  return derivative(Relu{}, 1, dy, y);  // relu(x) is positive where x is
}
void detail::relu_in_place(const Tensor& y) {
  run_kernel(Relu{}, 0, y, Tensor(), y);
}

}  // namespace bevel
