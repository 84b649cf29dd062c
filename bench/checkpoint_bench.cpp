// checkpoint_bench FOLDER MIB REPEATS: speed of saving and of opening a checkpoint of that size, and of its parts. Prints
// JSON; the files of the last save stay in FOLDER, for bench/peers/safetensors_speed.py.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/rng.h"
#include "checkpoint/store.h"

namespace {

using namespace ida;

struct Times {
  double wall_s = 0.0;
  double cpu_s = 0.0;  // of this process: what other work on the machine does not change
};

// Medians.
Times measure(int repeats, const std::function<void()>& work) {
  std::vector<double> wall, cpu;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu_start = std::clock();
    work();
    wall.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    cpu.push_back(static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC);
  }
  std::sort(wall.begin(), wall.end());
  std::sort(cpu.begin(), cpu.end());
  return {wall[wall.size() / 2], cpu[cpu.size() / 2]};
}

// One part bf16 weights, six parts f32 state (master and two moments): what a bf16 run saves.
checkpoint::CheckpointContents contents_of(const std::vector<float>& values) {
  checkpoint::CheckpointContents contents;
  contents.step = 1;
  contents.config_json = "{}";
  const auto bytes = std::as_bytes(std::span(values));
  constexpr std::size_t kTensors = 28;  // of each kind
  const std::size_t part = bytes.size() / 7 / kTensors / 4 * 4;
  const auto add = [&](std::vector<checkpoint::TensorSpan>& to, checkpoint::StoredDType dtype, const std::string& prefix,
                       std::size_t kind, std::size_t width, std::int64_t value_bytes) {
    for (std::size_t i = 0; i < kTensors; ++i)
      to.push_back({.name = fmt::format("{}layers.{}.weight", prefix, i),
                    .dtype = dtype,
                    .shape = {static_cast<std::int64_t>(part * width) / value_bytes},
                    .bytes = bytes.subspan((kind * kTensors + i * width) * part, part * width)});
  };
  add(contents.weights, checkpoint::StoredDType::kBF16, "", 0, 1, 2);
  add(contents.optim, checkpoint::StoredDType::kF32, "master.", 1, 2, 4);
  add(contents.optim, checkpoint::StoredDType::kF32, "exp_avg.", 3, 2, 4);
  add(contents.optim, checkpoint::StoredDType::kF32, "exp_avg_sq.", 5, 2, 4);
  return contents;
}

void write_and_sync(const std::string& path, const checkpoint::CheckpointContents& contents) {
  const FileOps& ops = file_ops();
  const int fd = ops.open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (const auto* tensors : {&contents.weights, &contents.optim})
    for (const checkpoint::TensorSpan& tensor : *tensors)
      for (std::size_t at = 0; at < tensor.bytes.size();)
        at += static_cast<std::size_t>(ops.write(fd, tensor.bytes.data() + at, tensor.bytes.size() - at));
  ops.fsync(fd);
  ops.close(fd);
}

template <typename Work>
void for_each_tensor(const checkpoint::CheckpointContents& contents, const Work& work) {
  for (const auto* tensors : {&contents.weights, &contents.optim})
    for (const checkpoint::TensorSpan& tensor : *tensors) work(tensor.bytes);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: checkpoint_bench FOLDER MIB REPEATS\n");
    return 2;
  }
  const std::string folder = argv[1];
  const int repeats = std::atoi(argv[3]);
  std::vector<float> values((static_cast<std::size_t>(std::atoll(argv[2])) << 20) / sizeof(float));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = normal_at(1, 0, i % 65536);
  const checkpoint::CheckpointContents contents = contents_of(values);
  double bytes = 0.0;
  for_each_tensor(contents, [&](std::span<const std::byte> tensor) { bytes += static_cast<double>(tensor.size()); });

  checkpoint::CheckpointStore store(folder + "/checkpoints");
  const Times save = measure(repeats, [&] { store.save(contents); });
  const Times write = measure(repeats, [&] { write_and_sync(folder + "/plain", contents); });
  remove_file(folder + "/plain");
  const Times hash = measure(repeats, [&] {
    Sha256 sha256;
    for_each_tensor(contents, [&](std::span<const std::byte> tensor) { sha256.update(tensor); });
    sha256.hex();
  });
  std::size_t digits = 0;
  const Times checksum = measure(repeats, [&] {
    for_each_tensor(contents,
                    [&](std::span<const std::byte> tensor) { digits += checkpoint::tensor_checksum(tensor).size(); });
  });
  std::vector<std::byte> loaded(values.size() * sizeof(float));
  const Times load = measure(repeats, [&] {
    const checkpoint::Checkpoint stored = checkpoint::open_checkpoint(folder + "/checkpoints/step-1");
    std::size_t at = 0;
    for (const checkpoint::SafetensorsFile* file : {&stored.weights(), stored.optim()})
      for (const checkpoint::TensorSpan& tensor : file->tensors()) {
        std::memcpy(loaded.data() + at, tensor.bytes.data(), tensor.bytes.size());
        at += tensor.bytes.size();
      }
  });
  nlohmann::json figures = {
      {"bytes", bytes}, {"repeats", repeats}, {"tensors", digits / 16 / static_cast<std::size_t>(repeats)}};
  const auto add = [&](const char* name, const Times& times) {
    figures[name] = {{"mb_per_s", bytes / times.wall_s / 1e6}, {"wall_s", times.wall_s}, {"cpu_s", times.cpu_s}};
  };
  add("save", save);
  add("verified_load", load);
  add("plain_write_and_fsync", write);
  add("sha256", hash);
  add("tensor_checksums", checksum);
  figures["sha256_share_of_save_cpu"] = hash.cpu_s / save.cpu_s;
  figures["sha256_share_of_save_wall"] = hash.wall_s / save.wall_s;
  fmt::print("{}\n", figures.dump(2));
  return 0;
}
