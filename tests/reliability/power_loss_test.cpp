// 1,000 power cuts at random moments of saving, replacing and deleting checkpoints, each with a random part of what was
// not synced lost: a checkpoint whose save had returned is there, and nothing incomplete looks like one.
#include "reliability/power_loss.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/store.h"
#include "checkpoint/tiny_checkpoint.h"
#include "reliability/tiny_run.h"

namespace ida::reliability {
namespace {

using checkpoint::CheckpointStore;
using checkpoint::TinyState;

constexpr const char* kDir = "runs/run/checkpoints";

struct Save {
  std::int64_t step = 0;
  std::uint64_t seed = 0;    // of its values
  std::size_t returned = 0;  // events before save() returned
};

// Saves steps 1, 2, 3, then 3 anew and 4, keeping the newest only.
std::vector<Save> save_some(const std::string& root, const DiskRecorder& disk) {
  std::vector<Save> saves = {{1, 1}, {2, 1}, {3, 1}, {3, 2}, {4, 1}};
  CheckpointStore store(root + "/" + kDir);
  for (Save& save : saves) {
    store.save(TinyState(save.step, save.seed).contents());
    save.returned = disk.events().size();
    store.apply_retention({.keep_last = 1}, save.step, "run-a");
  }
  return saves;
}

bool holds_save(const checkpoint::Checkpoint& stored, const Save& save) {
  return checkpoint::holds(stored, TinyState(save.step, save.seed).contents());
}

TEST(PowerLoss, NoPublishedCheckpointIsLost) {
  const Scratch real;
  std::vector<DiskEvent> events;
  std::vector<Save> saves;
  {
    const DiskRecorder disk(real.path());
    saves = save_some(real.path(), disk);
    events = disk.events();
  }
  std::mt19937_64 random(11);
  int with_loss = 0;
  for (int round = 0; round < 1000; ++round) {
    const std::size_t at = random() % (events.size() + 1);
    const double loss_frac = static_cast<double>(random() % 5) / 4.0;
    DiskModel model;
    for (std::size_t i = 0; i < at; ++i) model.apply(events[i]);
    const Scratch image;
    model.cut_power(random, loss_frac, image.path());
    with_loss += loss_frac > 0.0 ? 1 : 0;
    const std::string what =
        fmt::format("round {}, after operation {} of {}, loss {}", round, at, events.size(), loss_frac);

    // Those that may be there: the last whose save had returned, or any begun since.
    const auto first_open = std::find_if(saves.begin(), saves.end(), [&](const Save& save) { return save.returned > at; });
    const auto first = first_open == saves.begin() ? first_open : first_open - 1;
    std::vector<std::string> report;
    const auto newest = checkpoint::open_newest_complete(image / kDir, report);
    ASSERT_TRUE(report.empty()) << what << ": " << report.front();
    if (path_exists(image / kDir)) {
      for (const std::string& name : list_directory(image / kDir)) {  // older ones, too: what is named step-N is whole
        if (checkpoint::step_of_name(name)) {
          ASSERT_NO_THROW(checkpoint::open_checkpoint((image / kDir) + "/" + name)) << what << ": " << name;
        }
      }
    }
    if (first_open != saves.begin()) {
      // A replacement may be cut between its two renames: the store finishes it.
      const bool found = newest.has_value() || path_exists(image / (std::string(kDir) + "/.step-3.replaced"));
      ASSERT_TRUE(found) << what;
    }
    CheckpointStore store(image / kDir);
    const auto resumed = checkpoint::open_newest_complete(image / kDir, report);
    ASSERT_EQ(resumed.has_value() || first_open == saves.begin(), true) << what;
    if (resumed) {
      const bool expected = std::any_of(first, first_open == saves.end() ? saves.end() : first_open + 1,
                                        [&](const Save& save) { return holds_save(*resumed, save); });
      ASSERT_TRUE(expected) << what << ": step " << resumed->manifest().step;
    }
    const std::string latest = image / (std::string(kDir) + "/latest");
    std::error_code ignored;
    if (std::filesystem::is_symlink(latest, ignored)) {
      ASSERT_NO_THROW(checkpoint::open_checkpoint(latest)) << what;
    }
    store.save(TinyState(5).contents());
    ASSERT_TRUE(holds_save(checkpoint::open_checkpoint(latest), {.step = 5, .seed = 1})) << what;
  }
  EXPECT_GT(with_loss, 700);
}

// The model itself: what was synced stays, what was not may go.
TEST(PowerLoss, TheModelLosesExactlyWhatWasNotSynced) {
  const Scratch real;
  DiskModel model;
  {
    const DiskRecorder disk(real.path());
    make_directories(real / "d");
    write_file_atomic(real / "d/kept", std::string_view("kept"));
    const int fd = file_ops().open((real / "d/torn").c_str(), O_WRONLY | O_CREAT, 0600);
    ASSERT_EQ(file_ops().write(fd, "torn", 4), 4);
    file_ops().close(fd);
    for (const DiskEvent& event : disk.events()) model.apply(event);
  }
  std::mt19937_64 random(1);
  const Scratch all_lost, none_lost;
  model.cut_power(random, 1.0, all_lost.path());
  EXPECT_EQ(list_directory(all_lost / "d"), std::vector<std::string>{"kept"});
  EXPECT_EQ(read_file(all_lost / "d/kept"), "kept");
  model.cut_power(random, 0.0, none_lost.path());
  EXPECT_EQ(read_file(none_lost / "d/torn"), "torn");
}

}  // namespace
}  // namespace ida::reliability
