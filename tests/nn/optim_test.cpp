#include <bevel/core/autograd.h>
#include <bevel/core/half_copy.h>
#include <bevel/nn/clip.h>
#include <bevel/nn/linear.h>
#include <bevel/nn/optim/adam.h>
#include <bevel/nn/optim/lion.h>
#include <bevel/nn/optim/sgd.h>

#include <cmath>
#include <functional>

#include "testing.h"

namespace bevel {
namespace {

using bevel::testing::bit_equal;
using bevel::testing::close;
using bevel::testing::DeviceTest;
using bevel::testing::random_tensor;
using bevel::testing::throws_error;

using Values = std::vector<double>;

// One parameter in double: the formulas of the headers, written out a second time.
struct Reference {
  Values p;
  Values m{};
  Values v{};
  int t = 0;

  void sgd(const Values& gradient, const optim::SgdOptions& o) {
    ++t;
    m.resize(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      double g = gradient[i] + o.weight_decay * p[i];
      if (o.momentum != 0) {
        m[i] = t == 1 ? g : o.momentum * m[i] + (1 - o.dampening) * g;
        g = o.nesterov ? g + o.momentum * m[i] : m[i];
      }
      p[i] -= o.lr * g;
    }
  }
  void lion(const Values& gradient, const optim::LionOptions& o) {
    m.resize(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double direction = o.beta1 * m[i] + (1 - o.beta1) * gradient[i];
      p[i] -= o.lr * ((direction > 0) - (direction < 0)) + o.lr * o.weight_decay * p[i];
      m[i] = o.beta2 * m[i] + (1 - o.beta2) * gradient[i];
    }
  }
  template <class Options>
  void adam(const Values& gradient, const Options& o, bool decoupled) {
    ++t;
    m.resize(p.size());
    v.resize(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      double g = gradient[i];
      if (decoupled)
        p[i] -= o.lr * o.weight_decay * p[i];
      else
        g += o.weight_decay * p[i];
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(o.beta1, t));
      const double v_hat = v[i] / (1 - std::pow(o.beta2, t));
      p[i] -= o.lr * m_hat / (std::sqrt(v_hat) + o.eps);
    }
  }
};

class OptimTest : public DeviceTest {
 protected:
  // Many steps with random gradients over parameters of several sizes, against the reference.
  template <class Optimizer, class Options>
  void compare(Dtype dtype, const Options& options, const std::function<void(Reference&, const Values&)>& reference) {
    std::vector<Tensor> parameters;
    std::vector<Reference> references;
    std::uint64_t seed = 10;
    for (const Shape& shape : {Shape{3}, Shape{}, Shape{0, 4}, Shape{50, 101}, Shape{7, 2}}) {
      parameters.push_back(
          random_tensor(shape, {.dtype = dtype, .device = device(), .seed = ++seed, .requires_grad = true}));
      references.push_back({.p = parameters.back().to_vector()});
    }
    Optimizer optimizer{parameters, options};
    for (int step = 0; step < 20; ++step) {
      optimizer.zero_grad();
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        if (i == 0 && step % 3 == 0) continue;  // no gradient in this step: nothing happens
        const Tensor gradient =
            random_tensor(parameters[i].shape(), {.dtype = dtype, .device = device(), .seed = ++seed});
        parameters[i].set_grad(gradient);
        reference(references[i], gradient.to_vector());
      }
      optimizer.step();
    }
    const double tolerance = dtype == f64 ? 1e-12 : 2e-5;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_TRUE(close(parameters[i], references[i].p, tolerance, tolerance)) << "parameter " << i << ", " << dtype;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, OptimTest, ::testing::ValuesIn(testing::build_devices()), testing::device_name);

TEST_P(OptimTest, Sgd) {
  for (const optim::SgdOptions& options :
       {optim::SgdOptions{.lr = 0.1}, optim::SgdOptions{.lr = 0.1, .weight_decay = 0.3},
        optim::SgdOptions{.lr = 0.05, .momentum = 0.9},
        optim::SgdOptions{.lr = 0.05, .momentum = 0.8, .dampening = 0.4},
        optim::SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true}})
    for (const Dtype dtype : {f32, f64})
      compare<optim::SGD>(dtype, options,
                          [&](Reference& reference, const Values& gradient) { reference.sgd(gradient, options); });
}

