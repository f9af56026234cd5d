#include <bevel/core/philox.h>
#include <bevel/core/random.h>
#include <bevel/ops/gradcheck.h>

#include <cmath>
#include <iomanip>
#include <set>

namespace bevel {

namespace {

// Uniform in [-1, 1), kept away from 0 so that a missing upstream gradient cannot hide.
std::vector<double> random_upstream(std::int64_t count, std::uint64_t seed, std::uint64_t stream) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const Philox4 words = philox(seed, static_cast<std::uint64_t>(i), stream);
    const double magnitude = 0.25 + 0.75 * uniform_double(words.word[0], words.word[1]);
    values.push_back(words.word[2] & 1u ? magnitude : -magnitude);
  }
  return values;
}

Tensor from_doubles(const Tensor& like, const std::vector<double>& values) {
  return Tensor::from_values(like.shape(), values).to(like.device());
}

// Writes element `flat` of `shape` as an index, such as (0, 2).
std::string index_text(const Shape& shape, std::int64_t flat) {
  std::string text;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    text = std::to_string(flat % shape[axis]) + (text.empty() ? "" : ", ") + text;
    flat /= shape[axis];
  }
  return "(" + text + ")";
}

class Check {
 public:
  Check(const GradcheckFunctions& function, const std::vector<Tensor>& inputs, const GradcheckOptions& options)
      : function_(function), inputs_(inputs), options_(options), random_state_(default_generator().state()) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      require(!inputs[i].defined() || !inputs[i].requires_grad() || inputs[i].dtype() == f64, "gradcheck: input ", i,
              " must be f64 to be checked; it is ", inputs[i].defined() ? inputs[i].dtype() : f64);
  }

  GradcheckReport run() {
    const Gradients gradients = analytic();
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].defined() && inputs_[i].requires_grad()) compare(i, gradients[i]);
    default_generator().set_state(random_state_);
    std::ostringstream text;
    text << "gradcheck: " << failures_ << " of " << compared_ << " elements differ";
    if (failures_ > 0) text << " beyond atol " << options_.atol << " + rtol " << options_.rtol << details_.str();
    return {failures_ == 0 && compared_ > 0, compared_ > 0 ? text.str() : "gradcheck: no element was checked"};
  }

 private:
  std::vector<Tensor> call(const std::vector<Tensor>& inputs) {
    default_generator().set_state(random_state_);
    std::vector<Tensor> outputs = function_(inputs);
    for (const Tensor& output : outputs)
      require(output.dtype() == f64, "gradcheck: the outputs must be f64; one is ", output.dtype());
    return outputs;
  }

  // One gradient for each input, undefined for those that require none.
  Gradients analytic() {
    std::vector<Tensor> leaves;
    std::vector<Tensor> wanted;
    for (const Tensor& input : inputs_) {
      leaves.push_back(input.defined() ? input.detach() : Tensor());
      if (!input.defined() || !input.requires_grad()) continue;
      leaves.back().set_requires_grad();
      wanted.push_back(leaves.back());
    }
    const std::vector<Tensor> outputs = call(leaves);
    GradOptions grad_options{.allow_unused = true};
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      upstream_.push_back(random_upstream(outputs[i].numel(), options_.seed, i));
      grad_options.grad_outputs.push_back(from_doubles(outputs[i], upstream_.back()));
    }
    const Gradients found = gradients_of(outputs, wanted, grad_options);
    Gradients gradients(inputs_.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (leaves[i].defined() && leaves[i].requires_grad()) gradients[i] = found[next++];
    return gradients;
  }

  // Outputs without history are constant: they add nothing.
  static Gradients gradients_of(const std::vector<Tensor>& outputs, const std::vector<Tensor>& wanted,
                                const GradOptions& options) {
    std::vector<Tensor> differentiable;
    GradOptions chosen{.allow_unused = true};
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad()) continue;
      differentiable.push_back(outputs[i]);
      chosen.grad_outputs.push_back(options.grad_outputs[i]);
    }
    return differentiable.empty() ? Gradients(wanted.size()) : grad(differentiable, wanted, chosen);
  }

  // sum(upstream * f) with element `flat` of input i replaced.
  long double objective(std::size_t i, std::vector<double> values, std::int64_t flat, double value) {
    const NoGrad guard;
    values[static_cast<std::size_t>(flat)] = value;
    std::vector<Tensor> inputs = inputs_;
    inputs[i] = from_doubles(inputs_[i], values);
    const std::vector<Tensor> outputs = call(inputs);
    long double sum = 0;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const std::vector<double> elements = outputs[k].to_vector();
      for (std::size_t j = 0; j < elements.size(); ++j)
        sum += static_cast<long double>(elements[j]) * static_cast<long double>(upstream_[k][j]);
    }
    return sum;
  }

  void compare(std::size_t i, const Tensor& gradient) {
    const std::vector<double> values = inputs_[i].to_vector();
    const std::vector<double> analytic_values =
        gradient.defined() ? gradient.to_vector() : std::vector<double>(values.size(), 0.0);
    const std::int64_t count = inputs_[i].numel();
    const std::int64_t stride =
        options_.max_elements > 0 ? std::max<std::int64_t>(1, count / options_.max_elements) : 1;
    for (std::int64_t flat = 0; flat < count; flat += stride) {
      const double x = values[static_cast<std::size_t>(flat)];
      const double step = options_.step * std::max(1.0, std::abs(x));
      const double above = x + step;
      const double below = x - step;
      const long double difference = objective(i, values, flat, above) - objective(i, values, flat, below);
      const double numeric = static_cast<double>(difference / static_cast<long double>(above - below));
      check(i, flat, x, analytic_values[static_cast<std::size_t>(flat)], numeric);
    }
  }

  void check(std::size_t i, std::int64_t flat, double x, double analytic_value, double numeric) {
    ++compared_;
    // Written so that NaN fails.
    if (std::abs(analytic_value - numeric) <= options_.atol + options_.rtol * std::abs(numeric)) return;
    constexpr int shown = 10;
    if (++failures_ > shown) return;
    details_ << "\n  input " << i << " at " << index_text(inputs_[i].shape(), flat) << ", x = " << std::setprecision(10)
             << x << ": analytic " << analytic_value << ", numeric " << numeric << ", difference "
             << analytic_value - numeric;
    if (failures_ == shown) details_ << "\n  (further differences are not shown)";
  }

  const GradcheckFunctions& function_;
  const std::vector<Tensor>& inputs_;
  const GradcheckOptions& options_;
  RandomState random_state_;
  std::vector<std::vector<double>> upstream_;
  std::int64_t compared_ = 0;
  std::int64_t failures_ = 0;
  std::ostringstream details_;
};

}  // namespace

