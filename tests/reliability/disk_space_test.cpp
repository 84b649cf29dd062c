// What a run's checkpoints need on disk, before it starts.
#include "train/disk_space.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "reliability/tiny_run.h"
#include "train/setup.h"

namespace ida::reliability {
namespace {

TEST(DiskSpace, CountsWhatTheRuleLeavesAtMost) {
  config::TrainSettings train;
  train.eval_every = 10;
  const auto most = [&](std::int64_t every, std::int64_t last, std::int64_t multiple, std::int64_t best) {
    train.save_every = every;
    train.keep_last = last;
    train.keep_every = multiple;
    train.keep_best = best;
    return train::most_checkpoints(train, 100);
  };
  EXPECT_EQ(most(10, 0, 0, 0), 10);  // all
  EXPECT_EQ(most(30, 0, 0, 0), 4);   // 30, 60, 90, 100
  EXPECT_EQ(most(0, 0, 0, 0), 1);
  EXPECT_EQ(most(10, 3, 0, 0), 3);
  EXPECT_EQ(most(10, 3, 50, 0), 5);
  EXPECT_EQ(most(10, 3, 50, 2), 7);
  EXPECT_EQ(most(10, 9, 20, 5), 10);  // never more than are saved
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_EQ(most(1, kHuge, 1, kHuge), 100);
  train.eval_every = 0;  // validated at the end only
  EXPECT_EQ(most(10, 3, 0, 5), 4);
}

TEST(DiskSpace, AnEstimateIsNeverLessThanACheckpoint) {
  for (const Variant& variant : variants()) {
    const Scratch scratch;
    write_corpus(scratch / "corpus");
    ASSERT_EQ(start_run(scratch.path(), variant), 0) << read_file(scratch / "stderr");
    const std::string run = scratch / "runs/run";
    const config::RunConfig config = config::parse_run_config(read_file(run + "/config.resolved.toml"), "test");
    std::uint64_t size = 0;
    for (const std::string& name : list_directory(run + "/checkpoints/step-6"))
      size += file_size_bytes(run + "/checkpoints/step-6/" + name);
    const std::uint64_t estimate = train::checkpoint_bytes(train::engine_spec(config, train::resolve_model(config)));
    EXPECT_GE(estimate, size);
    EXPECT_LE(estimate, size + (2 << 20));
  }
}

// B101: refused before anything is read, tokenized or trained, saying need, free and remedy.
TEST(DiskSpace, ARunThatWillNotFitIsRefusedAtOnce) {
  const Scratch scratch;
  write_corpus(scratch / "corpus");
  Variant variant = variants()[0];
  for (const char* setting : {"train.steps=1000000000", "train.save_every=1", "train.keep_last=0"})
    variant.overrides.emplace_back(setting);
  EXPECT_EQ(start_run(scratch.path(), variant), static_cast<int>(ExitCode::kRuntime));
  const std::string said = read_file(scratch / "stderr");
  for (const char* part : {"checkpoints need", "MiB are free", "train.keep_last"})
    EXPECT_NE(said.find(part), std::string::npos) << said;
  EXPECT_EQ(list_directory(scratch / "runs/run"), std::vector<std::string>{"run.lock"});
}

}  // namespace
}  // namespace ida::reliability
