#include "data/source.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "data/git_history.h"

namespace ida::data {
namespace {

namespace fs = std::filesystem;

bool has_extension(const std::string& name, const std::vector<std::string>& extensions) {
  return extensions.empty() || std::any_of(extensions.begin(), extensions.end(),
                                           [&](const std::string& ending) { return name.ends_with("." + ending); });
}

// Adds the files below `folder`, depth first; the caller sorts.
void collect_files(const fs::path& folder, const fs::path& root, Source& source) {
  for (const std::string& name : list_directory(folder.string())) {
    const fs::path path = folder / name;
    std::error_code code;
    const fs::file_status status = fs::symlink_status(path, code);
    if (code) fail_runtime("cannot read {}: {}", path.string(), code.message());
    if (name.front() == '.' || (status.type() != fs::file_type::regular && status.type() != fs::file_type::directory)) {
      ++source.num_left_out;
    } else if (status.type() == fs::file_type::directory) {
      collect_files(path, root, source);
    } else if (!has_extension(name, source.extensions)) {
      ++source.num_left_out;
    } else {
      source.files.push_back({path.string(), path.lexically_relative(root).generic_string()});
    }
  }
}

std::string unique_name(const std::string& stem, std::set<std::string>& taken) {
  std::string name = stem.empty() ? "data" : stem;
  for (int suffix = 2; !taken.insert(name).second; ++suffix) name = fmt::format("{}-{}", stem, suffix);
  return name;
}

Source find_source(const SourceRequest& request) {
  const std::string& entry = request.path;
  if (!path_exists(entry)) fail_usage("[data] {}: no such file or folder", printable_excerpt(entry));
  Source source;
  source.path = entry;
  source.extensions = request.extensions;
  if (request.git) {
    source.kind = SourceKind::kGit;
    source.commits = list_commits(entry);
    return source;
  }
  if (!request.extensions.empty() && !is_directory(entry)) fail_usage("[data] {}: not a folder", printable_excerpt(entry));
  const fs::path path(entry);
  if (is_directory(entry)) {
    source.kind = SourceKind::kFolder;
    collect_files(path, path, source);
    std::sort(source.files.begin(), source.files.end(),
              [](const SourceFile& a, const SourceFile& b) { return a.name < b.name; });
    if (source.files.empty()) {
      fail_usage("[data] {}: no file below this folder ({} hidden names, links, special files or other endings left out)",
                 entry, source.num_left_out);
    }
    return source;
  }
  if (!is_regular_file(entry)) fail_usage("[data] {}: neither a regular file nor a folder", entry);
  if (file_size_bytes(entry) == 0) fail_usage("[data] {}: the file is empty", entry);
  if (path.extension() == ".jsonl") source.kind = SourceKind::kJsonl;
  if (path.extension() == ".shard") source.kind = SourceKind::kShard;
  if (path.extension() == ".bin") source.kind = SourceKind::kTokens;
  source.files.push_back({entry, path.filename().string()});
  return source;
}

std::string stem_of(const Source& source) {
  const fs::path path = fs::path(source.path).lexically_normal();
  const fs::path last = path.has_filename() ? path.filename() : path.parent_path().filename();
  const bool folder = source.kind == SourceKind::kFolder || source.kind == SourceKind::kGit;
  const std::string name = folder ? last.string() : last.stem().string();
  return name == "." || name == ".." ? "" : name;
}

}  // namespace

std::vector<Source> find_sources(const std::vector<std::string>& entries) {
  std::vector<SourceRequest> requests;
  for (const std::string& entry : entries) requests.push_back({.path = entry});
  return find_requested_sources(requests);
}

std::vector<Source> find_requested_sources(const std::vector<SourceRequest>& requests) {
  if (requests.empty()) fail_usage("[data]: no entry; expected at least one file or folder");
  if (requests.size() >= std::numeric_limits<std::uint16_t>::max()) {
    fail_usage("[data]: {} entries, at most {} are supported", requests.size(),
               std::numeric_limits<std::uint16_t>::max() - 1);
  }
  std::vector<Source> sources;
  std::set<std::string> taken;
  for (const SourceRequest& request : requests) {
    sources.push_back(find_source(request));
    sources.back().name = unique_name(stem_of(sources.back()), taken);
  }
  return sources;
}

std::vector<FileHash> hash_files(const std::vector<Source>& sources) {
  std::vector<const SourceFile*> files;
  for (const Source& source : sources) {
    for (const SourceFile& file : source.files) files.push_back(&file);
  }
  std::vector<FileHash> hashes(files.size());
  std::vector<std::exception_ptr> errors(files.size());
  parallel_for(static_cast<std::int64_t>(files.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      try {
        const MappedFile file(files[at]->path);
        hashes[at] = {.size_bytes = file.bytes().size(), .sha256 = sha256_hex(file.bytes())};
      } catch (...) {
        errors[at] = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return hashes;
}

std::string hash_sources(const std::vector<Source>& sources, const std::vector<FileHash>& files) {
  Sha256 hash;
  std::size_t at = 0;
  for (const Source& source : sources) {
    hash.update(fmt::format("source {} {} {}\n", source.name, static_cast<int>(source.kind), source.files.size()));
    for (const SourceFile& file : source.files) hash.update(fmt::format("{} {}\n", files[at++].sha256, file.name));
    if (source.kind == SourceKind::kGit) hash.update(git_version() + "\n");
    for (const std::string& commit : source.commits) hash.update(commit + "\n");
  }
  return hash.hex();
}

std::string RawDocument::where() const {
  if (commit_text) return commit_name;
  if (tokens) return fmt::format("{}, token {}", file->path, token_begin);
  return line > 0 ? fmt::format("{}:{}", file->path, line) : file->path;
}

std::uint64_t RawDocument::size_bytes() const {
  if (commit_text) return commit_text->size();
  if (tokens) return static_cast<std::uint64_t>((token_end - token_begin) * tokens->width_bytes());
  return line > 0 ? line_text.size() : file_size_bytes(file->path);
}

DocumentReader::DocumentReader(const std::vector<Source>& sources, const ReaderPosition& start,
                               std::optional<std::int32_t> eos)
    : sources_(&sources), at_(start), eos_(eos) {}

DocumentReader::~DocumentReader() = default;

bool DocumentReader::next_line(RawDocument& document) {
  const std::span<const std::byte> bytes = lines_->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (static_cast<std::size_t>(at_.byte) < text.size()) {
    const auto begin = static_cast<std::size_t>(at_.byte);
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    at_.byte = static_cast<std::int64_t>(end) + 1;
    ++at_.line;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    document.line = at_.line;
    document.bytes = lines_;
    document.line_text = line;
    return true;
  }
  return false;
}

bool DocumentReader::next_commit(RawDocument& document) {
  const Source& source = (*sources_)[static_cast<std::size_t>(at_.source)];
  const auto idx = static_cast<std::size_t>(at_.line);
  if (idx >= source.commits.size()) return false;
  if (!commits_) commits_ = std::make_unique<CommitReader>(source.path, std::span(source.commits).subspan(idx));
  document.commit_text = std::make_shared<const std::string>(commits_->next());
  document.commit_name = fmt::format("{} commit {}", source.path, source.commits[idx]);
  ++at_.line;
  return true;
}

bool DocumentReader::next_tokens(RawDocument& document) {
  const std::string& path = document.file->path;
  if (!eos_) fail_usage("[data] {}: documents of a file of tokens end with EOS, which the tokenizer does not have", path);
  if (!tokens_) tokens_ = std::make_shared<const TokenFile>(path);
  const auto is_eos = [&](std::int64_t at) { return tokens_->token(at) == *eos_; };
  while (at_.byte < tokens_->num_tokens() && is_eos(at_.byte)) ++at_.byte;
  document.token_begin = at_.byte;
  while (at_.byte < tokens_->num_tokens() && !is_eos(at_.byte)) ++at_.byte;
  document.token_end = at_.byte;
  document.tokens = tokens_;
  return document.token_end > document.token_begin;
}

bool DocumentReader::next(RawDocument& document) {
  while (static_cast<std::size_t>(at_.source) < sources_->size()) {
    const Source& source = (*sources_)[static_cast<std::size_t>(at_.source)];
    if (source.kind == SourceKind::kShard) {
      fail_usage("[data] {}: a token shard holds no text; give the text it was built from", source.path);
    }
    document = {};
    document.source = static_cast<std::int32_t>(at_.source);
    bool found = false;
    if (source.kind == SourceKind::kGit) {
      found = next_commit(document);
    } else if (static_cast<std::size_t>(at_.file) < source.files.size()) {
      document.file = &source.files[static_cast<std::size_t>(at_.file)];
      if (source.kind == SourceKind::kJsonl) {
        if (!lines_) lines_ = std::make_shared<const MappedFile>(document.file->path);
        found = next_line(document);
      } else if (source.kind == SourceKind::kTokens) {
        found = next_tokens(document);
      } else {
        ++at_.file;
        found = true;
      }
    }
    if (found) {
      document.next = at_;
      return true;
    }
    at_ = {.source = at_.source + 1};
    lines_.reset();
    commits_.reset();
    tokens_.reset();
  }
  return false;
}

}  // namespace ida::data
