#include <bevel/nn/gradcheck.h>

#include <unordered_map>

namespace bevel {

namespace {

// Puts other tensors in the place of a module's parameters, and itself back in the end.
class Substitution {
 public:
  explicit Substitution(nn::Module& module) : module_(module) {
    for (const NamedTensor& entry : module.named_parameters()) {
      if (!entry.tensor.requires_grad()) continue;
      require(entry.tensor.dtype() == f64, "gradcheck: parameter '", entry.name, "' must be f64; it is ",
              entry.tensor.dtype(), ". Call module.to(f64) first");
      parameters_.push_back(entry.tensor);
    }
    for (const NamedTensor& entry : module.named_buffers()) {
      buffers_.push_back(entry.tensor);
      kept_.push_back(entry.tensor.clone());
    }
  }
  ~Substitution() {
    restore_buffers();
    replace(parameters_);
  }
  Substitution(const Substitution&) = delete;
  Substitution& operator=(const Substitution&) = delete;

  const std::vector<Tensor>& parameters() const { return parameters_; }

  void restore_buffers() const {
    for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_from(kept_[i]);
  }

  // `tensors`: one for each of parameters().
  void replace(std::span<const Tensor> tensors) {
    if (current_.empty()) current_ = parameters_;
    std::unordered_map<const void*, const Tensor*> replacement;
    for (std::size_t i = 0; i < current_.size(); ++i) replacement[current_[i].shared_impl().get()] = &tensors[i];
    nn::Visitor visitor(
        [&](const std::string&, Tensor& tensor, nn::Visitor::Kind) {
          const auto found = replacement.find(tensor.shared_impl().get());
          if (found != replacement.end()) tensor = *found->second;
        },
        {}, true);
    module_.visit(visitor);
    current_.assign(tensors.begin(), tensors.end());
  }

 private:
  nn::Module& module_;
  std::vector<Tensor> parameters_;
  std::vector<Tensor> current_;
  std::vector<Tensor> buffers_;
  std::vector<Tensor> kept_;
};

}  // namespace

GradcheckReport gradcheck(nn::Module& module, const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  require(inputs.size() == 1, "gradcheck: this form needs one input; got ", inputs.size());
  return gradcheck(module, [&](const std::vector<Tensor>& in) { return module(in[0]); }, inputs, options);
}

GradcheckReport gradcheck(nn::Module& module, const GradcheckFunction& forward, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options) {
  Substitution substitution(module);
  std::vector<Tensor> all = inputs;
  all.insert(all.end(), substitution.parameters().begin(), substitution.parameters().end());
  const GradcheckFunction function = [&](const std::vector<Tensor>& in) {
    substitution.restore_buffers();
    substitution.replace(std::span(in).subspan(inputs.size()));
    return forward({in.begin(), in.begin() + static_cast<std::ptrdiff_t>(inputs.size())});
  };
  return gradcheck(function, all, options);
}

}  // namespace bevel
