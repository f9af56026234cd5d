#include <bevel/core/tensor.h>

#include <testing.h>

#include <algorithm>

namespace bevel {
namespace {

using namespace testing;

using TensorTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, TensorTest, ::testing::ValuesIn(build_devices()), device_name);

TEST_P(TensorTest, HoldsValuesOfEveryDtype) {
  for (const Dtype dtype : {f32, f64, bf16, f16, i32, i64, u8, boolean}) {
    const Tensor t = Tensor::from({2, 2}, {0, 1, 1, 0}, {.dtype = dtype, .device = device()});
    EXPECT_EQ(t.dtype(), dtype);
    EXPECT_EQ(t.device(), device());
    EXPECT_EQ(t.to_vector(), (std::vector<double>{0, 1, 1, 0})) << dtype;
    EXPECT_EQ(Tensor::zeros({3}, {.dtype = dtype, .device = device()}).to_vector(), std::vector<double>(3, 0.0));
  }
  EXPECT_EQ(Tensor::scalar(2.5, {.dtype = f64, .device = device()}).item(), 2.5);
}

TEST_P(TensorTest, MovesBetweenDevicesAndBack) {
  const Tensor x = random_tensor({5, 7}, {.dtype = f32});
  const Tensor there = x.to(device());
  EXPECT_TRUE(bit_equal(there.to(cpu), x));
  EXPECT_TRUE(same(there.to(device()), there));
}

TEST_P(TensorTest, ViewSharesElementsAndVersion) {
  const Tensor x = Tensor::from({2, 3}, {1, 2, 3, 4, 5, 6}, {.device = device()});
  const Tensor row = x.view({3}, 3);
  EXPECT_EQ(row.to_vector(), (std::vector<double>{4, 5, 6}));
  row.copy_from(Tensor::from({3}, {7, 8, 9}));
  EXPECT_EQ(x.to_vector(), (std::vector<double>{1, 2, 3, 7, 8, 9}));
  EXPECT_EQ(x.version(), 1u);
  EXPECT_TRUE(throws_error([&] { x.view({3}, 4); }, {"4 to 7", "[2, 3]"}));
}

TEST_P(TensorTest, CloneIsIndependent) {
  const Tensor x = Tensor::from({2}, {1, 2}, {.device = device()});
  const Tensor y = x.clone();
  x.copy_from(Tensor::from({2}, {5, 5}));
  EXPECT_EQ(y.to_vector(), (std::vector<double>{1, 2}));
}

TEST_P(TensorTest, EmptyShapesWork) {
  const Tensor x = Tensor::empty({0, 3}, {.device = device()});
  EXPECT_EQ(x.numel(), 0);
  EXPECT_TRUE(x.to_vector().empty());
  EXPECT_TRUE(x.clone().to(cpu).to_vector().empty());
}

TEST(Tensor, SaysWhatIsWrong) {
  EXPECT_TRUE(throws_error([] { Tensor().shape(); }, {"undefined"}));
  EXPECT_TRUE(throws_error([] { Tensor::from({3}, {1, 2}); }, {"[3]", "3 elements", "2 values"}));
  EXPECT_TRUE(throws_error([] { Tensor::zeros({2}).data<double>(); }, {"f32", "f64"}));
  EXPECT_TRUE(throws_error([] { Tensor::zeros({2}).item(); }, {"one element", "[2]"}));
  EXPECT_TRUE(throws_error([] { Tensor::zeros({2}, {.dtype = i32, .requires_grad = true}); }, {"floating", "i32"}));
  EXPECT_TRUE(throws_error([] { Tensor::zeros({2}).set_grad(Tensor::zeros({3})); }, {"set_grad", "[2]", "[3]"}));
  EXPECT_TRUE(throws_error([] { Tensor::zeros({2}).copy_from(Tensor::zeros({3})); }, {"copy_from", "[2]", "[3]"}));
  EXPECT_TRUE(throws_error([] { Tensor::zeros({2}, {.requires_grad = true}).copy_from(Tensor::zeros({2})); },
                           {"copy_from", "NoGrad"}));
}

TEST(Tensor, ReadsDeviceNames) {
  EXPECT_EQ(parse_device("cpu"), cpu);
  EXPECT_EQ(parse_device("auto"), best_device());
  EXPECT_TRUE(throws_error([] { parse_device("gpu"); }, {"auto, cpu, cuda", "\"gpu\""}));
  EXPECT_TRUE(throws_error([] { parse_device("cuda:x"); }, {"\"cuda:x\""}));
  EXPECT_TRUE(throws_error([] { parse_device("cuda:99"); }, {"cuda:99", "not here"}));
  EXPECT_EQ(message(cpu, " ", cuda(1)), "cpu cuda:1");
  if (!has_cuda) {
    EXPECT_TRUE(throws_error([] { Tensor::zeros({1}, {.device = cuda()}); }, {"cuda:0"}));
  }
}

}  // namespace
}  // namespace bevel
