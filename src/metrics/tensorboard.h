// TensorBoard events, written by hand: TFRecord framing around protobuf messages of four fields.
//
//   record  = u64 length | u32 masked_crc32c(length bytes) | data | u32 masked_crc32c(data)       (little endian)
//   Event   = 1 wall_time double, 2 step int64, 3 file_version string, 5 Summary, 7 SessionLog
//   Summary = repeated 1 Value;  Value = 1 tag string, 2 simple_value float, 8 TensorProto, 9 SummaryMetadata
//
// Each start of a run writes a new file; after a resume a SessionLog START event tells TensorBoard to drop what earlier
// files hold beyond the resumed step.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "metrics/append_file.h"
#include "metrics/record.h"

namespace ida::metrics {

class TensorBoardEvents : public MetricsSink {
 public:
  // Creates events.out.tfevents.<unix time>.<host>.<pid>.<n> in `folder`. `resume_step` -1: a fresh run.
  TensorBoardEvents(const std::string& folder, std::int64_t resume_step);

  // One scalar per value, in single precision, the tag being the key. NaN and infinities are stored as such:
  // TensorBoard marks them in the plot.
  void write(const MetricsRecord& record) override;
  void flush() override { file_->sync(); }
  // A page of the text panel: the resolved config, a sample.
  void write_text(std::string_view tag, std::string_view text, std::int64_t step);

  const std::string& path() const { return file_->path(); }

 private:
  std::unique_ptr<AppendFile> file_;
};

}  // namespace ida::metrics
