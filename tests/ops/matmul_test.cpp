#include "testing.h"

#include <bevel/core/parallel.h>
#include <bevel/ops/gradcheck.h>
#include <bevel/ops/matmul/matmul.h>

namespace bevel {
namespace {

using namespace testing;

using MatmulTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, MatmulTest, ::testing::ValuesIn(build_devices()), device_name);

// Element (i, j) of matrix `batch` of a stack whose last two axes may be exchanged.
double element(const std::vector<double>& values, const Shape& shape, std::int64_t batch, std::int64_t i,
               std::int64_t j, bool transposed) {
  if (transposed) std::swap(i, j);
  return values[static_cast<std::size_t>((batch * shape[-2] + i) * shape[-1] + j)];
}

// The batch of `shape` that broadcasts to number `flat` of the batch of `out`.
std::int64_t batch_index(const Shape& shape, const Shape& out, std::int64_t flat) {
  std::int64_t index = 0;
  std::int64_t step = 1;
  for (int axis = 3; axis <= out.rank(); ++axis) {
    const std::int64_t i = flat % out[-axis];
    flat /= out[-axis];
    if (axis > shape.rank()) continue;
    if (shape[-axis] > 1) index += i * step;
    step *= shape[-axis];
  }
  return index;
}

std::vector<double> plain(const Tensor& a, const Tensor& b, bool ta, bool tb, const Shape& out) {
  const auto x = a.to_vector();
  const auto y = b.to_vector();
  const std::int64_t k = a.size(ta ? -2 : -1);
  std::vector<double> result;
  for (std::int64_t batch = 0; batch < out.product(0, out.rank() - 2); ++batch) {
    const std::int64_t in_a = batch_index(a.shape(), out, batch);
    const std::int64_t in_b = batch_index(b.shape(), out, batch);
    for (std::int64_t i = 0; i < out[-2]; ++i)
      for (std::int64_t j = 0; j < out[-1]; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < k; ++l)
          sum += element(x, a.shape(), in_a, i, l, ta) * element(y, b.shape(), in_b, l, j, tb);
        result.push_back(sum);
      }
  }
  return result;
}

Shape with_matrix(const std::vector<std::int64_t>& batch, std::int64_t rows, std::int64_t columns, bool transposed) {
  std::vector<std::int64_t> sizes = batch;
  sizes.push_back(transposed ? columns : rows);
  sizes.push_back(transposed ? rows : columns);
  return Shape(sizes);
}

struct Case {
  std::vector<std::int64_t> a_batch, b_batch, out_batch;
  std::int64_t m, k, n;
};

const Case cases[] = {
    {{}, {}, {}, 1, 1, 1},
    {{}, {}, {}, 3, 5, 7},
    {{}, {}, {}, 65, 33, 130},
    {{}, {}, {}, 1, 300, 17},
    {{}, {}, {}, 200, 40, 1},
    {{}, {}, {}, 5, 9000, 6},  // a long sum: slices
    {{}, {}, {}, 4, 0, 3},
    {{}, {}, {}, 0, 4, 3},
    {{3}, {3}, {3}, 4, 5, 6},
    {{3}, {}, {3}, 4, 5, 6},
    {{}, {3}, {3}, 4, 5, 6},
    {{2, 1, 3}, {2, 1}, {2, 2, 3}, 2, 3, 4},
    {{1, 3}, {2, 1}, {2, 3}, 4, 2, 3},
    {{0}, {1}, {0}, 2, 3, 4},
};

TEST_P(MatmulTest, ValuesOverShapesFlagsAndDtypes) {
  for (const Case& c : cases)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const Dtype dtype : {f32, f64, bf16, f16}) {
          const RandomOptions options{.dtype = dtype, .device = device(), .seed = 3};
          const Tensor a = random_tensor(with_matrix(c.a_batch, c.m, c.k, ta), options);
          const Tensor b = random_tensor(with_matrix(c.b_batch, c.k, c.n, tb), options);
          const Shape out = with_matrix(c.out_batch, c.m, c.n, false);
          const Tensor result = matmul(a, b, {.transpose_a = ta, .transpose_b = tb});
          EXPECT_EQ(result.shape(), out);
          const double root = std::sqrt(static_cast<double>(c.k) + 1);
          const double rtol = dtype == bf16 ? 1e-2 : dtype == f16 ? 1e-3 : 1e-6;
          const double atol = dtype == f64 ? 1e-12 : 1e-6;
          EXPECT_TRUE(close(result, plain(a, b, ta, tb, out), dtype == f64 ? 1e-12 : rtol, root * atol))
              << a.shape() << (ta ? "^T " : " ") << b.shape() << (tb ? "^T " : " ") << dtype;
        }
}

TEST_P(MatmulTest, VectorsAsInNumPy) {
  const Tensor matrix = Tensor::from({2, 3}, {1, 2, 3, 4, 5, 6}, {.device = device()});
  const Tensor three = Tensor::from({3}, {1, 0, -1}, {.device = device()});
  const Tensor two = Tensor::from({2}, {1, 10}, {.device = device()});
  EXPECT_EQ(matmul(matrix, three).shape(), Shape{2});
  EXPECT_TRUE(close(matmul(matrix, three), std::vector<double>{-2, -2}));
  EXPECT_EQ(matmul(two, matrix).shape(), Shape{3});
  EXPECT_TRUE(close(matmul(two, matrix), std::vector<double>{41, 52, 63}));
  EXPECT_TRUE(close(matmul(matrix, two, {.transpose_a = true}), std::vector<double>{41, 52, 63}));
  EXPECT_EQ(matmul(three, three).shape(), Shape{});
  EXPECT_EQ(matmul(three, three).item(), 2);
}

