// The Python module: loading it registers the operators. The function spares eager calls the way through torch.ops.
#include <torch/extension.h>

#include "smooth_l1.h"

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def(
      "smooth_l1_loss",
      [](const at::Tensor& input, const at::Tensor& target, int64_t reduction, double beta) {
        static const auto op = c10::Dispatcher::singleton()
                                   .findSchemaOrThrow("bevel::smooth_l1_loss", "")
                                   .typed<decltype(bevel_torch::smooth_l1_loss)>();
        return op.call(input, target, reduction, beta);
      },
      pybind11::call_guard<pybind11::gil_scoped_release>());
}
