#include "evidence/ledger.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "evidence/environment.h"

namespace ida::evidence {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kSchemaVersion = 1;
constexpr const char* kSchema = R"(
CREATE TABLE runs(
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, dir TEXT NOT NULL, started_at TEXT NOT NULL,
  finished_at TEXT NOT NULL, status TEXT NOT NULL, config_hash TEXT NOT NULL, recipe TEXT NOT NULL,
  device TEXT NOT NULL, build TEXT NOT NULL, resumed_from INTEGER NOT NULL, steps INTEGER NOT NULL,
  summary TEXT NOT NULL);
CREATE TABLE events(
  id INTEGER PRIMARY KEY AUTOINCREMENT, run_id INTEGER REFERENCES runs(id), at TEXT NOT NULL, kind TEXT NOT NULL,
  json TEXT NOT NULL);
CREATE INDEX events_by_run ON events(run_id);
CREATE TABLE promotions(
  id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, engine TEXT NOT NULL, device TEXT NOT NULL,
  driver TEXT NOT NULL, build TEXT NOT NULL, decision TEXT NOT NULL, reason TEXT NOT NULL, json TEXT NOT NULL);
PRAGMA user_version = 1;
)";

constexpr const char* kRunColumns =
    "SELECT id, name, dir, started_at, finished_at, status, config_hash, recipe, device, build, resumed_from, steps, "
    "summary FROM runs ";

std::int64_t schema_version(Database& database) {
  Statement query(database, "PRAGMA user_version");
  return query.step() ? query.integer(0) : 0;
}

RunRow run_row(const Statement& row) {
  return {.id = row.integer(0),
          .name = row.text(1),
          .dir = row.text(2),
          .started_at = row.text(3),
          .finished_at = row.text(4),
          .status = row.text(5),
          .config_hash = row.text(6),
          .recipe = row.text(7),
          .device = row.text(8),
          .build = row.text(9),
          .resumed_from = row.integer(10),
          .steps = row.integer(11),
          .summary_json = row.text(12)};
}

std::vector<EventRow> event_rows(Statement& query) {
  std::vector<EventRow> rows;
  while (query.step()) rows.push_back({query.integer(0), query.integer(1), query.text(2), query.text(3), query.text(4)});
  return rows;
}

std::vector<PromotionRow> promotion_rows(Statement& query) {
  std::vector<PromotionRow> rows;
  while (query.step())
    rows.push_back({query.integer(0), query.text(1), query.text(2), query.text(3), query.text(4), query.text(5),
                    query.text(6), query.text(7), query.text(8)});
  return rows;
}

