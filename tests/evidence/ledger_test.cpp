#include "evidence/ledger.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/file.h"

namespace ida::evidence {
namespace {

using Json = nlohmann::json;

class LedgerTest : public testing::Test {
 protected:
  LedgerTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ida-ledger-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/ledger.sqlite";
  }
  ~LedgerTest() override { remove_tree(folder_); }

  std::string folder_;
  std::string path_;
};

RunRow run_named(const std::string& name) {
  RunRow run;
  run.name = name;
  run.dir = "runs/" + name;
  run.started_at = "2026-01-01T00:00:00Z";
  run.config_hash = "c0ffee";
  run.recipe = "bf16";
  run.device = "CPU";
  run.build = "abc";
  return run;
}

ExitCode code_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::kDone;
}

TEST_F(LedgerTest, ARunFromStartToEnd) {
  std::int64_t id = 0;
  {
    Ledger ledger(path_);
    id = ledger.start_run(run_named("a 'quoted' \"name\"; DROP TABLE runs"));
    EXPECT_EQ(ledger.run(id)->status, "running");
    EXPECT_EQ(ledger.run(id)->finished_at, "");
    EXPECT_EQ(ledger.run(id)->resumed_from, -1);
    ledger.finish_run(id, "done", 300, R"({"val_loss":3.5})");
  }
  Ledger ledger(path_);
  ASSERT_EQ(ledger.runs().size(), 1u);
  const RunRow run = *ledger.run(id);
  EXPECT_EQ(run.name, "a 'quoted' \"name\"; DROP TABLE runs");
  EXPECT_EQ(run.dir, "runs/" + run.name);
  EXPECT_EQ(run.started_at, "2026-01-01T00:00:00Z");
  EXPECT_EQ(run.status, "done");
  EXPECT_EQ(run.config_hash, "c0ffee");
  EXPECT_EQ(run.recipe, "bf16");
  EXPECT_EQ(run.device, "CPU");
  EXPECT_EQ(run.build, "abc");
  EXPECT_EQ(run.steps, 300);
  EXPECT_EQ(run.finished_at.size(), 20u);
  EXPECT_EQ(run.summary_json, R"({"val_loss":3.5})");
  EXPECT_FALSE(ledger.run(id + 1).has_value());
}

TEST_F(LedgerTest, ScoresFailuresAndNotes) {
  Ledger ledger(path_);
  const std::int64_t id = ledger.start_run(run_named("a"));
  const std::int64_t other = ledger.start_run(run_named("b"));
  ledger.add_score(id, {.name = "val_loss", .value = 3.5, .unit = "nats/token", .dataset = "wiki", .step = 300});
  ledger.add_failure(other, {.what = "loss stuck at 9.1", .reason = "gradients below the smallest scale", .step = 200});
  ledger.add_event({.id = 0, .run_id = 0, .at = {}, .kind = "note", .json = R"({"text":"belongs to no run"})"});
  const auto events = ledger.events(id);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, "score");
  EXPECT_EQ(events[0].run_id, id);
  EXPECT_EQ(Json::parse(events[0].json),
            (Json{{"name", "val_loss"}, {"value", 3.5}, {"unit", "nats/token"}, {"dataset", "wiki"}, {"step", 300}}));
  const auto failures = ledger.events_of_kind("failure");
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].run_id, other);
  EXPECT_EQ(Json::parse(failures[0].json).at("reason"), "gradients below the smallest scale");
  EXPECT_EQ(ledger.events_of_kind("note").at(0).run_id, 0);
}

TEST_F(LedgerTest, RefusesWhatItCouldNotGiveBack) {
  Ledger ledger(path_);
  const std::int64_t id = ledger.start_run(run_named("a"));
  const auto event = [&](std::int64_t run_id, const char* json) {
    return code_of([&] { ledger.add_event({.id = 0, .run_id = run_id, .at = {}, .kind = "note", .json = json}); });
  };
  EXPECT_EQ(event(id, "{"), ExitCode::kUsage);
  EXPECT_EQ(event(id, "[1]"), ExitCode::kUsage);
  EXPECT_EQ(event(id, R"({"x":NaN})"), ExitCode::kUsage);
  EXPECT_EQ(event(id + 7, "{}"), ExitCode::kUsage);
  EXPECT_EQ(code_of([&] {
              ledger.add_score(id, {"val_loss", std::numeric_limits<double>::quiet_NaN(), "", "", 1});
            }),
            ExitCode::kUsage);
  EXPECT_EQ(code_of([&] { ledger.finish_run(id + 7, "done", 1, "{}"); }), ExitCode::kUsage);
  EXPECT_TRUE(ledger.events(id).empty());
}

