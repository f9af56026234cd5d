#include <bevel/core/autograd.h>
#include <bevel/core/parallel.h>

#include <testing.h>

#include <array>

namespace bevel {
namespace {

using namespace testing;

// Operators of the tests' own, so that the engine is tested apart from the library's operators. f64, CPU.
Tensor map2(const Tensor& a, const Tensor& b, double (*f)(double, double)) {
  Tensor y = Tensor::empty(a.shape(), {.dtype = f64});
  for (std::int64_t i = 0; i < a.numel(); ++i) y.data<double>()[i] = f(a.data<double>()[i], b.data<double>()[i]);
  return y;
}

Tensor times(const Tensor& a, const Tensor& b) {
  Tensor y = map2(a, b, [](double x, double z) { return x * z; });
  record("times", y, {a, b}, {a, b}, [](const Backward& back) {
    return Gradients{back.needs(0) ? times(back.grad(), back.saved(1)) : Tensor(),
                     back.needs(1) ? times(back.grad(), back.saved(0)) : Tensor()};
  });
  return y;
}

// Saves its output: the gradient of exp(x) is exp(x).
Tensor exponential(const Tensor& x) {
  Tensor y = map2(x, x, [](double v, double) { return std::exp(v); });
  record("exponential", y, {x}, {y}, [](const Backward& back) { return Gradients{times(back.grad(), back.saved(0))}; });
  return y;
}

Tensor same_value(const Tensor& x) {
  Tensor y = x.detach();
  record("same_value", y, {x}, {}, [](const Backward& back) { return Gradients{back.grad()}; });
  return y;
}

Tensor leaf(std::initializer_list<double> values) {
  return Tensor::from({static_cast<std::int64_t>(values.size())}, values, {.dtype = f64, .requires_grad = true});
}
Tensor constant(std::initializer_list<double> values) {
  return leaf(values).detach();
}

std::vector<double> values(const Tensor& t) {
  return t.to_vector();
}

TEST(Autograd, MultipliesByTheChainRule) {
  const Tensor x = leaf({2});
  const Tensor y = leaf({5});
  times(times(x, x), y).backward();
  EXPECT_EQ(values(x.grad()), std::vector<double>{20});
  EXPECT_EQ(values(y.grad()), std::vector<double>{4});
}

TEST(Autograd, HonoursTheUpstreamGradient) {
  const Tensor x = leaf({2, 3});
  times(x, x).backward(constant({10, -1}));
  EXPECT_EQ(values(x.grad()), (std::vector<double>{40, -6}));
}

TEST(Autograd, AccumulatesOverPassesAndPaths) {
  const Tensor x = leaf({3});
  times(x, x).backward();
  times(same_value(x), same_value(x)).backward();
  EXPECT_EQ(values(x.grad()), std::vector<double>{12});
  x.set_grad({});
  EXPECT_FALSE(x.grad().defined());
}

TEST(Autograd, GradientsOfTwoLeavesDoNotShareElements) {
  const Tensor x = leaf({1});
  const Tensor y = leaf({1});
  Tensor sum = map2(x, y, [](double a, double b) { return a + b; });
  record("sum", sum, {x, y}, {}, [](const Backward& back) { return Gradients{back.grad(), back.grad()}; });
  sum.backward();
  x.grad().copy_from(constant({9}));
  EXPECT_EQ(values(y.grad()), std::vector<double>{1});
  EXPECT_EQ(values(times(x, constant({1}))), std::vector<double>{1});
}

TEST(Autograd, RecordsNothingWithoutNeed) {
  const Tensor x = leaf({1});
  EXPECT_FALSE(times(constant({1}), constant({1})).requires_grad());
  EXPECT_FALSE(no_grad([&] { return times(x, x); }).requires_grad());
  EXPECT_FALSE(times(x, x).detach().requires_grad());
  {
    const NoGrad off;
    const EnableGrad on;
    EXPECT_TRUE(times(x, x).requires_grad());
  }
  EXPECT_TRUE(grad_enabled());
}

TEST(Autograd, RetainsGradientsOfComputedTensorsOnRequest) {
  const Tensor x = leaf({3});
  const Tensor y = times(x, x);
  const Tensor z = times(y, y);
  y.retain_grad();
  z.backward();
  EXPECT_EQ(values(y.grad()), std::vector<double>{18});
  EXPECT_FALSE(z.grad().defined());
}

TEST(Autograd, GivesGradientsOfChosenInputsAndChangesNoLeaf) {
  const Tensor x = leaf({2});
  const Tensor y = leaf({3});
  const Tensor middle = times(x, y);
  const Tensor z = times(middle, x);
  const Gradients gradients = grad(z, {middle, x}, {.retain_graph = true});
  EXPECT_EQ(values(gradients[0]), std::vector<double>{2});
  EXPECT_EQ(values(gradients[1]), std::vector<double>{12});
  EXPECT_FALSE(x.grad().defined());
  EXPECT_EQ(values(grad(z, {y})[0]), std::vector<double>{4});
}

TEST(Autograd, DoesNotVisitWhatLeadsToNoChosenInput) {
  const Tensor x = leaf({2});
  const Tensor y = leaf({3});
  Tensor barrier = times(y, y).detach();
  record("barrier", barrier, {y}, {}, [](const Backward&) -> Gradients { throw Error("visited"); });
  EXPECT_EQ(values(grad(times(x, barrier), {x})[0]), std::vector<double>{9});
  EXPECT_TRUE(throws_error([&] { grad(times(x, barrier), {y}); }, {"visited"}));
}

TEST(Autograd, SumsOverSeveralOutputsAlsoWhereOneLeadsToAnother) {
  const Tensor x = leaf({2});
  const Tensor square = times(x, x);
  const Tensor cube = times(square, x);
  const std::vector<Tensor> outputs{cube, square, cube};
  EXPECT_EQ(values(grad(outputs, std::vector{x})[0]), std::vector<double>{28});
}

TEST(Autograd, FollowsManyPathsWhenOnlySomeAreWanted) {
  const Tensor x = leaf({1});
  const Tensor y = leaf({1});
  Tensor z = times(x, y);
  for (int i = 0; i < 200; ++i) z = times(times(z, i % 3 ? x : y), same_value(i % 2 ? x : y));
  EXPECT_EQ(values(grad(z, {x})[0]), std::vector<double>{1 + 133 + 100});
}

TEST(Autograd, SaysWhenAnInputIsUnused) {
  const Tensor x = leaf({2});
  const Tensor unused = leaf({3});
  const Tensor y = times(x, x);
  EXPECT_TRUE(throws_error([&] { grad(y, {unused}, {.retain_graph = true}); }, {"grad", "input 0", "allow_unused"}));
  EXPECT_FALSE(grad(y, {unused}, {.allow_unused = true})[0].defined());
}

TEST(Autograd, DifferentiatesTwiceAndThrice) {
  const Tensor x = leaf({2});
  const Tensor cube = times(times(x, x), x);
  const Tensor first = grad(cube, {x}, {.create_graph = true})[0];
  EXPECT_EQ(values(first), std::vector<double>{12});
  const Tensor second = grad(first, {x}, {.create_graph = true})[0];
  EXPECT_EQ(values(second), std::vector<double>{12});
  EXPECT_EQ(values(grad(second, {x})[0]), std::vector<double>{6});
}

TEST(Autograd, SavedOutputsKeepTheirHistoryForSecondDerivatives) {
  const Tensor x = leaf({0.5});
  const Tensor y = exponential(times(x, x));
  const Tensor first = grad(y, {x}, {.create_graph = true})[0];
  const double expected = (2 + 4 * 0.25) * std::exp(0.25);
  EXPECT_NEAR(values(grad(first, {x})[0])[0], expected, 1e-14);
}

TEST(Autograd, NamesTheNodeThatCannotBeDifferentiatedTwice) {
  const Tensor x = leaf({2});
  Tensor y = x.detach();
  record("opaque", y, {x}, {}, [](const Backward& back) { return Gradients{back.grad()}; }, {.differentiable = false});
  EXPECT_TRUE(throws_error([&] { grad(y, {x}, {.create_graph = true}); }, {"create_graph", "opaque"}));
  EXPECT_EQ(values(grad(y, {x})[0]), std::vector<double>{1});
}

TEST(Autograd, RefusesASecondPassOverAFreedGraph) {
  const Tensor x = leaf({2});
  const Tensor y = times(x, x);
  y.backward();
  EXPECT_TRUE(throws_error([&] { y.backward(); }, {"freed", "times", "retain_graph"}));
  EXPECT_EQ(values(x.grad()), std::vector<double>{4});
}

TEST(Autograd, KeepsTheGraphOnRequest) {
  const Tensor x = leaf({2});
  const Tensor y = times(x, x);
  backward(y, {}, {.retain_graph = true});
  y.backward();
  EXPECT_EQ(values(x.grad()), std::vector<double>{8});
}

TEST(Autograd, NeedsAGradientForMoreThanOneElement) {
  const Tensor x = leaf({1, 2});
  EXPECT_TRUE(throws_error([&] { times(x, x).backward(); }, {"backward", "[2]"}));
  EXPECT_TRUE(throws_error([&] { times(x, x).backward(constant({1})); }, {"[2]", "[1]"}));
  EXPECT_TRUE(throws_error([&] { times(x, x).backward(Tensor::zeros({2})); }, {"f64", "f32"}));
  EXPECT_TRUE(throws_error([&] { constant({1}).backward(); }, {"does not require a gradient"}));
}

TEST(Autograd, NoticesThatASavedTensorWasOverwritten) {
  const Tensor x = leaf({2});
  const Tensor c = constant({3});
  const Tensor y = times(x, c);
  c.copy_from(constant({4}));
  EXPECT_TRUE(throws_error([&] { y.backward(); }, {"times", "changed in place", "version 0", "1"}));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Autograd, AFailedPassChangesNoGradient) {
  const Tensor x = leaf({2});
  const Tensor y = leaf({3});
  Tensor broken = y.detach();
  record("broken", broken, {y}, {}, [](const Backward&) -> Gradients { fail("broken on purpose"); });
  const Tensor product = times(times(x, x), broken);
  EXPECT_TRUE(throws_error([&] { product.backward(); }, {"broken on purpose"}));
  EXPECT_FALSE(x.grad().defined());
  times(x, x).backward();
  EXPECT_EQ(values(x.grad()), std::vector<double>{4});
}

TEST(Autograd, ChecksTheShapesThatABackwardReturns) {
  const Tensor x = leaf({2, 3});
  Tensor y = x.detach();
  record("crooked", y, {x}, {}, [](const Backward&) { return Gradients{constant({1})}; });
  EXPECT_TRUE(throws_error([&] { y.backward(constant({1, 1})); }, {"crooked", "[2]", "[1]"}));
}

TEST(Autograd, SeveralOutputsAndMissingGradients) {
  const Tensor x = leaf({2});
  Tensor a = x.detach();
  Tensor b = x.detach();
  const std::array<Tensor*, 2> outputs{&a, &b};
  record("two", outputs, std::array{x}, {}, [](const Backward& back) {
    EXPECT_FALSE(back.has_grad(1));
    return Gradients{map2(back.grad(0), back.grad(1), [](double p, double q) { return 3 * p + 5 * q; })};
  });
  a.backward();
  EXPECT_EQ(values(x.grad()), std::vector<double>{3});
}

TEST(Autograd, FreesSavedTensorsAsItGoes) {
  const Tensor x = leaf({2});
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = times(y, Tensor::scalar(1.5, {.dtype = f64}).view({1}));
  const std::size_t held = memory_stats(cpu).live;
  y.backward();
  EXPECT_LT(memory_stats(cpu).live, held);
}

// Built and walked in loops: recursion would overflow the stack.
TEST(Autograd, AChainOfAMillionNodes) {
  const Tensor x = leaf({1});
  {
    Tensor y = x;
    for (int i = 0; i < 1'000'000; ++i) y = same_value(y);
    y.backward();
    EXPECT_EQ(values(x.grad()), std::vector<double>{1});
    EXPECT_EQ(values(grad(same_value(x), {x})[0]), std::vector<double>{1});
  }
  Tensor released = x;
  for (int i = 0; i < 1'000'000; ++i) released = same_value(released);
  const Gradients pruned = grad(released, {x}, {.retain_graph = true});
  EXPECT_EQ(values(pruned[0]), std::vector<double>{1});
  released = Tensor();  // never walked freely: the release alone must not recurse either
}

TEST(Autograd, ADiamondIsVisitedOnce) {
  const Tensor x = leaf({1});
  int visits = 0;
  Tensor y = x.detach();
  record("counted", y, {x}, {}, [&visits](const Backward& back) {
    ++visits;
    return Gradients{back.grad()};
  });
  Tensor z = y;
  for (int i = 0; i < 20; ++i) z = times(z, z);
  z.backward();
  EXPECT_EQ(visits, 1);
  EXPECT_EQ(values(x.grad()), std::vector<double>{1048576});
}

TEST(Autograd, TheOneThatAPassStartsWithIsKnown) {
  const Tensor x = leaf({2});
  bool unit = false;
  const auto probe = [&] {
    Tensor y = x.detach();
    record("probe", y, {x}, {}, [&unit](const Backward& back) {
      unit = back.is_unit();
      return Gradients{back.grad()};
    });
    return y;
  };
  probe().backward();
  EXPECT_TRUE(unit);
  probe().backward(constant({1}));
  EXPECT_FALSE(unit);
  times(probe(), constant({1})).backward();
  EXPECT_FALSE(unit);
}

}  // namespace
}  // namespace bevel
