// Losses over rows of four numbers, such as boxes: one value a row.
#pragma once

#include <bevel/core/hostdevice.h>

namespace bevel {

// Four numbers of a formula's number type.
template <class X>
struct Row {
  X at[4];

  BEVEL_HD X& operator[](int i) { return at[i]; }
  BEVEL_HD const X& operator[](int i) const { return at[i]; }
};

// The loss of a row, and its derivatives with respect to the input's four numbers.
template <class X>
struct RowLoss {
  X value;
  Row<X> d_input;
};

}  // namespace bevel
