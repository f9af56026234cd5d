// Which problems the one-read kernels take, at each border, and that they are right on both sides of it.
#include <bevel/ops/evonorm/detail/one_read.h>

#include "evonorm_reference.h"

namespace bevel {
namespace {

using namespace bevel::testing;

struct Border {
  EvoShape shape;
  Layout layout;
  Dtype dtype;
  evo::Pass pass;
  int pack, lanes, threads, cluster;  // pack 0: two passes
};

constexpr evo::Pass forward = evo::Pass::forward, backward = evo::Pass::backward;
constexpr Layout nchw = Layout::nchw, nhwc = Layout::nhwc;

// Both sides of every border of residency().
const Border borders[] = {
    // NCHW, f32: threads a map. 8 packs each below a warp, then 13.
    {{2, 4, 4, 8, 4}, nchw, f32, forward, 4, 1, 64, 1},  // 16 groups a block
    {{2, 6, 6, 8, 4}, nchw, f32, forward, 4, 2, 64, 1},
    {{2, 16, 32, 8, 4}, nchw, f32, forward, 4, 16, 64, 1},
    {{2, 12, 43, 8, 4}, nchw, f32, forward, 4, 32, 64, 1},
    {{2, 32, 52, 8, 4}, nchw, f32, forward, 4, 32, 64, 1},
    {{2, 40, 42, 8, 4}, nchw, f32, forward, 4, 64, 128, 1},
    // A block of 52 KiB, then a cluster of 2; backward holds twice as much.
    {{2, 32, 52, 16, 2}, nchw, f32, forward, 4, 32, 256, 1},
    {{2, 32, 52, 16, 2}, nchw, f32, backward, 4, 64, 256, 2},  // more threads for few pictures, up to 256
    {{2, 56, 56, 4, 2}, nchw, f32, forward, 4, 64, 128, 1},
    {{2, 56, 56, 4, 2}, nchw, f32, backward, 4, 128, 256, 1},
    {{2, 56, 56, 4, 2}, nchw, bf16, forward, 8, 64, 128, 1},
    {{2, 56, 56, 4, 2}, nchw, bf16, backward, 8, 32, 64, 1},
    {{2, 40, 42, 16, 2}, nchw, f32, forward, 4, 64, 256, 2},
    {{2, 40, 42, 16, 2}, nchw, f32, backward, 4, 64, 128, 4},
    // Where no cluster divides the group, blocks of 104 and 208 KiB.
    {{3, 56, 56, 3, 1}, nchw, f32, forward, 4, 64, 192, 1},
    {{3, 56, 56, 3, 1}, nchw, f32, backward, 4, 64, 192, 1},
    {{1, 104, 128, 2, 2}, nchw, f32, forward, 4, 256, 256, 1},
    {{1, 104, 256, 1, 1}, nchw, f32, forward, 4, 512, 512, 1},
    {{1, 104, 256, 1, 1}, nchw, f32, backward, 4, 512, 512, 1},
    {{1, 104, 257, 1, 1}, nchw, f32, forward, 4, 512, 512, 1},
    {{1, 104, 257, 1, 1}, nchw, f32, backward, 0, 0, 0, 0},
    {{1, 208, 256, 1, 1}, nchw, f32, forward, 4, 512, 512, 1},
    {{1, 208, 257, 1, 1}, nchw, f32, forward, 0, 0, 0, 0},
    // 8 blocks of 512 threads at most.
    {{1, 7, 7, 512, 1}, nchw, f32, forward, 1, 8, 512, 8},
    {{1, 7, 7, 1024, 1}, nchw, f32, forward, 0, 0, 0, 0},
    {{1, 7, 7, 66, 2}, nchw, f32, forward, 1, 8, 288, 1},
    {{1, 7, 7, 130, 2}, nchw, f32, forward, 0, 0, 0, 0},  // 65 maps: more than a block, and no cluster divides them
    // NCHW, half types: 16, 8 or 2 bytes at once.
    {{2, 56, 56, 16, 2}, nchw, bf16, forward, 8, 32, 256, 1},
    {{2, 56, 56, 16, 2}, nchw, bf16, backward, 8, 32, 128, 2},
    {{2, 14, 14, 32, 2}, nchw, bf16, backward, 4, 8, 128, 1},
    {{2, 14, 14, 32, 2}, nchw, f16, forward, 4, 8, 128, 1},
    {{2, 7, 7, 128, 2}, nchw, bf16, backward, 1, 8, 512, 1},
    {{2, 4, 2, 16, 4}, nchw, bf16, forward, 8, 1, 64, 1},
    {{2, 2, 6, 16, 4}, nchw, bf16, forward, 4, 1, 64, 1},
    {{130, 3, 3, 4, 2}, nchw, f32, forward, 1, 2, 64, 1},  // the last block is not full
    // NHWC: 128 bytes of channels. All these are few pictures, which avoid clusters of more than two where they can.
    {{2, 8, 16, 32, 4}, nhwc, f32, forward, 4, 8, 128, 1},
    {{2, 16, 26, 32, 4}, nhwc, f32, forward, 4, 8, 256, 1},
    {{2, 16, 26, 32, 4}, nhwc, f32, backward, 4, 8, 256, 2},
    {{2, 16, 27, 32, 4}, nhwc, f32, forward, 4, 8, 128, 2},
    {{2, 16, 27, 32, 4}, nhwc, f32, backward, 4, 4, 512, 1},
    {{2, 32, 17, 64, 32}, nhwc, f32, forward, 4, 8, 128, 2},
    {{1, 52, 64, 32, 4}, nhwc, f32, forward, 4, 4, 512, 2},
    {{1, 52, 64, 32, 4}, nhwc, f32, backward, 4, 4, 512, 2},
    {{1, 53, 64, 32, 4}, nhwc, f32, forward, 4, 8, 256, 8},
    {{1, 104, 64, 32, 4}, nhwc, f32, forward, 4, 8, 256, 8},
    // 64 bytes of channels, then larger blocks.
    {{1, 104, 65, 32, 4}, nhwc, f32, forward, 4, 4, 256, 8},
    {{1, 208, 64, 32, 4}, nhwc, f32, backward, 4, 4, 256, 8},
    {{1, 208, 65, 32, 4}, nhwc, f32, backward, 0, 0, 0, 0},
    {{1, 208, 128, 32, 4}, nhwc, f32, forward, 4, 4, 256, 8},
    {{1, 208, 129, 32, 4}, nhwc, f32, forward, 0, 0, 0, 0},
    {{2, 45, 45, 64, 8}, nhwc, bf16, forward, 8, 4, 512, 2},
    {{2, 56, 56, 64, 8}, nhwc, bf16, backward, 8, 4, 512, 2},
    {{2, 14, 14, 64, 4}, nhwc, f16, forward, 8, 8, 128, 1},
    {{2, 7, 7, 128, 2}, nhwc, bf16, forward, 8, 8, 128, 1},
    // Wide groups, channels that do not fill packs or blocks, few channels, few pixels.
    {{2, 7, 7, 64, 1}, nhwc, f32, forward, 4, 16, 128, 1},
    {{2, 7, 7, 256, 2}, nhwc, f32, forward, 4, 32, 128, 1},
    {{2, 7, 7, 256, 1}, nhwc, f32, forward, 0, 0, 0, 0},
    {{2, 7, 7, 30, 5}, nhwc, f32, forward, 0, 0, 0, 0},
    {{2, 20, 20, 96, 32}, nhwc, f32, forward, 0, 0, 0, 0},
    {{2, 20, 20, 8, 2}, nhwc, f32, forward, 4, 2, 128, 1},
    {{2, 20, 20, 4, 4}, nhwc, f32, forward, 4, 1, 128, 1},
    {{1, 1, 3, 64, 4}, nhwc, f32, forward, 4, 8, 128, 1},
};

evo::Problem problem(const Border& b, EvoNorm variant = EvoNorm::S0) {
  const EvoShape& s = b.shape;
  return {.variant = variant,
          .layout = b.layout,
          .dtype = b.dtype,
          .samples = s.n,
          .pixels = s.h * s.w,
          .channels = s.c,
          .groups = s.groups,
          .eps = 1e-5,
          .momentum = 0.1,
          .training = true,
          .affine = false};
}

TEST(EvoNormResidency, ChoosesBySize) {
  for (const Border& b : borders) {
    SCOPED_TRACE(message(b.shape, ", ", b.layout, ", ", b.dtype, b.pass == forward ? ", forward" : ", backward"));
    const evo::Residency r = evo::residency(problem(b), b.pass, 16, true);
    EXPECT_EQ(r.pack, b.pack);
    if (!r) continue;
    EXPECT_EQ(r.lanes, b.lanes);
    EXPECT_EQ(r.threads, b.threads);
    EXPECT_EQ(r.cluster, b.cluster);
    EXPECT_LE(r.threads, evo::one_read_threads);
    EXPECT_EQ(r.threads % 32, 0);
    EXPECT_LE(evo::one_read(problem(b), r, b.pass).shared_bytes(b.pass), 226 * 1024);
  }
}

// The sizes of the benchmarks, whose batches are too large for the other tests.
TEST(EvoNormResidency, ManyPicturesHaveLargeClusters) {
  const Border many[] = {
      {{128, 56, 56, 256, 32}, nhwc, f32, forward, 4, 8, 256, 8},
      {{128, 56, 56, 256, 32}, nhwc, f32, backward, 4, 8, 256, 8},
      {{128, 56, 56, 256, 32}, nhwc, bf16, forward, 8, 4, 256, 4},
      {{128, 56, 56, 256, 32}, nhwc, bf16, backward, 8, 4, 256, 8},
      {{128, 28, 28, 256, 32}, nhwc, f16, forward, 8, 8, 256, 2},
      {{256, 14, 14, 512, 32}, nhwc, bf16, backward, 8, 8, 256, 1},
      {{128, 56, 56, 256, 32}, nchw, f32, backward, 4, 64, 128, 4},
      {{128, 56, 56, 256, 32}, nchw, bf16, backward, 8, 32, 128, 2},
      {{512, 56, 56, 64, 32}, nchw, bf16, backward, 8, 32, 128, 1},
      {{512, 56, 56, 64, 32}, nchw, f32, backward, 4, 64, 128, 1},
  };
  for (const Border& b : many) {
    const evo::Residency r = evo::residency(problem(b), b.pass, 16, true);
    EXPECT_TRUE(r.pack == b.pack && r.lanes == b.lanes && r.threads == b.threads && r.cluster == b.cluster)
        << b.shape << ", " << b.layout << ", " << b.dtype;
    EXPECT_LE(evo::one_read(problem(b), r, b.pass).shared_bytes(b.pass), 226 * 1024);
  }
}

TEST(EvoNormResidency, WithoutClustersOnlyWhatABlockHolds) {
  for (const Border& b : borders) {
    const evo::Residency r = evo::residency(problem(b), b.pass, 16, false);
    EXPECT_TRUE(!r || r.cluster == 1) << b.shape;
    if (!r) continue;
    EXPECT_LE(evo::one_read(problem(b), r, b.pass).shared_bytes(b.pass), 98 * 1024) << b.shape;
  }
  // 80 KiB on both sides.
  Border border{{1, 16, 40, 32, 4}, nhwc, f32, forward, 0, 0, 0, 0};
  EXPECT_TRUE(evo::residency(problem(border), forward, 16, false));
  border.shape = {1, 16, 80, 32, 4};
  EXPECT_TRUE(evo::residency(problem(border), forward, 16, false)) << "64 bytes of channels";
  border.shape = {1, 16, 81, 32, 4};
  EXPECT_FALSE(evo::residency(problem(border), forward, 16, false));
}

TEST(EvoNormResidency, LeavesTheRestToTwoPasses) {
  Border b{{2, 16, 16, 32, 4}, nhwc, f32, forward, 0, 0, 0, 0};
  EXPECT_TRUE(evo::residency(problem(b), forward, 16, true));
  EXPECT_FALSE(evo::residency(problem(b), forward, 8, true)) << "addresses";
  EXPECT_FALSE(evo::residency(problem(b, EvoNorm::B0), forward, 16, true));
  b.dtype = f64;
  EXPECT_FALSE(evo::residency(problem(b), forward, 16, true));
}

class EvoNormBorderTest : public DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Devices, EvoNormBorderTest, ::testing::ValuesIn(build_devices()), device_name);

TEST_P(EvoNormBorderTest, AgreesWithDoubleOnBothSides) {
  for (const Border& b : borders)
    for (const EvoNorm variant : {EvoNorm::S0, EvoNorm::S1, EvoNorm::S2}) {
      SCOPED_TRACE(message(variant, ", ", b.layout, ", ", b.dtype, ", ", b.shape));
      const EvoNormOptions o{.variant = variant, .groups = b.shape.groups, .layout = b.layout};
      const EvoInputs in = evonorm_inputs(b.shape, o, b.dtype, 9);
      const EvoOutputs out = run_evonorm(in, o, b.dtype, device());
      const double tolerance = b.dtype == f32 ? 1e-5 : b.dtype == bf16 ? 5e-3 : 6e-4;
      expect_close_outputs(out, run_evonorm(in, o, f64, cpu), tolerance, 2e-5);
      const EvoOutputs again = run_evonorm(in, o, b.dtype, device());
      EXPECT_TRUE(bit_equal(out.y, again.y) && bit_equal(out.dx, again.dx) && bit_equal(out.dgamma, again.dgamma));
    }
}

}  // namespace
}  // namespace bevel