TEST_F(LedgerTest, TheNewestPromotionHolds) {
  Ledger ledger(path_);
  PromotionRow row;
  row.engine = "cublaslt.fp8_tensor";
  row.device = "H200";
  row.driver = "580";
  row.build = "abc";
  EXPECT_FALSE(ledger.promotion(row).has_value());
  row.decision = "promoted";
  row.json = R"({"max_error":0.0})";
  ledger.add_promotion(row);
  EXPECT_EQ(ledger.promotion(row)->decision, "promoted");
  row.decision = "refused";
  row.reason = "wrong scales";
  ledger.add_promotion(row);
  EXPECT_EQ(ledger.promotion(row)->decision, "refused");
  EXPECT_EQ(ledger.promotion(row)->reason, "wrong scales");
  for (auto* part : {&row.engine, &row.device, &row.driver, &row.build}) {
    const std::string former = *part;
    *part = "another";
    EXPECT_FALSE(ledger.promotion(row).has_value());
    *part = former;
  }
  EXPECT_EQ(ledger.promotions().size(), 2u);
  row.decision = "maybe";
  EXPECT_EQ(code_of([&] { ledger.add_promotion(row); }), ExitCode::kUsage);
}

TEST_F(LedgerTest, FilesThatAreNoLedger) {
  write_file_atomic(path_, std::string_view("certainly not a database, but long enough to be looked at as if it were one"));
  EXPECT_EQ(code_of([&] { Ledger ledger(path_); }), ExitCode::kCorrupt);
  EXPECT_EQ(code_of([&] { Ledger ledger(folder_ + "/no/such/folder/ledger.sqlite"); }), ExitCode::kRuntime);
}

TEST_F(LedgerTest, RefusesTheSchemaOfANewerProgram) {
  { Ledger ledger(path_); }
  { Database(path_, 100).run("PRAGMA user_version = 2"); }
  EXPECT_EQ(code_of([&] { Ledger ledger(path_); }), ExitCode::kUsage);
}

constexpr int kAddsPerWriter = 60;

void add_many(const std::string& path, const std::string& name) {
  Ledger ledger(path);
  const std::int64_t id = ledger.start_run(run_named(name));
  for (int i = 0; i < kAddsPerWriter; ++i)
    ledger.add_score(id, {.name = name, .value = static_cast<double>(i), .unit = "", .dataset = "", .step = i});
  ledger.finish_run(id, "done", kAddsPerWriter, "{}");
}

void expect_all_present(const std::string& path, std::size_t num_writers) {
  Ledger ledger(path);
  const auto runs = ledger.runs();
  ASSERT_EQ(runs.size(), num_writers);
  std::set<std::int64_t> ids;
  for (const RunRow& run : runs) {
    EXPECT_EQ(run.status, "done");
    const auto events = ledger.events(run.id);
    ASSERT_EQ(events.size(), static_cast<std::size_t>(kAddsPerWriter));
    for (int i = 0; i < kAddsPerWriter; ++i) {
      const Json json = Json::parse(events[static_cast<std::size_t>(i)].json);
      EXPECT_EQ(json.at("name"), run.name);
      EXPECT_EQ(json.at("value"), i);
      ids.insert(events[static_cast<std::size_t>(i)].id);
    }
  }
  EXPECT_EQ(ids.size(), num_writers * kAddsPerWriter);
}

// Both also race for the creation of the file and its tables.
TEST_F(LedgerTest, ThreadsWithTheirOwnConnections) {
  std::vector<std::thread> threads;
  std::array<ExitCode, 4> codes{};
  for (std::size_t i = 0; i < codes.size(); ++i)
    threads.emplace_back([&, i] { codes[i] = code_of([&] { add_many(path_, "thread" + std::to_string(i)); }); });
  for (std::thread& thread : threads) thread.join();
  for (const ExitCode code : codes) EXPECT_EQ(code, ExitCode::kDone);
  expect_all_present(path_, 4);
}

TEST_F(LedgerTest, TwoProcesses) {
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::_exit(code_of([&] { add_many(path_, "process" + std::to_string(i)); }) == ExitCode::kDone ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  expect_all_present(path_, 2);
}

TEST_F(LedgerTest, AWriterThatMayNotWaitSaysThatItIsLocked) {
  { Ledger ledger(path_); }
  Database holder(path_, 100);
  const Transaction transaction(holder);
  Ledger ledger(path_, 1);
  try {
    ledger.start_run(run_named("a"));
    FAIL() << "wrote through a lock";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRuntime);
    EXPECT_NE(std::string(error.what()).find("locked"), std::string::npos) << error.what();
  }
}

TEST_F(LedgerTest, ListsAndShows) {
  Ledger ledger(path_);
  const std::int64_t id = ledger.start_run(run_named("quick"));
  ledger.add_failure(id, {.what = "died", .reason = "out of memory", .step = -1});
  const std::string list = list_ledger(ledger);
  EXPECT_NE(list.find("quick"), std::string::npos);
  EXPECT_EQ(std::count(list.begin(), list.end(), '\n'), 2);
  const std::string shown = show_run(ledger, id);
  for (const char* part : {"quick", "runs/quick", "running", "bf16", "out of memory", "c0ffee"})
    EXPECT_NE(shown.find(part), std::string::npos) << part << "\n" << shown;
  EXPECT_EQ(code_of([&] { show_run(ledger, 99); }), ExitCode::kUsage);
}

}  // namespace
}  // namespace ida::evidence
