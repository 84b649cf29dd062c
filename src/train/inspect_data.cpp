#include "train/inspect_data.h"

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "data/prepare_dataset.h"
#include "train/build_progress.h"
#include "train/run_folder.h"
#include "train/setup.h"

namespace ida::train {
namespace {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "ida-train-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr)
      fail_runtime("{}: a temporary folder cannot be made; set TMPDIR to a writable folder", path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

data::DecodeFn decoder_of(const text::Tokenizer& tokenizer) {
  return [&tokenizer](std::span<const std::int32_t> ids) { return tokenizer.decode(ids); };
}

DataReport counts_of(const data::TokenDataset& dataset) {
  DataReport report;
  report.text = data::describe_dataset(dataset);
  report.documents = dataset.num_documents();
  report.tokens = dataset.num_tokens();
  report.masked_tokens = data::count_masked_tokens(dataset);
  report.vocab_size = dataset.vocab_size();
  report.sources = dataset.source_names();
  return report;
}

}  // namespace

DataReport inspect_shard(const std::string& shard, const std::string& tokenizer_path, const data::InspectOptions& options) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(tokenizer_path);
  const data::TokenDataset dataset = data::TokenDataset::open({shard});
  if (dataset.tokenizer_hash() != tokenizer.content_hash())
    fail_usage("{}: was made by another tokenizer than {} (hash {}, expected {})", shard, tokenizer_path,
               dataset.tokenizer_hash(), tokenizer.content_hash());
  DataReport report = counts_of(dataset);
  for (std::int64_t i = 0; i < std::min(options.max_rows, dataset.num_documents()); ++i)
    report.text += data::render_document(dataset, i, decoder_of(tokenizer), options);
  return report;
}

DataReport inspect_run_data(const config::RunConfig& config, const data::InspectOptions& options) {
  const TemporaryFolder folder;
  config::RunConfig local = config;
  local.run.dir = folder.path();
  const std::string own_tokenizer = tokenizer_folder(run_dir(config));
  const bool given = config.tokenizer.path || config.model.path;
  if (!given && is_regular_file(own_tokenizer + "/tokenizer.json")) local.tokenizer.path = own_tokenizer;
  const text::Tokenizer tokenizer =
      resolve_tokenizer(local, [](std::string_view line) { fmt::print(stderr, "{}\n", line); });
  const data::TokenizerEncoder<text::Tokenizer> encoder(tokenizer);
  BuildProgressLine progress("training data");
  data::BuildOptions build = build_options_of(local);
  build.progress = [&](const data::BuildReport& so_far) { progress.update(so_far); };
  const data::PreparedData prepared =
      data::prepare_dataset(local.data.train, encoder, folder.path() + "/train.shard", build);
  DataReport report = counts_of(prepared.dataset);
  data::PackingOptions packing = packing_of(local);
  packing.weights = prepared.source_weights(local.data.weights);
  data::BatchStream stream(prepared.dataset, packing);
  report.text += data::describe_stream(stream);
  report.rows_per_epoch = stream.rows_per_epoch();
  report.fill_rate = stream.fill_rate();
  if (options.max_rows > 0)
    report.text += data::render_batch(stream.next(options.max_rows), prepared.dataset, decoder_of(tokenizer), options);
  return report;
}

}  // namespace ida::train
