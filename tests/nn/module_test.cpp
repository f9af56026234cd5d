#include <bevel/nn/module.h>
#include <bevel/nn/sequential.h>

#include <gmock/gmock.h>

#include <type_traits>

#include "testing.h"

namespace bevel {
namespace {

using bevel::testing::bit_equal;
using bevel::testing::DeviceTest;
using bevel::testing::random_tensor;
using bevel::testing::throws_error;
using ::testing::ElementsAre;

Tensor parameter(const Shape& shape, std::uint64_t seed) {
  return random_tensor(shape, {.dtype = f32, .seed = seed, .requires_grad = true});
}

// Hands its input on, and has what a module can have.
struct Leaf : nn::Module {
  explicit Leaf(std::uint64_t seed = 1) : weight(parameter({2, 3}, seed)), running(Tensor::zeros({3})) {}

  Tensor forward(const Tensor& input) override { return input; }
  void visit(nn::Visitor& v) override {
    v("weight", weight);
    v("bias", bias);
    v.buffer("running", running);
  }
  Leaf clone() const {
    Leaf copy;
    copy.weight = nn::clone_leaf(weight);
    copy.bias = nn::clone_leaf(bias);
    copy.running = nn::clone_leaf(running);
    return nn::detail::cloned(*this, std::move(copy));
  }

  Tensor weight;
  Tensor bias;
  Tensor running;
};

struct Tree : nn::Module {
  Tree() {
    many.emplace_back(5);
    many.emplace_back(6);
  }
  void visit(nn::Visitor& v) override {
    v("first", first);
    v("many", many);
    v("scale", scale);
  }

