#include "report/report.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/error.h"
#include "base/file.h"
#include "report/engines.h"
#include "report/summary.h"

namespace ida::report {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class ReportTest : public testing::Test {
 protected:
  ReportTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ida-report-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    dir_ = root_ + "/demo";
    make_directories(dir_);
  }
  ~ReportTest() override { remove_tree(root_); }

  void put(const std::string& name, std::string_view text) { write_file_atomic(dir_ + "/" + name, text); }
  std::string page() { return read_file(write_report(dir_)); }

  void put_metrics(std::int64_t num_steps) {
    metrics::MetricsJsonl sink(dir_ + "/metrics.jsonl", -1);
    for (std::int64_t step = 1; step <= num_steps; ++step) {
      metrics::MetricsRecord record{.step = step, .tokens = step * 4096, .values = {}};
      record.set(metrics::kLoss, 8.0 / static_cast<double>(step));
      record.set(metrics::kLr, 1e-3);
      record.set(metrics::kGradNorm, 1.0);
      record.set(metrics::kTokensPerSecond, step == 1 ? 10.0 : 2000.0);
      record.set(metrics::kElapsed, 2.0 * static_cast<double>(step));
      if (step % 5 == 0) {
        record.set(metrics::kValLoss, 9.0 / static_cast<double>(step));
        record.set(metrics::kValBitsPerByte, 1.25);
        record.set("val_loss/wiki", 3.0);
        record.set("val_loss/code<x>", 2.0);
      }
      sink.write(record);
    }
  }

  evidence::EvidenceRecord record() {
    evidence::EvidenceRecord made;
    made.run.name = "demo";
    made.run.status = "done";
    made.run.steps = 20;
    made.run.parameters = 31470000;
    made.run.recipe = "bf16";
    made.run.argv = {"ida-train", "train", "<demo>.toml"};
    made.precision = {.compute = "bf16", .master = "fp32", .inference = "bf16 weights"};
    made.modules["qkv"].engines["cpu.onednn.bf16"] = 1200;
    return made;
  }

  std::string root_;
  std::string dir_;
};

