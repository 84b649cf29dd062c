// What a device's libraries chose stays with the run: kept in its folder, taken again, and a substitute is on record.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/cpu_device.h"
#include "base/file.h"
#include "base/parallel.h"
#include "checkpoint/temp_dir.h"
#include "evidence/ledger.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace ida::train {
namespace {

namespace fs = std::filesystem;

// Chooses when its memory is taken, as a GPU does while an engine is built, unless it was told what to use.
class ChoosingDevice : public cpu::CpuDevice {
 public:
  ChoosingDevice(std::string found, std::string refusal) : found_(std::move(found)), refusal_(std::move(refusal)) {}
  void* allocate(std::int64_t size_bytes) override {
    if (choices_.empty()) choices_ = found_;
    return CpuDevice::allocate(size_bytes);
  }
  std::string library_choices() const override { return choices_; }
  bool adopt_library_choices(const std::string& choices, std::string& reason) override {
    EXPECT_TRUE(choices_.empty()) << "offered when it had already chosen";
    offered.push_back(choices);
    reason = refusal_;
    if (!refusal_.empty()) return false;
    choices_ = choices;
    return true;
  }
  std::vector<std::string> offered;

 private:
  std::string found_;
  std::string refusal_;
  std::string choices_;
};

class LibraryChoices : public ::testing::Test {
 protected:
  checkpoint::TempDir folder_;
  const std::string file_ = folder_ / "gemm_plans.json";
};

TEST_F(LibraryChoices, AreKeptAndOfferedAsTheyWere) {
  ChoosingDevice device("", "");
  EXPECT_EQ(adopt_library_choices(device, folder_.path()), "");
  EXPECT_TRUE(device.offered.empty()) << "there was nothing to offer";
  const std::string text = "{\"a\": 1}\n";
  write_file_atomic(file_, text);
  EXPECT_EQ(adopt_library_choices(device, folder_.path()), "");
  EXPECT_EQ(device.offered, std::vector<std::string>{text});
  fs::remove(file_);
  keep_library_choices(device, folder_.path());
  EXPECT_EQ(read_file(file_), text);
}

TEST_F(LibraryChoices, TheSameAreNotWrittenAgainAndNoneWriteNothing) {
  ChoosingDevice device("chosen", "");
  keep_library_choices(device, folder_.path());
  EXPECT_FALSE(path_exists(file_));
  write_file_atomic(file_, std::string_view("chosen"));
  fs::create_hard_link(file_, folder_ / "link");
  keep_library_choices(device, folder_.path());
  EXPECT_EQ(read_file(file_), "chosen") << "a device without choices leaves those of another";
  device.release(device.allocate(1), 1);
  keep_library_choices(device, folder_.path());
  EXPECT_TRUE(fs::equivalent(file_, folder_ / "link"));
}

TEST_F(LibraryChoices, ARefusalSaysWhy) {
  ChoosingDevice refusing("", "another library");
  write_file_atomic(file_, std::string_view("chosen"));
  EXPECT_EQ(adopt_library_choices(refusing, folder_.path()), "another library");
  cpu::CpuDevice processor;
  EXPECT_EQ(adopt_library_choices(processor, folder_.path()), "this device makes no such choices");
}

class LibraryChoicesOfARun : public ::testing::Test {
 protected:
  void SetUp() override {
    make_directories(folder_ / "corpus");
    std::string text;
    for (int i = 0; i < 200; ++i) text += fmt::format("word {} and {}. ", i * 7 % 31, i * i % 53);
    write_file_atomic(folder_ / "corpus/a.txt", text);
  }
  void train_on(runtime::Device& device) {
    const config::RunConfig config = config::parse_run_config(fmt::format(R"(
[run]
name = "run"
dir = "{0}/runs"
[model]
hidden_size = 16
intermediate_size = 32
num_hidden_layers = 1
num_attention_heads = 2
num_key_value_heads = 1
[tokenizer]
vocab_size = 264
[data]
train = ["{0}/corpus"]
seq_len = 16
[train]
steps = 4
global_batch_tokens = 64
save_every = 2
keep_last = 0
[precision]
recipe = "fp32"
)",
                                                                          folder_.path()),
                                                              "test");
    set_num_threads(1);
    train(config, device, cpu::make_cpu_backend(device.info()), {"ida-train", "train"});
  }
  // Back to where the run had saved its first checkpoint.
  void forget_the_end() { fs::remove_all(folder_ / "runs/run/checkpoints/step-4"); }
  std::vector<evidence::EventRow> failures() {
    return evidence::Ledger(folder_ / "runs/ledger.sqlite").events_of_kind("failure");
  }
  checkpoint::TempDir folder_;
  const std::string file_ = folder_ / "runs/run/gemm_plans.json";
};

TEST_F(LibraryChoicesOfARun, AreKeptWithItAndTakenByAResume) {
  ChoosingDevice first("of the first start", "");
  train_on(first);
  EXPECT_TRUE(first.offered.empty());
  EXPECT_EQ(read_file(file_), "of the first start");
  forget_the_end();
  ChoosingDevice second("of the second start", "");
  train_on(second);
  EXPECT_EQ(second.offered, std::vector<std::string>{"of the first start"});
  EXPECT_EQ(read_file(file_), "of the first start");
  EXPECT_TRUE(failures().empty());
}

TEST_F(LibraryChoicesOfARun, ASubstituteIsAFailureOnRecord) {
  ChoosingDevice first("of the first start", "");
  train_on(first);
  forget_the_end();
  ChoosingDevice second("of the second start", "they are of another device");
  train_on(second);
  EXPECT_EQ(second.offered, std::vector<std::string>{"of the first start"});
  EXPECT_EQ(read_file(file_), "of the second start");
  const std::vector<evidence::EventRow> rows = failures();
  ASSERT_EQ(rows.size(), 1u);
  const nlohmann::json row = nlohmann::json::parse(rows.front().json);
  EXPECT_EQ(row.at("what"), "matrix products are computed by other algorithms than the run began with");
  EXPECT_EQ(row.at("reason"), "they are of another device");
  EXPECT_EQ(row.at("step"), 2);
}

}  // namespace
}  // namespace ida::train
