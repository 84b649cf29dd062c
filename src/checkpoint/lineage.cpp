#include "checkpoint/lineage.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"

namespace ida::checkpoint {
namespace {

std::vector<std::string> step_folders(const std::string& dir) {
  std::vector<std::int64_t> steps;
  if (is_directory(dir)) {
    for (const std::string& name : list_directory(dir)) {
      if (const auto step = step_of_name(name)) steps.push_back(*step);
    }
  }
  std::sort(steps.begin(), steps.end());
  std::vector<std::string> paths;
  for (const std::int64_t step : steps) paths.push_back(dir + "/" + step_name(step));
  return paths;
}

using Children = std::map<std::string, std::vector<LineageRow>>;  // by the parent's id

// Appends the row and everything below it, and takes them out of `children`.
void append_branch(LineageRow row, const std::string& first, const std::string& rest, Children& children,
                   std::vector<LineageRow>& tree) {
  std::string branch = first;
  for (;;) {
    row.branch = branch;
    branch = rest;
    const std::string id = row.manifest.id();
    tree.push_back(std::move(row));
    const auto found = children.find(id);
    if (found == children.end()) return;
    std::vector<LineageRow> below = std::move(found->second);
    children.erase(found);
    if (below.size() > 1) {
      for (std::size_t i = 0; i < below.size(); ++i) {
        const bool last = i + 1 == below.size();
        append_branch(std::move(below[i]), rest + (last ? "└─ " : "├─ "), rest + (last ? "   " : "│  "), children, tree);
      }
      return;
    }
    row = std::move(below.front());
  }
}

}  // namespace

std::vector<std::string> find_checkpoints(const std::string& dir) {
  if (path_exists(dir + "/" + kManifestName)) return {dir};
  std::vector<std::string> found = step_folders(dir);
  if (found.empty()) found = step_folders(dir + "/checkpoints");
  if (found.empty() && is_directory(dir)) {
    for (const std::string& name : list_directory(dir)) {
      const std::vector<std::string> of_run = step_folders(dir + "/" + name + "/checkpoints");
      found.insert(found.end(), of_run.begin(), of_run.end());
    }
  }
  return found.empty() ? std::vector{dir} : found;
}

std::vector<LineageRow> lineage_tree(const std::vector<std::string>& dirs, std::vector<std::string>& problems) {
  std::vector<LineageRow> rows;
  std::set<std::string> ids;
  for (const std::string& dir : dirs) {
    try {
      rows.push_back({.branch = {}, .dir = dir, .manifest = read_manifest(dir)});
      ids.insert(rows.back().manifest.id());
    } catch (const Error& error) {
      problems.emplace_back(error.what());
    }
  }
  std::sort(rows.begin(), rows.end(), [](const LineageRow& a, const LineageRow& b) {
    return std::tie(a.manifest.lineage.run_id, a.manifest.step, a.dir) <
           std::tie(b.manifest.lineage.run_id, b.manifest.step, b.dir);
  });
  Children children;
  std::vector<LineageRow> roots;
  for (LineageRow& row : rows) {
    const std::string& parent = row.manifest.lineage.parent;
    if (ids.contains(parent)) {
      children[parent].push_back(std::move(row));
    } else {
      row.parent_elsewhere = !parent.empty();
      roots.push_back(std::move(row));
    }
  }
  std::vector<LineageRow> tree;
  for (LineageRow& root : roots) append_branch(std::move(root), "", "", children, tree);
  return tree;
}

}  // namespace ida::checkpoint
