// make_seeds FOLDER: writes FOLDER/<target>/seed-N for every target.
#include <cstdio>
#include <exception>
#include <fstream>

#include "base/file.h"
#include "fuzz/support.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_seeds FOLDER\n");
    return 2;
  }
  try {
    for (const ida::fuzz::Target& target : ida::fuzz::kTargets) {
      const std::string folder = fmt::format("{}/{}", argv[1], target.name);
      ida::make_directories(folder);
      std::size_t number = 0;
      for (const std::string& seed : target.seeds()) {
        target.run(ida::as_bytes(seed));
        std::ofstream file(fmt::format("{}/seed-{}", folder, number++), std::ios::binary);
        file << seed;
        ida::fuzz::require(file.good(), "a seed cannot be written");
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_seeds: %s\n", error.what());
    return 1;
  }
  return 0;
}
