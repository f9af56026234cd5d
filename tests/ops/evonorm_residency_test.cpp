// Which problems the one-read kernels take, at each border, and that they are right on both sides of it.
#include <bevel/ops/evonorm/detail/residency.h>

#include "evonorm_reference.h"

namespace bevel {
namespace {

using namespace bevel::testing;

struct Border {
  EvoShape shape;
  Layout layout;
  Dtype dtype;
  int pack, vectors, lanes, cluster;  // pack 0: two passes
};

// Both sides of every border of residency().
const Border borders[] = {
    // NCHW, f32: lanes of a map, and blocks of a cluster as groups grow.
    {{2, 4, 4, 8, 4}, Layout::nchw, f32, 4, 4, 1, 1},
    {{2, 4, 8, 8, 4}, Layout::nchw, f32, 4, 8, 1, 1},
    {{2, 6, 6, 8, 4}, Layout::nchw, f32, 4, 8, 2, 1},
    {{2, 32, 32, 8, 1}, Layout::nchw, f32, 4, 8, 32, 1},
    {{2, 32, 36, 8, 1}, Layout::nchw, f32, 4, 8, 64, 2},
    {{2, 56, 56, 16, 2}, Layout::nchw, f32, 4, 8, 128, 4},
    {{2, 80, 80, 8, 1}, Layout::nchw, f32, 4, 8, 256, 8},
    {{2, 80, 80, 16, 1}, Layout::nchw, f32, 0, 0, 0, 0},  // a group of 16 maps, each a block's: too many blocks
    {{1, 64, 128, 2, 1}, Layout::nchw, f32, 4, 8, 256, 2},
    {{1, 64, 129, 2, 1}, Layout::nchw, f32, 0, 0, 0, 0},  // a map of more than 2048 packs
    {{3, 56, 56, 3, 1}, Layout::nchw, f32, 0, 0, 0, 0},   // 3 maps, two a block: a cluster would have to divide 3
    // NCHW, half types: 16, 8 or 2 bytes at once.
    {{2, 56, 56, 16, 2}, Layout::nchw, bf16, 8, 8, 64, 2},
    {{2, 14, 14, 32, 2}, Layout::nchw, bf16, 4, 8, 8, 1},
    {{2, 14, 14, 32, 2}, Layout::nchw, f16, 4, 8, 8, 1},
    {{2, 7, 7, 128, 2}, Layout::nchw, bf16, 1, 8, 8, 2},
    {{2, 7, 7, 128, 2}, Layout::nchw, f16, 1, 8, 8, 2},
    {{2, 7, 7, 66, 2}, Layout::nchw, f32, 0, 0, 0, 0},  // 33 maps of 8 lanes, and no cluster divides 33
    {{2, 4, 2, 16, 4}, Layout::nchw, bf16, 8, 4, 1, 1},
    {{2, 2, 6, 16, 4}, Layout::nchw, bf16, 4, 4, 1, 1},
    // NHWC: 128 bytes of channels, a growing cluster, 64 bytes, two passes.
    {{2, 8, 16, 32, 4}, Layout::nhwc, f32, 4, 4, 8, 1},
    {{2, 16, 16, 32, 4}, Layout::nhwc, f32, 4, 8, 8, 1},
    {{2, 16, 17, 32, 4}, Layout::nhwc, f32, 4, 8, 8, 2},
    {{2, 32, 17, 64, 32}, Layout::nhwc, f32, 4, 8, 8, 4},
    {{1, 32, 32, 32, 4}, Layout::nhwc, f32, 4, 8, 8, 4},
    {{1, 32, 33, 32, 4}, Layout::nhwc, f32, 4, 8, 4, 4},
    {{1, 32, 64, 32, 4}, Layout::nhwc, f32, 4, 8, 4, 4},
    {{1, 32, 65, 32, 4}, Layout::nhwc, f32, 0, 0, 0, 0},
    {{2, 45, 45, 64, 8}, Layout::nhwc, bf16, 8, 8, 4, 4},
    {{2, 56, 56, 64, 8}, Layout::nhwc, bf16, 0, 0, 0, 0},
    {{2, 14, 14, 64, 4}, Layout::nhwc, f16, 8, 8, 8, 1},
    {{2, 7, 7, 128, 2}, Layout::nhwc, bf16, 8, 4, 8, 1},
    {{2, 7, 7, 64, 1}, Layout::nhwc, f32, 4, 4, 16, 1},
    {{2, 7, 7, 256, 2}, Layout::nhwc, f32, 4, 8, 32, 1},
    {{2, 7, 7, 256, 1}, Layout::nhwc, f32, 0, 0, 0, 0},  // a group wider than 32 packs
    {{2, 7, 7, 30, 5}, Layout::nhwc, f32, 0, 0, 0, 0},   // channels do not fill packs
    {{2, 20, 20, 8, 2}, Layout::nhwc, f32, 4, 4, 2, 1},  // no more than 32 bytes of channels there
    {{2, 20, 20, 4, 4}, Layout::nhwc, f32, 4, 4, 1, 1},
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
    SCOPED_TRACE(message(b.shape, ", ", b.layout, ", ", b.dtype));
    const evo::Residency r = evo::residency(problem(b), 16, true);
    EXPECT_EQ(r.pack, b.pack);
    if (!r) continue;
    EXPECT_EQ(r.vectors, b.vectors);
    EXPECT_EQ(r.lanes, b.lanes);
    EXPECT_EQ(r.cluster, b.cluster);
    EXPECT_LE(r.threads, evo::resident_threads);
    EXPECT_EQ(r.threads % 32, 0);
  }
}

TEST(EvoNormResidency, WithoutClustersOnlyWhatABlockHolds) {
  for (const Border& b : borders) {
    const evo::Residency r = evo::residency(problem(b), 16, false);
    EXPECT_TRUE(!r || r.cluster == 1) << b.shape;
    EXPECT_TRUE(r || b.pack == 0 || b.cluster > 1) << b.shape;
  }
}

TEST(EvoNormResidency, LeavesTheRestToTwoPasses) {
  Border b{{2, 16, 16, 32, 4}, Layout::nhwc, f32, 0, 0, 0, 0};
  EXPECT_TRUE(evo::residency(problem(b), 16, true));
  EXPECT_FALSE(evo::residency(problem(b), 8, true)) << "addresses";
  EXPECT_FALSE(evo::residency(problem(b, EvoNorm::B0), 16, true));
  b.dtype = f64;
  EXPECT_FALSE(evo::residency(problem(b), 16, true));
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