TEST_P(MatmulTest, Gradients) {
  for (const Case& c : {cases[1], cases[8], cases[9], cases[10], cases[11], cases[12]})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        const std::vector<Tensor> inputs{random_leaf(with_matrix(c.a_batch, c.m, c.k, ta), device(), 1),
                                         random_leaf(with_matrix(c.b_batch, c.k, c.n, tb), device(), 2)};
        const auto f = [=](const std::vector<Tensor>& in) {
          return matmul(in[0], in[1], {.transpose_a = ta, .transpose_b = tb});
        };
        EXPECT_TRUE(gradcheck(f, inputs)) << inputs[0].shape() << ta << inputs[1].shape() << tb;
        EXPECT_TRUE(gradgradcheck(f, inputs)) << inputs[0].shape() << ta << inputs[1].shape() << tb;
      }
}

TEST_P(MatmulTest, GradientsOfVectors) {
  const auto f = [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); };
  const Tensor matrix = random_leaf({4, 3}, device(), 1);
  const Tensor three = random_leaf({3}, device(), 2);
  const Tensor four = random_leaf({4}, device(), 3);
  EXPECT_TRUE(gradcheck(f, {matrix, three}));
  EXPECT_TRUE(gradcheck(f, {four, matrix}));
  EXPECT_TRUE(gradcheck(f, {three, random_leaf({3}, device(), 4)}));
}

TEST(MatmulCpu, DoesNotDependOnTheThreadCount) {
  const int threads = num_threads();
  for (const Case& c :
       {Case{{}, {}, {}, 300, 200, 700}, Case{{}, {}, {}, 16, 40000, 24}, Case{{5}, {5}, {5}, 64, 64, 64}}) {
    const RandomOptions options{.dtype = f32};
    const Tensor a = random_tensor(with_matrix(c.a_batch, c.m, c.k, false), options);
    const Tensor b = random_tensor(with_matrix(c.b_batch, c.k, c.n, false), options);
    set_num_threads(1);
    const Tensor one = matmul(a, b);
    set_num_threads(3);
    const Tensor three = matmul(a, b);
    set_num_threads(threads);
    EXPECT_TRUE(bit_equal(one, three)) << c.m << " " << c.k << " " << c.n;
  }
}

TEST(MatmulCuda, AgreesWithTheCpuAndItself) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  for (const Dtype dtype : {f32, f64}) {
    const Tensor a = random_tensor({257, 1000}, {.dtype = dtype, .seed = 1});
    const Tensor b = random_tensor({1000, 130}, {.dtype = dtype, .seed = 2});
    const Tensor first = matmul(a.to(cuda()), b.to(cuda()));
    EXPECT_TRUE(bit_equal(first, matmul(a.to(cuda()), b.to(cuda()))));
    EXPECT_TRUE(close(first, matmul(a, b), 1e-5, dtype == f32 ? 2e-5 : 1e-12)) << dtype;
  }
}

TEST(MatmulCuda, Tf32RoundsOnlyWhenAsked) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const double value = 1 + std::ldexp(1.0, -16);  // not a tf32 number
  const Tensor a = Tensor::from({1, 1}, {value}, {.device = cuda()});
  const Tensor wide = matmul(a, Tensor::from({1, 1}, {1}, {.device = cuda()}));
  EXPECT_EQ(wide.item(), value);
  EXPECT_EQ(matmul_precision(), Precision::full);
  const Tensor x = random_tensor({64, 64}, {.dtype = f32, .device = cuda(), .seed = 1});
  const Tensor y = random_tensor({64, 64}, {.dtype = f32, .device = cuda(), .seed = 2});
  const Tensor full = matmul(x, y);
  set_matmul_precision(Precision::tf32);
  const Tensor rounded = matmul(x, y);
  set_matmul_precision(Precision::full);
  EXPECT_TRUE(close(rounded, full, 1e-2, 1e-2));
  EXPECT_TRUE(bit_equal(full, matmul(x, y)));
}

TEST_P(MatmulTest, Errors) {
  const Tensor a = Tensor::zeros({2, 3}, {.device = device()});
  const Tensor b = Tensor::zeros({4, 5}, {.device = device()});
  EXPECT_TRUE(throws_error([&] { matmul(a, b); }, {"matmul", "[2, 3]", "[4, 5]", "3", "4"}));
  EXPECT_TRUE(
      throws_error([&] { matmul(a, a, {.transpose_a = true, .transpose_b = true}); }, {"matmul", "transposed"}));
  EXPECT_TRUE(throws_error([&] { matmul(a, Tensor::scalar(1, {.device = device()})); }, {"matmul", "[]"}));
  EXPECT_TRUE(throws_error([&] { matmul(a, Tensor::zeros({3, 2}, {.dtype = f64, .device = device()})); },
                           {"matmul", "f32", "f64"}));
  const Tensor integers = Tensor::zeros({2, 2}, {.dtype = i32, .device = device()});
  EXPECT_TRUE(throws_error([&] { matmul(integers, integers); }, {"matmul", "i32"}));
  const Tensor c = Tensor::zeros({2, 3, 3}, {.device = device()});
  const Tensor d = Tensor::zeros({4, 3, 3}, {.device = device()});
  EXPECT_TRUE(throws_error([&] { matmul(c, d); }, {"matmul", "[2]", "[4]"}));
}

}  // namespace
}  // namespace bevel
