#include <bevel/ops/matmul/detail/small_linear.h>
#include <bevel/ops/matmul/detail/small_tile.h>
#include <bevel/ops/matmul/linear.h>

#include <testing.h>

#include <array>
#include <cmath>
#include <memory>

namespace bevel {
namespace {

using namespace testing;
using detail::SmallProduct;

// The kernel, one thread after the other between barriers.
void run_on_host(const SmallProduct& p) {
  const auto shared = std::make_unique<detail::small::Shared>();
  for (int tile = 0; tile < p.tiles(); ++tile) {
    const auto at = detail::small::place_of(p, tile);
    std::vector<detail::small::Sums> sums(detail::small::threads);
    const auto each = [](const auto& phase) {
      for (int thread = 0; thread < detail::small::threads; ++thread) phase(thread);
    };
    for (int k0 = 0; k0 < p.k_size; k0 += detail::small::slab) {
      each([&](int t) { load(p, at, k0, t, *shared); });
      each([&](int t) { multiply(t, *shared, sums[static_cast<std::size_t>(t)]); });
    }
    each([&](int t) { leave(t, sums[static_cast<std::size_t>(t)], *shared); });
    each([&](int t) { store(p, at, t, *shared); });
  }
}

TEST(SmallTile, MakesEveryElementOfAProduct) {
  for (const auto& [rows, in, out] : {std::array{1, 1, 1}, {64, 128, 128}, {17, 130, 33}, {64, 128, 4}, {300, 5, 16}})
    for (const bool use_relu : {false, true}) {
      const Tensor x = random_tensor({rows, in}, {.dtype = f32, .seed = 1});
      const Tensor w = random_tensor({out, in}, {.dtype = f32, .seed = 2});
      const Tensor b = random_tensor({out}, {.dtype = f32, .seed = 3});
      const Tensor y = Tensor::from_values({rows, out}, std::vector<float>(static_cast<std::size_t>(rows * out), NAN));
      run_on_host({.a = x.data<float>(),
                   .b = w.data<float>(),
                   .a_i = in,
                   .a_k = 1,
                   .b_k = 1,
                   .b_j = in,
                   .i_size = rows,
                   .j_size = out,
                   .k_size = in,
                   .c = y.data<float>(),
                   .bias = b.data<float>(),
                   .relu = use_relu});
      const Tensor expected = linear(x, w, b, use_relu ? Activation::relu : Activation::none);
      EXPECT_TRUE(close(y, expected, 1e-5, 1e-5));

      const Tensor dy = random_tensor({rows, out}, {.dtype = f32, .seed = 4});
      const Tensor dw = Tensor::zeros({out, in});
      const Tensor db = Tensor::zeros({out});
      run_on_host({.a = dy.data<float>(),
                   .b = x.data<float>(),
                   .mask = use_relu ? y.data<float>() : nullptr,
                   .a_i = 1,
                   .a_k = out,
                   .b_k = in,
                   .b_j = 1,
                   .i_size = out,
                   .j_size = in,
                   .k_size = rows,
                   .c = dw.data<float>(),
                   .sums = db.data<float>()});
      const Tensor dx = Tensor::zeros({rows, in});
      run_on_host({.a = dy.data<float>(),
                   .b = w.data<float>(),
                   .mask = use_relu ? y.data<float>() : nullptr,
                   .a_i = out,
                   .a_k = 1,
                   .b_k = in,
                   .b_j = 1,
                   .i_size = rows,
                   .j_size = in,
                   .k_size = out,
                   .c = dx.data<float>()});
      for (const Tensor& leaf : {x, w, b}) leaf.set_requires_grad();
      linear(x, w, b, use_relu ? Activation::relu : Activation::none).backward(dy);
      EXPECT_TRUE(close(dw, w.grad().to_vector(), 1e-5, 2e-5));
      EXPECT_TRUE(close(db, b.grad().to_vector(), 1e-5, 2e-5));
      EXPECT_TRUE(close(dx, x.grad().to_vector(), 1e-5, 2e-5));
    }
}

class SmallLinearCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

// Shapes on both sides of the border, against the CPU; twice the same bits.
TEST_F(SmallLinearCudaTest, AgreesWithTheCpu) {
  for (const auto& [rows, in, out] :
       {std::array<std::int64_t, 3>{1, 1, 1}, {64, 128, 128}, {17, 130, 33}, {64, 128, 4}, {512, 5, 16}, {513, 5, 16}})
    for (const Activation activation : {Activation::none, Activation::relu})
      for (const bool with_bias : {false, true}) {
        std::vector<std::vector<Tensor>> results;
        for (const Device device : {cpu, cuda(), cuda()}) {
          const auto leaf = [&](const Shape& shape, std::uint64_t seed) {
            return random_tensor(shape, {.dtype = f32, .device = device, .seed = seed, .requires_grad = true});
          };
          const Tensor x = leaf({rows, in}, 1);
          const Tensor w = leaf({out, in}, 2);
          const Tensor b = with_bias ? leaf({out}, 3) : Tensor();
          const Tensor y = linear(x, w, b, activation);
          y.backward(random_tensor({rows, out}, {.dtype = f32, .device = device, .seed = 4}));
          results.push_back({y.detach(), x.grad(), w.grad()});
          if (with_bias) results.back().push_back(b.grad());
        }
        for (std::size_t i = 0; i < results[0].size(); ++i) {
          EXPECT_TRUE(close(results[1][i], results[0][i], 2e-5, 5e-5)) << rows << " " << in << " " << out << " " << i;
          EXPECT_TRUE(bit_equal(results[1][i], results[2][i]));
        }
      }
}

}  // namespace
}  // namespace bevel
