#include "metrics/prometheus.h"

#include <gtest/gtest.h>

#include <limits>

#include "temp_folder.h"

namespace ida::metrics {
namespace {

TEST(Prometheus, OneTypeLineAFamilyAndNoSampleTwice) {
  MetricsRecord record{.step = 12, .tokens = 98304, .values = {}};
  record.set("val_loss", 3.5);
  record.set("lr", 3e-4);
  record.set("val_loss/wiki-en", 3.25);
  record.set("val-loss", 9.0);
  record.set("loss", std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(to_prometheus_text(record, "a\"b\\c\nd"),
            "# TYPE ida_train_step gauge\n"
            "ida_train_step{run=\"a\\\"b\\\\c\\nd\"} 12\n"
            "# TYPE ida_train_tokens_total counter\n"
            "ida_train_tokens_total{run=\"a\\\"b\\\\c\\nd\"} 98304\n"
            "# TYPE ida_train_val_loss gauge\n"
            "ida_train_val_loss{run=\"a\\\"b\\\\c\\nd\"} 3.5\n"
            "ida_train_val_loss{run=\"a\\\"b\\\\c\\nd\",key=\"val_loss/wiki-en\"} 3.25\n"
            "ida_train_val_loss{run=\"a\\\"b\\\\c\\nd\",key=\"val-loss\"} 9\n"
            "# TYPE ida_train_lr gauge\n"
            "ida_train_lr{run=\"a\\\"b\\\\c\\nd\"} 3e-04\n"
            "# TYPE ida_train_loss gauge\n"
            "ida_train_loss{run=\"a\\\"b\\\\c\\nd\"} NaN\n");
}

TEST(Prometheus, RewritesAtABoundedRate) {
  const TempFolder folder;
  const std::string path = folder.file("run.prom");
  PrometheusFile sink(path, "demo", 3600.0);
  MetricsRecord record;
  record.step = 1;
  sink.write(record);
  const std::string first = read_file(path);
  EXPECT_NE(first.find("ida_train_step{run=\"demo\"} 1\n"), std::string::npos);
  record.step = 2;
  sink.write(record);
  EXPECT_EQ(read_file(path), first);
  sink.flush();
  EXPECT_NE(read_file(path).find("ida_train_step{run=\"demo\"} 2\n"), std::string::npos);
  EXPECT_EQ(list_directory(folder.path()).size(), 1u);
}

}  // namespace
}  // namespace ida::metrics
