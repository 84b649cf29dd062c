// Steps of a small model on the GPU: the same bits in every repetition. Skipped without one.
#include "backend/cuda/cuda_backend.h"
#include "support/tiny_model.h"

namespace ida::testing {
namespace {

// Masters after three updates.
std::vector<float> trained_masters(const train::EngineSpec& spec, const data::Batch& batch, runtime::Device& device,
                                   const ops::Backend& backend) {
  train::Engine engine(spec, device, backend);
  engine.set_masters(random_masters(engine.table(), 7));
  for (std::int64_t step = 1; step <= 3; ++step) engine.update(step, 1e-2, engine.accumulate(batch).grad_norm);
  std::vector<float> masters(static_cast<std::size_t>(engine.table().total_elems));
  engine.read_buffer(engine.optimizer_state().master, masters.data());
  return masters;
}

// Both forms of attention: documents of one length take a library where there is one, packed ones the own kernels.
TEST(CudaDeterministic, RepetitionsHaveTheSameBits) {
  const cuda::CudaSearch search = cuda::detect_cuda();
  if (!search.device) GTEST_SKIP() << "no CUDA device: " << search.reason;
  const std::unique_ptr<runtime::Device> device = cuda::open_cuda(*search.device);
  const ops::Backend backend = cuda::make_cuda_backend(*search.device);
  constexpr std::int64_t kLen = 512;  // several blocks of keys, whose shares of a gradient are added
  model::ModelConfig config = tiny_config();
  config.max_position_embeddings = kLen;
  using Rows = std::vector<std::vector<std::int64_t>>;
  for (const Rows& rows : {Rows{{kLen}, {kLen}, {kLen}, {kLen}}, Rows{{200, 312}, {kLen}, {1, 500}, {kLen}}}) {
    const data::Batch batch = make_batch(rows, kLen, config.vocab_size, 2);
    train::EngineSpec spec;
    spec.model = config;
    spec.recipe = precision::recipe_by_name("bf16");
    spec.micro_batch_rows = 2;
    spec.seq_len = kLen;
    spec.deterministic = true;
    const std::vector<float> first = trained_masters(spec, batch, *device, backend);
    ASSERT_FALSE(first == random_masters(model::build_param_table(config), 7)) << "nothing was trained";
    for (int repeat = 0; repeat < 10; ++repeat) {
      ASSERT_TRUE(trained_masters(spec, batch, *device, backend) == first) << "repetition " << repeat;
    }
  }
}

}  // namespace
}  // namespace ida::testing
