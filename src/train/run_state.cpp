#include "train/run_state.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/weights.h"
#include "model/hf_config.h"

namespace ida::train {
namespace {

using Json = nlohmann::json;

template <typename T>
void append_spans(const model::ParamTable& table, const void* memory, const std::string& prefix,
                  std::vector<checkpoint::TensorSpan>& out) {
  const std::span<const T> flat(static_cast<const T*>(memory), static_cast<std::size_t>(table.total_elems));
  for (checkpoint::TensorSpan& span : checkpoint::tensor_spans(table, flat, prefix)) out.push_back(std::move(span));
}

class Snapshot {
 public:
  Snapshot(Engine& engine, std::vector<std::vector<std::byte>>& staging) : engine_(engine), staging_(staging) {
    staging_.clear();
  }

  void append(const TensorView& buffer, const std::string& prefix, std::vector<checkpoint::TensorSpan>& out) {
    const void* memory = engine_.device().host_address(buffer.data);
    if (memory == nullptr) {
      staging_.emplace_back(static_cast<std::size_t>(buffer.size_bytes()));
      engine_.read_buffer(buffer, staging_.back().data());
      memory = staging_.back().data();
    }
    if (buffer.dtype == DType::kF32) {
      append_spans<float>(engine_.table(), memory, prefix, out);
    } else {
      append_spans<bf16>(engine_.table(), memory, prefix, out);
    }
  }

 private:
  Engine& engine_;
  std::vector<std::vector<std::byte>>& staging_;
};

// Tensor by tensor: a second copy of the state would not fit beside the plan.
void load_buffer(Engine& engine, const checkpoint::SafetensorsFile& file, const std::string& prefix,
                 const TensorView& buffer) {
  auto* memory = static_cast<std::byte*>(buffer.data);
  checkpoint::for_each_param(
      file, engine.table(), prefix, buffer.dtype, [&](std::int64_t offset_bytes, std::span<const std::byte> bytes) {
        engine.device().copy_to_device(memory + offset_bytes, bytes.data(), static_cast<std::int64_t>(bytes.size()));
      });
}

}  // namespace

std::string write_run_state(const RunState& s) {
  const Json json = {{"updates", s.updates},
                     {"tokens", s.tokens},
                     {"skipped", s.skipped},
                     {"rollbacks", s.rollbacks},
                     {"rng", {{"seed", s.seed}}},
                     {"data", {{"epoch", s.cursor.epoch}, {"row", s.cursor.row}, {"plan_hash", s.data_plan_hash}}},
                     {"elapsed_s", s.elapsed_s},
                     {"gate_window", s.gate_window},
                     {"counters",
                      {{"calls", s.counters.calls},
                       {"fallbacks", s.counters.fallbacks},
                       {"ops", s.op_calls},
                       {"gemm_flops", s.gemm_flops}}}};
  return json.dump();
}

RunState parse_run_state(std::string_view text, std::string_view origin) {
  RunState s;
  try {
    const Json json = Json::parse(text);
    s.step = json.at("step").get<std::int64_t>();
    s.updates = json.at("updates").get<std::int64_t>();
    s.tokens = json.at("tokens").get<std::int64_t>();
    s.skipped = json.at("skipped").get<std::int64_t>();
    s.rollbacks = json.at("rollbacks").get<std::int64_t>();
    s.seed = json.at("rng").at("seed").get<std::uint64_t>();
    s.cursor.epoch = json.at("data").at("epoch").get<std::int64_t>();
    s.cursor.row = json.at("data").at("row").get<std::int64_t>();
    s.data_plan_hash = json.at("data").at("plan_hash").get<std::string>();
    s.elapsed_s = json.at("elapsed_s").get<double>();
    s.gate_window = json.at("gate_window").get<std::deque<double>>();
    const Json& counters = json.at("counters");
    s.counters.calls = counters.at("calls").get<decltype(s.counters.calls)>();
    s.counters.fallbacks = counters.at("fallbacks").get<decltype(s.counters.fallbacks)>();
    s.op_calls = counters.at("ops").get<decltype(s.op_calls)>();
    s.gemm_flops = counters.at("gemm_flops").get<double>();
  } catch (const Json::exception& error) {
    fail_corrupt("{}: not the state of a run: {}", origin, error.what());
  }
  return s;
}

checkpoint::CheckpointContents checkpoint_contents(Engine& engine, const RunState& state,
                                                   std::vector<std::vector<std::byte>>& staging) {
  checkpoint::CheckpointContents contents;
  contents.step = state.step;
  Snapshot snapshot(engine, staging);
  const optim::OptimizerState& optimizer = engine.optimizer_state();
  snapshot.append(engine.buffers().weights, "", contents.weights);
  if (optimizer.master.data != engine.buffers().weights.data) snapshot.append(optimizer.master, "master.", contents.optim);
  snapshot.append(optimizer.m, "exp_avg.", contents.optim);
  if (!optimizer.v.empty()) snapshot.append(optimizer.v, "exp_avg_sq.", contents.optim);
  contents.config_json = model::write_hf_config(engine.spec().model);
  contents.state_json = write_run_state(state);
  return contents;
}

void load_engine(Engine& engine, const checkpoint::Checkpoint& source) {
  const optim::OptimizerState& optimizer = engine.optimizer_state();
  if (source.optim() == nullptr)
    fail_corrupt("{}: optim.safetensors is missing; a run cannot resume from weights alone", source.dir());
  load_buffer(engine, source.weights(), "", engine.buffers().weights);
  if (optimizer.master.data != engine.buffers().weights.data)
    load_buffer(engine, *source.optim(), "master.", optimizer.master);
  load_buffer(engine, *source.optim(), "exp_avg.", optimizer.m);
  if (!optimizer.v.empty()) load_buffer(engine, *source.optim(), "exp_avg_sq.", optimizer.v);
}

}  // namespace ida::train
