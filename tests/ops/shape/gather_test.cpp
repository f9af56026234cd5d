#include <bevel/core/parallel.h>
#include <bevel/ops/gradcheck.h>
#include <bevel/ops/shape/gather.h>

#include <testing.h>

namespace bevel {
namespace {

using namespace testing;

using GatherTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, GatherTest, ::testing::ValuesIn(build_devices()), device_name);

Tensor indices(const Shape& shape, std::int64_t size, Device device, Dtype dtype = i64) {
  return random_tensor(shape,
                       {.dtype = dtype, .device = device, .low = 0, .high = static_cast<double>(size), .seed = 9});
}

TEST_P(GatherTest, PicksAlongAnAxis) {
  const Shape shape{3, 5, 4};
  for (const Dtype dtype : {f32, f64, bf16, i64, u8})
    for (int axis = 0; axis < 3; ++axis) {
      const Tensor x = random_tensor(shape, {.dtype = dtype, .device = device(), .low = 0, .high = 100});
      const Shape index_shape = shape.replaced(axis, 7);
      const Tensor index = indices(index_shape, shape[axis], device(), axis == 1 ? i32 : i64);
      const auto values = x.to_vector();
      const auto places = index.to_vector<std::int64_t>();
      const std::int64_t inner = shape.product(axis + 1, 3);
      std::vector<double> expected;
      for (std::int64_t p = 0; p < index.numel(); ++p) {
        const std::int64_t o = p / inner / 7;
        const std::int64_t place = (o * shape[axis] + places[static_cast<std::size_t>(p)]) * inner + p % inner;
        expected.push_back(values[static_cast<std::size_t>(place)]);
      }
      const Tensor y = gather(x, axis, index);
      EXPECT_EQ(y.shape(), index_shape);
      EXPECT_EQ(y.to_vector(), expected);
    }
}

TEST_P(GatherTest, SelectsRows) {
  const Tensor x = Tensor::from({3, 2}, {1, 2, 3, 4, 5, 6}, {.device = device()});
  const Tensor rows = Tensor::from({4}, {2, 0, 2, 1}, {.dtype = i64, .device = device()});
  EXPECT_EQ(index_select(x, 0, rows).to_vector(), (std::vector<double>{5, 6, 1, 2, 5, 6, 3, 4}));
  const Tensor columns = Tensor::from({3}, {1, 1, 0}, {.dtype = i32, .device = device()});
  EXPECT_EQ(index_select(x, -1, columns).to_vector(), (std::vector<double>{2, 2, 1, 4, 4, 3, 6, 6, 5}));
  const Tensor none = Tensor::zeros({0}, {.dtype = i64, .device = device()});
  EXPECT_EQ(index_select(x, 1, none).shape(), (Shape{3, 0}));
}

TEST_P(GatherTest, ScatterAddSumsInOrder) {
  const Tensor source = Tensor::from({2, 3}, {1, 2, 3, 4, 5, 6}, {.device = device()});
  const Tensor index = Tensor::from({2, 3}, {0, 2, 0, 1, 1, 1}, {.dtype = i64, .device = device()});
  EXPECT_EQ(scatter_add(source, 1, index, 4).to_vector(), (std::vector<double>{4, 0, 2, 0, 0, 15, 0, 0}));
  EXPECT_EQ(scatter_add(source, 0, index, 3).to_vector(), (std::vector<double>{1, 0, 3, 4, 5, 6, 0, 2, 0}));
  const Tensor nothing = Tensor::zeros({0, 3}, {.device = device()});
  const Tensor no_index = Tensor::zeros({0, 3}, {.dtype = i64, .device = device()});
  EXPECT_EQ(scatter_add(nothing, 0, no_index, 2).to_vector(), std::vector<double>(6, 0));
}

// Many duplicates of an index: one row of the gradient sums thousands.
TEST_P(GatherTest, GradientOfAnEmbedding) {
  for (const Dtype dtype : {f32, f64, bf16, f16}) {
    const Tensor table = random_tensor({5, 300}, {.dtype = dtype, .device = device(), .requires_grad = true});
    const Tensor index = indices({900}, 4, device());
    const Tensor upstream = random_tensor({900, 300}, {.dtype = dtype, .device = device(), .seed = 4});
    index_select(table, 0, index).backward(upstream);
    std::vector<double> expected(5 * 300, 0);
    const auto rows = index.to_vector<std::int64_t>();
    const auto gradients = upstream.to_vector();
    for (std::size_t k = 0; k < 900; ++k)
      for (std::size_t j = 0; j < 300; ++j)
        expected[static_cast<std::size_t>(rows[k]) * 300 + j] += gradients[k * 300 + j];
    const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 1e-4 : dtype == f16 ? 3e-2 : 0.2;
    EXPECT_TRUE(close(table.grad(), expected, dtype == bf16 ? 8e-3 : 1e-3, tolerance)) << dtype;
    const Tensor first = table.grad();
    table.set_grad({});
    index_select(table, 0, index).backward(upstream);
    EXPECT_TRUE(bit_equal(table.grad(), first));
  }
}

TEST_P(GatherTest, Gradients) {
  const Tensor x = random_leaf({3, 4, 2}, device());
  for (int axis = 0; axis < 3; ++axis) {
    const Tensor index = indices(Shape{3, 4, 2}.replaced(axis, 5), x.size(axis), device());
    const Tensor rows = indices({6}, x.size(axis), device());
    const auto gathered = [&](const auto& in) { return gather(in[0], axis, index); };
    const auto selected = [&](const auto& in) { return index_select(in[0], axis, rows); };
    EXPECT_TRUE(gradcheck(gathered, {x}));
    EXPECT_TRUE(gradgradcheck(gathered, {x}));
    EXPECT_TRUE(gradcheck(selected, {x}));
    EXPECT_TRUE(gradgradcheck(selected, {x}));
    const Tensor places = indices({3, 4, 2}, 3, device());
    EXPECT_TRUE(gradcheck([&](const auto& in) { return scatter_add(in[0], axis, places, 3); }, {x}));
  }
}

TEST_P(GatherTest, WrongIndicesAreErrors) {
  const Tensor x = Tensor::zeros({3, 2}, {.device = device()});
  const auto index = [&](double i, Dtype dtype = i64) {
    return Tensor::from({1}, {i}, {.dtype = dtype, .device = device()});
  };
  EXPECT_TRUE(throws_error([&] { index_select(x, 0, index(3)); }, {"index_select", "index", "3"}));
  EXPECT_TRUE(throws_error([&] { index_select(x, 0, index(-1)); }, {"index_select"}));
  EXPECT_TRUE(throws_error([&] { index_select(x, 0, index(0, f32)); }, {"index_select", "f32"}));
  EXPECT_TRUE(throws_error([&] { gather(x, 0, index(0)); }, {"gather", "[3, 2]", "[1]"}));
  const Tensor wide = Tensor::from({3, 1}, {0, 1, 2}, {.dtype = i64, .device = device()});
  EXPECT_TRUE(throws_error([&] { gather(x, 1, wide); }, {"gather", "size 2"}));
  EXPECT_TRUE(throws_error([&] { scatter_add(x, 1, wide, 2); }, {"scatter_add", "[3, 2]", "[3, 1]"}));
}

}  // namespace
}  // namespace bevel
