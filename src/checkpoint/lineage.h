// Where checkpoints came from: those of one run, or of several, as a tree of parents.
#pragma once
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace ida::checkpoint {

// The checkpoint folders that `dir` stands for, by path and step: itself, or those of a run, of a folder `checkpoints`,
// or of all runs in a folder. A folder that holds none of these stands for itself.
std::vector<std::string> find_checkpoints(const std::string& dir);

struct LineageRow {
  std::string branch;  // line drawing in front of the entry; a lone child stands below its parent, not to the right
  std::string dir;
  Manifest manifest;
  bool parent_elsewhere = false;  // names a parent that is not among the rows
};

// The manifests of these folders, each below its parent, siblings by run and step. One that cannot be read is left out
// and named in `problems`.
std::vector<LineageRow> lineage_tree(const std::vector<std::string>& dirs, std::vector<std::string>& problems);

}  // namespace ida::checkpoint
