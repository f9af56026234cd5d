// Engines chosen by the clock, kept in a text file: a line for each, the problem and the engine with a tab between.
#pragma once

#include <bevel/ops/conv2d/cudnn/engines.h>
#include <bevel/ops/conv2d/settings.h>

#include <string>

namespace bevel::detail {

// The engine that settings.choices has for this problem on this GPU and version of cuDNN; empty without.
std::string recorded_choice(Cuda backend, const CudnnProblem& problem, const ConvSettings& settings);

// Adds a line. Nothing to do without a file. Error if it cannot be written.
void record_choice(Cuda backend, const CudnnProblem& problem, const ConvSettings& settings, const std::string& engine);

}  // namespace bevel::detail
