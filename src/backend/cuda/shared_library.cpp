#include "backend/cuda/shared_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>

namespace ida::cuda {
namespace {

// Patterns of folders that hold Python packages, beside those of the interpreter on the PATH.
constexpr const char* kSitePackages[] = {
    "/usr/local/lib/python3*/dist-packages", "/usr/local/lib/python3*/site-packages",   "/usr/lib/python3*/dist-packages",
    "/opt/*/lib/python3*/site-packages",     "/opt/*/.venv/lib/python3*/site-packages",
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

void append_matches(const std::string& pattern, std::vector<std::string>& paths) {
  glob_t matches{};
  if (glob(pattern.c_str(), 0, nullptr, &matches) == 0) {
    for (std::size_t i = 0; i < matches.gl_pathc; ++i) paths.emplace_back(matches.gl_pathv[i]);
  }
  globfree(&matches);
}

// An installation <prefix>/bin/python3 keeps its packages in <prefix>/lib/python3.x/site-packages; so does a virtual
// environment, which is why links are not followed.
std::string prefix_of_python() {
  const std::string path = environment("PATH");
  std::string_view rest = path;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string folder(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!folder.empty() && access((folder + "/python3").c_str(), X_OK) == 0) {
      return std::filesystem::path(folder + "/..").lexically_normal().string();  // ends in a slash
    }
  }
  return {};
}

std::vector<std::string> site_packages() {
  std::vector<std::string> patterns;
  if (const std::string active = environment("VIRTUAL_ENV"); !active.empty()) {
    patterns.push_back(active + "/lib/python3*/site-packages");
  }
  if (const std::string prefix = prefix_of_python(); !prefix.empty()) {
    patterns.push_back(prefix + "lib/python3*/site-packages");
  }
  if (const std::string home = environment("HOME"); !home.empty()) {
    patterns.push_back(home + "/.local/lib/python3*/site-packages");
  }
  patterns.insert(patterns.end(), std::begin(kSitePackages), std::end(kSitePackages));
  std::vector<std::string> folders;
  for (const std::string& pattern : patterns) append_matches(pattern, folders);
  return folders;
}

std::string path_of(void* handle, const std::string& asked_for) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name[0] != '\0') return map->l_name;
  return asked_for;
}

std::size_t version_of(void* handle, const LibrarySearch& search) {
  if (search.version_function == nullptr) return search.min_version;
  const auto function = reinterpret_cast<std::size_t (*)()>(dlsym(handle, search.version_function));
  return function == nullptr ? 0 : function();
}

}  // namespace

std::vector<std::string> library_candidates(const LibrarySearch& search) {
  if (const std::string given = environment(search.environment); !given.empty()) return {given};
  std::vector<std::string> candidates;
  for (const std::string& packages : site_packages()) {
    for (const char* folder : search.wheel_folders)
      append_matches(packages + "/" + folder + "/" + search.soname, candidates);
  }
  candidates.emplace_back(search.soname);
  for (const char* folder : search.folders) append_matches(std::string(folder) + "/" + search.soname, candidates);
  return candidates;
}

SharedLibrary open_library(const LibrarySearch& search) {
  SharedLibrary library;
  for (const std::string& candidate : library_candidates(search)) {
    library.handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library.reason.empty()) library.reason += "; ";
    if (library.handle == nullptr) {
      const char* error = dlerror();
      library.reason += error == nullptr ? candidate : error;
      continue;
    }
    library.path = path_of(library.handle, candidate);
    const std::size_t version = version_of(library.handle, search);
    if (version >= search.min_version) {
      library.reason.clear();
      return library;
    }
    library.reason +=
        library.path + ": version " + std::to_string(version) + ", older than " + std::to_string(search.min_version);
    dlclose(library.handle);  // only its version was asked: it has started nothing
    library.handle = nullptr;
  }
  return library;
}

void* library_symbol(const SharedLibrary& library, const char* name) { return dlsym(library.handle, name); }

}  // namespace ida::cuda
