#include <bevel/core/cuda/runtime.h>
#include <bevel/core/tensor.h>
#include <bevel/core/cuda/launch.cuh>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bevel {
namespace {

// Each element becomes the sum of itself and its right neighbour, modulo 2^32: what a block reads was written by
// another block of the kernel before, so a kernel that starts too early gives a wrong number.
__global__ void add_neighbour(const std::uint32_t* from, std::uint32_t* to, std::int64_t count) {
  gpu::begin_kernel();
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x)
    to[i] = from[i] + from[(i + 1) % count];
}

// Without begin_kernel: launched the plain way, between the others.
__global__ void increment(std::uint32_t* data, std::int64_t count) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x)
    ++data[i];
}

class CudaLaunchTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t count = 300'001;
  static constexpr int rounds = 40;
  static constexpr unsigned blocks[] = {1, 7, 1000, 132};

  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
    a_ = Tensor::empty({count}, {.dtype = i32, .device = cuda(0)});
    b_ = Tensor::empty({count}, {.dtype = i32, .device = cuda(0)});
  }

  // `stream` is the current one or one that captures.
  void run(cudaStream_t stream) {
    auto* a = reinterpret_cast<std::uint32_t*>(a_.data<std::int32_t>());
    auto* b = reinterpret_cast<std::uint32_t*>(b_.data<std::int32_t>());
    gpu::check(cudaMemsetAsync(a, 0, count * sizeof(*a), stream), "cudaMemsetAsync");
    increment<<<132, 256, 0, stream>>>(a, 1000);
    for (int round = 0; round < rounds; ++round) {
      gpu::launch(add_neighbour, {.blocks = blocks[round % 4], .threads = 256, .stream = stream}, "add_neighbour", a, b,
                  count);
      if (round % 5 == 2) increment<<<50, 256, 0, stream>>>(b, count);
      std::swap(a, b);
    }
    gpu::check(cudaGetLastError(), "increment");
  }

  static std::vector<std::uint32_t> expected() {
    std::vector<std::uint32_t> a(count, 0);
    std::vector<std::uint32_t> b(count);
    std::fill_n(a.begin(), 1000, 1);
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < count; ++i) b[i] = a[i] + a[(i + 1) % count] + (round % 5 == 2 ? 1 : 0);
      std::swap(a, b);
    }
    return a;
  }

  void expect_result() {
    static_assert(rounds % 2 == 0);  // so that the result is in a_
    const std::vector<std::uint32_t> want = expected();
    const Tensor host = a_.to(cpu);
    for (std::int64_t i = 0; i < count; ++i)
      ASSERT_EQ(static_cast<std::uint32_t>(host.data<std::int32_t>()[i]), want[static_cast<std::size_t>(i)]) << i;
  }

  Tensor a_;
  Tensor b_;
};

TEST_F(CudaLaunchTest, KernelsSeeWhatThoseBeforeThemWrote) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    run(gpu::stream(cuda(0)));
    expect_result();
  }
}

TEST_F(CudaLaunchTest, TheSameInAGraph) {
  const Stream stream(cuda(0));
  const auto handle = static_cast<cudaStream_t>(stream.handle());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  gpu::check(cudaStreamBeginCapture(handle, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  run(handle);
  gpu::check(cudaStreamEndCapture(handle, &graph), "cudaStreamEndCapture");
  gpu::check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  for (int repeat = 0; repeat < 20; ++repeat) {
    gpu::check(cudaGraphLaunch(executable, handle), "cudaGraphLaunch");
    gpu::check(cudaStreamSynchronize(handle), "cudaStreamSynchronize");
    expect_result();
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST_F(CudaLaunchTest, ClustersStart) {
  auto* a = reinterpret_cast<std::uint32_t*>(a_.data<std::int32_t>());
  auto* b = reinterpret_cast<std::uint32_t*>(b_.data<std::int32_t>());
  if (!gpu::launches_early()) GTEST_SKIP() << "clusters need compute capability 9.0";
  const cudaStream_t stream = gpu::stream(cuda(0));
  gpu::check(cudaMemsetAsync(a, 1, count * sizeof(*a), stream), "cudaMemsetAsync");
  gpu::launch(add_neighbour, {.blocks = 64, .threads = 128, .stream = stream, .cluster = 4}, "add_neighbour", a, b,
              count);
  EXPECT_EQ(b_.to(cpu).data<std::int32_t>()[count - 1], 0x02020202);
}

TEST_F(CudaLaunchTest, AFailedLaunchSaysWhichKernel) {
  try {
    gpu::launch(add_neighbour, {.threads = 4096, .stream = gpu::stream(cuda(0))}, "add_neighbour",
                static_cast<const std::uint32_t*>(nullptr), static_cast<std::uint32_t*>(nullptr), std::int64_t{0});
    FAIL() << "4096 threads a block";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("add_neighbour"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace bevel
