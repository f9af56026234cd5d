#include <bevel/core/autograd.h>
#include <bevel/nn/named_tensor.h>

#include <map>
#include <sstream>

namespace bevel {

NamedTensors with_prefix(std::string_view prefix, NamedTensors tensors) {
  for (NamedTensor& entry : tensors) entry.name.insert(0, prefix);
  return tensors;
}

NamedTensors without_prefix(std::string_view prefix, std::span<const NamedTensor> tensors) {
  NamedTensors result;
  for (const NamedTensor& entry : tensors)
    if (entry.name.starts_with(prefix)) result.push_back({entry.name.substr(prefix.size()), entry.tensor});
  return result;
}

namespace {

// Collects what does not match; only the first few are spelt out.
class Mismatches {
 public:
  template <class... Parts>
  void add(const Parts&... parts) {
    if (++count_ > shown) return;
    if (count_ > 1) text_ << "; ";
    (text_ << ... << parts);
  }
  void require_none(const char* function) const {
    if (count_ == 0) return;
    if (count_ > shown) fail(function, ": the state does not match: ", text_.str(), "; and ", count_ - shown, " more");
    fail(function, ": the state does not match: ", text_.str());
  }

 private:
  static constexpr int shown = 4;
  int count_ = 0;
  std::ostringstream text_;
};

std::string describe(const Tensor& tensor) {
  return message(tensor.dtype(), " ", tensor.shape());
}

}  // namespace

void copy_matching(const char* function, std::span<const NamedTensor> target, std::span<const NamedTensor> source) {
  Mismatches mismatches;
  std::map<std::string_view, const Tensor*> found;
  for (const NamedTensor& entry : source)
    if (!found.emplace(entry.name, &entry.tensor).second) mismatches.add("'", entry.name, "' is there twice");
  for (const NamedTensor& entry : target) {
    const auto it = found.find(entry.name);
    if (it == found.end())
      mismatches.add("'", entry.name, "' (", describe(entry.tensor), ") is missing");
    else if (it->second->shape() != entry.tensor.shape() || it->second->dtype() != entry.tensor.dtype())
      mismatches.add("'", entry.name, "' should be ", describe(entry.tensor), ", and is ", describe(*it->second));
  }
  std::map<std::string_view, bool> expected;
  for (const NamedTensor& entry : target) expected[entry.name] = true;
  for (const NamedTensor& entry : source)
    if (!expected.contains(entry.name))
      mismatches.add("'", entry.name, "' (", describe(entry.tensor), ") is not expected");
  mismatches.require_none(function);

  const NoGrad guard;
  for (const NamedTensor& entry : target) entry.tensor.copy_from(*found.at(entry.name));
}

}  // namespace bevel
