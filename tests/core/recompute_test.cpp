#include <bevel/core/recompute.h>
#include <bevel/ops/pointwise/binary.h>

#include <testing.h>

namespace bevel {
namespace {

using namespace testing;

// What is to be counted: how often a square was computed again.
int calls = 0;

Tensor plain_square(const Tensor& x) {
  Tensor y = Tensor::empty(x.shape(), {.dtype = f64});
  for (std::int64_t i = 0; i < x.numel(); ++i) y.data<double>()[i] = x.data<double>()[i] * x.data<double>()[i];
  return y;
}

// Not differentiable twice, as norms are.
Tensor square(const Tensor& x, bool again = true) {
  Tensor y = plain_square(x);
  record("square", y, {x}, {x}, [](const Backward& b) { return Gradients{b.grad() * b.saved(0) * 2.0}; });
  if (again)
    recompute("square again", y, {x}, [](std::span<const Tensor> kept) {
      EXPECT_FALSE(grad_enabled());
      ++calls;
      return plain_square(kept[0]);
    });
  return y;
}

class Recompute : public ::testing::Test {
 protected:
  void SetUp() override { calls = 0; }
  const Tensor x = random_leaf({16}, cpu, 1);
  const Tensor w = random_leaf({16}, cpu, 2);
  const Tensor upstream = random_tensor({16}, {.seed = 3});
};

TEST_F(Recompute, GivesTheSameGradients) {
  for (const bool again : {false, true}) {
    x.set_grad({});
    w.set_grad({});
    const Tensor z = square(x, again) * w;
    z.backward(upstream);
    for (int i = 0; i < 16; ++i) {
      const double a = x.to_vector()[i], b = w.to_vector()[i], u = upstream.to_vector()[i];
      EXPECT_DOUBLE_EQ(x.grad().to_vector()[i], u * b * a * 2.0);
      EXPECT_DOUBLE_EQ(w.grad().to_vector()[i], u * (a * a));
    }
  }
  EXPECT_EQ(calls, 1);
}

TEST_F(Recompute, TheElementsGoWithTheForward) {
  const Tensor big = random_leaf({1000}, cpu);
  const auto live_after = [&](bool again) {
    const std::size_t before = memory_stats(cpu).live;
    const Tensor loss = square(big, again) * big;
    return memory_stats(cpu).live - before;
  };
  EXPECT_GE(live_after(false), 16000u);
  EXPECT_LT(live_after(true), 12000u);
}

TEST_F(Recompute, AnOutputThatIsStillThereIsTaken) {
  const Tensor y = square(x);
  (y * w).backward(upstream);
  EXPECT_EQ(calls, 0);
}

TEST_F(Recompute, EveryUserMayAsk) {
  const auto loss = [&](bool again) {
    const Tensor y = square(x, again);
    return y * w + y * y + w * y;
  };
  loss(false).backward(upstream);
  const Tensor dx = x.grad(), dw = w.grad();
  x.set_grad({});
  w.set_grad({});
  loss(true).backward(upstream);
  EXPECT_GE(calls, 3);
  EXPECT_TRUE(bit_equal(x.grad(), dx));
  EXPECT_TRUE(bit_equal(w.grad(), dw));
}

TEST_F(Recompute, WorksAgainWhereTheGraphIsRetained) {
  const Tensor z = square(x) * w;
  backward(z, upstream, {.retain_graph = true});
  const std::vector<double> once = w.grad().to_vector();
  backward(z, upstream);
  for (int i = 0; i < 16; ++i) EXPECT_DOUBLE_EQ(w.grad().to_vector()[i], 2 * once[i]);
  EXPECT_EQ(calls, 2);
}

TEST_F(Recompute, SurvivesTheReleaseOfItsNode) {
  const Tensor y = square(x);
  const Tensor z = Tensor(y) * w;
  y.backward(upstream);
  const Gradients gradients = grad(std::span(&z, 1), std::span(&w, 1), {.grad_outputs = {upstream}});
  EXPECT_TRUE(close(gradients[0], (upstream * x * x).to_vector()));
}

TEST_F(Recompute, HasItsHistoryInARecordedBackward) {
  // d/dw of (x^2 w^2) is 2 x^2 w, and its derivative by x is 4 x w.
  const Tensor z = [&] { return square(x) * w * w; }();
  const Tensor dw = grad(std::span(&z, 1), std::span(&w, 1), {.create_graph = true, .grad_outputs = {upstream}})[0];
  const Gradients dx = grad(std::span(&dw, 1), std::span(&x, 1), {.grad_outputs = {upstream}});
  EXPECT_TRUE(close(dx[0], (upstream * upstream * x * w * 4.0).to_vector(), 1e-12));
  EXPECT_GE(calls, 1);
}

TEST_F(Recompute, ChecksVersions) {
  const Tensor scale = x.detach().clone();
  const Tensor z = square(scale.set_requires_grad()) * w;
  no_grad([&] { scale.copy_from(w.detach()); });
  EXPECT_TRUE(throws_error([&] { z.backward(upstream); }, {"mul", "computed again", "changed in place", "[16]"}));
}

TEST_F(Recompute, KeepsAnOutputThatWasChanged) {
  Tensor z;
  {
    const Tensor y = square(x);
    y.data<double>()[0] = 7;
    y.mark_changed();
    z = y * w;
  }
  z.backward(upstream);
  EXPECT_EQ(calls, 0);
  EXPECT_DOUBLE_EQ(w.grad().to_vector()[0], 7 * upstream.to_vector()[0]);
}

TEST_F(Recompute, AnOutputThatIsChangedLaterIsComputedAgain) {
  const Tensor y = square(x);
  const Tensor z = y * w;
  y.data<double>()[0] = 7;
  y.mark_changed();
  z.backward(upstream);
  EXPECT_EQ(calls, 1);
  EXPECT_DOUBLE_EQ(w.grad().to_vector()[0], x.to_vector()[0] * x.to_vector()[0] * upstream.to_vector()[0]);
}

TEST_F(Recompute, ReleasesWhatItKeeps) {
  const std::size_t before = memory_stats(cpu).live;
  {
    const Tensor input = plain_square(x).set_requires_grad();
    const Tensor z = square(input) * w;
    z.backward(upstream);
  }
  w.set_grad({});
  EXPECT_EQ(memory_stats(cpu).live, before);
}

TEST_F(Recompute, LongChainsNeedNoStack) {
  Tensor y = x;
  for (int i = 0; i < 50'000; ++i) y = square(y * 0.5);
  y.backward(upstream);
  EXPECT_TRUE(x.grad().defined());
}

TEST_F(Recompute, WithoutHistoryThereIsNothingToDo) {
  const Tensor y = square(x.detach());
  EXPECT_FALSE(y.requires_grad());
  (y * w).backward(upstream);
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace bevel
