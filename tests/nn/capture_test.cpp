#include <bevel/core/capture.h>
#include <bevel/core/half_copy.h>
#include <bevel/nn/activation.h>
#include <bevel/nn/conv2d.h>
#include <bevel/nn/dropout.h>
#include <bevel/nn/evonorm2d.h>
#include <bevel/nn/linear.h>
#include <bevel/nn/norm.h>
#include <bevel/nn/optim/adam.h>
#include <bevel/nn/optim/lion.h>
#include <bevel/nn/optim/sgd.h>
#include <bevel/nn/pool2d.h>
#include <bevel/nn/schedule.h>
#include <bevel/nn/sequential.h>
#include <bevel/ops/loss/smooth_l1.h>
#include <bevel/ops/pointwise/binary.h>
#include <bevel/ops/pointwise/cast.h>
#include <bevel/ops/pointwise/random.h>
#include <bevel/ops/reduction/sum.h>
#include <bevel/ops/shape/gather.h>

#include <functional>
#include <memory>

#include "testing.h"

namespace bevel {
namespace {

using bevel::testing::bit_equal;
using bevel::testing::close;
using bevel::testing::DeviceTest;
using bevel::testing::random_tensor;
using bevel::testing::throws_error;

using OptimizerMaker = std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>&)>;

std::unique_ptr<optim::Optimizer> make_adam(const std::vector<Tensor>& parameters) {
  return std::make_unique<optim::Adam>(parameters);
}

// A network with its optimiser, and the losses of its steps.
struct Training {
  Training(nn::Sequential network, Device device, const OptimizerMaker& make)
      : net(std::move(network)), optimizer((net.to(device), make(net.parameters()))) {}

  Tensor step(const Tensor& input, const Tensor& target) {
    optimizer->zero_grad();
    Tensor loss = smooth_l1(net(input), target, {.beta = 0.1});
    loss.backward();
    optimizer->step();
    return loss;
  }
  NamedTensors everything() const {
    NamedTensors all = net.state();
    for (NamedTensor& entry : optimizer->state()) all.push_back(std::move(entry));
    for (const Tensor& loss : losses) all.push_back({message("loss ", all.size()), loss});
    for (const Tensor& parameter : net.parameters())
      if (parameter.grad().defined()) all.push_back({message("gradient ", all.size()), parameter.grad()});
    return all;
  }

  nn::Sequential net;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::vector<Tensor> losses;
};

void expect_same(const Training& a, const Training& b) {
  const NamedTensors x = a.everything();
  const NamedTensors y = b.everything();
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(bit_equal(x[i].tensor, y[i].tensor)) << x[i].name;
}

nn::Sequential mlp() {
  manual_seed(3);
  return nn::Sequential{nn::Linear{8, 32}, nn::ReLU{}, nn::Linear{32, 16}, nn::ReLU{}, nn::Linear{16, 4}};
}

nn::Sequential small_conv_net() {
  manual_seed(4);
  return nn::Sequential{nn::Conv2d{3, 8, {.kernel = 3, .stride = 2, .padding = 1}},
                        nn::EvoNorm2d{8, {.variant = EvoNorm::S0, .groups = 4}},
                        nn::Conv2d{8, 8, {.kernel = 3, .padding = 1}},
                        nn::EvoNorm2d{8, {.variant = EvoNorm::B0}},
                        nn::Conv2d{8, 8, {.kernel = 3, .padding = 1}},
                        nn::BatchNorm2d{8, {.activation = Activation::relu}},
                        nn::GroupNorm{4, 8, {.activation = Activation::silu}},
                        nn::GlobalAvgPool{},
                        nn::Dropout{0.3},
                        nn::Linear{8, 4}};
}

class CaptureTest : public DeviceTest {
 protected:
  Tensor random(const Shape& shape, std::uint64_t seed) const {
    return random_tensor(shape, {.dtype = f32, .device = device(), .seed = seed});
  }

