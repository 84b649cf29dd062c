#include "data/build_state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace ida::data {
namespace {

using nlohmann::json;

constexpr std::string_view kInfix = ".parts-";
constexpr std::size_t kKeyDigits = 8;
constexpr const char* kNote = "progress.json";

// "a/b.shard" -> "b"
std::string stem_of(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  if (name.ends_with(".shard")) name.resize(name.size() - 6);
  return name;
}

json to_json(const BuildState& state) {
  const BuildReport& r = state.report;
  const ReaderPosition& p = state.next;
  return {{"documents", r.num_documents}, {"tokens", r.num_tokens},
          {"text_bytes", r.text_bytes},   {"empty", r.num_empty},
          {"binary", r.num_binary},       {"untrained", r.num_untrained},
          {"read_bytes", r.read_bytes},   {"next", {p.source, p.file, p.byte, p.line}}};
}

BuildState state_from_json(const json& text) {
  BuildState state;
  BuildReport& r = state.report;
  text.at("documents").get_to(r.num_documents);
  text.at("tokens").get_to(r.num_tokens);
  text.at("text_bytes").get_to(r.text_bytes);
  text.at("empty").get_to(r.num_empty);
  text.at("binary").get_to(r.num_binary);
  text.at("untrained").get_to(r.num_untrained);
  text.at("read_bytes").get_to(r.read_bytes);
  const auto next = text.at("next").get<std::array<std::int64_t, 4>>();
  state.next = {.source = next[0], .file = next[1], .byte = next[2], .line = next[3]};
  return state;
}

// Whether the file is the part that the note describes; if not, whatever the reason, it is built again.
bool is_part(const std::string& path, const ShardPart& part, const std::string& key) {
  try {
    const TokenShard shard(path);
    return part_of(shard) == part && shard.build_key() == key;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

BuildFolder::BuildFolder(const std::string& path, const std::string& key)
    : path_(path),
      key_(key),
      folder_(parent_path(path) + "/" + stem_of(path) + std::string(kInfix) + key.substr(0, kKeyDigits)) {
  make_directories(folder_);
  lock();
  take_over();
  remove_strangers();
}

BuildFolder::~BuildFolder() {
  ::close(lock_fd_);
  if (!parts_.empty()) return;
  try {
    remove_tree(folder_);
  } catch (const Error&) {  // an empty folder is left; the next build of this name removes it
  }
}

void BuildFolder::lock() {
  lock_fd_ = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_fd_ < 0) fail_runtime("{}: cannot be opened: {}", folder_, std::strerror(errno));
  if (::flock(lock_fd_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(lock_fd_);
  fail_usage("{}: another process is building {}; wait for it or stop it", folder_, path_);
}

void BuildFolder::take_over() {
  const std::string note_path = folder_ + "/" + kNote;
  if (!is_regular_file(note_path)) return;
  try {
    const json note = parse_json(read_file(note_path), note_path);
    if (note.at("build_key") != key_) return;
    const std::vector<ShardPart> parts = parts_from_json(note.at("parts"), note_path);
    for (std::size_t i = 0; i < parts.size() && is_part(part_path(folder_, i), parts[i], key_); ++i) {
      after_.push_back(state_from_json(note.at("after").at(i)));
      parts_.push_back(parts[i]);
    }
  } catch (const std::exception&) {  // a note that cannot be read is worth nothing
    parts_.clear();
    after_.clear();
  }
  if (parts_.empty()) return;
  state_ = after_.back();
  state_.report.num_parts = static_cast<std::int64_t>(parts_.size());
  state_.report.num_reused = state_.report.num_parts;
}

void BuildFolder::remove_strangers() const {
  std::set<std::string> known = {kNote};
  for (std::size_t i = 0; i < parts_.size(); ++i) known.insert(part_path("", i).substr(1));
  for (const std::string& name : list_directory(folder_)) {
    if (!known.contains(name)) remove_tree(folder_ + "/" + name);
  }
}

void BuildFolder::add_finished_part(const ShardPart& part) {
  parts_.push_back(part);
  state_.report.num_parts = static_cast<std::int64_t>(parts_.size());
  after_.push_back(state_);
  json after = json::array();
  for (const BuildState& state : after_) after.push_back(to_json(state));
  write_file_atomic(folder_ + "/" + kNote,
                    json({{"build_key", key_}, {"parts", parts_to_json(parts_)}, {"after", after}}).dump());
}

void BuildFolder::publish() {
  if (parts_.size() == 1) {
    rename_path(part_path(folder_, 0), path_);
    sync_directory(parent_path(path_));
    remove_tree(folder_);
  } else {
    write_shard_index(path_, {.build_key = key_, .folder = folder_.substr(folder_.rfind('/') + 1), .parts = parts_});
  }
  remove_older_builds();
}

void BuildFolder::remove_older_builds() const {
  const std::string prefix = stem_of(path_) + std::string(kInfix);
  for (const std::string& name : list_directory(parent_path(path_))) {
    const bool ours = name.starts_with(prefix) && name.size() == prefix.size() + kKeyDigits &&
                      name.find_first_not_of("0123456789abcdef", prefix.size()) == std::string::npos;
    const std::string folder = parent_path(path_) + "/" + name;
    if (ours && folder != folder_ && is_directory(folder)) remove_tree(folder);
  }
}

}  // namespace ida::data
