#include "metrics/progress_line.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "temp_folder.h"

namespace ida::metrics {
namespace {

// What a ProgressLine wrote, through a file.
class Screen {
 public:
  Screen() : fd_(::open(folder_.file("screen").c_str(), O_RDWR | O_CREAT | O_APPEND, 0600)) {}
  ~Screen() { ::close(fd_); }
  int fd() const { return fd_; }
  std::string text() const { return read_file(folder_.file("screen")); }

 private:
  TempFolder folder_;
  int fd_;
};

Progress at(std::int64_t step) {
  return {.step = step,
          .num_steps = 600,
          .loss = 3.214,
          .tokens_per_s = 12345.0,
          .grad_norm = 0.871,
          .lr = 3e-4,
          .mfu_frac = {},
          .eta_s = {}};
}

TEST(FormatProgress, NamesEveryQuantity) {
  Progress progress = at(120);
  EXPECT_EQ(format_progress(progress), "step 120/600  loss 3.2140  12.3k tok/s  eta --  grad 0.871  lr 3.00e-04  mfu n/a");
  progress.eta_s = 92.0;
  progress.mfu_frac = 0.4567;
  progress.loss = std::nan("");
  EXPECT_EQ(format_progress(progress),
            "step 120/600  loss nan  12.3k tok/s  eta 1m32s  grad 0.871  lr 3.00e-04  mfu 45.7%");
}

TEST(FormatSi, ThreeDigits) {
  EXPECT_EQ(format_si(0), "0");
  EXPECT_EQ(format_si(7), "7");
  EXPECT_EQ(format_si(0.25), "0.25");
  EXPECT_EQ(format_si(999.4), "999");
  EXPECT_EQ(format_si(999.5), "1.00k");
  EXPECT_EQ(format_si(1630000), "1.63M");
  EXPECT_EQ(format_si(63.25e9), "63.2G");
  EXPECT_EQ(format_si(-12345), "-12.3k");
  EXPECT_EQ(format_si(INFINITY), "inf");
}

TEST(FormatDuration, Scales) {
  EXPECT_EQ(format_duration(0.4), "0s");
  EXPECT_EQ(format_duration(59.6), "1m00s");
  EXPECT_EQ(format_duration(185), "3m05s");
  EXPECT_EQ(format_duration(7620), "2h07m");
  EXPECT_EQ(format_duration(273600), "3d04h");
  EXPECT_EQ(format_duration(INFINITY), "--");
  EXPECT_EQ(format_duration(-1), "--");
}

TEST(ProgressLine, PlainOutputIsRareWholeLines) {
  const Screen screen;
  {
    ProgressLine line({.fd = screen.fd(), .terminal = {}, .terminal_interval_s = 0.1, .plain_interval_s = 10.0});
    for (int second = 0; second <= 25; ++second) line.update(at(100 + second), second);
    line.message("saved step-125");
    line.update(at(600), 25.5);
  }
  EXPECT_EQ(screen.text(),
            "step 100/600  loss 3.2140  12.3k tok/s  eta --  grad 0.871  lr 3.00e-04  mfu n/a\n"
            "step 110/600  loss 3.2140  12.3k tok/s  eta 8m10s  grad 0.871  lr 3.00e-04  mfu n/a\n"
            "step 120/600  loss 3.2140  12.3k tok/s  eta 8m00s  grad 0.871  lr 3.00e-04  mfu n/a\n"
            "saved step-125\n"
            "step 600/600  loss 3.2140  12.3k tok/s  eta 0s  grad 0.871  lr 3.00e-04  mfu n/a\n");
}

TEST(ProgressLine, TerminalLineRewritesItself) {
  const Screen screen;
  {
    ProgressLine line({.fd = screen.fd(), .terminal = true, .terminal_interval_s = 0.5, .plain_interval_s = 10.0});
    line.update(at(1), 0.0);
    line.update(at(2), 0.4);
    line.message("val_loss 3.1");
    line.update(at(3), 0.6);
  }
  EXPECT_EQ(screen.text(),
            "\rstep 1/600  loss 3.2140  12.3k tok/s  eta --  grad 0.871  lr 3.00e-04  mfu n/a\x1b[K"
            "\r\x1b[Kval_loss 3.1\n"
            "\rstep 3/600  loss 3.2140  12.3k tok/s  eta 2m59s  grad 0.871  lr 3.00e-04  mfu n/a\x1b[K\n");
}

TEST(ProgressLine, AClosedDescriptorDoesNotStopTheRun) {
  ProgressLine line({.fd = -1, .terminal = false, .terminal_interval_s = 0.1, .plain_interval_s = 0.0});
  line.update(at(1), 0.0);
  line.message("still here");
}

}  // namespace
}  // namespace ida::metrics
