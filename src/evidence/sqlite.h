// A SQLite connection and its statements as values that close themselves. Failures are ida::Error with the file's path
// and SQLite's own text: kCorrupt for a file that is no database or is damaged, kRuntime otherwise.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace ida::evidence {

class Database {
 public:
  // Opens or creates. A writer waits up to `busy_ms` for others before it gives up.
  Database(const std::string& path, int busy_ms);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Statements without parameters and results, separated by semicolons.
  void run(const char* sql);
  std::int64_t last_insert_id() const;
  std::int64_t num_changed_rows() const;
  const std::string& path() const { return path_; }
  [[noreturn]] void fail(std::string_view doing) const;

 private:
  friend class Statement;
  std::string path_;
  sqlite3* handle_ = nullptr;
};

class Statement {
 public:
  Statement(Database& database, const char* sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Binds the next parameter, from the left.
  Statement& bind(std::string_view text);
  Statement& bind(std::int64_t value);
  Statement& bind(double value);
  Statement& bind_null();

  // True while there is a row to read.
  bool step();
  // Runs a statement that returns no row.
  void run();

  std::string text(int column) const;  // empty for NULL
  std::int64_t integer(int column) const;
  double real(int column) const;

 private:
  Database& database_;
  sqlite3_stmt* handle_ = nullptr;
  int num_bound_ = 0;
};

// Holds the write lock from the start, so that a read inside cannot turn stale; undone unless commit() was called.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace ida::evidence
