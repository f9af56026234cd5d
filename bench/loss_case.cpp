#include "bench/loss_case.h"

#include <bevel/core/autograd.h>

namespace bevel::bench {

namespace {

// Tensors of one set. What a call makes is kept until the next one on the same set: so outputs rotate like inputs.
struct LossSet {
  Tensor input;
  Tensor target;
  Tensor upstream;
  Tensor output;
};

using SetPointer = std::shared_ptr<LossSet>;

SetPointer make_set(const LossCase& loss, Device device, std::uint64_t index, bool requires_grad) {
  auto set = std::make_shared<LossSet>();
  set->input = random(loss.shape.shape, loss.dtype, device, 3 * index, loss.input);
  set->target = random(loss.shape.shape, loss.dtype, device, 3 * index + 1, loss.target);
  set->input.set_requires_grad(requires_grad);
  return set;
}

Case base(const LossCase& loss, const char* detail, const char* pass, const char* variant, std::vector<Traffic> floor) {
  const std::int64_t bytes = loss.shape.shape.numel() * size_of(loss.dtype);
  return {loss.op, loss.shape.text, loss.dtype, detail, pass, variant, bytes, std::move(floor), loss.quick, {}};
}

Case forward_case(const LossCase& loss, Reduction reduction, std::vector<Traffic> floor) {
  Case result = base(loss, name(reduction), "forward", "", std::move(floor));
  result.make = [loss, reduction](Device device, std::uint64_t index) {
    const SetPointer set = make_set(loss, device, index, false);
    const auto drop = [set] { set->output = {}; };
    return Workset{drop, [=, function = loss.loss] {
                     drop();
                     set->output = function(set->input, set->target, reduction, true);
                   }};
  };
  return result;
}

Case gradient_case(const LossCase& loss, bool fused, std::vector<Traffic> floor) {
  Case result = base(loss, "mean", "loss+gradient", fused ? "fused" : "unfused", std::move(floor));
  result.make = [loss, fused](Device device, std::uint64_t index) {
    const SetPointer set = make_set(loss, device, index, true);
    const auto drop = [set] {
      set->output = {};
      set->input.set_grad({});
    };
    return Workset{drop, [=, function = loss.loss] {
                     drop();
                     set->output = function(set->input, set->target, Reduction::mean, fused);
                     set->output.backward();
                   }};
  };
  return result;
}

Case none_backward_case(const LossCase& loss, bool with_forward, std::vector<Traffic> floor) {
  Case result = base(loss, "none", with_forward ? "forward+backward" : "backward", "", std::move(floor));
  result.make = [loss, with_forward](Device device, std::uint64_t index) {
    const SetPointer set = make_set(loss, device, index, true);
    set->upstream = random(loss.shape.shape, loss.dtype, device, 3 * index + 2);
    if (!with_forward) set->output = loss.loss(set->input, set->target, Reduction::none, true);
    const auto drop = [set, with_forward] {
      if (with_forward) set->output = {};
      set->input.set_grad({});
    };
    return Workset{drop, [=, function = loss.loss] {
                     drop();
                     if (with_forward) set->output = function(set->input, set->target, Reduction::none, true);
                     backward(set->output, set->upstream, {.retain_graph = !with_forward});
                   }};
  };
  return result;
}

}  // namespace

std::vector<Case> mean_cases(const LossCase& loss) {
  return {forward_case(loss, Reduction::mean, {{2, 0}}), gradient_case(loss, true, {{2, 1}}),
          gradient_case(loss, false, {{2, 0}, {2, 1}})};
}

std::vector<Case> none_cases(const LossCase& loss) {
  return {forward_case(loss, Reduction::none, {{2, 1}}), none_backward_case(loss, false, {{3, 1}}),
          none_backward_case(loss, true, {{2, 1}, {3, 1}})};
}

}  // namespace bevel::bench
