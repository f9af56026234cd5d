#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/matmul/detail/small_linear.h>
#include <bevel/ops/matmul/detail/small_tile.h>
#include <bevel/core/cuda/launch.cuh>

namespace bevel::detail {

namespace {

// One or two products: the first blocks make the tiles of the first, the others those of the second.
struct SmallProducts {
  SmallProduct first, second;
};

__global__ void __launch_bounds__(small::threads)
    small_products_kernel(const __grid_constant__ SmallProducts products, int first_tiles) {
  gpu::begin_kernel();
  __shared__ small::Shared shared;
  const int block = static_cast<int>(blockIdx.x);
  const SmallProduct& p = block < first_tiles ? products.first : products.second;
  const small::Place at = small::place_of(p, block < first_tiles ? block : block - first_tiles);
  const int thread = static_cast<int>(threadIdx.x);
  small::Sums sums;
  for (std::int32_t k0 = 0; k0 < p.k_size; k0 += small::slab) {
    if (k0 > 0) __syncthreads();
    small::load(p, at, k0, thread, shared);
    __syncthreads();
    small::multiply(thread, shared, sums);
  }
  small::leave(thread, sums, shared);
  __syncthreads();
  small::store(p, at, thread, shared);
}

void launch(Cuda backend, const SmallProducts& products) {
  const gpu::DeviceGuard guard(backend.device);
  const int first_tiles = products.first.tiles();
  const int blocks = first_tiles + products.second.tiles();
  if (blocks == 0) return;
  gpu::launch(small_products_kernel,
              {.blocks = static_cast<unsigned>(blocks), .threads = small::threads, .stream = gpu::stream(backend)},
              "small_products_kernel", products, first_tiles);
}

std::int32_t size(const Tensor& tensor, int axis) {
  return static_cast<std::int32_t>(tensor.size(axis));
}

}  // namespace

void small_linear(Cuda backend, const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu, const Tensor& y) {
  SmallProducts products;
  SmallProduct& p = products.first;
  p.a = x.data<float>();
  p.b = weight.data<float>();
  p.a_i = size(x, 1);
  p.a_k = 1;
  p.b_k = 1;
  p.b_j = size(x, 1);
  p.i_size = size(x, 0);
  p.j_size = size(weight, 0);
  p.k_size = size(x, 1);
  p.c = y.data<float>();
  p.bias = bias.defined() ? bias.data<float>() : nullptr;
  p.relu = relu;
  launch(backend, products);
}

void small_linear_backward(Cuda backend, const Tensor& dy, const Tensor& y, const Tensor& x, const Tensor& weight,
                           const Tensor& dx, const Tensor& dw, const Tensor& db) {
  const std::int32_t rows = size(x, 0);
  const std::int32_t in = size(x, 1);
  const std::int32_t out = size(weight, 0);
  const float* const mask = y.defined() ? y.data<float>() : nullptr;
  SmallProducts products;
  if (dw.defined()) {  // dy' x
    SmallProduct& p = products.first;
    p.a = dy.data<float>();
    p.b = x.data<float>();
    p.mask = mask;
    p.a_i = 1;
    p.a_k = out;
    p.b_k = in;
    p.b_j = 1;
    p.i_size = out;
    p.j_size = in;
    p.k_size = rows;
    p.c = dw.data<float>();
    p.sums = db.defined() ? db.data<float>() : nullptr;
  }
  if (dx.defined()) {  // dy weight
    SmallProduct& p = products.second;
    p.a = dy.data<float>();
    p.b = weight.data<float>();
    p.mask = mask;
    p.a_i = out;
    p.a_k = 1;
    p.b_k = in;
    p.b_j = 1;
    p.i_size = rows;
    p.j_size = in;
    p.k_size = out;
    p.c = dx.data<float>();
  }
  launch(backend, products);
}

}  // namespace bevel::detail