  Leaf first{2};
  std::vector<Leaf> many;
  Tensor scale = parameter({4}, 3);
};

std::vector<std::string> names(const NamedTensors& tensors) {
  std::vector<std::string> result;
  for (const NamedTensor& entry : tensors) result.push_back(entry.name);
  return result;
}

TEST(ModuleTest, NamesFollowTheTree) {
  const Tree tree;
  EXPECT_THAT(names(tree.named_parameters()), ElementsAre("first.weight", "many.0.weight", "many.1.weight", "scale"));
  EXPECT_THAT(names(tree.named_buffers()), ElementsAre("first.running", "many.0.running", "many.1.running"));
  EXPECT_EQ(tree.num_parameters(), 3 * 6 + 4);
  EXPECT_EQ(tree.parameters().size(), 4u);
  EXPECT_EQ(tree.state().size(), 7u);
}

TEST(ModuleTest, TiedParametersCountOnce) {
  Tree tree;
  tree.many[1].weight = tree.first.weight;
  EXPECT_THAT(names(tree.named_parameters()), ElementsAre("first.weight", "many.0.weight", "scale"));
  EXPECT_EQ(tree.num_parameters(), 2 * 6 + 4);
  tree.to(f64);
  EXPECT_TRUE(same(tree.many[1].weight, tree.first.weight));
  EXPECT_EQ(tree.many[1].weight.dtype(), f64);
}

TEST(ModuleTest, MovesWithItsMembers) {
  static_assert(!std::is_copy_constructible_v<Tree> && std::is_nothrow_move_constructible_v<nn::Sequential>);
  Tree tree;
  const Tensor weight = tree.first.weight;
  Tree moved = std::move(tree);
  EXPECT_TRUE(same(moved.named_parameters()[0].tensor, weight));
}

TEST(ModuleTest, ModesReachEveryModule) {
  Tree tree;
  EXPECT_TRUE(tree.is_training() && tree.many[1].is_training());
  tree.eval();
  EXPECT_FALSE(tree.is_training() || tree.first.is_training() || tree.many[1].is_training());
  tree.train();
  EXPECT_TRUE(tree.is_training() && tree.many[0].is_training());
}

TEST(ModuleTest, ZeroGradAndFreezing) {
  Tree tree;
  tree.scale.set_grad(Tensor::zeros({4}));
  tree.zero_grad();
  EXPECT_FALSE(tree.scale.grad().defined());
  tree.set_requires_grad(false);
  EXPECT_FALSE(tree.first.weight.requires_grad());
  EXPECT_EQ(tree.parameters().size(), 4u);
}

TEST(ModuleTest, WithoutForwardIsAnError) {
  Tree tree;
  EXPECT_TRUE(throws_error([&] { tree(Tensor::zeros({1})); }, {"no forward()"}));
}

using ModuleDeviceTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, ModuleDeviceTest, ::testing::ValuesIn(testing::build_devices()),
                         testing::device_name);

TEST_P(ModuleDeviceTest, ToKeepsTheHandles) {
  Tree tree;
  const std::vector<Tensor> handles = tree.parameters();
  const Tensor before = tree.first.weight.detach().clone();
  handles[0].set_grad(Tensor::zeros({2, 3}));
  tree.to(device());
  EXPECT_EQ(handles[0].device(), device());
  EXPECT_EQ(handles[0].grad().device(), device());
  EXPECT_EQ(tree.first.running.device(), device());
  EXPECT_TRUE(handles[0].requires_grad());
  EXPECT_TRUE(bit_equal(handles[0], before));
  tree.to(cpu);
  EXPECT_EQ(tree.first.weight.device(), cpu);
  EXPECT_TRUE(bit_equal(handles[0], before));
}

TEST(ModuleTest, ToAnotherDtype) {
  Tree tree;
  const Tensor before = tree.scale.detach().clone();
  tree.to(f64);
  EXPECT_EQ(tree.scale.dtype(), f64);
  EXPECT_TRUE(tree.scale.requires_grad());
  EXPECT_EQ(tree.first.running.dtype(), f64);
  EXPECT_EQ(tree.scale.to_vector(), before.to_vector());
  EXPECT_TRUE(throws_error([&] { tree.to(i32); }, {"must be f32 or f64", "i32"}));
}

// --- Sequential ---

TEST(SequentialTest, HoldsItsModulesByIndex) {
  nn::Sequential net{Leaf{7}, Leaf{8}};
  net.push_back(Leaf{9});
  EXPECT_EQ(net.size(), 3u);
  EXPECT_THAT(names(net.named_parameters()), ElementsAre("0.weight", "1.weight", "2.weight"));
  EXPECT_TRUE(bit_equal(net.at<Leaf>(2).weight, parameter({2, 3}, 9)));
  EXPECT_TRUE(throws_error([&] { net[3]; }, {"module 3", "there are 3"}));
  EXPECT_TRUE(throws_error([&] { net.at<Tree>(0); }, {"module 0", "not of the class"}));
}

TEST(SequentialTest, NestsAndMoves) {
  nn::Sequential inner{Leaf{1}};
  nn::Sequential net{Leaf{2}, std::move(inner)};
  EXPECT_THAT(names(net.named_parameters()), ElementsAre("0.weight", "1.0.weight"));
  nn::Sequential moved{std::move(net)};
  EXPECT_EQ(moved.size(), 2u);
}

TEST(SequentialTest, CloneIsIndependent) {
  nn::Sequential net{Leaf{2}, nn::Sequential{Leaf{3}, Leaf{4}}};
  net.at<nn::Sequential>(1)[0].eval();
  nn::Sequential copy = net.clone();
  EXPECT_THAT(names(copy.state()), ::testing::ElementsAreArray(names(net.state())));
  for (std::size_t i = 0; i < net.state().size(); ++i) {
    EXPECT_FALSE(same(net.state()[i].tensor, copy.state()[i].tensor));
    EXPECT_TRUE(bit_equal(net.state()[i].tensor, copy.state()[i].tensor));
    EXPECT_EQ(net.state()[i].tensor.requires_grad(), copy.state()[i].tensor.requires_grad());
  }
  EXPECT_FALSE(copy.at<nn::Sequential>(1)[0].is_training());
  EXPECT_TRUE(copy.at<nn::Sequential>(1)[1].is_training());
  copy.parameters()[0].data<float>()[0] = 42;
  EXPECT_NE(net.parameters()[0].data<float>()[0], 42);
}

TEST(SequentialTest, CloneNeedsCloneableModules) {
  nn::Sequential net{Leaf{}, Tree{}};
  EXPECT_TRUE(throws_error([&] { net.clone(); }, {"module 1", "no clone()"}));
}

// --- state ---

TEST(StateTest, LoadCopiesValues) {
  nn::Sequential from{Leaf{1}, Leaf{2}};
  nn::Sequential to{Leaf{3}, Leaf{4}};
  const std::vector<Tensor> handles = to.parameters();
  const std::uint64_t version = handles[0].version();
  to.copy_state(from);
  EXPECT_TRUE(bit_equal(handles[1], from.parameters()[1]));
  EXPECT_FALSE(same(handles[1], from.parameters()[1]));
  EXPECT_GT(handles[0].version(), version);
}

TEST(StateTest, MismatchIsNamedAndChangesNothing) {
  nn::Sequential net{Leaf{1}, Leaf{2}};
  const Tensor before = net.parameters()[0].detach().clone();
  NamedTensors state = nn::Sequential{Leaf{3}, Leaf{4}}.state();
  state[1].tensor = Tensor::zeros({3, 2});
  state[2].name = "other";
  EXPECT_TRUE(throws_error([&] { net.load_state(state); },
                           {"load_state", "'1.weight' should be f32 [2, 3], and is f32 [3, 2]",
                            "'0.running' (f32 [3]) is missing", "'other' (f32 [3]) is not expected"}));
  EXPECT_TRUE(bit_equal(net.parameters()[0], before));
  state = net.state();
  state.push_back(state[0]);
  EXPECT_TRUE(throws_error([&] { net.load_state(state); }, {"'0.weight' is there twice"}));
}

TEST(StateTest, Prefixes) {
  const NamedTensors state = with_prefix("model.", Leaf{}.state());
  EXPECT_THAT(names(state), ElementsAre("model.weight", "model.running"));
  EXPECT_THAT(names(without_prefix("model.", state)), ElementsAre("weight", "running"));
  EXPECT_TRUE(without_prefix("optimizer.", state).empty());
}

}  // namespace
}  // namespace bevel
