// A place in a recorded graph for transfers that are another lot in every run. Like backend.h, without CUDA headers and
// behind `if constexpr (has_cuda)`.
#pragma once

#include <bevel/core/cuda/backend.h>

namespace bevel::gpu {

struct TransferNode {
  void* node = nullptr;
};

// Adds one to the graph that is being recorded on the current stream. It does nothing at first.
TransferNode record_transfers(Device device);
// What the node does in runs that are launched from now on. Returns the transfers that it has no room for.
detail::Transfers set_transfers(const Graph& graph, const TransferNode& node, const detail::Transfers& transfers,
                                Device device);

}  // namespace bevel::gpu
