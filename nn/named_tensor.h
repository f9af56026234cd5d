// A tensor with a name: how modules, optimisers and checkpoints exchange their state.
#pragma once

#include <bevel/core/tensor.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bevel {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

using NamedTensors = std::vector<NamedTensor>;

// The entries with `prefix` put in front of every name.
NamedTensors with_prefix(std::string_view prefix, NamedTensors tensors);

// The entries whose names begin with `prefix`, with the prefix taken off.
NamedTensors without_prefix(std::string_view prefix, std::span<const NamedTensor> tensors);

// Copies every entry of `source` into the entry of the same name of `target`, whatever the devices. Error in the name
// of `function` if a name is missing, unexpected or given twice, or if a shape or dtype differs: it names the first
// such entries with what was expected and what was found, and nothing has been changed then.
void copy_matching(const char* function, std::span<const NamedTensor> target, std::span<const NamedTensor> source);

}  // namespace bevel