GradcheckReport gradcheck_outputs(const GradcheckFunctions& function, const std::vector<Tensor>& inputs,
                                  const GradcheckOptions& options) {
  return Check(function, inputs, options).run();
}

GradcheckReport gradcheck(const GradcheckFunction& function, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options) {
  return gradcheck_outputs([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{function(in)}; }, inputs,
                           options);
}

GradcheckReport gradgradcheck(const GradcheckFunction& function, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options) {
  std::vector<Tensor> all = inputs;
  const Tensor output = no_grad([&] { return function(inputs); });
  const std::uint64_t seed = options.seed + 1000;
  all.push_back(from_doubles(output, random_upstream(output.numel(), seed, 0)).set_requires_grad());
  const GradcheckFunctions gradient = [&](const std::vector<Tensor>& in) {
    // Without recording (the numeric side) the first gradient still needs a graph of its own.
    std::vector<Tensor> leaves;
    std::vector<Tensor> wanted;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool checked = inputs[i].defined() && inputs[i].requires_grad();
      leaves.push_back(checked && !in[i].requires_grad() ? in[i].detach() : in[i]);
      if (!checked) continue;
      if (!leaves.back().requires_grad()) leaves.back().set_requires_grad();
      wanted.push_back(leaves.back());
    }
    const bool differentiable = grad_enabled();
    const EnableGrad enable;
    const Tensor value = function(leaves);
    return grad(std::span(&value, 1), wanted,
                {.create_graph = differentiable, .allow_unused = true, .grad_outputs = {in.back()}});
  };
  const GradcheckFunctions defined_gradient = [&](const std::vector<Tensor>& in) {
    std::vector<Tensor> result;
    std::size_t i = 0;
    for (Tensor& tensor : gradient(in)) {
      while (!inputs[i].defined() || !inputs[i].requires_grad()) ++i;
      result.push_back(tensor.defined() ? tensor : Tensor::zeros(inputs[i].shape(), inputs[i].options()));
      ++i;
    }
    return result;
  };
  return gradcheck_outputs(defined_gradient, all, options);
}

}  // namespace bevel
