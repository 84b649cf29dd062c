// The last record as a Prometheus text file (format 0.0.4), for the node exporter's textfile collector or any scraper
// that reads files. Replaced as a whole, so a scrape never meets half of it.
//
//   ida_train_step{run="demo"} 12
//   ida_train_val_loss{run="demo",key="val_loss/wiki"} 3.1
#pragma once
#include <string>

#include "metrics/record.h"

namespace ida::metrics {

// Family name: "ida_train_" and the key up to its first '/', other characters than [a-zA-Z0-9_] as '_'. Where that is
// not the whole key, the label `key` holds it, so two keys never make one sample. Step is a gauge, tokens a counter.
std::string to_prometheus_text(const MetricsRecord& record, const std::string& run);

class PrometheusFile : public MetricsSink {
 public:
  // At most one replacement every `interval_s` seconds; flush() writes the last record in any case.
  PrometheusFile(std::string path, std::string run, double interval_s = 5.0);
  void write(const MetricsRecord& record) override;
  void flush() override;

 private:
  std::string path_;
  std::string run_;
  double interval_s_;
  double last_write_s_;
  std::string pending_;  // not yet written, empty when all is
};

}  // namespace ida::metrics
