// A small network learns z = sin(3x) cos(2y) from points: the whole training loop of Bevel in thirty lines.
#include <bevel/bevel.h>

#include <array>
#include <cmath>
#include <iostream>

using namespace bevel;

struct Points {
  std::int64_t size() const { return 4096; }
  std::array<TensorSpec, 2> specs() const { return {TensorSpec{{2}}, TensorSpec{{1}}}; }
  void fill(std::int64_t index, std::int64_t, std::span<Tensor> slots) const {
    const Philox4 random = philox(/*seed=*/1, static_cast<std::uint64_t>(index));
    const float x = 2 * uniform_float(random.word[0]) - 1;
    const float y = 2 * uniform_float(random.word[1]) - 1;
    slots[0].data<float>()[0] = x;
    slots[0].data<float>()[1] = y;
    slots[1].data<float>()[0] = std::sin(3 * x) * std::cos(2 * y);
  }
};

int main() {
  const Device device = best_device();
  const Points points;
  const int epochs = 30;
  manual_seed(0);

  nn::Sequential net{nn::Linear{2, 64}, nn::Tanh{}, nn::Linear{64, 64}, nn::Tanh{}, nn::Linear{64, 1}};
  net.to(device);
  DataLoader loader{points, {.batch = 64, .shuffle = true, .device = device}};
  optim::AdamW optimizer{net.parameters(), {.weight_decay = 1e-4}};
  optim::Schedule schedule{optimizer, optim::OneCycle{.max_lr = 1e-2, .steps = epochs * loader.size()}};

  double mean_loss = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    Tensor sum = Tensor::zeros({}, {.device = device});
    for (auto& [inputs, targets] : loader) {
      optimizer.zero_grad();
      Tensor loss = smooth_l1(net(inputs), targets, {.beta = 0.1});
      loss.backward();
      optimizer.step();
      schedule.step();
      sum = sum + loss.detach();
    }
    mean_loss = sum.item() / static_cast<double>(loader.size());
    if (epoch % 5 == 4) std::cout << "epoch " << epoch + 1 << ": mean loss " << mean_loss << std::endl;
  }
  const bool learnt = mean_loss < 1e-3;
  std::cout << (learnt ? "learnt" : "not learnt") << " on " << device << "\n";
  return learnt ? 0 : 1;
}
