// The Python module. Loading it registers the operators; its functions spare eager calls the way through torch.ops, and
// return None where a call is not the usual one: subclasses of tensors, modes, sizes that differ.
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/record_function.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/extension.h>

#include "backward.h"
#include "smooth_l1.h"

namespace {

// No mode, transformation or profiler that would have to see the operators.
bool is_undisturbed() {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  return keys.included_ == c10::default_included_set && keys.excluded_ == c10::default_excluded_set &&
         !at::impl::torch_function_mode_enabled() && !at::hasCallbacks();
}

// `none`, `mean` or `sum`; -1 for anything else.
int64_t reduction_of(PyObject* name) {
  if (!PyUnicode_CheckExact(name)) return -1;
  constexpr const char* names[] = {"none", "mean", "sum"};
  for (int64_t i = 0; i < 3; ++i)
    if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0) return i;
  return -1;
}

struct Call {
  const at::Tensor& input;
  const at::Tensor& target;
  int64_t reduction;
  double beta;
};

bool is_usual(PyObject* const* arguments) {
  if (!THPVariable_CheckTypeExact(Py_TYPE(arguments[0])) || !THPVariable_CheckTypeExact(Py_TYPE(arguments[1])))
    return false;
  if (at::impl::torch_function_mode_enabled()) return false;
  const at::Tensor& input = THPVariable_Unpack(arguments[0]);
  const at::Tensor& target = THPVariable_Unpack(arguments[1]);
  return bevel_torch::is_plain(input) && bevel_torch::is_plain(target) && input.sizes() == target.sizes();
}

// Runs f(call) on the arguments input, target, reduction, beta.
template <class F>
PyObject* run(PyObject* const* arguments, Py_ssize_t count, const F& f) {
  HANDLE_TH_ERRORS
  TORCH_CHECK(count == 4, "input, target, reduction and beta are wanted");
  const int64_t reduction = reduction_of(arguments[2]);
  if (reduction < 0 || !is_usual(arguments)) Py_RETURN_NONE;
  const Call call{THPVariable_Unpack(arguments[0]), THPVariable_Unpack(arguments[1]), reduction,
                  PyFloat_AsDouble(arguments[3])};
  if (PyErr_Occurred()) return nullptr;
  return f(call);
  END_HANDLE_TH_ERRORS
}

PyObject* smooth_l1_loss(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return run(arguments, count, [](const Call& call) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("bevel::smooth_l1_loss", "")
                               .typed<decltype(bevel_torch::smooth_l1_loss)>();
    at::Tensor loss;
    {
      const pybind11::gil_scoped_release released;
      loss = is_undisturbed() ? bevel_torch::smooth_l1_loss_autograd(call.input, call.target, call.reduction, call.beta)
                              : op.call(call.input, call.target, call.reduction, call.beta);
    }
    return THPVariable_Wrap(std::move(loss));
  });
}

PyObject* smooth_l1_loss_and_gradient(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return run(arguments, count, [](const Call& call) -> PyObject* {
    if (call.reduction == at::Reduction::None) Py_RETURN_NONE;
    at::Tensor loss, gradient;
    {
      const pybind11::gil_scoped_release released;
      const at::AutoDispatchBelowADInplaceOrView below;
      std::tie(loss, gradient) =
          bevel_torch::smooth_l1_loss_with_gradient(call.input, call.target, call.reduction, call.beta);
    }
    const auto pair = pybind11::reinterpret_steal<pybind11::object>(PyTuple_New(2));
    PyTuple_SET_ITEM(pair.ptr(), 0, THPVariable_Wrap(std::move(loss)));
    PyTuple_SET_ITEM(pair.ptr(), 1, THPVariable_Wrap(std::move(gradient)));
    return pybind11::object(pair).release().ptr();
  });
}

// loss.backward() of a number, in the calling thread; False, with nothing done, where the call is not the usual one.
PyObject* backward(PyObject*, PyObject* argument) {
  HANDLE_TH_ERRORS
  if (!THPVariable_CheckTypeExact(Py_TYPE(argument)) || !is_undisturbed()) Py_RETURN_FALSE;
  const at::Tensor loss = THPVariable_Unpack(argument);
  if (loss.dim() != 0 || !loss.requires_grad() || !bevel_torch::is_plain(loss)) Py_RETURN_FALSE;
  const pybind11::gil_scoped_release released;
  bevel_torch::backward(loss);
  END_HANDLE_TH_ERRORS
  Py_RETURN_TRUE;
}

// Through void*, as the compiler would complain of the other signature.
template <class F>
PyCFunction erased(F* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

PyMethodDef functions[] = {
    {"smooth_l1_loss", erased(smooth_l1_loss), METH_FASTCALL, nullptr},
    {"smooth_l1_loss_and_gradient", erased(smooth_l1_loss_and_gradient), METH_FASTCALL, nullptr},
    {"backward", backward, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_C", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__C() {
  return PyModule_Create(&module_definition);
}
