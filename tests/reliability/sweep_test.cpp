// Every file operation of a start, of a save and of a resume fails, is torn or is the process's last; then the run goes
// on to its end, which must be bit for bit that of a run nothing happened to.
//
// By default a part of the points; with IDA_RELIABILITY_SWEEP=full all of them, and the counts go to the file that
// IDA_RELIABILITY_OUT names.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "reliability/tiny_run.h"

namespace ida::reliability {
namespace {

namespace fs = std::filesystem;

bool full_sweep() {
  const char* asked = std::getenv("IDA_RELIABILITY_SWEEP");
  return asked != nullptr && std::string(asked) == "full";
}

bool mentions(const Operation& operation, const std::string& part) {
  return operation.path.find(part) != std::string::npos;
}

// Number (from 1) of the first operation on such a path, 0 for none.
int first_on(const std::vector<Operation>& operations, const std::string& part) {
  const auto found =
      std::find_if(operations.begin(), operations.end(), [&](const Operation& o) { return mentions(o, part); });
  return found == operations.end() ? 0 : static_cast<int>(found - operations.begin()) + 1;
}

// Number of the operation that records the first step: the start is over.
int first_step(const std::vector<Operation>& operations) {
  const auto found = std::find_if(operations.begin(), operations.end(), [](const Operation& o) {
    return o.kind == "write" && o.path.ends_with("/metrics.jsonl");
  });
  return static_cast<int>(found - operations.begin()) + 1;
}

class Sweep {
 public:
  Sweep(const Variant& variant, nlohmann::json& counts) : variant_(variant), counts_(counts) {
    write_corpus(scratch_ / "fresh/corpus");
  }

  void run() {
    const std::string fresh = prepare("", "reference");
    ASSERT_EQ(start_run(fresh, variant_, {}, scratch_ / "log"), 0) << read_file(fresh + "/stderr");
    const std::vector<Operation> start = read_operations(scratch_ / "log");
    expected_ = end_of_run(fresh);
    ASSERT_NE(expected_.find("\"step\":6"), std::string::npos) << expected_;
    const bool synchronous = variant_.name != "lion_async";

    // A run that was killed after it had published step 4 is what the resumed ones continue.
    const std::string killed = prepare("", "killed");
    ASSERT_EQ(start_run(killed, variant_, {Fault::kKillLatest, 4 / kSaveEvery}), 9);
    const std::string resumed = prepare("killed", "resumed");
    ASSERT_EQ(start_run(resumed, variant_, {}, scratch_ / "log"), 0) << read_file(resumed + "/stderr");
    const std::vector<Operation> resume = read_operations(scratch_ / "log");
    ASSERT_NE(read_file(resumed + "/stderr").find("resuming after step 4"), std::string::npos);
    EXPECT_EQ(end_of_run(resumed), expected_);

    sweep("start", "", start, synchronous);
    sweep("resume", "killed", resume, synchronous);
  }

