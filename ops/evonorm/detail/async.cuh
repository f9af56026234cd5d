// Copies from device memory to shared memory that run while a thread does other things.
//
// Each thread copies what it alone will read, to slots of its own, so that it only waits for its own copies and no
// barrier is needed: shared memory serves as registers that are filled in the background.
#pragma once

#include <bevel/ops/evonorm/detail/held.cuh>

namespace bevel::evo {

// *to (in shared memory) = *from, later.
template <int bytes>
__device__ inline void copy_async(unsigned to, const void* from) {
  static_assert(bytes == 16 || bytes == 8 || bytes == 4);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  else if constexpr (bytes == 8)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

// What this thread has begun to copy since the last call becomes one group, maybe empty.
__device__ inline void close_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until all but this thread's latest `pending` groups are there.
template <int pending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// A thread's slots: `step` bytes apart, of one pack each.
template <class T, int P>
struct Slots {
  using Pack = Held<T, P>;
  // At least 4 bytes a slot: a copy cannot be smaller.
  static constexpr int bytes = Pack::bytes < 4 ? 4 : Pack::bytes;

  char* first;

  __device__ void fetch(int offset, const T* from) const {
    if constexpr (Pack::bytes >= 4)
      copy_async<Pack::bytes>(shared_address(first + offset), from);
    else
      *reinterpret_cast<unsigned short*>(first + offset) = *reinterpret_cast<const unsigned short*>(from);
  }
  __device__ Pack get(int offset) const {
    Pack pack;
    pack.load(reinterpret_cast<const T*>(first + offset));
    return pack;
  }
  __device__ void put(int offset, const Pack& pack) const { pack.store(reinterpret_cast<T*>(first + offset)); }
};

}  // namespace bevel::evo
