#include "train/model_folder.h"

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"

namespace ida::train {

std::string resolve_model_folder(const std::string& path, std::vector<std::string>& passed_over) {
  if (is_regular_file(path + "/config.json")) return path;
  for (const std::string& checkpoints : {path + "/checkpoints", path}) {
    if (!is_directory(checkpoints)) continue;
    if (auto newest = checkpoint::find_newest_complete(checkpoints, passed_over)) return *newest;
    if (!passed_over.empty())
      fail_corrupt("{}: none of its checkpoints is complete and undamaged; train again or give another folder",
                   checkpoints);
  }
  fail_usage(
      "{}: holds neither config.json nor a checkpoint; give a run folder, a checkpoint or a Hugging Face model folder",
      path);
}

}  // namespace ida::train
