// map for the backend of the compiler at work: on CUDA under nvcc, else on the CPU.
#pragma once

#ifdef __CUDACC__
#include <bevel/ops/kernel/map.cuh>
#else
#include <bevel/ops/kernel/map.h>
#endif
