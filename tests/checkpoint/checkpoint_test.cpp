#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "checkpoint/async_saver.h"
#include "checkpoint/store.h"
#include "checkpoint/temp_dir.h"
#include "checkpoint/tiny_checkpoint.h"

namespace ida::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

void overwrite(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string open_refusal(const std::string& dir) {
  try {
    open_checkpoint(dir);
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ExitCode::kCorrupt)) << error.what();
    return error.what();
  }
  return "";
}

TEST(Checkpoint, HoldsWhatItWasGiven) {
  const TempDir dir;
  TinyState state(7);
  CheckpointStore store(dir / "checkpoints");
  const std::string path = store.save(state.contents());
  EXPECT_EQ(path, dir / "checkpoints/step-7");
  const Checkpoint stored = open_checkpoint(path);
  EXPECT_TRUE(holds(stored, state.contents()));
  const Json written = Json::parse(stored.state_json());
  EXPECT_EQ(written["rng"], 18446744073709551615ULL);
  EXPECT_EQ(written["step"], 7);
  EXPECT_EQ(written["cursor"]["document"], 7);
  EXPECT_EQ(stored.manifest().lineage, state.contents().lineage);

  std::vector<bf16> exp_avg(state.size());
  read_flat(*stored.optim(), state.table(), "exp_avg.", DType::kBF16, std::as_writable_bytes(std::span(exp_avg)));
  for (const model::ParamSpec& spec : state.table().params) {  // padding between groups is not stored
    EXPECT_EQ(std::memcmp(exp_avg.data() + spec.offset_elems, state.exp_avg().data() + spec.offset_elems,
                          static_cast<std::size_t>(spec.numel()) * sizeof(bf16)),
              0);
  }
  std::vector<float> as_f32(state.size());
  EXPECT_THROW(
      read_flat(*stored.optim(), state.table(), "exp_avg.", DType::kF32, std::as_writable_bytes(std::span(as_f32))), Error);
  // Readable as a Hugging Face folder, too.
  std::vector<float> master(state.size());
  read_hf_weights(open_model(path), state.table(), master);
  EXPECT_EQ(list_directory(dir / "checkpoints"), (std::vector<std::string>{"latest", "step-7"}));
  EXPECT_EQ(fs::read_symlink(dir / "checkpoints/latest"), "step-7");
}

TEST(Checkpoint, WeightsAreAPureFunctionOfTheValues) {
  const TempDir dir;
  const TinyState state(7);
  CheckpointContents first = state.contents();
  CheckpointContents second = state.contents();
  std::reverse(second.weights.begin(), second.weights.end());
  second.lineage.run_id = "other";
  second.step = 8;
  CheckpointStore store(dir.path());
  store.save(first);
  store.save(second);
  EXPECT_EQ(read_file(dir / "step-7/model.safetensors"), read_file(dir / "step-8/model.safetensors"));
}

TEST(Checkpoint, LineageNamesTheParent) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  store.save(TinyState(1).contents());
  store.save(TinyState(2).contents());
  const std::string first_id = open_checkpoint(dir / "step-1").manifest().id();
  EXPECT_EQ(open_checkpoint(dir / "step-1").manifest().lineage.parent, "");
  EXPECT_EQ(open_checkpoint(dir / "step-2").manifest().lineage.parent, first_id);
  CheckpointStore resumed(dir.path());
  resumed.set_parent(first_id);
  resumed.save(TinyState(3).contents());
  EXPECT_EQ(open_checkpoint(dir / "step-3").manifest().lineage.parent, first_id);
  record_scores(dir / "step-1", {{"mean_nll", 1.25}});
  EXPECT_EQ(open_checkpoint(dir / "step-1").manifest().id(), first_id);
  EXPECT_EQ(open_checkpoint(dir / "step-1").manifest().scores.at("mean_nll"), 1.25);
}

TEST(Checkpoint, EveryBitFlipOfTheManifestIsFound) {
  const TempDir dir;
  CheckpointStore(dir.path()).save(TinyState(3).contents());
  const std::string path = dir / "step-3/manifest.json";
  const std::string good = read_file(path);
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
    EXPECT_THROW(parse_manifest(bad, "manifest.json"), Error) << at;
  }
  for (std::size_t size = 0; size < good.size(); size += 7) {
    EXPECT_THROW(parse_manifest(good.substr(0, size), "manifest.json"), Error) << size;
  }
  EXPECT_THROW(parse_manifest(good + " ", "manifest.json"), Error);
  EXPECT_EQ(write_manifest(parse_manifest(good, "manifest.json")), good);
}

