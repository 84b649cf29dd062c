// Where training text comes from. One entry of `[data] train` or `valid` is one source:
//   FILE          a text file: one document
//   FILE.jsonl    one document a line, {"text": "..."}; blank lines are ignored
//   FOLDER        every file below it, by path order (bytes), one document each, whatever its ending
//   FILE.shard    tokens built earlier (data/token_shard.h)
// In a folder, names that start with '.', symbolic links and special files are left out and counted. Files with a NUL
// byte are binary and are skipped and counted; any other bytes are text, UTF-8 or not.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace ida::data {

enum class SourceKind { kText, kJsonl, kFolder, kShard };

struct SourceFile {
  std::string path;
  std::string name;  // relative to the source; '/' separated
};

struct Source {
  std::string name;  // the entry's stem, made unique among the entries ("wiki", "wiki-2")
  std::string path;  // the entry as given
  SourceKind kind = SourceKind::kText;
  std::vector<SourceFile> files;
  std::int64_t num_left_out = 0;  // hidden names, links and special files of a folder
};

// Errors (kUsage): no entries, a missing entry, an empty file, a folder without files, something that is neither.
std::vector<Source> find_sources(const std::vector<std::string>& entries);

// SHA-256 over names, sizes and contents of every file of `sources`, in order. Reads everything once.
std::string hash_sources(const std::vector<Source>& sources);

// A document that has been found but not read.
struct RawDocument {
  std::int32_t source = 0;
  const SourceFile* file = nullptr;
  std::int64_t line = 0;                    // 1-based in a .jsonl file; 0: the whole file
  std::shared_ptr<const MappedFile> bytes;  // set for a line
  std::string_view line_text;

  std::string where() const;  // "path" or "path:line"
  std::uint64_t size_bytes() const;
};

// Visits the documents of text sources in order. `sources` must outlive the reader. Errors (kUsage): a shard among them.
class DocumentReader {
 public:
  explicit DocumentReader(const std::vector<Source>& sources);
  // False at the end.
  bool next(RawDocument& document);

 private:
  bool next_line(RawDocument& document);

  const std::vector<Source>* sources_;
  std::size_t source_ = 0;
  std::size_t file_ = 0;
  std::shared_ptr<const MappedFile> lines_;
  std::size_t line_begin_ = 0;
  std::int64_t line_ = 0;
};

enum class DocumentStatus { kText, kEmpty, kBinary };

// The text of a document; the view lives as long as the object.
class DocumentText {
 public:
  // Reads and, for a .jsonl line, parses. Errors as text_of_json_line; kRuntime when a file cannot be read.
  explicit DocumentText(const RawDocument& document);
  DocumentStatus status() const { return status_; }
  std::string_view text() const { return map_ ? view_ : std::string_view(parsed_); }

 private:
  std::optional<MappedFile> map_;
  std::string_view view_;
  std::string parsed_;
  DocumentStatus status_ = DocumentStatus::kText;
};

// Calls `visit(text, source)` for every document that is neither empty nor binary, in order.
void for_each_document(const std::vector<Source>& sources,
                       const std::function<void(std::string_view text, std::int32_t source)>& visit);

}  // namespace ida::data
