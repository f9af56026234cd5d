// Rearrangements of axes. The result is a dense copy; a permutation that moves no element is a view.
#pragma once

#include <bevel/core/tensor.h>

#include <initializer_list>
#include <span>

namespace bevel {

// Axis i of the result is axis order[i] of x; negative ones count from the end. Error unless `order` names every axis
// once.
Tensor permute(const Tensor& x, std::span<const int> order);
Tensor permute(const Tensor& x, std::initializer_list<int> order);

// Exchanges two axes.
Tensor transpose(const Tensor& x, int a, int b);

// Reverses the order of the elements along `axis`. Its own derivative.
Tensor flip(const Tensor& x, int axis);

}  // namespace bevel
