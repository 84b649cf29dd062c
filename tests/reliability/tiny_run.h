// A training run of a few steps, each start in a process of its own, so that it can be killed at any file operation.
#pragma once
#include <string>
#include <vector>

#include "reliability/fault_layer.h"

namespace ida::reliability {

constexpr int kSteps = 6;
constexpr int kSaveEvery = 2;

// A folder in memory where there is one; it lives as long as the object.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// What differs between the runs of a sweep; each has its seed, and between them they cover formats and ways to save.
struct Variant {
  std::string name;
  std::vector<std::string> overrides;
};
const std::vector<Variant>& variants();

// Writes the texts that the runs train on into a folder.
void write_corpus(const std::string& folder);

// Starts or resumes the run `run` in `folder` in a child process; its exit code, 9 where the plan ended it. What it says
// goes to <folder>/stderr.
int start_run(const std::string& folder, const Variant& variant, const FaultPlan& plan = {}, const std::string& log = {});

// Everything that must not depend on interruptions, as text: per file of the last checkpoint its SHA-256 (weights,
// masters, moments) or content (rng, cursor, counts; without times), and of each recorded step its losses.
std::string end_of_run(const std::string& folder);

}  // namespace ida::reliability