TEST_P(OptimTest, Adam) {
  for (const optim::AdamOptions& options :
       {optim::AdamOptions{.lr = 0.01}, optim::AdamOptions{.lr = 0.01, .beta1 = 0.7, .beta2 = 0.9, .eps = 1e-3},
        optim::AdamOptions{.lr = 0.01, .weight_decay = 0.2}})
    for (const Dtype dtype : {f32, f64})
      compare<optim::Adam>(dtype, options, [&](Reference& reference, const Values& gradient) {
        reference.adam(gradient, options, false);
      });
}

TEST_P(OptimTest, AdamW) {
  for (const optim::AdamWOptions& options :
       {optim::AdamWOptions{.lr = 0.01}, optim::AdamWOptions{.lr = 0.02, .beta1 = 0, .weight_decay = 0.3}})
    for (const Dtype dtype : {f32, f64})
      compare<optim::AdamW>(dtype, options, [&](Reference& reference, const Values& gradient) {
        reference.adam(gradient, options, true);
      });
}

TEST_P(OptimTest, Lion) {
  for (const optim::LionOptions& options :
       {optim::LionOptions{.lr = 0.01}, optim::LionOptions{.lr = 0.02, .beta1 = 0.5, .weight_decay = 0.3}})
    for (const Dtype dtype : {f32, f64})
      compare<optim::Lion>(dtype, options,
                           [&](Reference& reference, const Values& gradient) { reference.lion(gradient, options); });
}

// What several tests below train: three parameters, the second of which is large.
struct Parameters {
  explicit Parameters(Device place) : device(place) {
    for (const Shape& shape : {Shape{3}, Shape{50, 101}, Shape{7}})
      all.push_back(random_tensor(shape, {.dtype = f32, .device = place, .seed = all.size(), .requires_grad = true}));
  }
  void set_gradients(std::uint64_t seed) const {
    for (const Tensor& p : all) p.set_grad(random_tensor(p.shape(), {.dtype = f32, .device = device, .seed = ++seed}));
  }
  void expect_same(const Parameters& other) const {
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(bit_equal(all[i], other.all[i])) << i;
  }
  Device device;
  std::vector<Tensor> all{};
};

