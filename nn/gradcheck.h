// gradcheck of a module: the gradients of its inputs and of all its parameters against finite differences.
//
//   nn::Linear layer{3, 2};
//   layer.to(f64);
//   EXPECT_TRUE(gradcheck(layer, {input}));
#pragma once

#include <bevel/nn/module.h>
#include <bevel/ops/gradcheck.h>

#include <vector>

namespace bevel {

// See ops/gradcheck.h. Parameters that require a gradient follow the inputs in the report's numbering, in the order of
// named_parameters(); they must be f64. The default generator and the buffers are set back before every call, so that
// dropout draws the same mask and running statistics stay where they are. The module is as before afterwards.
GradcheckReport gradcheck(nn::Module& module, const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

// The same for a module whose forward is called in another way: `forward` gets the inputs and calls the module.
GradcheckReport gradcheck(nn::Module& module, const GradcheckFunction& forward, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options = {});

}  // namespace bevel
