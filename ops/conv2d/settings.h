// How convolutions on CUDA are computed. Settings are one for the process and hold for calls made afterwards; set them
// before the first step, or at least before a step is captured.
#pragma once

#include <bevel/core/device.h>

#include <cstdint>
#include <string>

namespace bevel {

// automatic: direct, where that fits, else cudnn, else columns.
// direct: the library's own kernels for few channels (ops/conv2d/few_channels.cu), else columns.
// cudnn: cuDNN wherever it has an engine, else columns.
// columns: pictures unfolded into columns, and cuBLASLt; every shape and dtype.
enum class ConvBackend : std::uint8_t { automatic, direct, cudnn, columns };

// Order of the fields as given.
struct ConvSettings {
  ConvBackend backend = ConvBackend::automatic;
  // Engines of cuDNN whose results may differ from run to run are left out.
  bool deterministic = true;
  // Times cuDNN's engines at a shape's first use, instead of asking its heuristics. A choice by the clock can differ
  // from run to run, and so can the last bits of results; hence choices are read from and added to `choices`, a text
  // file, where it is not empty. Nothing is timed while a graph is being captured.
  bool timed = false;
  std::string choices = {};
};

// Error for a backend that this build lacks.
void set_conv_settings(const ConvSettings& settings);
ConvSettings conv_settings();

}  // namespace bevel
