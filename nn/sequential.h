// Sequential: modules one after the other, the output of each being the input of the next.
//
//   nn::Sequential net{nn::Linear{2, 16}, nn::ReLU{}, nn::Linear{16, 1}};
//   Tensor y = net(x);
#pragma once

#include <bevel/nn/module.h>

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace bevel::nn {

// A module of class M that can be copied deeply.
template <class M>
concept Cloneable = std::derived_from<M, Module> && requires(const M& module) {
  { module.clone() } -> std::same_as<M>;
};

class Sequential : public Module {
 public:
  Sequential() = default;
  // Takes the modules by move. A single Sequential is moved, not wrapped; use push_back to nest.
  template <class First, class... Rest>
    requires(std::derived_from<First, Module> && (std::derived_from<Rest, Module> && ...) &&
             (sizeof...(Rest) > 0 || !std::same_as<First, Sequential>))
  explicit Sequential(First&& first, Rest&&... rest) {
    push_back(std::forward<First>(first));
    (push_back(std::forward<Rest>(rest)), ...);
  }

  // Appends a module, under the name of its index, and returns it.
  template <std::derived_from<Module> M>
  M& push_back(M&& module) {
    auto owned = std::make_unique<std::remove_cv_t<M>>(std::forward<M>(module));
    M& result = *owned;
    entries_.push_back({std::move(owned), cloner<M>()});
    return result;
  }

  std::size_t size() const { return entries_.size(); }
  // Module i. Error where there is none.
  Module& operator[](std::size_t i) const;
  // Module i as what it is. Error if it is of another class.
  template <std::derived_from<Module> M>
  M& at(std::size_t i) const {
    Module& module = (*this)[i];
    M* result = dynamic_cast<M*>(&module);
    require(result != nullptr, "Sequential::at: module ", i, " is not of the class asked for");
    return *result;
  }

  Tensor forward(const Tensor& input) override;
  void visit(Visitor& visitor) override;
  // Error if one of the modules has no clone().
  Sequential clone() const;

 private:
  using Cloner = std::unique_ptr<Module> (*)(const Module&);
  struct Entry {
    std::unique_ptr<Module> module;
    Cloner clone = nullptr;  // null where the class cannot be cloned
  };

  template <class M>
  static Cloner cloner() {
    if constexpr (Cloneable<M>)
      return [](const Module& module) -> std::unique_ptr<Module> {
        return std::make_unique<M>(static_cast<const M&>(module).clone());
      };
    else
      return nullptr;
  }

  std::vector<Entry> entries_;
};

}  // namespace bevel::nn