 private:
  // A new folder with what `from` holds ("": nothing but the texts).
  std::string prepare(const std::string& from, const std::string& name) {
    const std::string folder = scratch_ / name;
    fs::remove_all(folder);
    fs::copy(scratch_ / (from.empty() ? "fresh" : from), folder,
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    return folder;
  }

  void sweep(const char* phase, const std::string& from, const std::vector<Operation>& operations, bool synchronous) {
    const int num_operations = static_cast<int>(operations.size());
    const int last_save = first_on(operations, ".step-6.saving");
    counts_[variant_.name][phase]["operations"] = num_operations;
    constexpr std::array kFaults = {Fault::kFail, Fault::kDead, Fault::kFull, Fault::kKill, Fault::kTear};
    const int stride = full_sweep() ? 1 : 11;
    int turn = 0;
    for (int at = 1; at <= num_operations; at += stride, ++turn) {
      for (std::size_t f = 0; f < kFaults.size(); ++f) {
        // The short sweep takes one kind of fault at each of its points, all of them in turn.
        if (!full_sweep() && f != static_cast<std::size_t>(turn) % kFaults.size()) continue;
        if (kFaults[f] == Fault::kTear && operations[static_cast<std::size_t>(at) - 1].kind != "write") continue;
        check_point(phase, from, {kFaults[f], at}, synchronous ? last_save : 0);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }

  // `last_save`: number of an operation of the last save, 0 where the run saves in the background.
  void check_point(const char* phase, const std::string& from, const FaultPlan& plan, int last_save) {
    const std::string folder = prepare(from, "point");
    const int code = start_run(folder, variant_, plan, scratch_ / "log");
    // Some records are written by the clock, so this run's own operations say what was hit.
    const std::vector<Operation> log = read_operations(scratch_ / "log");
    const auto at = static_cast<std::size_t>(plan.at);
    const Operation operation = at <= log.size() ? log[at - 1] : Operation{"none", ""};
    // Between the first step and the last save a failure concerns records and checkpoints: the next save tries again.
    if (const int own = first_on(log, ".step-6.saving"); own > 0 && last_save > 0) last_save = own;
    const bool goes_on = plan.fault == Fault::kFail && plan.at >= first_step(log) && plan.at < last_save;
    const std::string what = fmt::format("{}, {}: {} at operation {} ({} {})", variant_.name, phase, fault_name(plan.fault),
                                         plan.at, operation.kind, operation.path);
    const std::string said = read_file(folder + "/stderr");
    const bool ends_it = plan.fault == Fault::kKill || plan.fault == Fault::kTear;
    // The order of operations on two threads differs between runs: the k-th may come later than the end.
    EXPECT_TRUE(ends_it ? code == 9 || code == 0 : code == 0 || code == 1 || code == 4) << what << ": " << code << said;
    const bool explained = code == 9 || code == 0 || said.find("ida-train: error: ") != std::string::npos;
    EXPECT_TRUE(explained) << what << said;
    const bool changes_checkpoints =
        mentions(operation, "/checkpoints/") && operation.kind != "read" && operation.kind != "open";
    if (goes_on) {
      EXPECT_EQ(code, 0) << what << ": " << said;
      EXPECT_TRUE(!changes_checkpoints || said.find("warning") != std::string::npos) << what << ": " << said;
    }
    std::vector<std::string> report;
    const auto newest = checkpoint::find_newest_complete(folder + "/runs/run/checkpoints", report);
    EXPECT_TRUE(report.empty()) << what << ": " << report.front();  // what is named step-N is whole
    EXPECT_TRUE(from.empty() || newest.has_value()) << what;        // the last good one is there
    if (plan.fault == Fault::kFail && is_directory(folder + "/runs/run/checkpoints")) {
      for (const std::string& name : list_directory(folder + "/runs/run/checkpoints"))
        EXPECT_FALSE(name.ends_with(".saving")) << what << ": " << name;
    }
    const int again = start_run(folder, variant_);
    EXPECT_EQ(again, 0) << what << ": " << read_file(folder + "/stderr");
    EXPECT_EQ(end_of_run(folder), expected_) << what << "\nfirst: " << said << "\nthen: " << read_file(folder + "/stderr");
    for (const std::string& name : list_directory(folder + "/runs/run/checkpoints"))
      EXPECT_FALSE(name.starts_with('.')) << what << ": " << name;
    nlohmann::json& count = counts_[variant_.name][phase]["points"][fault_name(plan.fault)];
    count = count.is_null() ? 1 : count.get<int>() + 1;
  }

  const Variant& variant_;
  nlohmann::json& counts_;
  Scratch scratch_;
  std::string expected_;
};

class FaultSweep : public ::testing::TestWithParam<std::size_t> {};

TEST_P(FaultSweep, EndsAsIfNothingHadHappened) {
  const Variant& variant = variants()[GetParam()];
  nlohmann::json counts;
  Sweep(variant, counts).run();
  const char* out = std::getenv("IDA_RELIABILITY_OUT");
  if (out == nullptr || HasFailure()) return;
  nlohmann::json all = nlohmann::json::object();
  if (path_exists(out)) all = nlohmann::json::parse(read_file(out));
  all.update(counts);
  std::ofstream(out) << all.dump(2) << "\n";
}

INSTANTIATE_TEST_SUITE_P(Variants, FaultSweep, ::testing::Range<std::size_t>(0, 3),
                         [](const auto& param) { return variants()[param.param].name; });

}  // namespace
}  // namespace ida::reliability
