// train: a run's folder, idempotence, interruption, resume, refusals, damage.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "train_run.h"

namespace ida::app_test {
namespace {

namespace fs = std::filesystem;

TEST_F(TrainCommand, LeavesACompleteRun) {
  const Outcome outcome = train("whole", {"--out", "figures.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("runs/whole/report.html"), std::string::npos) << outcome.out;
  for (const char* file : {"config.resolved.toml", "metrics.jsonl", "evidence.json", "mllog.txt", "report.html",
                           "samples.jsonl", "checkpoints/latest/model.safetensors"})
    EXPECT_TRUE(exists(space_ / ("runs/whole/" + std::string(file)))) << file;
  const auto names = tree_of(space_ / "runs/whole");
  EXPECT_TRUE(
      std::any_of(names.begin(), names.end(), [](const auto& f) { return f.first.starts_with("events.out.tfevents."); }));
  EXPECT_TRUE(exists(space_ / "runs/ledger.sqlite"));
  for (const char* file :
       {"model.safetensors", "config.json", "tokenizer.json", "optim.safetensors", "state.json", "manifest.json"})
    EXPECT_TRUE(exists(space_ / ("runs/whole/checkpoints/step-30/" + std::string(file)))) << file;
  EXPECT_EQ(fs::read_symlink(space_ / "runs/whole/checkpoints/latest"), "step-30");

  const auto rows = read_json_lines(space_ / "runs/whole/metrics.jsonl");
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(kSteps));
  for (const nlohmann::json& row : rows) {
    for (const char* key : {"step", "tokens", "loss", "lr", "grad_norm", "tokens_per_s"})
      EXPECT_TRUE(row[key].is_number()) << key;
    EXPECT_EQ(row.contains("val_loss"), row["step"].get<int>() % 5 == 0);
  }
  EXPECT_LT(rows.back()["loss"].get<double>(), 0.8 * rows.front()["loss"].get<double>());
  const nlohmann::json evidence = read_json(space_ / "runs/whole/evidence.json");
  EXPECT_EQ(evidence["run"]["status"], "done");
  EXPECT_EQ(evidence["fallbacks"], nlohmann::json::object());
  EXPECT_FALSE(evidence["engines"].empty());
  const nlohmann::json figures = read_json(space_ / "figures.json");
  EXPECT_EQ(figures["steps"], kSteps);
  EXPECT_EQ(figures["final_loss"], rows.back()["loss"]);
}

TEST_F(TrainCommand, TheSecondCallFindsEverythingDone) {
  ASSERT_EQ(train("twice").code, 0);
  const auto before = tree_of(space_ / "runs/twice/checkpoints");
  const std::string metrics = run_file("twice", "metrics.jsonl");
  const Outcome again = train("twice");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("all 30 steps are done"), std::string::npos) << again.out;
  EXPECT_EQ(tree_of(space_ / "runs/twice/checkpoints"), before);
  EXPECT_EQ(run_file("twice", "metrics.jsonl"), metrics);
}

TEST_F(TrainCommand, AnInterruptedRunContinuesBitwise) {
  ASSERT_EQ(train("straight").code, 0);
  // The signal must arrive between the first checkpoint and the end of the run; on a machine where it comes late, again.
  std::string name;
  Outcome stopped;
  for (int attempt = 0; attempt < 10 && stopped.code != 75; ++attempt) {
    name = "stopped" + std::to_string(attempt);
    const pid_t process = space_.start(call(name));
    EXPECT_TRUE(space_.wait_for("runs/" + name + "/checkpoints/step-5", process));
    kill(process, SIGTERM);
    stopped = space_.wait(process);
  }
  ASSERT_EQ(stopped.code, 75) << stopped.err;
  EXPECT_NE(stopped.err.find("saved"), std::string::npos) << stopped.err;
  EXPECT_EQ(read_json(space_ / ("runs/" + name + "/evidence.json"))["run"]["status"], "stopped");
  EXPECT_FALSE(exists(space_ / ("runs/" + name + "/checkpoints/step-30")));
  EXPECT_TRUE(exists(space_ / ("runs/" + name + "/report.html")));

  const Outcome resumed = train(name);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("resuming after step"), std::string::npos) << resumed.err;
  expect_same_end("straight", name);
  const nlohmann::json whole = read_json(space_ / "runs/straight/evidence.json"),
                       pieced = read_json(space_ / ("runs/" + name + "/evidence.json"));
  EXPECT_EQ(whole["engines"], pieced["engines"]);
}

TEST_F(TrainCommand, AKilledRunContinuesBitwise) {
  ASSERT_EQ(train("straight").code, 0);
  const pid_t process = space_.start(call("killed"));
  ASSERT_TRUE(space_.wait_for("runs/killed/checkpoints/step-10", process));
  kill(process, SIGKILL);
  space_.wait(process);
  const Outcome resumed = train("killed");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  expect_same_end("straight", "killed");
  EXPECT_EQ(read_json(space_ / "runs/killed/evidence.json")["engines"],
            read_json(space_ / "runs/straight/evidence.json")["engines"]);
}

TEST_F(TrainCommand, ThreadsChangeNothing) {
  ASSERT_EQ(train("one").code, 0);
  ASSERT_EQ(train("two", {"--threads", "2"}).code, 0);
  expect_same_end("one", "two");
}

TEST_F(TrainCommand, AnotherConfigurationIsRefused) {
  ASSERT_EQ(train("first").code, 0);
  expect_refused(train("first", {"--set", "optim.lr=1e-3"}), 2, {"runs/first", "lr"});
  // What cannot change results may change.
  EXPECT_EQ(train("first", {"--set", "train.keep_last=1"}).code, 0);
}

TEST_F(TrainCommand, ChangedDataIsRefused) {
  ASSERT_EQ(train("data", {"--set", "train.steps=30"}).code, 0);
  fs::remove_all(space_ / "runs/data/checkpoints/step-30");
  space_.write("corpus/0.txt", corpus_file(1234));
  expect_refused(train("data"), 2, {"training data changed", "--accept-changed-data"});
  EXPECT_FALSE(exists(space_ / "runs/data/checkpoints/step-30"));

  const Outcome accepted = train("data", {"--accept-changed-data"});
  ASSERT_EQ(accepted.code, 0) << accepted.err;
  EXPECT_NE(accepted.err.find("training data changed"), std::string::npos) << accepted.err;
  const nlohmann::json before = read_json(space_ / "runs/data/checkpoints/step-25/state.json")["data"],
                       after = read_json(space_ / "runs/data/checkpoints/step-30/state.json")["data"];
  EXPECT_NE(after["plan_hash"], before["plan_hash"]);
  EXPECT_EQ(after["epoch"], 0);
  EXPECT_EQ(after["row"], 5 * 128 / 32) << "five steps from the beginning of the new data";
  EXPECT_EQ(train("data").code, 0) << "accepted once, the new data is the run's data";
}

TEST_F(TrainCommand, ADamagedCheckpointIsPassedOver) {
  ASSERT_EQ(train("good").code, 0);
  ASSERT_EQ(train("damaged").code, 0);
  const std::string path = "runs/damaged/checkpoints/step-30/model.safetensors";
  std::string weights = read_all(space_ / path);
  weights[weights.size() / 2] ^= 1;
  space_.write(path, weights);
  const Outcome verified = space_.run({"verify", "checkpoint", "runs/damaged/checkpoints/step-30"});
  EXPECT_EQ(verified.code, 4);
  EXPECT_NE(verified.out.find("model.safetensors"), std::string::npos) << verified.out;

  const Outcome evaluated = space_.run({"generate", "--model", "runs/damaged", "--prompt", "the", "--max-new-tokens", "1"});
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_NE(evaluated.err.find("passed over runs/damaged/checkpoints/step-30"), std::string::npos) << evaluated.err;
  EXPECT_NE(evaluated.err.find("step-25"), std::string::npos) << evaluated.err;

  const Outcome resumed = train("damaged");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("passed over"), std::string::npos) << resumed.err;
  EXPECT_NE(resumed.err.find("model.safetensors"), std::string::npos) << resumed.err;
  EXPECT_NE(resumed.err.find("resuming after step 25"), std::string::npos) << resumed.err;
  expect_same_end("good", "damaged");
}