TEST(Checkpoint, BitFlipsAndTruncationsOfEveryFileAreFound) {
  const TempDir dir;
  CheckpointStore(dir.path()).save(TinyState(3).contents());
  std::mt19937_64 random(5);
  for (const std::string& name : list_directory(dir / "step-3")) {
    const std::string path = dir / ("step-3/" + name);
    const std::string good = read_file(path);
    for (int round = 0; round < 60; ++round) {
      std::string bad = good;
      const std::size_t at = random() % bad.size();
      bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
      overwrite(path, bad);
      EXPECT_NE(open_refusal(dir / "step-3").find(name), std::string::npos) << name << " at " << at;
    }
    for (const std::size_t size : {std::size_t{0}, good.size() / 2, good.size() - 1}) {
      overwrite(path, good.substr(0, size));
      EXPECT_NE(open_refusal(dir / "step-3").find(name), std::string::npos) << name << " cut to " << size;
    }
    fs::remove(path);
    EXPECT_NE(open_refusal(dir / "step-3").find(name), std::string::npos);
    overwrite(path, good);
    EXPECT_EQ(open_refusal(dir / "step-3"), "");
  }
}

TEST(Checkpoint, TheDamagedTensorIsNamed) {
  const TempDir dir;
  CheckpointStore(dir.path()).save(TinyState(3).contents());
  for (const char* name : {"model.safetensors", "optim.safetensors"}) {
    const std::string path = dir / (std::string("step-3/") + name);
    const std::string good = read_file(path);
    const SafetensorsContent content = parse_safetensors(as_bytes(good), name);
    for (const TensorSpan& tensor : content.tensors) {
      std::string bad = good;
      const auto at = static_cast<std::size_t>(tensor.bytes.data() + tensor.bytes.size() - 1 - as_bytes(good).data());
      bad[at] = static_cast<char>(bad[at] ^ 64);
      overwrite(path, bad);
      EXPECT_NE(open_refusal(dir / "step-3").find("'" + tensor.name + "'"), std::string::npos) << tensor.name;
    }
    overwrite(path, good);
  }
}

TEST(Checkpoint, HostileManifestsAreRefused) {
  const TempDir dir;
  CheckpointStore(dir.path()).save(TinyState(3).contents());
  const std::string path = dir / "step-3/manifest.json";
  const Manifest good = parse_manifest(read_file(path), path);
  for (const char* name : {"../x", "/etc/passwd", "a/b", "..", ""}) {
    Manifest bad = good;
    bad.files[name] = {.size_bytes = 1, .sha256 = "00"};
    overwrite(path, write_manifest(bad));
    EXPECT_NE(open_refusal(dir / "step-3").find("plain file name"), std::string::npos) << name;
  }
  Manifest without = good;
  without.files.erase("state.json");
  overwrite(path, write_manifest(without));
  EXPECT_NE(open_refusal(dir / "step-3").find("state.json"), std::string::npos);
  Json newer = Json::parse(write_manifest(good));
  newer["format_version"] = kCheckpointFormatVersion + 1;
  EXPECT_THROW(parse_manifest(newer.dump(2) + "\n", path), Error);
}

TEST(Checkpoint, VerifyFindsValuesThatAreNotFinite) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  store.save(TinyState(3).contents());
  const VerifyReport good = verify_checkpoint(dir / "step-3");
  EXPECT_TRUE(good.problems.empty());
  EXPECT_EQ(good.num_tensors, static_cast<std::int64_t>(4 * TinyState(3).table().params.size()));
  EXPECT_EQ(good.num_values, 4 * TinyState(3).table().num_parameters);
  TinyState bad(4);
  bad.master()[5] = -std::numeric_limits<float>::infinity();
  bad.weights()[6] = {0x7FC1};
  store.save(bad.contents());
  const VerifyReport report = verify_checkpoint(dir / "step-4");
  ASSERT_EQ(report.problems.size(), 2U);
  EXPECT_NE(report.problems[0].find("'model.embed_tokens.weight'"), std::string::npos);
  EXPECT_NE(report.problems[1].find("'master.model.embed_tokens.weight'"), std::string::npos);
  EXPECT_EQ(verify_checkpoint(dir / "nothing").problems.size(), 1U);
}

TEST(Newest, IsChosenByStepAndSaysWhatItPassedOver) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  for (const int step : {9, 10, 100}) store.save(TinyState(step).contents());
  // Clocks do not matter: the newest is made the oldest.
  fs::last_write_time(dir / "step-100", fs::file_time_type::clock::now() - std::chrono::hours(48));
  fs::create_directory(dir / "step-007");
  fs::create_directory(dir / "step-500");  // never finished
  fs::create_directory(dir / "other");
  std::vector<std::string> report;
  EXPECT_EQ(find_newest_complete(dir.path(), report), dir / "step-100");
  ASSERT_EQ(report.size(), 1U);
  EXPECT_NE(report[0].find("step-500"), std::string::npos);
  std::string bytes = read_file(dir / "step-100/optim.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  overwrite(dir / "step-100/optim.safetensors", bytes);
  fs::rename(dir / "step-9", dir / "step-60");
  report.clear();
  EXPECT_EQ(find_newest_complete(dir.path(), report), dir / "step-10");
  ASSERT_EQ(report.size(), 3U);
  EXPECT_NE(report[1].find("optim.safetensors"), std::string::npos);
  EXPECT_NE(report[2].find("says step 9"), std::string::npos);
  report.clear();
  EXPECT_EQ(find_newest_complete(dir / "nothing", report), std::nullopt);
}

