// Libraries that are opened at run time: where they are looked for, and what was found.
#pragma once
#include <string>
#include <vector>

namespace ida::cuda {

// Where a library may lie. Tried in order: the file that `environment` names (then nothing else), `wheel_folders` below
// every Python site-packages found, the name alone (the loader's own search), `folders`. Files come before the name: a
// library that was opened and is too old answers to its name until the process ends.
struct LibrarySearch {
  const char* soname;                      // "libcudnn.so.9"
  const char* environment;                 // variable with a path of the library: "IDA_CUDNN_LIBRARY"
  std::vector<const char*> wheel_folders;  // as Python packages lay it out: "nvidia/cudnn/lib"
  std::vector<const char*> folders;        // "/usr/local/cuda/lib64"
  // A library that is older is passed over: `version_function` takes nothing and returns its version.
  const char* version_function = nullptr;
  std::size_t min_version = 0;
};

// What dlopen would be asked for, in order. Only files that exist, beside the bare name.
std::vector<std::string> library_candidates(const LibrarySearch& search);

// A library opened for the life of the process (closing one that started threads is not safe), or why there is none.
struct SharedLibrary {
  void* handle = nullptr;
  std::string path;    // the file that was opened
  std::string reason;  // without a handle: one clause a candidate
};
SharedLibrary open_library(const LibrarySearch& search);

// The address of `name`, or null.
void* library_symbol(const SharedLibrary& library, const char* name);

// Fills a table of functions; stops at the first that is missing and says so in library.reason.
class SymbolLoader {
 public:
  explicit SymbolLoader(SharedLibrary& library) : library_(library), complete_(library.handle != nullptr) {}
  template <typename Function>
  SymbolLoader& load(const char* name, Function& function) {
    if (!complete_) return *this;
    function = reinterpret_cast<Function>(library_symbol(library_, name));
    if (function == nullptr) {
      complete_ = false;
      library_.reason = library_.path + ": symbol " + name + " is missing";
    }
    return *this;
  }
  bool complete() const { return complete_; }

 private:
  SharedLibrary& library_;
  bool complete_;
};

}  // namespace ida::cuda