// Balanced tags, quoted attributes and no bare '<' or '&': what an XML parser asks for.
void expect_well_formed(std::string page) {
  ASSERT_EQ(page.rfind("<!DOCTYPE html>\n", 0), 0u);
  page.erase(0, 16);
  const std::regex tag(R"re(^<(/?)([a-z][a-z0-9]*)((?: [a-zA-Z0-9-]+="[^"<]*")*)(/?)>)re");
  const std::regex entity("^&(amp|lt|gt|quot|#39);");
  std::vector<std::string> open;
  for (std::size_t at = 0; at < page.size(); ++at) {
    if (page[at] != '<' && page[at] != '&') continue;
    // Long texts would cost the regular expression its stack.
    const std::string rest = page.substr(at, page[at] == '&' ? 8 : page.find('>', at) - at + 1);
    std::smatch match;
    if (page[at] == '&') {
      ASSERT_TRUE(std::regex_search(rest, match, entity)) << rest;
      continue;
    }
    if (rest.rfind("<polyline", 0) == 0) {
      ASSERT_EQ(rest.substr(rest.size() - 2), "/>");
      continue;
    }
    ASSERT_TRUE(std::regex_search(rest, match, tag)) << rest;
    if (match[4].length() > 0) continue;
    if (match[1].length() == 0) {
      open.push_back(match[2]);
      continue;
    }
    ASSERT_FALSE(open.empty());
    ASSERT_EQ(open.back(), match[2]);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

void expect_self_contained(const std::string& page) {
  for (const char* part : {"http", "src=", "href=", "url(", "@import", "<script", "<link", "<img"})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
}

void expect_parts(const std::string& page, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
}

TEST_F(ReportTest, AWholeRun) {
  put_metrics(20);
  put("config.resolved.toml", "[run]\nname = \"demo\"  # <default> & more\n");
  put("samples.jsonl", R"({"step":10,"prompt":"Once <b>","text":" & then"})"
                       "\n");
  write_evidence(record(), dir_ + "/evidence.json");
  const std::string text = page();
  expect_well_formed(text);
  expect_self_contained(text);
  expect_parts(text, {"<title>demo - ida-train</title>",
                      "<div class=\"value\">0.4000</div><div class=\"name\">training loss, last</div>",
                      "<div class=\"value\">8.0000</div><div class=\"name\">training loss, first</div>",
                      "<div class=\"value\">0.4500</div><div class=\"name\">validation loss</div>",
                      "<div class=\"value\">1.2500</div><div class=\"name\">bits per byte</div>",
                      "<div class=\"value\">81.9k</div><div class=\"name\">tokens</div>",
                      "<div class=\"value\">2.00k</div><div class=\"name\">tokens per second</div>",
                      "<div class=\"value\">40s</div><div class=\"name\">time</div>",
                      "<div class=\"value\">31.5M</div><div class=\"name\">parameters</div>",
                      "aria-label=\"Loss, nats per token\"",
                      "aria-label=\"Learning rate\"",
                      "aria-label=\"Gradient norm before clipping\"",
                      "aria-label=\"Tokens per second\"",
                      "aria-label=\"Validation loss by source\"",
                      "code&lt;x&gt;, last 2",
                      "1,200 matrix products ran, all on cpu.onednn.bf16: oneDNN on the CPU, bf16 operands.",
                      "no fallback",
                      "<th>weights between updates</th><td>fp32</td>",
                      "<th>weights handed out</th><td>bf16 weights</td>",
                      "<th>compute</th><td>bf16</td>",
                      "<span class=\"prompt\">Once &lt;b&gt;</span> &amp; then</pre>",
                      "name = &quot;demo&quot;  # &lt;default&gt; &amp; more",
                      "<th>command</th><td>ida-train train &lt;demo&gt;.toml</td>"});
  EXPECT_EQ(text.find("class=\"bad\""), std::string::npos);
}

TEST_F(ReportTest, OneStepAndNoOptionalFile) {
  put_metrics(1);
  const std::string text = page();
  expect_well_formed(text);
  expect_parts(text, {"<h1>demo</h1>", "status unknown", "what executed is not known", "config.resolved.toml is not there",
                      "<circle", "<div class=\"value\">n/a</div><div class=\"name\">validation loss</div>"});
  EXPECT_EQ(text.find("<h2>Samples</h2>"), std::string::npos);
}

TEST_F(ReportTest, ZeroSteps) {
  put("config.resolved.toml", "[run]\n");
  write_evidence(evidence::EvidenceRecord{}, dir_ + "/evidence.json");
  for (int i = 0; i < 2; ++i) {
    const std::string text = page();
    expect_well_formed(text);
    expect_parts(text, {"No step was recorded", "No matrix product ran.", "<h1>demo</h1>"});
    put("metrics.jsonl", "");
  }
}

TEST_F(ReportTest, ATornLastLineIsSaid) {
  put_metrics(6);
  put("metrics.jsonl", read_file(dir_ + "/metrics.jsonl") + "{\"step\":7,\"tokens\":2867");
  const std::string text = page();
  expect_well_formed(text);
  expect_parts(text, {"metrics.jsonl: 1 line(s) could not be read", "training loss, last"});
  EXPECT_EQ(summarise_run(dir_).steps, 6);
}

TEST_F(ReportTest, DamagedEvidenceIsSaid) {
  put_metrics(2);
  put("evidence.json", "{\"version\":1,\"engines\":{\"x<y>\":3}}");
  const std::string text = page();
  expect_well_formed(text);
  expect_parts(text, {"modules add up to", "what executed is not known"});
  EXPECT_EQ(text.find("<y>"), std::string::npos);
}

TEST_F(ReportTest, ValuesThatAreNotFiniteAreSaid) {
  {
    metrics::MetricsJsonl sink(dir_ + "/metrics.jsonl", -1);
    for (const std::int64_t step : {1, 2, 3}) {
      metrics::MetricsRecord made{.step = step, .tokens = 1, .values = {}};
      made.set(metrics::kLoss, step == 1 ? 4.0 : kNan);
      made.set(metrics::kGradNorm, step == 3 ? kNan : 1.0);
      sink.write(made);
    }
  }
  const std::string text = page();
  expect_well_formed(text);
  expect_parts(text, {"Not finite at 2 step(s), the first of them 2: grad_norm, loss",
                      "<div class=\"value\">nan</div><div class=\"name\">training loss, last</div>"});
  const auto json = nlohmann::json::parse(to_json(summarise_run(dir_)));
  EXPECT_EQ(json.at("non_finite"), nlohmann::json::array({"final_loss"}));
  EXPECT_FALSE(json.contains("final_loss"));
  EXPECT_EQ(json.at("first_loss"), 4.0);
}

TEST_F(ReportTest, OnlyARunFolderWillDo) {
  const auto code_of = [](const std::string& dir) {
    try {
      write_report(dir);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kDone;
  };
  EXPECT_EQ(code_of(root_ + "/none"), ExitCode::kUsage);
  EXPECT_EQ(code_of(dir_), ExitCode::kUsage);
  EXPECT_FALSE(path_exists(dir_ + "/report.html"));
}

TEST_F(ReportTest, SummaryNumbers) {
  put_metrics(20);
  evidence::EvidenceRecord made = record();
  made.modules["head"] = {.engines = {{"cpu.blocked.f32", 300}}, .fallbacks = {{"shape", 7}}};
  write_evidence(made, dir_ + "/evidence.json");
  const auto json = nlohmann::json::parse(to_json(summarise_run(dir_)));
  const nlohmann::json expected = {{"name", "demo"},       {"status", "done"},          {"steps", 20},
                                   {"tokens", 81920},      {"first_loss", 8.0},         {"final_loss", 0.4},
                                   {"val_loss", 0.45},     {"val_bits_per_byte", 1.25}, {"elapsed_s", 40.0},
                                   {"tokens_per_s", 2000}, {"parameters", 31470000},    {"num_gemm_calls", 1500},
                                   {"num_fallbacks", 7}};
  EXPECT_EQ(json, expected);
}

TEST_F(ReportTest, SamplesNewestFirstAndAFewOnly) {
  put_metrics(1);
  metrics::SamplesJsonl samples(dir_ + "/samples.jsonl", -1);
  for (std::int64_t step = 1; step <= 15; ++step) samples.write({step, "p", "t"});
  const std::string text = page();
  expect_parts(text, {"The last 12 of 15", "<h3>step 15</h3>", "<h3>step 4</h3>"});
  EXPECT_LT(text.find("<h3>step 15</h3>"), text.find("<h3>step 4</h3>"));
  EXPECT_EQ(text.find("<h3>step 3</h3>"), std::string::npos);
}

TEST(Engines, FallbacksAreCountedInWords) {
  evidence::EvidenceRecord made;
  made.modules["qkv"] = {.engines = {{"a.b", 9990}, {"c.d", 10}}, .fallbacks = {{"odd <shape>", 4}, {"library absent", 6}}};
  EXPECT_EQ(what_executed(made),
            "10,000 matrix products ran, on 2 engines. 10 (0.1%) did not take the planned engine: 6 x library absent, "
            "4 x odd <shape>.");
  const std::string section = engines_section(made);
  EXPECT_NE(section.find("<tr><td>qkv</td><td>odd &lt;shape&gt;</td><td>4</td></tr>"), std::string::npos) << section;
  EXPECT_NE(section.find("<td>a.b</td><td>a.b</td><td>9,990</td><td>99.9%</td>"), std::string::npos) << section;
}

TEST(Engines, AShareNeverRoundsToAllOrNothing) {
  evidence::EvidenceRecord made;
  made.modules["qkv"].engines = {{"a", 9999999}, {"b", 1}};
  const std::string section = engines_section(made);
  EXPECT_NE(section.find("&gt;99.9%"), std::string::npos);
  EXPECT_NE(section.find("&lt;0.1%"), std::string::npos);
}

TEST(Engines, WordsSayNoMoreThanTheName) {
  EXPECT_EQ(engine_in_words("cpu.onednn.bf16"), "oneDNN on the CPU, bf16 operands");
  EXPECT_EQ(engine_in_words("cpu.blocked.bf16_widened"),
            "the engine's own blocked form on the CPU, bf16 operands widened to f32 (exact products)");
  EXPECT_EQ(engine_in_words("cpu.definition"), "the plain definition on the CPU");
  for (const char* unknown : {"cublaslt.fp8_tensor", "cpu.onednn.f8", "cpu.magic", "cpu", ""})
    EXPECT_EQ(engine_in_words(unknown), unknown);
}

TEST(Engines, PlanRowsNameWhatWasPassedOver) {
  evidence::EvidenceRecord made;
  made.plan.push_back({.module = "qkv",
                       .pass = "wgrad",
                       .engine = "cpu.blocked.f32",
                       .desc = "m8 n9 k10",
                       .num_sites = 4,
                       .refused = {{"cpu.onednn.f32", "library", "not found"}, {"x", "shape", "odd"}}});
  EXPECT_NE(engines_section(made).find("<tr><td>qkv</td><td>wgrad</td><td>cpu.blocked.f32</td><td>m8 n9 k10</td><td>4</td>"
                                       "<td>cpu.onednn.f32: not found (library); x: odd (shape)</td></tr>"),
            std::string::npos);
}

}  // namespace
}  // namespace ida::report
