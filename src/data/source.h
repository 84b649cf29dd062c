// Where training text comes from. One entry of `[data] train` or `valid` is one source:
//   FILE          a text file: one document
//   FILE.jsonl    one document a line (data/record.h); blank lines are ignored
//   FOLDER        every file below it, by path order (bytes), one document each, whatever its ending
//   FILE.shard    tokens built earlier (data/shard_index.h)
//   FILE.bin      token ids (data/token_file.h): a document is what lies between two EOS
// `data build` also takes a folder with a list of endings, and the commits of a git repository (data/git_history.h).
// In a folder, names that start with '.', symbolic links and special files are left out and counted. Files with a NUL
// byte are binary and are skipped and counted; any other bytes are text, UTF-8 or not.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/token_file.h"

namespace ida::data {

enum class SourceKind { kText, kJsonl, kFolder, kShard, kGit, kTokens };

struct SourceRequest {
  std::string path;
  std::vector<std::string> extensions = {};  // of a folder: endings without the dot; empty: every file
  bool git = false;                          // the commits of the repository at `path`
};

struct SourceFile {
  std::string path;
  std::string name;  // relative to the source; '/' separated
};

struct Source {
  std::string name;  // the entry's stem, made unique among the entries ("wiki", "wiki-2")
  std::string path;  // the entry as given
  SourceKind kind = SourceKind::kText;
  std::vector<std::string> extensions;  // as requested
  std::vector<SourceFile> files;
  std::vector<std::string> commits;  // kGit: ids, oldest first
  std::int64_t num_left_out = 0;     // of a folder: hidden names, links, special files, other endings
};

// Errors (kUsage): no entries, a missing entry, an empty file, a folder without files, something that is neither.
std::vector<Source> find_sources(const std::vector<std::string>& entries);
std::vector<Source> find_requested_sources(const std::vector<SourceRequest>& requests);

struct FileHash {
  std::uint64_t size_bytes = 0;
  std::string sha256;
  bool operator==(const FileHash&) const = default;
};
// Of every file of `sources`, in order. Reads everything once.
std::vector<FileHash> hash_files(const std::vector<Source>& sources);
// SHA-256 over kinds, names and contents of `sources`, in order.
std::string hash_sources(const std::vector<Source>& sources, const std::vector<FileHash>& files);

// A place between two documents.
struct ReaderPosition {
  std::int64_t source = 0;
  std::int64_t file = 0;
  std::int64_t byte = 0;  // within a .jsonl file; in a file of tokens, the token
  std::int64_t line = 0;  // lines before it in a .jsonl file, or commits before it
  bool operator==(const ReaderPosition&) const = default;
};

// A document that has been found but not read.
struct RawDocument {
  std::int32_t source = 0;
  const SourceFile* file = nullptr;
  std::int64_t line = 0;                    // 1-based in a .jsonl file; 0: the whole file
  std::shared_ptr<const MappedFile> bytes;  // set for a line
  std::string_view line_text;
  std::shared_ptr<const std::string> commit_text;  // set for a commit
  std::string commit_name;                         // "repository commit id"
  std::shared_ptr<const TokenFile> tokens;         // set for a document of a file of tokens
  std::int64_t token_begin = 0;
  std::int64_t token_end = 0;
  ReaderPosition next;  // where reading goes on after this document

  std::string where() const;  // "path", "path:line", "path, token N" or the commit's name
  std::uint64_t size_bytes() const;
};

class CommitReader;

// Visits the documents of text sources in order. `sources` must outlive the reader. Errors (kUsage): a shard among them.
class DocumentReader {
 public:
  // `eos` ends the documents of files of tokens; without it such a file is refused (kUsage).
  explicit DocumentReader(const std::vector<Source>& sources, const ReaderPosition& start = {},
                          std::optional<std::int32_t> eos = {});
  ~DocumentReader();
  // False at the end.
  bool next(RawDocument& document);

 private:
  bool next_line(RawDocument& document);
  bool next_commit(RawDocument& document);
  bool next_tokens(RawDocument& document);

  const std::vector<Source>* sources_;
  ReaderPosition at_;
  std::optional<std::int32_t> eos_;
  std::shared_ptr<const MappedFile> lines_;
  std::unique_ptr<CommitReader> commits_;
  std::shared_ptr<const TokenFile> tokens_;
};

}  // namespace ida::data