TEST(Store, ReplacesAFolderOfTheSameStep) {
  const TempDir dir;
  fs::create_directory(dir / "step-5");
  overwrite(dir / "step-5/half", "x");
  CheckpointStore store(dir.path());
  store.save(TinyState(5, 1).contents());
  EXPECT_TRUE(holds(open_checkpoint(dir / "step-5"), TinyState(5, 1).contents()));
  store.save(TinyState(5, 2).contents());
  EXPECT_TRUE(holds(open_checkpoint(dir / "step-5"), TinyState(5, 2).contents()));
  EXPECT_EQ(list_directory(dir.path()), (std::vector<std::string>{"latest", "step-5"}));
}

TEST(Store, StartCleansUpAfterKilledSaves) {
  const TempDir dir;
  CheckpointStore(dir.path()).save(TinyState(5).contents());
  fs::rename(dir / "step-5", dir / ".step-5.replaced");
  fs::create_directory(dir / ".step-6.saving");
  overwrite(dir / ".step-6.saving/x", "x");
  fs::create_directory(dir / ".step-4.deleted");
  fs::create_directory(dir / ".mine");
  const CheckpointStore store(dir.path());
  EXPECT_EQ(list_directory(dir.path()), (std::vector<std::string>{".mine", "latest", "step-5"}));
  EXPECT_EQ(open_refusal(dir / "step-5"), "");
}

TEST(Store, RetentionKeepsWhatTheRuleSaysAndForeignFolders) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  const TinyState state(1);  // contents are views of it
  CheckpointContents foreign = state.contents();
  foreign.lineage.run_id = "run-b";
  store.save(foreign);
  fs::create_directory(dir / "step-2");  // not readable as a checkpoint
  fs::create_directory(dir / "step-03");
  for (int step = 10; step <= 60; step += 10) {
    const TinyState saved(step);
    CheckpointContents contents = saved.contents();
    if (step != 30) contents.scores = {{"val_loss", step == 10 ? 2.0 : 3.0 + step}};  // 30 was not validated
    store.save(contents);
  }
  store.apply_retention({.keep_last = 2, .keep_every = 40, .keep_best = 1}, 60, "run-a");
  EXPECT_EQ(list_directory(dir.path()), (std::vector<std::string>{"latest", "step-03", "step-1", "step-10", "step-2",
                                                                  "step-40", "step-50", "step-60"}));
  // After going back to an earlier step, what was just saved stays although higher numbers exist.
  store.save(TinyState(45).contents());
  store.apply_retention({.keep_last = 1}, 45, "run-a");
  EXPECT_EQ(list_directory(dir.path()),
            (std::vector<std::string>{"latest", "step-03", "step-1", "step-2", "step-45", "step-60"}));
  store.apply_retention({}, 45, "run-a");
  EXPECT_TRUE(is_directory(dir / "step-60"));
}

TEST(AsyncSaver, SavesTheStateOfTheCall) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  TinyState state(1);
  const CheckpointContents contents = state.contents();
  std::vector<std::byte> staging(AsyncSaver::staging_bytes(contents));
  AsyncSaver saver(store, staging);
  const TinyState expected(1);
  saver.save(contents, {});
  for (bf16& w : state.weights()) w = {0};  // training goes on
  for (float& m : state.master()) m = 0.0f;
  saver.wait();
  EXPECT_TRUE(holds(open_checkpoint(dir / "step-1"), expected.contents()));
  EXPECT_LE(saver.last_stall_s(), saver.last_save_s());
  for (int step = 2; step <= 6; ++step) saver.save(TinyState(step).contents(), {.keep_last = 2});
  saver.wait();
  EXPECT_EQ(list_directory(dir.path()), (std::vector<std::string>{"latest", "step-5", "step-6"}));
  EXPECT_TRUE(holds(open_checkpoint(dir / "step-6"), TinyState(6).contents()));
}

TEST(AsyncSaver, WithoutStagingItSavesBeforeReturning) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  AsyncSaver saver(store, {});
  saver.save(TinyState(1).contents(), {});
  EXPECT_EQ(saver.saved_step(), 1);
  EXPECT_EQ(open_refusal(dir / "step-1"), "");
}

TEST(AsyncSaver, ErrorsReachTheCallerOnce) {
  const TempDir dir;
  CheckpointStore store(dir / "c");
  const TinyState state(1);
  const CheckpointContents contents = state.contents();
  std::vector<std::byte> staging(AsyncSaver::staging_bytes(contents));
  AsyncSaver saver(store, staging);
  CheckpointContents broken = contents;
  broken.state_json = "[";
  saver.save(broken, {});
  EXPECT_THROW(saver.wait(), Error);
  EXPECT_EQ(saver.saved_step(), -1);
  EXPECT_NO_THROW(saver.wait());
  saver.save(broken, {});
  EXPECT_THROW(saver.save(contents, {}), Error);
  saver.save(contents, {});
  saver.wait();
  EXPECT_EQ(open_refusal(dir / "c/step-1"), "");
}

}  // namespace
}  // namespace ida::checkpoint
