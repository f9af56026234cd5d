// A piece of a pass on the CPU.
#pragma once

#include <bevel/ops/loss/pass.h>

#include <cstdint>

namespace bevel::detail {

using raw::DeviceNumber;
using raw::LossPass;

// A piece of a pass on the CPU, in the compute type. No pointer is null but the directions and what is said below.
template <class T>
struct LossTile {
  std::int64_t count;
  const T* input;
  const T* target;
  T* value;
  T* d_input;                          // null: the value is all that is wanted
  T* d_target;                         // null: not wanted; formulas of an error never write it, it is -d_input
  T seed;                              // d_input is multiplied by it
  std::int64_t ahead = 0;              // the loops ask the memory for inputs so many numbers ahead
  const T* direction_input = nullptr;  // not null: the second pass, without a seed
  const T* direction_target = nullptr;
};

}  // namespace bevel::detail
