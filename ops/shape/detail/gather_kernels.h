// Kernels of gather.h. Both ways work on rows: x is [outer, size, inner], and keys (i64, [K]) name rows of its middle
// axis. An index with a place for each element becomes the keys of x seen as [1, numel, 1].
#pragma once

#include <bevel/core/tensor.h>

namespace bevel::detail {

struct IndexedRows {
  std::int64_t outer = 1;
  std::int64_t size = 0;
  std::int64_t inner = 1;
};

// What an index means: element number p of the index tensor picks, of an axis of `size`, either a row (flat == false),
// or an element of [outer, size, inner] where p = (o * K + k) * inner + n.
struct IndexMeaning {
  bool flat = false;
  std::int64_t size = 0;
  std::int64_t count = 0;  // K
  std::int64_t inner = 1;

  // The key for index `i` at place `p`.
  BEVEL_HD std::int64_t key(std::int64_t p, std::int64_t i) const {
    if (!flat) return i;
    const std::int64_t o = p / inner / count;
    return (o * size + i) * inner + p % inner;
  }
};

// keys[p] for every element of the index (i32 or i64). Error in the name of `function` for an index out of range.
void make_keys(Cpu, const Tensor& index, const IndexMeaning& meaning, const Tensor& keys, const char* function);
void make_keys(Cuda, const Tensor& index, const IndexMeaning& meaning, const Tensor& keys, const char* function);

// out[o, k, n] = x[o, keys[k], n]
void take_rows(Cpu, const Tensor& x, const IndexedRows& rows, const Tensor& keys, const Tensor& out);
void take_rows(Cuda, const Tensor& x, const IndexedRows& rows, const Tensor& keys, const Tensor& out);

// out[o, c, n] = sum over k with keys[k] == c, in order, of source[o, k, n]. Floating only.
void add_rows(Cpu, const Tensor& source, const IndexedRows& rows, const Tensor& keys, const Tensor& out);
void add_rows(Cuda, const Tensor& source, const IndexedRows& rows, const Tensor& keys, const Tensor& out);

}  // namespace bevel::detail
