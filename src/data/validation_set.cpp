#include "data/validation_set.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"

namespace ida::data {

ValidationSet::ValidationSet(const TokenDataset& dataset, const PackingOptions& options)
    : dataset_(&dataset), options_(options) {
  options_.shuffle = false;
  options_.weights.clear();
  check_packing_options(options_, dataset);
  const PieceTable table = make_pieces(dataset, options_);
  std::int64_t all_rows = 0;
  for (std::size_t s = 0; s < dataset.source_names().size(); ++s) {
    plans_.push_back(plan_source(dataset, table, options_, static_cast<std::int32_t>(s)));
    all_rows += plans_.back().num_rows();
  }
  if (all_rows == 0) fail_usage("[data] valid: no trainable token in {} documents", dataset.num_documents());
}

void ValidationSet::rows(std::int32_t source, std::int64_t begin, std::int64_t count, Batch& batch) const {
  assert(source >= 0 && source < num_sources() && begin >= 0 && begin <= num_rows(source));
  const std::int64_t num = std::min(count, num_rows(source) - begin);
  reset_batch(batch, num, options_.seq_len);
  for (std::int64_t row = 0; row < num; ++row) {
    fill_row(*dataset_, plans_[static_cast<std::size_t>(source)], options_.packing, begin + row, batch, row);
  }
}

}  // namespace ida::data
