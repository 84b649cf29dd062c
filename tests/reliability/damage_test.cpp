// Damage of a checkpoint that a run wrote: single flipped bits, cuts, changed clocks. Found before anything is used.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/store.h"
#include "reliability/tiny_run.h"

namespace ida::reliability {
namespace {

namespace fs = std::filesystem;

class Damage : public ::testing::Test {
 protected:
  // A run that keeps its last two checkpoints, step 4 and step 6.
  static void SetUpTestSuite() {
    scratch = new Scratch;
    write_corpus(*scratch / "corpus");
    Variant variant = variants()[1];
    variant.overrides.emplace_back("train.keep_last=2");
    variant.overrides.emplace_back("model.hidden_size=32");
    variant.overrides.emplace_back("device.memory_limit=4MiB");
    ASSERT_EQ(start_run(scratch->path(), variant), 0) << read_file(*scratch / "stderr");
  }
  static void TearDownTestSuite() { delete scratch; }

  static std::string dir() { return *scratch / "runs/run/checkpoints"; }
  static std::string newest() { return dir() + "/step-6"; }

  // Why the newest checkpoint is passed over; "" when it is taken.
  static std::string why_passed_over() {
    std::vector<std::string> report;
    const auto found = checkpoint::find_newest_complete(dir(), report);
    if (found == newest()) return "";
    EXPECT_EQ(found, dir() + "/step-4");
    EXPECT_EQ(report.size(), 1u);
    return report.empty() ? "" : report.front();
  }

  static void overwrite(const std::string& path, std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; }

  static Scratch* scratch;
};
Scratch* Damage::scratch = nullptr;

TEST_F(Damage, EachOfAThousandFlippedBitsIsFoundAndNamed) {
  std::vector<std::string> names = list_directory(newest());
  std::vector<std::string> contents;
  std::size_t total = 0;
  for (const std::string& name : names) {
    contents.push_back(read_file(newest() + "/" + name));
    total += contents.back().size();
  }
  std::mt19937_64 random(3);
  for (int round = 0; round < 1000; ++round) {
    // Half of them anywhere, so that most are in tensors; half in each file equally often.
    std::size_t file = static_cast<std::size_t>(round) % names.size();
    std::size_t at = random() % contents[file].size();
    if (round % 2 == 0) {
      for (at = random() % total, file = 0; at >= contents[file].size(); ++file) at -= contents[file].size();
    }
    std::string bad = contents[file];
    bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    const std::string path = newest() + "/" + names[file];
    overwrite(path, bad);
    const std::string why = why_passed_over();
    ASSERT_NE(why.find(names[file]), std::string::npos) << names[file] << " at " << at << ": " << why;
    if (names[file].ends_with(".safetensors")) {
      const bool named = why.find("tensor '") != std::string::npos || why.find("header") != std::string::npos;
      ASSERT_TRUE(named) << names[file] << " at " << at << ": " << why;
    }
    overwrite(path, contents[file]);
  }
  EXPECT_EQ(why_passed_over(), "");
}

TEST_F(Damage, EachCutAt4KiBIsFound) {
  int num_cuts = 0;
  for (const std::string& name : list_directory(newest())) {
    const std::string path = newest() + "/" + name;
    const std::string good = read_file(path);
    for (std::size_t size = 0; size < good.size(); size += 4096, ++num_cuts) {
      overwrite(path, std::string_view(good).substr(0, size));
      ASSERT_NE(why_passed_over().find(name), std::string::npos) << name << " cut to " << size;
    }
    overwrite(path, good);
  }
  EXPECT_GT(num_cuts, 40);
  EXPECT_EQ(why_passed_over(), "");
}

// B095, B098: without its manifest a folder is no checkpoint; with one bit of an exponent changed the tensor is named.
TEST_F(Damage, WithoutAManifestItIsPassedOverWithAWord) {
  fs::rename(newest() + "/manifest.json", dir() + "/aside");
  EXPECT_NE(why_passed_over().find("manifest.json: missing; the checkpoint was not finished"), std::string::npos);
  fs::rename(dir() + "/aside", newest() + "/manifest.json");
}

// B104: a clock a day back, ten years ahead, or equal everywhere changes neither the choice nor the rotation.
TEST_F(Damage, ClocksDoNotMatter) {
  constexpr std::int64_t kDay = 86400;
  const std::int64_t now = ::time(nullptr);
  for (const auto& [newer, older] : {std::pair{now - kDay, now}, {now - 3650 * kDay, now + 3650 * kDay}, {now, now}}) {
    for (const auto& [name, time] : {std::pair{std::string("step-6"), newer}, {std::string("step-4"), older}}) {
      const struct timespec times[2] = {{.tv_sec = time, .tv_nsec = 0}, {.tv_sec = time, .tv_nsec = 0}};
      for (const std::string& file : list_directory(dir() + "/" + name))
        ASSERT_EQ(::utimensat(AT_FDCWD, (dir() + "/" + name + "/" + file).c_str(), times, 0), 0);
      ASSERT_EQ(::utimensat(AT_FDCWD, (dir() + "/" + name).c_str(), times, 0), 0);
    }
    EXPECT_EQ(why_passed_over(), "");
    const Scratch copy;
    fs::copy(dir(), copy / "c", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    for (const char* name : {"step-4", "step-6"})
      fs::last_write_time(copy / (std::string("c/") + name), fs::last_write_time(dir() + "/" + name));
    checkpoint::CheckpointStore(copy / "c").apply_retention({.keep_last = 1}, 6, "run");
    EXPECT_EQ(list_directory(copy / "c"), (std::vector<std::string>{"latest", "step-6"}));
  }
}

// B094: where checkpoints are and none is usable, a run does not begin anew without a word.
TEST_F(Damage, NoUsableCheckpointIsNoFreshStart) {
  const Scratch copy;
  fs::copy(scratch->path(), copy / "all", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const std::string run = copy / "all";
  for (const char* step : {"step-4", "step-6"})
    fs::resize_file(run + "/runs/run/checkpoints/" + step + "/optim.safetensors", 100);
  Variant variant = variants()[1];
  for (const char* setting : {"train.keep_last=2", "model.hidden_size=32", "device.memory_limit=4MiB"})
    variant.overrides.emplace_back(setting);
  EXPECT_EQ(start_run(run, variant), static_cast<int>(ExitCode::kCorrupt));
  const std::string said = read_file(run + "/stderr");
  EXPECT_NE(said.find("none of them complete"), std::string::npos) << said;
  EXPECT_NE(said.find("optim.safetensors"), std::string::npos) << said;
}

}  // namespace
}  // namespace ida::reliability
