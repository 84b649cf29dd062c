// Which folder of weights a path given by the user means.
#pragma once
#include <string>
#include <vector>

namespace ida::train {

// `path` itself where it holds config.json; of a run folder (or its `checkpoints`) the newest complete checkpoint, with
// one line in `passed_over` per newer one that is damaged. Errors: kUsage where there is neither, kCorrupt where every
// checkpoint is damaged.
std::string resolve_model_folder(const std::string& path, std::vector<std::string>& passed_over);

}  // namespace ida::train
