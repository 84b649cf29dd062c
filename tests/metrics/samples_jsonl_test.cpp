#include "metrics/samples_jsonl.h"

#include <gtest/gtest.h>

#include "temp_folder.h"

namespace ida::metrics {
namespace {

TEST(SamplesJsonl, RoundTripAndResume) {
  const TempFolder folder;
  const std::string path = folder.file("samples.jsonl");
  EXPECT_TRUE(read_samples(path).empty());
  {
    SamplesJsonl file(path, -1);
    file.write({10, "Once", " upon\n\"a\" time"});
    file.write({10, "Twice", "\xff"});
    file.write({20, "", "later"});
  }
  EXPECT_EQ(read_samples(path).size(), 3u);
  SamplesJsonl(path, 10).write({15, "x", "y"});
  const std::vector<Sample> expected = {{10, "Once", " upon\n\"a\" time"}, {10, "Twice", "\xEF\xBF\xBD"}, {15, "x", "y"}};
  EXPECT_EQ(read_samples(path), expected);
}

TEST(SamplesJsonl, SkipsWhatItCannotRead) {
  const TempFolder folder;
  const std::string path = folder.file("samples.jsonl");
  write_file_atomic(path, std::string_view("nonsense\n{\"step\":3,\"text\":7}\n{\"step\":4,\"text\":\"ok\"}\n{\"st"));
  const std::vector<Sample> expected = {{3, "", ""}, {4, "", "ok"}};
  EXPECT_EQ(read_samples(path), expected);
}

}  // namespace
}  // namespace ida::metrics
