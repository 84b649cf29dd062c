// verify formats and probe cliff.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "program.h"

namespace ida::app_test {
namespace {

struct Stored {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

std::string safetensors(const std::vector<Stored>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string body;
  for (const Stored& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {body.size(), body.size() + tensor.bytes.size()}}};
    body += tensor.bytes;
  }
  const std::string text = header.dump();
  const std::uint64_t size = text.size();
  std::string file(sizeof size, '\0');
  std::memcpy(file.data(), &size, sizeof size);
  return file + text + body;
}

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// 1 x 33: a block of 32 that holds 6 and 1, and a block of one element, -0.3.
std::vector<Stored> small_case() {
  std::vector<float> x(33, 0.0f);
  x[0] = 6.0f, x[1] = 1.0f, x[32] = -0.3f;
  std::string codes(33, '\0');
  codes[0] = 7, codes[1] = 2, codes[32] = 0xE;  // 4.8 of 0.3 / 2^-4 is nearest to 4
  return {{"a.b.x", "F32", {1, 33}, floats(x)},
          {"a.b.mxfp4.ceil.q", "U8", {1, 33}, codes},
          {"a.b.mxfp4.ceil.scale_ue8m0", "U8", {1, 2}, std::string("\x7F\x7B")}};
}

const std::string& golden_file() {
  static const std::string path = golden_dir("quant.safetensors");
  return path;
}

TEST(VerifyFormats, TheGoldenFileIsEqualInEveryBit) {
  const Workspace space;
  const Outcome outcome = space.run({"verify", "formats", golden_file(), "--out", "f.json"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const nlohmann::json figures = read_json(space / "f.json");
  EXPECT_EQ(figures["passed"], true);
  EXPECT_EQ(figures["checks"].size(), 24u);
  std::int64_t codes = 0;
  for (const nlohmann::json& check : figures["checks"]) codes += check["codes"].get<std::int64_t>();
  EXPECT_EQ(codes, 6 * 128 * (8 + 64 + 32 + 32));
}

TEST(VerifyFormats, AnyFileOfTheNamingWorks) {
  const Workspace space;
  space.write("small.safetensors", safetensors(small_case()));
  const Outcome outcome = space.run({"verify", "formats", "small.safetensors"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("a.b.mxfp4.ceil"), std::string::npos);
}

TEST(VerifyFormats, AWrongCodeOrScaleIsCountedAndPlaced) {
  const Workspace space;
  std::vector<Stored> tensors = small_case();
  tensors[1].bytes[1] = 3;
  tensors[1].bytes[4] = 1;
  space.write("code.safetensors", safetensors(tensors));
  Outcome outcome = space.run({"verify", "formats", "code.safetensors", "--out", "f.json"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.out.find("2 of 33 codes and 0 of 2 scales differ"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("code [0, 1] of 1: expected 0x03, got 0x02"), std::string::npos) << outcome.out;
  EXPECT_EQ(read_json(space / "f.json")["passed"], false);

  tensors = small_case();
  tensors[2].bytes[1] = 0x7C;
  space.write("scale.safetensors", safetensors(tensors));
  outcome = space.run({"verify", "formats", "scale.safetensors"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.out.find("scale [0, 1]: expected 0x7c, got 0x7b"), std::string::npos) << outcome.out;

  std::vector<Stored> nvfp4 = {{"s.x", "F32", {1, 1}, floats({2688.0f})},
                               {"s.nvfp4.two_level.q", "U8", {1, 1}, "\x07"},
                               {"s.nvfp4.two_level.scale_e4m3", "U8", {1, 1}, "\x7E"},
                               {"s.nvfp4.two_level.global", "F32", {1}, floats({1.5f})}};
  space.write("global.safetensors", safetensors(nvfp4));
  outcome = space.run({"verify", "formats", "global.safetensors"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.out.find("tensor scale: expected 1.5, got 1"), std::string::npos) << outcome.out;
}

TEST(VerifyFormats, WhatIsNotOfTheFormIsCorrupt) {
  const Workspace space;
  const auto refused = [&](const auto& change, const std::vector<std::string>& parts) {
    std::vector<Stored> tensors = small_case();
    change(tensors);
    space.write("bad.safetensors", safetensors(tensors));
    expect_refused(space.run({"verify", "formats", "bad.safetensors"}), 4, parts);
  };
  refused([](auto& t) { t[1].name = "a.b.mxfp5.ceil.q"; }, {"a.b.mxfp5.ceil.q", "mxfp4"});
  refused([](auto& t) { t[1].name = "a.b.mxfp4.round.q"; }, {"a.b.mxfp4.round.q"});
  refused([](auto& t) { t[2].name = "a.b.mxfp4.ceil.scale_e4m3"; }, {"scale_e4m3"});
  refused([](auto& t) { t.erase(t.begin()); }, {"a.b.x"});
  refused([](auto& t) { t.pop_back(); }, {"a.b.mxfp4.ceil.scale_ue8m0"});
  refused([](auto& t) { t[0].shape = {33}; }, {"a.b.x", "[33]"});
  refused([](auto& t) { t[1].shape = {33, 1}; }, {"a.b.mxfp4.ceil.q", "[33, 1]", "[1, 33]"});
  refused([](auto& t) { t[2].dtype = "F8_E8M0"; }, {"F8_E8M0", "U8"});
  refused([](auto& t) { t.resize(1); }, {"nothing to compare"});
  expect_refused(space.run({"verify", "formats", "absent.safetensors"}), 2, {"absent.safetensors", "no such file"});
}

double error_at(const nlohmann::json& figures, std::size_t row, const char* key = "relative_error") {
  return figures["rows"][row][key].get<double>();
}

nlohmann::json cliff(const std::vector<std::string>& options) {
  const Workspace space;
  std::vector<std::string> arguments = {"probe", "cliff", "--out", "c.json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const Outcome outcome = space.run(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return read_json(space / "c.json");
}

// Errors of Gaussian values by an independent simulation; bars are its sampling error and that of rounding the figures.
TEST(ProbeCliff, SingleLevelNvfp4LosesEverythingAtAThousandth) {
  const nlohmann::json figures = cliff({"--format", "nvfp4"});
  ASSERT_EQ(figures["rows"].size(), 8u);
  EXPECT_NEAR(error_at(figures, 0), 0.0951, 5e-4);
  EXPECT_NEAR(error_at(figures, 2), 0.1255, 2e-3);
  for (std::size_t row = 3; row < 8; ++row) {
    EXPECT_EQ(error_at(figures, row), 1.0);
    EXPECT_EQ(error_at(figures, row, "zero_fraction"), 1.0);
  }
}

TEST(ProbeCliff, PrescaleAndTwoLevelsHaveNoCliff) {
  for (const char* option : {"--prescale", "--two-level"}) {
    const nlohmann::json figures = cliff({"--format", "nvfp4", option});
    for (std::size_t row = 0; row < 8; ++row) EXPECT_NEAR(error_at(figures, row), 0.095, 1e-3) << option << row;
  }
  for (const char* format : {"mxfp8", "mxfp4"}) {
    const nlohmann::json figures = cliff({"--format", format});
    for (std::size_t row = 1; row < 8; ++row) EXPECT_NEAR(error_at(figures, row), error_at(figures, 0), 0.02) << format;
  }
}

TEST(ProbeCliff, OutliersDefeatThePrescaleAndNotTwoLevels) {
  const nlohmann::json prescaled = cliff({"--format", "nvfp4", "--prescale", "--outliers"});
  // The largest outlier decides the factor, so how much is lost depends on its place within a binade: most, or all.
  EXPECT_NEAR(error_at(prescaled, 5, "inlier_relative_error"), 0.78, 0.01);
  EXPECT_NEAR(error_at(prescaled, 5, "inlier_zero_fraction"), 0.74, 0.01);
  for (std::size_t row = 0; row < 8; ++row) {
    EXPECT_GT(error_at(prescaled, row, "inlier_relative_error"), 0.75);
    EXPECT_GT(error_at(prescaled, row, "inlier_zero_fraction"), 0.7);
  }
  const nlohmann::json two_level = cliff({"--format", "nvfp4", "--two-level", "--outliers"});
  for (std::size_t row = 0; row < 8; ++row) EXPECT_NEAR(error_at(two_level, row, "inlier_relative_error"), 0.096, 1e-3);
}

TEST(ProbeCliff, RefusesWhatItDoesNotKnow) {
  const Workspace space;
  expect_refused(space.run({"probe", "cliff", "--format", "nvfp5"}), 2, {"nvfp5", "nvfp4"});
  expect_refused(space.run({"probe", "cliff", "--format", "mxfp8", "--two-level"}), 2, {"--two-level", "mxfp8"});
  expect_refused(space.run({"probe", "--all"}), 2, {"unknown option --all"});
  expect_refused(space.run({"probe"}), 2, {"no command given", "cliff"});
}

}  // namespace
}  // namespace ida::app_test