  // The same training eagerly and captured, with a schedule; every tensor must agree to the last bit.
  void compare(const std::function<nn::Sequential()>& make_net, const Shape& input, const OptimizerMaker& make) {
    Training eager(make_net(), device(), make);
    Training captured(make_net(), device(), make);
    manual_seed(11);
    train(eager, input, [&](const Tensor& x, const Tensor& y) { return eager.step(x, y); });
    manual_seed(11);
    auto step = capture([&](const Tensor& x, const Tensor& y) { return captured.step(x, y); });
    train(captured, input, step);
    expect_same(eager, captured);
    if (device().is_cuda()) {
      EXPECT_EQ(step.stats().graphs, 1u);
      EXPECT_EQ(step.stats().recorded, 1u);
      EXPECT_GT(step.stats().bytes, 0u);
    }
  }

  template <class Step>
  void train(Training& training, const Shape& input, Step&& step) {
    optim::Schedule schedule{*training.optimizer, optim::OneCycle{.max_lr = 1e-2, .steps = 12}};
    for (std::uint64_t i = 0; i < 12; ++i) {
      training.losses.push_back(step(random(input, 100 + i), random({input[0], 4}, 200 + i)).detach());
      schedule.step();
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, CaptureTest, ::testing::ValuesIn(testing::build_devices()), testing::device_name);

TEST_P(CaptureTest, MlpHasTheBitsOfEagerTraining) {
  compare(mlp, {16, 8}, make_adam);
  compare(mlp, {16, 8}, [](const auto& p) {
    return std::make_unique<optim::SGD>(p, optim::SgdOptions{.lr = 0.01, .momentum = 0.9, .dampening = 0.1});
  });
  compare(mlp, {16, 8}, [](const auto& p) {
    auto lion = std::make_unique<optim::Lion>(p, optim::LionOptions{.lr = 1e-3, .weight_decay = 0.1});
    lion->set_max_grad_norm(0.05);
    lion->keep_average(0.9);
    return lion;
  });
}

TEST_P(CaptureTest, ConvNetWithNormsAndDropoutHasTheBitsOfEagerTraining) {
  compare(small_conv_net, {4, 12, 12, 3},
          [](const auto& p) { return std::make_unique<optim::AdamW>(p, optim::AdamWOptions{.weight_decay = 0.05}); });
}

TEST_P(CaptureTest, ManyParametersHaveATableInDeviceMemory) {
  const auto make_net = [] {
    manual_seed(5);
    nn::Sequential net;
    for (int i = 0; i < 30; ++i) net.push_back(nn::Linear{4, 4});
    return net;
  };
  compare(make_net, {3, 4}, make_adam);
}

TEST_P(CaptureTest, ReturnedTensorsStayWhatTheyAre) {
  auto step = capture([](const Tensor& x) { return std::vector{x * 2.0, sum(x)}; });
  std::vector<std::vector<Tensor>> results;
  for (int i = 0; i < 5; ++i) results.push_back(step(Tensor::from({2}, {1.0 * i, 2.0 * i}, {.device = device()})));
  for (int i = 0; i < 5; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(results[at][0].to_vector(), (std::vector{2.0 * i, 4.0 * i}));
    EXPECT_EQ(results[at][1].item(), 3.0 * i);
    EXPECT_FALSE(results[at][0].requires_grad());
  }
}

TEST_P(CaptureTest, NothingIsReturnedByAStepThatReturnsNothing) {
  const Tensor sum = Tensor::zeros({2}, {.device = device()});
  auto step = capture([&](const Tensor& x) { sum.copy_from(sum + x); });
  for (int i = 1; i <= 4; ++i) step(Tensor::from({2}, {1.0, 10.0 * i}, {.device = device()}));
  EXPECT_EQ(sum.to_vector(), (std::vector{4.0, 100.0}));
}

TEST_P(CaptureTest, AnotherShapeHasAnotherRecord) {
  auto step = capture([](const Tensor& x) { return x * x; }, {.max_graphs = 2});
  for (int round = 0; round < 3; ++round)
    for (const std::int64_t n : {1, 2}) {
      const Tensor x = random({n, 3}, static_cast<std::uint64_t>(10 * round + n));
      EXPECT_TRUE(bit_equal(step(x), x * x));
    }
  if (!device().is_cuda()) return;
  EXPECT_EQ(step.stats().graphs, 2u);
  const Tensor x = random({5}, 7);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bit_equal(step(x), x * x));
  EXPECT_EQ(step.stats().graphs, 2u);
  EXPECT_EQ(step.stats().recorded, 3u);
  step.clear();
  EXPECT_EQ(step.stats().graphs, 0u);
}

TEST_P(CaptureTest, RandomNumbersGoOn) {
  const auto body = [this](const Tensor& x) {
    return x + rand({4}, {.device = device()}) + randn({4}, {.device = device()});
  };
  const Tensor x = Tensor::zeros({4}, {.device = device()});
  manual_seed(9);
  std::vector<Tensor> expected;
  for (int i = 0; i < 5; ++i) expected.push_back(body(x));
  const RandomState end = default_generator().state();
  manual_seed(9);
  auto step = capture(body);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(bit_equal(step(x), expected[static_cast<std::size_t>(i)]));
  EXPECT_EQ(default_generator().state().offset, end.offset);
}

TEST_P(CaptureTest, AScheduleWithinTheStepGoesOn) {
  std::vector<Training> both;
  for (int i = 0; i < 2; ++i) both.emplace_back(mlp(), device(), make_adam);
  std::vector<double> rates;
  for (Training& training : both) {
    optim::Schedule schedule{*training.optimizer, optim::StepDecay{.lr = 0.1, .every = 1, .factor = 0.5}};
    const auto body = [&](const Tensor& x, const Tensor& y) {
      Tensor loss = training.step(x, y);
      schedule.step();
      return loss;
    };
    auto captured = capture(body);
    for (std::uint64_t i = 0; i < 6; ++i) {
      const Tensor x = random({4, 8}, i);
      const Tensor y = random({4, 4}, i + 50);
      training.losses.push_back(&training == both.data() ? body(x, y).detach() : captured(x, y));
    }
    rates.push_back(training.optimizer->lr());
    EXPECT_EQ(schedule.position(), 6);
  }
  EXPECT_EQ(rates[0], rates[1]);
  expect_same(both[0], both[1]);
}

TEST_P(CaptureTest, GradientsLeftFromBeforeAreAnError) {
  if (!device().is_cuda()) GTEST_SKIP() << "nothing is recorded on the CPU";
  const Tensor p = random({3}, 1).set_requires_grad();
  auto step = capture([&](const Tensor& x) { sum(p * x).backward(); });
  const Tensor x = random({3}, 2);
  step(x);
  EXPECT_TRUE(throws_error([&] { step(x); }, {"backward", "[3]", "zero_grad"}));
  p.set_grad({});
  step(x);  // recorded now
  EXPECT_TRUE(bit_equal(p.grad(), x));
  EXPECT_TRUE(throws_error([&] { step(x); }, {"capture", "[3]", "zero_grad"}));
  p.set_grad({});
  step(random({3}, 3));
  EXPECT_TRUE(bit_equal(p.grad(), random({3}, 3)));
}

TEST_P(CaptureTest, WhatNeedsTheHostIsAnErrorThatNamesIt) {
  if (!device().is_cuda()) GTEST_SKIP() << "nothing is recorded on the CPU";
  const Tensor p = random({3}, 1).set_requires_grad();
  const Tensor on_cpu = Tensor::zeros({3});
  const std::vector<std::pair<const char*, std::function<void(const Tensor&)>>> bodies{
      {"Tensor::item", [](const Tensor& x) { sum(x).item(); }},
      {"Tensor::to_vector", [](const Tensor& x) { x.to_vector(); }},
      {"Tensor::to(cpu)", [](const Tensor& x) { x.to(cpu); }},
      {"Tensor::copy_from", [&](const Tensor& x) { x.copy_from(on_cpu); }},
      {"synchronize", [&](const Tensor& x) { synchronize(x.device()); }},
      {"Stream::synchronize", [&](const Tensor& x) { current_stream(x.device()).synchronize(); }},
      {"randperm", [](const Tensor& x) { randperm(3, x.device()); }},
      {"on cpu", [&](const Tensor&) { on_cpu * 2.0; }},
      {"does nothing", [](const Tensor&) {}}};
  for (const auto& [name, body] : bodies) {
    auto step = capture([&, &body = body](const Tensor& x) {
      p.set_grad({});
      sum(p * x).backward();
      if (std::string(name) != "does nothing") body(x * 1.0);
    });
    const Tensor x = random({3}, 2);
    step(x);
    if (std::string(name) == "does nothing") {
      auto idle = capture(body);
      idle(x);
      EXPECT_TRUE(throws_error([&, &step = idle] { step(x); }, {name}));
      continue;
    }
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(throws_error([&] { step(x); }, {name})) << name;
    // Stream, tensors and gradients are as before.
    EXPECT_TRUE(bit_equal(p.grad(), x)) << name;
    EXPECT_TRUE(close(x * 2.0, (x + x).to_vector()));
  }
}

TEST_P(CaptureTest, InputsOnTheHostAreCopiedWhereADeviceIsGiven) {
  auto step = capture([](const Tensor& x, const Tensor& y) { return x * y; }, {.device = device()});
  for (std::uint64_t i = 0; i < 4; ++i) {
    const Tensor x = random_tensor({3}, {.dtype = f32, .seed = i});
    const Tensor y = random({3}, i + 10);
    const Tensor z = step(x, y);
    EXPECT_EQ(z.device(), device());
    EXPECT_TRUE(bit_equal(z, x.to(device()) * y));
  }
}

TEST_P(CaptureTest, AStepWithinAStepIsPartOfIt) {
  const Tensor count = Tensor::zeros({}, {.device = device()});
  auto inner = capture([&](const Tensor& x) {
    count.copy_from(count + 1.0);
    return x * 2.0;
  });
  auto outer = capture([&](const Tensor& x) { return inner(inner(x)); });
  const Tensor x = random({4}, 1);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(bit_equal(outer(x), x * 4.0));
  EXPECT_EQ(count.item(), 10);
}

TEST_P(CaptureTest, WrongUse) {
  const auto body = [](const Tensor& x) { return x * 1.0; };
  auto step = capture(body);
  EXPECT_TRUE(throws_error([&] { step(Tensor()); }, {"capture", "undefined"}));
  EXPECT_TRUE(throws_error([&] { step(random({2}, 1).set_requires_grad()); }, {"capture", "[2]", "gradient"}));
  EXPECT_TRUE(throws_error([&] { capture(body, {.max_graphs = 0}); }, {"max_graphs"}));
  auto gives_nothing = capture([](const Tensor&) { return Tensor(); });
  EXPECT_TRUE(throws_error([&] { gives_nothing(random({2}, 1)); }, {"undefined tensor"}));
  auto two = capture([](const Tensor& x, const Tensor& y) { return x + y; });
  if (!device().is_cuda()) return;
  EXPECT_TRUE(throws_error([&] { two(random({2}, 1), Tensor::zeros({2})); }, {"one device", "cpu"}));
}

TEST_P(CaptureTest, AnIndexOutOfRangeIsReportedByALaterCall) {
  const Tensor table = random({5, 2}, 1);
  auto step = capture([&](const Tensor& index) { return index_select(table, 0, index); });
  const auto index = [this](std::int64_t last) {
    return Tensor::from({3}, {0, 4, 1.0 * last}, {.dtype = i64, .device = device()});
  };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bit_equal(step(index(2)), index_select(table, 0, index(2))));
  if (!device().is_cuda()) return;
  EXPECT_EQ(step(index(7)).to_vector()[4], 0);
  EXPECT_TRUE(throws_error([&] { step(index(2)); }, {"earlier call", "index_select", "axis of size 5"}));
  EXPECT_TRUE(bit_equal(step(index(3)), index_select(table, 0, index(3))));
}

TEST_P(CaptureTest, OtherMemoryIsAnErrorAndOtherValuesAreSeen) {
  if (!device().is_cuda()) GTEST_SKIP() << "nothing is recorded on the CPU";
  Training training(mlp(), device(), make_adam);
  auto step = capture([&](const Tensor& x) { return training.net(x); });
  const Tensor x = random({4, 8}, 1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bit_equal(step(x), training.net(x)));
  const nn::Sequential other = [&] {
    manual_seed(99);
    return nn::Sequential{nn::Linear{8, 32}, nn::ReLU{}, nn::Linear{32, 16}, nn::ReLU{}, nn::Linear{16, 4}};
  }();
  training.net.copy_state(other);
  EXPECT_TRUE(bit_equal(step(x), training.net(x)));
  training.net.to(cpu);
  training.net.to(device());
  EXPECT_TRUE(throws_error([&] { step(x); }, {"capture", "other memory", "[32, 8]"}));
  step.clear();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bit_equal(step(x), training.net(x)));
}