void check_object(std::string_view json, const std::string& path, std::string_view what) {
  if (!Json::parse(json, nullptr, false).is_object())
    fail_usage("{}: the {} must be a JSON object, got: {}", path, what, json.substr(0, 60));
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

Ledger::Ledger(const std::string& path, int busy_ms) : database_(path, busy_ms) {
  database_.run("PRAGMA foreign_keys = ON");
  // Only the writer that holds the lock may find the file empty and create the tables.
  if (schema_version(database_) == 0) {
    Transaction transaction(database_);
    if (schema_version(database_) == 0) database_.run(kSchema);
    transaction.commit();
  }
  const std::int64_t version = schema_version(database_);
  if (version > kSchemaVersion)
    fail_usage("{}: ledger schema {}, this program knows up to {}; use the newer program", path, version, kSchemaVersion);
}

std::int64_t Ledger::start_run(const RunRow& run) {
  check_object(run.summary_json, database_.path(), "summary");
  Statement insert(database_,
                   "INSERT INTO runs(name, dir, started_at, finished_at, status, config_hash, recipe, device, build, "
                   "resumed_from, steps, summary) VALUES(?,?,?,?,?,?,?,?,?,?,?,?)");
  insert.bind(run.name).bind(run.dir).bind(run.started_at.empty() ? utc_now() : run.started_at).bind(run.finished_at);
  insert.bind(run.status).bind(run.config_hash).bind(run.recipe).bind(run.device).bind(run.build);
  insert.bind(run.resumed_from).bind(run.steps).bind(run.summary_json).run();
  return database_.last_insert_id();
}

void Ledger::finish_run(std::int64_t run_id, std::string_view status, std::int64_t steps, std::string_view summary_json) {
  check_object(summary_json, database_.path(), "summary");
  check_run(run_id);
  Statement update(database_, "UPDATE runs SET finished_at = ?, status = ?, steps = ?, summary = ? WHERE id = ?");
  update.bind(utc_now()).bind(status).bind(steps).bind(summary_json).bind(run_id).run();
}

std::int64_t Ledger::add_event(const EventRow& event) {
  check_object(event.json, database_.path(), "event");
  if (event.run_id != 0) check_run(event.run_id);
  Statement insert(database_, "INSERT INTO events(run_id, at, kind, json) VALUES(?,?,?,?)");
  event.run_id == 0 ? insert.bind_null() : insert.bind(event.run_id);
  insert.bind(event.at.empty() ? utc_now() : event.at).bind(event.kind).bind(event.json).run();
  return database_.last_insert_id();
}

std::int64_t Ledger::add_score(std::int64_t run_id, const Score& score) {
  if (!std::isfinite(score.value))
    fail_usage("{}: score {} is {}; record a failure instead", database_.path(), score.name, score.value);
  Json json = {{"name", score.name}, {"value", score.value}, {"unit", score.unit}, {"dataset", score.dataset}};
  if (score.step >= 0) json["step"] = score.step;
  return add_event({.id = 0, .run_id = run_id, .at = {}, .kind = "score", .json = dump(json)});
}

std::int64_t Ledger::add_failure(std::int64_t run_id, const Failure& failure) {
  Json json = {{"what", failure.what}, {"reason", failure.reason}};
  if (failure.step >= 0) json["step"] = failure.step;
  return add_event({.id = 0, .run_id = run_id, .at = {}, .kind = "failure", .json = dump(json)});
}

std::int64_t Ledger::add_promotion(const PromotionRow& promotion) {
  check_object(promotion.json, database_.path(), "probe result");
  if (promotion.decision != "promoted" && promotion.decision != "refused")
    fail_usage("{}: a decision is \"promoted\" or \"refused\", got \"{}\"", database_.path(), promotion.decision);
  Statement insert(database_,
                   "INSERT INTO promotions(at, engine, device, driver, build, decision, reason, json) "
                   "VALUES(?,?,?,?,?,?,?,?)");
  insert.bind(promotion.at.empty() ? utc_now() : promotion.at).bind(promotion.engine).bind(promotion.device);
  insert.bind(promotion.driver).bind(promotion.build).bind(promotion.decision).bind(promotion.reason);
  insert.bind(promotion.json).run();
  return database_.last_insert_id();
}

std::vector<RunRow> Ledger::runs() {
  Statement query(database_, (std::string(kRunColumns) + "ORDER BY id").c_str());
  std::vector<RunRow> rows;
  while (query.step()) rows.push_back(run_row(query));
  return rows;
}

std::optional<RunRow> Ledger::run(std::int64_t run_id) {
  Statement query(database_, (std::string(kRunColumns) + "WHERE id = ?").c_str());
  query.bind(run_id);
  if (!query.step()) return std::nullopt;
  return run_row(query);
}

std::vector<EventRow> Ledger::events(std::int64_t run_id) {
  Statement query(database_, "SELECT id, run_id, at, kind, json FROM events WHERE run_id = ? ORDER BY id");
  query.bind(run_id);
  return event_rows(query);
}

std::vector<EventRow> Ledger::events_of_kind(std::string_view kind) {
  Statement query(database_, "SELECT id, run_id, at, kind, json FROM events WHERE kind = ? ORDER BY id");
  query.bind(kind);
  return event_rows(query);
}

std::vector<PromotionRow> Ledger::promotions() {
  Statement query(database_,
                  "SELECT id, at, engine, device, driver, build, decision, reason, json FROM promotions ORDER BY id");
  return promotion_rows(query);
}

std::optional<PromotionRow> Ledger::promotion(const PromotionRow& key) {
  Statement query(database_,
                  "SELECT id, at, engine, device, driver, build, decision, reason, json FROM promotions "
                  "WHERE engine = ? AND device = ? AND driver = ? AND build = ? ORDER BY id DESC LIMIT 1");
  query.bind(key.engine).bind(key.device).bind(key.driver).bind(key.build);
  std::vector<PromotionRow> rows = promotion_rows(query);
  if (rows.empty()) return std::nullopt;
  return rows.front();
}

void Ledger::check_run(std::int64_t run_id) {
  if (!run(run_id)) fail_usage("{}: there is no run {}", database_.path(), run_id);
}

std::string list_ledger(Ledger& ledger) {
  std::string text =
      fmt::format("{:>5}  {:20}  {:9}  {:>8}  {:16}  {}\n", "id", "started", "status", "steps", "recipe", "name");
  for (const RunRow& run : ledger.runs())
    text += fmt::format("{:>5}  {:20}  {:9}  {:>8}  {:16}  {}\n", run.id, run.started_at, run.status, run.steps, run.recipe,
                        run.name);
  return text;
}

std::string show_run(Ledger& ledger, std::int64_t run_id) {
  const std::optional<RunRow> found = ledger.run(run_id);
  if (!found) fail_usage("ledger: there is no run {}", run_id);
  const RunRow& run = *found;
  std::string text = fmt::format("run {}: {}\n", run.id, run.name);
  const auto line = [&text](std::string_view name, std::string_view value) {
    if (!value.empty()) text += fmt::format("  {:12} {}\n", name, value);
  };
  line("folder", run.dir);
  line("started", run.started_at);
  line("finished", run.finished_at);
  line("status", run.status);
  line("resumed from", run.resumed_from < 0 ? "" : fmt::format("step {}", run.resumed_from));
  line("steps", fmt::format("{}", run.steps));
  line("recipe", run.recipe);
  line("device", run.device);
  line("build", run.build);
  line("config", run.config_hash);
  line("summary", run.summary_json == "{}" ? "" : run.summary_json);
  for (const EventRow& event : ledger.events(run_id))
    text += fmt::format("  {}  {:8} {}\n", event.at, event.kind, event.json);
  return text;
}

}  // namespace ida::evidence
