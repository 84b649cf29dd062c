// ledger.sqlite: what was tried, what it scored, what failed and why, and which engines may be used for training.
//
// Rows are only ever added, except that the end of a run completes its row. Several processes may write at once.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evidence/sqlite.h"

namespace ida::evidence {

// One start of a run; a resumed run has a row for each start.
struct RunRow {
  std::int64_t id = 0;
  std::string name;
  std::string dir;
  std::string started_at;   // UTC, set by the ledger where empty
  std::string finished_at;  // empty while it runs
  std::string status = "running";
  std::string config_hash;
  std::string recipe;
  std::string device;
  std::string build;               // commit
  std::int64_t resumed_from = -1;  // step, -1: from the beginning
  std::int64_t steps = 0;
  std::string summary_json = "{}";  // figures at the end, any JSON object
};

// Anything else worth keeping. Kinds in use: "score", "failure", "note".
struct EventRow {
  std::int64_t id = 0;
  std::int64_t run_id = 0;  // 0: belongs to no run
  std::string at;           // UTC, set by the ledger where empty
  std::string kind;
  std::string json;  // an object
};

// A decision about an engine on one device, driver and build; the newest row for the four is the one that holds.
struct PromotionRow {
  std::int64_t id = 0;
  std::string at;
  std::string engine;
  std::string device;
  std::string driver;
  std::string build;
  std::string decision;  // "promoted", "refused"
  std::string reason;
  std::string json = "{}";  // the probe's figures
};

struct Score {
  std::string name;     // "val_loss", "pass@1"
  double value = 0.0;   // finite
  std::string unit;     // "nats/token", "frac"
  std::string dataset;  // what it was measured on
  std::int64_t step = -1;
};

// A run that died or an idea that did not work.
struct Failure {
  std::string what;    // one line
  std::string reason;  // as far as known
  std::int64_t step = -1;
};

class Ledger {
 public:
  // Opens or creates `path` and brings an older schema up to date; one of a newer program is refused (kUsage).
  explicit Ledger(const std::string& path, int busy_ms = 30000);

  std::int64_t start_run(const RunRow& run);  // its id
  void finish_run(std::int64_t run_id, std::string_view status, std::int64_t steps, std::string_view summary_json);
  std::int64_t add_event(const EventRow& event);  // its id; `json` must be an object (kUsage)
  std::int64_t add_score(std::int64_t run_id, const Score& score);
  std::int64_t add_failure(std::int64_t run_id, const Failure& failure);
  std::int64_t add_promotion(const PromotionRow& promotion);

  std::vector<RunRow> runs();  // oldest first
  std::optional<RunRow> run(std::int64_t run_id);
  std::vector<EventRow> events(std::int64_t run_id);  // of one run, oldest first
  std::vector<EventRow> events_of_kind(std::string_view kind);
  std::vector<PromotionRow> promotions();  // oldest first
  // The decision that holds, if there is one.
  std::optional<PromotionRow> promotion(const PromotionRow& key);

 private:
  void check_run(std::int64_t run_id);
  Database database_;
};

// Tables for people: one line a run; everything about one run. kUsage where there is no such run.
std::string list_ledger(Ledger& ledger);
std::string show_run(Ledger& ledger, std::int64_t run_id);

}  // namespace ida::evidence
