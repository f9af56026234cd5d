#include <bevel/nn/sequential.h>

#include <string>

namespace bevel::nn {

Module& Sequential::operator[](std::size_t i) const {
  require(i < entries_.size(), "Sequential: module ", i, " was asked for; there are ", entries_.size());
  return *entries_[i].module;
}

Tensor Sequential::forward(const Tensor& input) {
  Tensor value = input;
  for (const Entry& entry : entries_) value = entry.module->forward(value);
  return value;
}

void Sequential::visit(Visitor& visitor) {
  for (std::size_t i = 0; i < entries_.size(); ++i) visitor(std::to_string(i), *entries_[i].module);
}

Sequential Sequential::clone() const {
  Sequential copy;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    require(entries_[i].clone != nullptr, "Sequential::clone: module ", i, " has no clone()");
    copy.entries_.push_back({entries_[i].clone(*entries_[i].module), entries_[i].clone});
  }
  // Not train(): each module within was cloned in a mode of its own.
  copy.set_mode(is_training());
  return copy;
}

}  // namespace bevel::nn