TEST_F(TrainCommand, ItsModelServesTheOtherCommands) {
  ASSERT_EQ(train("served").code, 0);
  const Outcome checked =
      space_.run({"verify", "checkpoint", "runs/served/checkpoints/step-30", "--lineage", "--out", "v.json"});
  EXPECT_EQ(checked.code, 0) << checked.err;
  const nlohmann::json lineage = read_json(space_ / "v.json");
  EXPECT_EQ(lineage["step"], kSteps);
  ASSERT_EQ(space_.run({"verify", "checkpoint", "runs/served/checkpoints/step-25", "--out", "w.json"}).code, 0);
  EXPECT_EQ(lineage["lineage"]["parent"], read_json(space_ / "w.json")["id"]);

  ASSERT_EQ(space_.run({"export", "runs/served", "hf"}).code, 0);
  EXPECT_EQ(read_all(space_ / "hf/model.safetensors"), run_file("served", "checkpoints/step-30/model.safetensors"));
  EXPECT_FALSE(exists(space_ / "hf/optim.safetensors"));
  EXPECT_EQ(space_.run({"verify", "export", "hf", "--source", "runs/served"}).code, 0);

  // The validation loss of the last step, measured again: every token of the one document, in pieces of seq_len.
  const Outcome measured = space_.run({"eval", "ppl", "--model", "runs/served/checkpoints/latest", "--text", "held_out.txt",
                                       "--window", "32", "--out", "p.json"});
  ASSERT_EQ(measured.code, 0) << measured.err;
  const double val_loss = read_json_lines(space_ / "runs/served/metrics.jsonl").back()["val_loss"];
  EXPECT_NEAR(read_json(space_ / "p.json")["mean_nll"], val_loss, 0.05 * val_loss);

  fs::remove(space_ / "runs/served/report.html");
  EXPECT_EQ(space_.run({"report", "runs/served", "--out", "r.json"}).code, 0);
  EXPECT_TRUE(exists(space_ / "runs/served/report.html"));
  EXPECT_EQ(read_json(space_ / "r.json")["steps"], kSteps);
}

TEST_F(TrainCommand, PlanKnowsTheSpeedOfAnEarlierStart) {
  ASSERT_EQ(train("timed").code, 0);
  ASSERT_EQ(space_.run({"plan", "timed.toml", "--out", "p.json"}).code, 0);
  const nlohmann::json plan = read_json(space_ / "p.json");
  EXPECT_GT(plan["tokens_per_s"], 0.0);
  EXPECT_NEAR(plan["eta_s"].get<double>(), plan["tokens"].get<double>() / plan["tokens_per_s"].get<double>(), 1e-6);
}

TEST_F(TrainCommand, TwoRunsInOneFolderAreRefused) {
  const pid_t process = space_.start(call("locked", {"--set", "train.steps=100000", "--set", "train.keep_last=1"}));
  ASSERT_TRUE(space_.wait_for("runs/locked/checkpoints/step-5", process));
  expect_refused(train("locked", {"--set", "train.steps=100000", "--set", "train.keep_last=1"}), 1,
                 {"runs/locked", std::to_string(process)});
  kill(process, SIGTERM);
  EXPECT_EQ(space_.wait(process).code, 75);
}

}  // namespace
}  // namespace ida::app_test
