// What the host costs: operators on tiny tensors, and a training step so small that the host is the bottleneck.
#pragma once

#include <bevel/core/device.h>

namespace bevel::bench {

// Nanoseconds of host time that an operator on a tensor of four elements takes, with and without history, beside what
// the driver takes for a launch alone.
void print_host_overhead(Device device, double min_time);

// One step of a multilayer perceptron (64-128-128-4, ReLU, smooth L1, Adam) on a batch of 64, eager and captured.
void print_mlp_step(Device device, double min_time);

}  // namespace bevel::bench