TEST_P(CaptureTest, OptimizerStateCanBeLoadedBetweenCalls) {
  Training eager(mlp(), device(), make_adam);
  Training captured(mlp(), device(), make_adam);
  auto step = capture([&](const Tensor& x, const Tensor& y) { return captured.step(x, y); });
  const auto train = [&](std::uint64_t seed) {
    const Tensor x = random({4, 8}, seed);
    const Tensor y = random({4, 4}, seed + 50);
    eager.losses.push_back(eager.step(x, y).detach());
    captured.losses.push_back(step(x, y));
  };
  for (std::uint64_t i = 0; i < 4; ++i) train(i);
  NamedTensors state;
  for (const NamedTensor& entry : eager.optimizer->state()) state.push_back({entry.name, entry.tensor.clone()});
  for (std::uint64_t i = 4; i < 7; ++i) train(i);
  eager.optimizer->load_state(state);
  captured.optimizer->load_state(state);
  for (std::uint64_t i = 7; i < 10; ++i) train(i);
  expect_same(eager, captured);
}

TEST_P(CaptureTest, MemoryIsBoundedAndGivenBack) {
  if (!device().is_cuda()) GTEST_SKIP() << "nothing is recorded on the CPU";
  const Tensor x = random({1 << 18}, 1);
  const auto body = [](const Tensor& in) { return sum((in * 2.0 + in) * in); };
  {
    auto small = capture(body, {.max_bytes = 1 << 20});
    small(x);
    EXPECT_THROW(small(x), OutOfMemory);
    EXPECT_TRUE(close(x * 2.0, (x + x).to_vector()));
  }
  body(x);
  const std::size_t before = memory_stats(device()).live;
  {
    auto step = capture(body);
    for (int i = 0; i < 3; ++i) step(x);
    EXPECT_GE(step.stats().bytes, std::size_t{3} << 20);
    EXPECT_GE(memory_stats(device()).live, before + step.stats().bytes);
  }
  EXPECT_EQ(memory_stats(device()).live, before);
}