TEST_P(OptimTest, ANormLimitIsThatOfClipGradNorm) {
  const Parameters clipped(device());
  const Parameters fused(device());
  optim::SGD a{clipped.all, {.lr = 0.1}};
  optim::SGD b{fused.all, {.lr = 0.1}};
  EXPECT_FALSE(b.grad_norm().defined());
  b.set_max_grad_norm(2);
  for (std::uint64_t i = 0; i < 3; ++i) {
    clipped.set_gradients(10 * i);
    fused.set_gradients(10 * i);
    const Tensor norm = nn::clip_grad_norm(clipped.all, 2);
    a.step();
    b.step();
    EXPECT_NEAR(b.grad_norm().item(), norm.item(), 1e-12 * norm.item());
    EXPECT_GT(norm.item(), 2);
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(close(clipped.all[i], fused.all[i].to_vector(), 1e-6, 1e-7));
  b.set_max_grad_norm(1e6);  // no limit in effect: the same as without
  a.zero_grad();
  const Parameters plain(device());
  const Parameters limited(device());
  optim::Adam c{plain.all};
  optim::Adam d{limited.all};
  d.set_max_grad_norm(1e6);
  plain.set_gradients(1);
  limited.set_gradients(1);
  c.step();
  d.step();
  plain.expect_same(limited);
}

TEST_P(OptimTest, AFactorScalesTheGradientsAndZeroSkipsTheStep) {
  const Parameters plain(device());
  const Parameters scaled(device());
  optim::Adam a{plain.all};
  optim::Adam b{scaled.all};
  b.keep_average(0.5);
  for (std::uint64_t i = 0; i < 6; ++i) {
    const bool skip = i % 3 == 1;
    scaled.set_gradients(10 * i);
    if (i == 4) b.set_max_grad_norm(1e9);
    for (const Tensor& p : scaled.all)  // what a scaled loss gives
      p.set_grad(Tensor::from_values(p.shape(),
                                     [&] {
                                       std::vector<float> values = p.grad().to_vector<float>();
                                       for (float& value : values) value *= 1024;
                                       return values;
                                     }())
                     .to(device()));
    b.step({.factor = Tensor::scalar(skip ? 0.0 : 1.0 / 1024, {.dtype = i % 2 ? f64 : f32, .device = device()})});
    if (skip) continue;
    plain.set_gradients(10 * i);
    a.step();
  }
  plain.expect_same(scaled);
  EXPECT_EQ(b.state()[0].tensor.item(), 4);  // skipped steps do not count
  EXPECT_TRUE(throws_error([&] { b.step({.factor = Tensor::zeros({2}, {.device = device()})}); }, {"factor", "[2]"}));
}

TEST_P(OptimTest, FrozenParametersStay) {
  const Parameters parameters(device());
  optim::AdamW optimizer{parameters.all};
  parameters.set_gradients(1);
  parameters.all[1].set_requires_grad(false);
  const Values before = parameters.all[1].to_vector();
  optimizer.step();
  EXPECT_EQ(parameters.all[1].to_vector(), before);
  EXPECT_EQ(optimizer.state().size(), 3u + 4u);
}

TEST_P(OptimTest, AveragesCanBeSwappedInAndGoOnFromAState) {
  const Parameters parameters(device());
  optim::SGD optimizer{parameters.all, {.lr = 0.1}};
  optimizer.keep_average(0.75);
  std::vector<Values> expected;
  for (std::uint64_t i = 0; i < 4; ++i) {
    parameters.set_gradients(10 * i);
    optimizer.step();
    for (std::size_t k = 0; k < 3; ++k) {
      const Values now = parameters.all[k].to_vector();
      if (i == 0)
        expected.push_back(now);
      else
        for (std::size_t j = 0; j < now.size(); ++j) expected[k][j] += 0.25 * (now[j] - expected[k][j]);
    }
  }
  const Values last = parameters.all[1].to_vector();
  {
    const optim::AverageScope scope(optimizer);
    for (std::size_t k = 0; k < 3; ++k) EXPECT_TRUE(close(parameters.all[k], expected[k], 1e-5, 1e-6));
  }
  EXPECT_EQ(parameters.all[1].to_vector(), last);

  NamedTensors state;
  for (const NamedTensor& entry : optimizer.state()) state.push_back({entry.name, entry.tensor.clone()});
  const Parameters others(device());
  no_grad([&] {
    for (std::size_t k = 0; k < 3; ++k) others.all[k].copy_from(parameters.all[k]);
  });
  optim::SGD resumed{others.all, {.lr = 0.1}};
  resumed.keep_average(0.75);
  resumed.load_state(state);
  for (const Parameters* each : {&parameters, &others}) each->set_gradients(99);
  optimizer.step();
  resumed.step();
  for (std::size_t k = 0; k < 3; ++k) EXPECT_TRUE(bit_equal(optimizer.averages()[k], resumed.averages()[k]));
  EXPECT_TRUE(throws_error([&] { resumed.keep_average(1); }, {"keep_average", "1"}));
}

TEST_P(OptimTest, GroupsCanBeAddedLaterAndModulesMoved) {
  const auto train = [&](bool moving) {
    nn::Linear linear{5, 3};
    no_grad([&] {
      linear.weight.copy_from(random_tensor({3, 5}, {.dtype = f32, .seed = 1}));
      linear.bias.copy_from(random_tensor({3}, {.dtype = f32, .seed = 2}));
    });
    linear.to(device());
    optim::AdamW optimizer{{linear.weight}, {.lr = 0.1}};
    const auto step = [&](std::uint64_t seed) {
      for (const Tensor& p : linear.parameters())
        p.set_grad(random_tensor(p.shape(), {.dtype = f32, .seed = ++seed}).to(p.device()));
      optimizer.step();
    };
    for (std::uint64_t i = 0; i < 3; ++i) step(10 * i);
    optimizer.add_group({linear.bias}, {.lr = 0.1, .weight_decay = 0});
    for (std::uint64_t i = 3; i < 6; ++i) step(10 * i);
    if (moving) linear.to(cpu);
    for (std::uint64_t i = 6; i < 9; ++i) step(10 * i);
    if (moving) linear.to(device());
    for (std::uint64_t i = 9; i < 12; ++i) step(10 * i);
    EXPECT_EQ(optimizer.state()[0].tensor.item(), 12);
    EXPECT_EQ(optimizer.state()[3].tensor.item(), 9);
    return linear.weight.to_vector();
  };
  EXPECT_TRUE(close(train(true), train(false), 1e-4, 1e-5));
}

TEST_P(OptimTest, HalfCopiesFollow) {
  const Parameters parameters(device());
  for (const Dtype dtype : {bf16, f16}) {
    optim::Adam optimizer{parameters.all};
    for (const Tensor& p : parameters.all)
      keep_half_copy(p, Tensor::zeros(p.shape(), {.dtype = dtype, .device = device()}), nullptr);
    parameters.set_gradients(3);
    optimizer.step();
    for (const Tensor& p : parameters.all) {
      const Tensor half = find_half_copy(p, dtype);
      ASSERT_TRUE(half.defined());
      const Values values = p.to_vector();
      EXPECT_TRUE(close(half, values, dtype == bf16 ? 0.004 : 0.0005, 1e-6));
      EXPECT_FALSE(find_half_copy(p, dtype == bf16 ? f16 : bf16).defined());
      p.mark_changed();
      EXPECT_FALSE(find_half_copy(p, dtype).defined());
    }
  }
}

TEST_P(OptimTest, ManyParametersInOneStep) {
  std::vector<Tensor> parameters;
  for (int i = 0; i < 130; ++i)
    parameters.push_back(random_tensor(
        {i % 7 + 1, 600},
        {.dtype = f32, .device = device(), .seed = static_cast<std::uint64_t>(i), .requires_grad = true}));
  std::vector<Values> expected;
  for (const Tensor& parameter : parameters) {
    expected.push_back(parameter.to_vector());
    for (double& value : expected.back()) value *= 0.5;
    parameter.set_grad(parameter.detach().clone());
  }
  optim::SGD optimizer{parameters, {.lr = 0.5}};
  optimizer.step();
  for (std::size_t i = 0; i < parameters.size(); ++i) EXPECT_TRUE(close(parameters[i], expected[i])) << i;
}

TEST_P(OptimTest, TiedParametersAreUpdatedOnce) {
  const Tensor p = Tensor::from({2}, {1, 2}, {.device = device(), .requires_grad = true});
  optim::SGD optimizer{{p, p}, {.lr = 1}};
  p.set_grad(Tensor::from({2}, {0.25, 0.5}, {.device = device()}));
  optimizer.step();
  EXPECT_EQ(p.to_vector(), (Values{0.75, 1.5}));
}

TEST_P(OptimTest, StepMarksTheParameterChanged) {
  const Tensor p = Tensor::from({2}, {1, 2}, {.device = device(), .requires_grad = true});
  optim::AdamW optimizer{{p}};
  const std::uint64_t version = p.version();
  optimizer.step();
  EXPECT_EQ(p.version(), version);
  p.set_grad(Tensor::zeros({2}, {.device = device()}));
  optimizer.step();
  EXPECT_GT(p.version(), version);
  optimizer.zero_grad();
  EXPECT_FALSE(p.grad().defined());
}

// Some steps, a state taken, more steps; another optimizer goes on from the state with the same result.
TEST_P(OptimTest, StateGoesOn) {
  const auto step = [&](optim::Optimizer& optimizer, const std::vector<Tensor>& parameters, std::uint64_t seed) {
    optimizer.zero_grad();
    parameters[0].set_grad(random_tensor({5}, {.dtype = f32, .device = device(), .seed = seed}));
    optimizer.step();
  };
  const auto make = [&] {
    return std::vector{random_tensor({5}, {.dtype = f32, .device = device(), .seed = 1, .requires_grad = true}),
                       random_tensor({2}, {.dtype = f32, .device = device(), .seed = 2, .requires_grad = true})};
  };
  const std::vector<Tensor> a = make();
  optim::AdamW first{a};
  for (std::uint64_t i = 0; i < 3; ++i) step(first, a, i);
  NamedTensors state;
  for (const NamedTensor& entry : first.state()) state.push_back({entry.name, entry.tensor.clone()});
  EXPECT_EQ(state.size(), 4u);  // the second parameter has a count only

  const std::vector<Tensor> b = make();
  no_grad([&] { b[0].copy_from(a[0]); });
  optim::AdamW second{b};
  second.load_state(state);
  for (std::uint64_t i = 3; i < 6; ++i) {
    step(first, a, i);
    step(second, b, i);
  }
  EXPECT_TRUE(bit_equal(a[0], b[0]));

  state[1].tensor = Tensor::zeros({6});
  EXPECT_TRUE(throws_error([&] { second.load_state(state); }, {"load_state", "'0.m' should be f32 [5]", "f32 [6]"}));
  state.erase(state.begin() + 1);
  EXPECT_TRUE(throws_error([&] { second.load_state(state); }, {"moments of parameter 0 are missing"}));
  step(first, a, 6);
  step(second, b, 6);
  EXPECT_TRUE(bit_equal(a[0], b[0]));
}

TEST(OptimizerTest, LearningRatesOfGroupsKeepTheirRatio) {
  const Tensor p = Tensor::from({1}, {1}, {.requires_grad = true});
  const Tensor q = Tensor::from({1}, {1}, {.requires_grad = true});
  optim::SGD optimizer{{p}, {.lr = 0.1}};
  optimizer.add_group({q}, {.lr = 0.2});
  optimizer.set_lr(0.25);
  EXPECT_EQ(optimizer.lr(), 0.25);
  p.set_grad(Tensor::from({1}, {1}));
  q.set_grad(Tensor::from({1}, {1}));
  optimizer.step();
  EXPECT_FLOAT_EQ(static_cast<float>(p.item()), 0.75f);
  EXPECT_FLOAT_EQ(static_cast<float>(q.item()), 0.5f);
}

TEST(OptimizerTest, WrongUse) {
  const Tensor p = Tensor::from({1}, {1}, {.requires_grad = true});
  const Tensor whole = Tensor::from({1}, {1}, {.dtype = i32});
  EXPECT_TRUE(throws_error([&] { optim::SGD({p}, {.lr = -1}); }, {"SGD", "lr", "-1"}));
  EXPECT_TRUE(throws_error([&] { optim::SGD({p}, {.nesterov = true}); }, {"nesterov needs momentum"}));
  EXPECT_TRUE(throws_error([&] { optim::AdamW({p}, {.beta1 = 1}); }, {"AdamW", "beta1"}));
  EXPECT_TRUE(throws_error([&] { optim::Adam({p}, {.eps = NAN}); }, {"Adam", "eps"}));
  EXPECT_TRUE(throws_error([&] { optim::Adam({p, whole}); }, {"f32 or f64", "i32 [1]"}));
  EXPECT_TRUE(throws_error([&] { optim::Adam({p.clone()}); }, {"computed by an operator"}));
  EXPECT_TRUE(throws_error([&] { optim::Adam({Tensor()}); }, {"undefined"}));
  optim::SGD optimizer{{p}};
  EXPECT_TRUE(throws_error([&] { optimizer.set_lr(NAN); }, {"set_lr", "nan"}));
  EXPECT_TRUE(throws_error([&] { optimizer.add_group({p}, {}); }, {"another group"}));
  EXPECT_TRUE(throws_error([&] { optimizer.add_group({}, {.momentum = 0.5}); }, {"in all groups or in none"}));
}

}  // namespace
}  // namespace bevel
