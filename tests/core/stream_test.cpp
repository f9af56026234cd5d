#include <bevel/core/memory.h>
#include <bevel/core/stream.h>
#include <bevel/core/tensor.h>

#include <testing.h>

#include <thread>

namespace bevel {
namespace {

using namespace testing;

TEST(Stream, TheCpuHasNone) {
  EXPECT_EQ(current_stream(cpu).handle(), nullptr);
  const StreamGuard guard{Stream(cpu)};
  current_stream(cpu).synchronize();
  synchronize(cpu);
}

class StreamCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

TEST_F(StreamCudaTest, GuardsNestAndBelongToTheirThread) {
  const Stream before = current_stream(cuda());
  const Stream a{cuda()};
  const Stream b{cuda()};
  {
    const StreamGuard outer(a);
    EXPECT_EQ(current_stream(cuda()), a);
    {
      const StreamGuard inner(b);
      EXPECT_EQ(current_stream(cuda()), b);
    }
    EXPECT_EQ(current_stream(cuda()), a);
    std::thread([&] { EXPECT_EQ(current_stream(cuda()), before); }).join();
  }
  EXPECT_EQ(current_stream(cuda()), before);
}

// Without the event the second stream would read while the first still writes: 64 copies of 256 MiB keep it busy.
TEST_F(StreamCudaTest, UseOnAnotherStreamWaitsForTheFirst) {
  const Shape shape{std::int64_t{1} << 26};
  const Tensor zeros = Tensor::zeros(shape, {.device = cuda()});
  const Tensor ones =
      Tensor::from_values(shape, std::vector<float>(static_cast<std::size_t>(shape.numel()), 1.0f)).to(cuda());
  const Tensor target = Tensor::zeros(shape, {.device = cuda()});
  const Stream a{cuda()};
  const Stream b{cuda()};
  for (int round = 0; round < 3; ++round) {
    {
      const StreamGuard guard(a);
      for (int i = 0; i < 32; ++i) {
        target.copy_from(zeros);
        target.copy_from(ones);
      }
    }
    const StreamGuard guard(b);
    const std::vector<float> values = target.view({1024}, shape.numel() - 1024).clone().to_vector<float>();
    EXPECT_EQ(values, std::vector<float>(1024, 1.0f));
    target.copy_from(zeros);
  }
}

// A block freed with work of one stream still queued may be handed out on another only behind that work.
TEST_F(StreamCudaTest, AFreedBlockIsReusedBehindItsLastWork) {
  const Shape shape{std::int64_t{1} << 26};
  const Tensor zeros = Tensor::zeros(shape, {.device = cuda()});
  const Stream a{cuda()};
  const Stream b{cuda()};
  Tensor late = Tensor::zeros(shape, {.device = cuda()});
  {
    const StreamGuard guard(a);
    for (int i = 0; i < 64; ++i) late.copy_from(zeros);
    late = Tensor();
  }
  const StreamGuard guard(b);
  const std::vector<float> host(static_cast<std::size_t>(shape.numel()), 2.0f);
  const Tensor reused = Tensor::from_values(shape, host).to(cuda());
  EXPECT_EQ(reused.to_vector<float>(), host);
}

TEST_F(StreamCudaTest, AStreamMayEndBeforeItsMemory) {
  Tensor x;
  {
    const Stream a{cuda()};
    const StreamGuard guard(a);
    x = Tensor::from({2}, {3, 4}, {.device = cuda()});
  }
  EXPECT_EQ(x.to_vector(), (std::vector<double>{3, 4}));
}

}  // namespace
}  // namespace bevel
