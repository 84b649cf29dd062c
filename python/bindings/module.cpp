#include "arrays.h"
#include "base/error.h"

namespace ida::python {
namespace {

// Our errors as Python's: bad input is a ValueError, a corrupt file the package's own kind of it, the rest an OSError.
void raise_as_python(const std::exception_ptr& thrown, void* corrupt_file_error) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    PyObject* type = PyExc_ValueError;
    if (error.code() == ExitCode::kCorrupt) type = static_cast<PyObject*>(corrupt_file_error);
    if (error.code() == ExitCode::kRuntime) type = PyExc_OSError;
    PyErr_SetString(type, error.what());
  }
}

}  // namespace
}  // namespace ida::python

NB_MODULE(_engine, module) {
  nanobind::object corrupt_file_error = nanobind::module_::import_("ida_train.errors").attr("CorruptFileError");
  nanobind::register_exception_translator(ida::python::raise_as_python, corrupt_file_error.release().ptr());
  ida::python::bind_mxfp8_flat(module);
  ida::python::bind_quantize(module);
  ida::python::bind_safetensors(module);
}
