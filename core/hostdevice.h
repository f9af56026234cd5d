// BEVEL_HD marks a function that runs on the host and, where nvcc compiles it, on the device; it is always inlined so
// that copies of a loop built for different instruction sets never share an out-of-line function.
#pragma once

#if defined(__CUDACC__)
#define BEVEL_HD __host__ __device__ __forceinline__
#else
#define BEVEL_HD [[gnu::always_inline]] inline
#endif
