#include "data/source.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "data/json_line.h"

namespace ida::data {
namespace {

namespace fs = std::filesystem;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
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

Source find_source(const std::string& entry) {
  if (!path_exists(entry)) fail_usage("[data] {}: no such file or folder", printable_excerpt(entry));
  Source source{.name = {}, .path = entry, .kind = SourceKind::kText, .files = {}, .num_left_out = 0};
  const fs::path path(entry);
  if (is_directory(entry)) {
    source.kind = SourceKind::kFolder;
    collect_files(path, path, source);
    std::sort(source.files.begin(), source.files.end(),
              [](const SourceFile& a, const SourceFile& b) { return a.name < b.name; });
    if (source.files.empty()) {
      fail_usage("[data] {}: no file below this folder ({} hidden names, links or special files left out)", entry,
                 source.num_left_out);
    }
    return source;
  }
  if (!is_regular_file(entry)) fail_usage("[data] {}: neither a regular file nor a folder", entry);
  if (file_size_bytes(entry) == 0) fail_usage("[data] {}: the file is empty", entry);
  if (path.extension() == ".jsonl") source.kind = SourceKind::kJsonl;
  if (path.extension() == ".shard") source.kind = SourceKind::kShard;
  source.files.push_back({entry, path.filename().string()});
  return source;
}

std::string stem_of(const Source& source) {
  const fs::path path = fs::path(source.path).lexically_normal();
  const fs::path last = path.has_filename() ? path.filename() : path.parent_path().filename();
  const std::string name = source.kind == SourceKind::kFolder ? last.string() : last.stem().string();
  return name == "." || name == ".." ? "" : name;
}

}  // namespace

std::vector<Source> find_sources(const std::vector<std::string>& entries) {
  if (entries.empty()) fail_usage("[data]: no entry; expected at least one file or folder");
  if (entries.size() >= std::numeric_limits<std::uint16_t>::max()) {
    fail_usage("[data]: {} entries, at most {} are supported", entries.size(),
               std::numeric_limits<std::uint16_t>::max() - 1);
  }
  std::vector<Source> sources;
  std::set<std::string> taken;
  for (const std::string& entry : entries) {
    sources.push_back(find_source(entry));
    sources.back().name = unique_name(stem_of(sources.back()), taken);
  }
  return sources;
}

std::string hash_sources(const std::vector<Source>& sources) {
  std::vector<const SourceFile*> files;
  for (const Source& source : sources) {
    for (const SourceFile& file : source.files) files.push_back(&file);
  }
  std::vector<std::string> hashes(files.size());
  std::vector<std::exception_ptr> errors(files.size());
  parallel_for(static_cast<std::int64_t>(files.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      try {
        hashes[at] = sha256_hex(MappedFile(files[at]->path).bytes());
      } catch (...) {
        errors[at] = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  Sha256 hash;
  std::size_t at = 0;
  for (const Source& source : sources) {
    hash.update(fmt::format("source {} {} {}\n", source.name, static_cast<int>(source.kind), source.files.size()));
    for (const SourceFile& file : source.files) hash.update(fmt::format("{} {}\n", hashes[at++], file.name));
  }
  return hash.hex();
}

std::string RawDocument::where() const { return line > 0 ? fmt::format("{}:{}", file->path, line) : file->path; }

std::uint64_t RawDocument::size_bytes() const { return line > 0 ? line_text.size() : file_size_bytes(file->path); }

DocumentReader::DocumentReader(const std::vector<Source>& sources) : sources_(&sources) {}

bool DocumentReader::next_line(RawDocument& document) {
  const std::string_view text = as_text(lines_->bytes());
  while (line_begin_ < text.size()) {
    const std::size_t end = std::min(text.find('\n', line_begin_), text.size());
    const std::string_view line = text.substr(line_begin_, end - line_begin_);
    line_begin_ = end + 1;
    ++line_;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    document.line = line_;
    document.bytes = lines_;
    document.line_text = line;
    return true;
  }
  lines_.reset();
  return false;
}

bool DocumentReader::next(RawDocument& document) {
  while (source_ < sources_->size()) {
    const Source& source = (*sources_)[source_];
    if (source.kind == SourceKind::kShard) {
      fail_usage("[data] {}: a token shard holds no text; give the text it was built from", source.path);
    }
    if (file_ == source.files.size()) {
      ++source_;
      file_ = 0;
      continue;
    }
    document = RawDocument{.source = static_cast<std::int32_t>(source_),
                           .file = &source.files[file_],
                           .line = 0,
                           .bytes = nullptr,
                           .line_text = {}};
    if (source.kind != SourceKind::kJsonl) {
      ++file_;
      return true;
    }
    if (!lines_) {
      lines_ = std::make_shared<const MappedFile>(source.files[file_].path);
      line_begin_ = 0;
      line_ = 0;
    }
    if (next_line(document)) return true;
    ++file_;
  }
  return false;
}

DocumentText::DocumentText(const RawDocument& document) {
  if (document.line > 0) {
    parsed_ = text_of_json_line(document.line_text, document.where());
    if (parsed_.empty()) status_ = DocumentStatus::kEmpty;
    return;
  }
  map_.emplace(document.file->path);
  view_ = as_text(map_->bytes());
  if (view_.empty()) {
    status_ = DocumentStatus::kEmpty;
  } else if (std::memchr(view_.data(), 0, view_.size()) != nullptr) {
    status_ = DocumentStatus::kBinary;
  }
}

void for_each_document(const std::vector<Source>& sources,
                       const std::function<void(std::string_view text, std::int32_t source)>& visit) {
  DocumentReader reader(sources);
  RawDocument document;
  while (reader.next(document)) {
    const DocumentText text(document);
    if (text.status() == DocumentStatus::kText) visit(text.text(), document.source);
  }
}

}  // namespace ida::data
