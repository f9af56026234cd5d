// What both programs do: prove the gradient right, then fit a line through points with outliers, by gradient descent.
#pragma once

#include <bevel/bevel.h>

#include <cstdio>
#include <functional>

#include "cauchy.h"

using LossFunction = std::function<bevel::Tensor(const bevel::Tensor&, const bevel::Tensor&)>;

// The points (x, 2 x + 1) for x in [-1, 1], but every tenth lies 20 higher. Returns slope and intercept of the fit.
inline std::vector<double> fit_line(const LossFunction& loss, bevel::Device device) {
  using namespace bevel;
  constexpr std::int64_t count = 200;
  std::vector<float> xs;
  std::vector<float> ys;
  for (std::int64_t i = 0; i < count; ++i) {
    xs.push_back(static_cast<float>(i) / 100 - 1);
    ys.push_back(2 * xs.back() + 1 + (i % 10 == 0 ? 20.0f : 0.0f));
  }
  const Tensor x = Tensor::from_values({count}, xs, {.device = device});
  const Tensor y = Tensor::from_values({count}, ys, {.device = device});
  Tensor slope = Tensor::zeros({1}, {.device = device, .requires_grad = true});
  Tensor intercept = Tensor::zeros({1}, {.device = device, .requires_grad = true});
  for (int step = 0; step < 2000; ++step) {
    loss(slope * x + intercept, y).backward();
    for (Tensor* parameter : {&slope, &intercept}) {
      no_grad([&] { parameter->copy_from(*parameter - 0.2 * parameter->grad()); });
      parameter->set_grad({});
    }
  }
  return {slope.item(), intercept.item()};
}

// Returns the exit status: 0 if the gradient is right and the line was found in spite of the outliers.
inline int run(const LossFunction& loss, bevel::Device device) {
  using namespace bevel;
  const Tensor input = Tensor::from({4}, {-3, -0.1, 0.2, 7}, {.dtype = f64, .device = device, .requires_grad = true});
  const Tensor target = Tensor::from({4}, {1, 0, 0, 2}, {.dtype = f64, .device = device});
  const GradcheckReport report = gradgradcheck([&](const auto& in) { return loss(in[0], target); }, {input});
  const std::vector<double> line = fit_line(loss, device);
  std::printf("device              %s\n", message(device).c_str());
  std::printf("gradients           %s\n", report ? "right, to the second order" : report.text.c_str());
  std::printf("line without noise  y = 2 x + 1\n");
  std::printf("line found          y = %.3f x + %.3f\n", line[0], line[1]);
  const bool is_found = std::abs(line[0] - 2) < 0.2 && std::abs(line[1] - 1) < 0.2;
  return report && is_found ? 0 : 1;
}
