// What a run keeps of its checkpoints, how they hang together, and the memory that continuing takes.
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "train_run.h"

namespace ida::app_test {
namespace {

namespace fs = std::filesystem;

class CheckpointCommand : public TrainCommand {
 protected:
  std::set<std::string> checkpoints(const std::string& name) {
    std::set<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(space_ / ("runs/" + name + "/checkpoints")))
      names.insert(entry.path().filename().string());
    return names;
  }
};

TEST_F(CheckpointCommand, TheLastTheRegularAndTheBestAreKept) {
  const Outcome outcome = train("kept", {"--set", "train.keep_last=1", "--set", "train.keep_every=20", "--set",
                                         "train.keep_best=2", "--set", "optim.lr=0.3"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::vector<std::pair<double, int>> scored;  // of equal losses the newer is better
  for (const nlohmann::json& row : read_json_lines(space_ / "runs/kept/metrics.jsonl"))
    if (row.contains("val_loss")) scored.emplace_back(row["val_loss"].get<double>(), -row["step"].get<int>());
  ASSERT_EQ(scored.size(), 6u);
  std::sort(scored.begin(), scored.end());
  std::set<std::string> expected = {"latest", "step-20", "step-30"};
  for (int i = 0; i < 2; ++i) expected.insert("step-" + std::to_string(-scored[static_cast<std::size_t>(i)].second));
  EXPECT_EQ(checkpoints("kept"), expected);
  EXPECT_EQ(read_json(space_ / "runs/kept/checkpoints/step-30/manifest.json")["scores"]["val_loss"],
            read_json_lines(space_ / "runs/kept/metrics.jsonl").back()["val_loss"]);
}

// Without validation there is no best.
TEST_F(CheckpointCommand, WithoutValidationOnlyTheLastAreKept) {
  ASSERT_EQ(train("plain", {"--set", "data.valid=[]", "--set", "train.keep_last=1", "--set", "train.keep_best=2"}).code, 0);
  EXPECT_EQ(checkpoints("plain"), (std::set<std::string>{"latest", "step-30"}));
}

TEST_F(CheckpointCommand, LineageIsATreeAcrossRuns) {
  ASSERT_EQ(train("first", {"--set", "train.steps=15"}).code, 0);
  space_.write(
      "second.toml",
      "[run]\nname = \"second\"\n[model]\npath = \"runs/first/checkpoints/step-5\"\n[data]\ntrain = "
      "[\"corpus\"]\nseq_len = 32\n[train]\nsteps = 4\nsave_every = 2\nglobal_batch_tokens = 64\n[precision]\nrecipe "
      "= \"fp32\"\n");
  const Outcome tuned = space_.run({"train", "second.toml", "--threads", "1"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;

  const Outcome shown = space_.run({"verify", "checkpoint", "runs", "--lineage", "--out", "tree.json"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  const nlohmann::json tree = read_json(space_ / "tree.json");
  EXPECT_TRUE(tree["passed"]);
  std::map<std::string, nlohmann::json> node;
  for (const nlohmann::json& row : tree["tree"])
    node[row["lineage"]["run"].get<std::string>() + "/" + std::to_string(row["step"].get<int>())] = row;
  ASSERT_EQ(node.size(), 5u) << tree.dump(1);
  EXPECT_EQ(node["first/5"]["lineage"]["parent"], "");
  EXPECT_EQ(node["first/10"]["lineage"]["parent"], node["first/5"]["id"]);
  EXPECT_EQ(node["second/2"]["lineage"]["parent"], node["first/5"]["id"]);
  EXPECT_EQ(node["second/4"]["lineage"]["parent"], node["second/2"]["id"]);
  const std::size_t root = shown.out.find("\nfirst/step-5  ");
  const std::size_t branch = shown.out.find("\n├─ first/step-10  ");
  const std::size_t chain = shown.out.find("\n│  first/step-15  ");
  const std::size_t other = shown.out.find("\n└─ second/step-2  ");
  const std::size_t last = shown.out.find("\n   second/step-4  ");
  EXPECT_TRUE(root < branch && branch < chain && chain < other && other < last && last != std::string::npos) << shown.out;

  // A parent that is not among them is said to be elsewhere; damage of any is found.
  const Outcome alone = space_.run({"verify", "checkpoint", "runs/second", "--lineage"});
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_NE(alone.out.find("which is not here"), std::string::npos) << alone.out;
  space_.write("runs/second/checkpoints/step-2/state.json", "{}");
  EXPECT_EQ(space_.run({"verify", "checkpoint", "runs", "--lineage"}).code, 4);
}

// Reading a checkpoint takes no memory that training does not take anyway. The limit leaves no room for a second copy of
// the state, so the peak is that of a step.
TEST_F(CheckpointCommand, ResumingNeedsNoMoreMemoryThanTraining) {
  const std::vector<std::string> settings = {"--set", "model.hidden_size=256",     "--set", "model.intermediate_size=768",
                                             "--set", "model.num_hidden_layers=4", "--set", "train.steps=4",
                                             "--set", "train.save_every=2",        "--set", "train.sample_every=0",
                                             "--set", "device.memory_limit=100MiB"};
  const auto peak_kib = [&] {
    const pid_t process = space_.start(call("peak", settings));
    int status = 0;
    struct rusage usage = {};
    EXPECT_EQ(wait4(process, &status, 0, &usage), process);
    EXPECT_EQ(status, 0) << read_all(space_ / ("." + std::to_string(process) + ".err"));
    return static_cast<double>(usage.ru_maxrss);
  };
  const double whole = peak_kib();
  EXPECT_GT(fs::file_size(space_ / "runs/peak/checkpoints/step-4/optim.safetensors"), 20u << 20);
  fs::remove_all(space_ / "runs/peak/checkpoints/step-4");
  const double resumed = peak_kib();
  EXPECT_LT(resumed, 1.03 * whole) << whole << " KiB, resumed " << resumed << " KiB";
}

}  // namespace
}  // namespace ida::app_test
