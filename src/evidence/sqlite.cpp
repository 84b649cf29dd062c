#include "evidence/sqlite.h"

#include <sqlite3.h>

#include "base/error.h"

namespace ida::evidence {

Database::Database(const std::string& path, int busy_ms) : path_(path) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  if (sqlite3_open_v2(path.c_str(), &handle_, flags, nullptr) != SQLITE_OK) {
    const std::string reason = handle_ != nullptr ? sqlite3_errmsg(handle_) : "out of memory";
    sqlite3_close(handle_);
    fail_runtime("{}: cannot open: {}", path, reason);
  }
  sqlite3_busy_timeout(handle_, busy_ms);
}

Database::~Database() { sqlite3_close(handle_); }

void Database::run(const char* sql) {
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail(sql);
}

std::int64_t Database::last_insert_id() const { return sqlite3_last_insert_rowid(handle_); }
std::int64_t Database::num_changed_rows() const { return sqlite3_changes64(handle_); }

void Database::fail(std::string_view doing) const {
  const int code = sqlite3_errcode(handle_);
  const std::string message =
      fmt::format("{}: {} (while: {})", path_, sqlite3_errmsg(handle_), doing.substr(0, doing.find('\n')));
  const bool damaged = code == SQLITE_NOTADB || code == SQLITE_CORRUPT;
  throw Error(damaged ? ExitCode::kCorrupt : ExitCode::kRuntime, message);
}

Statement::Statement(Database& database, const char* sql) : database_(database) {
  if (sqlite3_prepare_v2(database.handle_, sql, -1, &handle_, nullptr) != SQLITE_OK) database.fail(sql);
}

Statement::~Statement() { sqlite3_finalize(handle_); }

Statement& Statement::bind(std::string_view text) {
  // A null pointer would bind NULL.
  const char* data = text.data() != nullptr ? text.data() : "";
  if (sqlite3_bind_text64(handle_, ++num_bound_, data, text.size(), SQLITE_TRANSIENT, SQLITE_UTF8) != SQLITE_OK)
    database_.fail("bind");
  return *this;
}

Statement& Statement::bind(std::int64_t value) {
  if (sqlite3_bind_int64(handle_, ++num_bound_, value) != SQLITE_OK) database_.fail("bind");
  return *this;
}

Statement& Statement::bind(double value) {
  if (sqlite3_bind_double(handle_, ++num_bound_, value) != SQLITE_OK) database_.fail("bind");
  return *this;
}

Statement& Statement::bind_null() {
  if (sqlite3_bind_null(handle_, ++num_bound_) != SQLITE_OK) database_.fail("bind");
  return *this;
}

bool Statement::step() {
  const int result = sqlite3_step(handle_);
  if (result == SQLITE_ROW) return true;
  if (result != SQLITE_DONE) database_.fail(sqlite3_sql(handle_));
  return false;
}

void Statement::run() {
  while (step()) {
  }
}

std::string Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  if (data == nullptr) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_, column); }
double Statement::real(int column) const { return sqlite3_column_double(handle_, column); }

Transaction::Transaction(Database& database) : database_(database) { database_.run("BEGIN IMMEDIATE"); }

Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_.run("ROLLBACK");
  } catch (const Error&) {
    // SQLite itself undoes what a failed statement or a closed connection leaves open.
  }
}

void Transaction::commit() {
  database_.run("COMMIT");
  open_ = false;
}

}  // namespace ida::evidence