TEST_P(CaptureTest, HalfCopiesAreWrittenByTheOptimizer) {
  const auto convert = [](const Tensor& from, const Tensor& to) { to.copy_from(cast(from, to.dtype())); };
  for (const Dtype dtype : {bf16, f16}) {
    const Tensor p = random({70}, 1).set_requires_grad();
    optim::Adam optimizer{{p}};
    const auto half = [&] {
      Tensor copy = find_half_copy(p, dtype);
      if (copy.defined()) return copy;
      copy = no_grad([&] { return cast(p, dtype); });
      keep_half_copy(p, copy, convert);
      return copy;
    };
    auto step = capture([&](const Tensor& x) {
      optimizer.zero_grad();
      sum(p * cast(half(), f32) * x).backward();
      optimizer.step();
    });
    for (std::uint64_t i = 0; i < 4; ++i) {
      step(random({70}, 10 + i));
      ASSERT_TRUE(find_half_copy(p, dtype).defined());
      EXPECT_TRUE(bit_equal(find_half_copy(p, dtype), cast(p.detach(), dtype)));
    }
    no_grad([&] { p.copy_from(random({70}, 77)); });
    EXPECT_FALSE(find_half_copy(p, dtype).defined());
    step(random({70}, 20));
    EXPECT_TRUE(bit_equal(find_half_copy(p, dtype), cast(p.detach(), dtype)));
    const Tensor x = random({70}, 30);
    const Tensor expected = cast(find_half_copy(p, dtype), f32) * x;
    step(x);
    EXPECT_TRUE(bit_equal(p.grad(), expected));
  }
}

TEST_P(CaptureTest, OtherStreamsAreOrdered) {
  if (!device().is_cuda()) GTEST_SKIP() << "the CPU has no streams";
  const Tensor state = Tensor::zeros({1 << 20}, {.device = device()});
  auto step = capture([&](const Tensor& x) { state.copy_from(state + x); });
  const Tensor one = random({1 << 20}, 5);
  Tensor expected = Tensor::zeros({1 << 20}, {.device = device()});
  const Stream other(device());
  for (int i = 0; i < 12; ++i) {
    expected = expected + one;
    if (i % 3 == 2) {
      const StreamGuard guard(other);
      step(one);
    } else {
      step(one);
    }
  }
  EXPECT_TRUE(bit_equal(state, expected));
}

}  // namespace
}  // namespace bevel
