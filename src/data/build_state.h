// The folder in which a build keeps its finished parts and, in progress.json, how far it came with each.
#pragma once
#include <string>
#include <vector>

#include "data/build_shard.h"
#include "data/shard_index.h"

namespace ida::data {

struct BuildState {
  ReaderPosition next;  // of the document after those that were added
  BuildReport report;   // of the documents that were added
};

class BuildFolder {
 public:
  // Of the build `key` of NAME.shard at `path`. Takes over what an interrupted build left: the longest run of finished
  // parts that are still what the note says; anything else in the folder is removed. Errors (kUsage): another process is at
  // the same build.
  BuildFolder(const std::string& path, const std::string& key);
  // Removes the folder unless it holds a finished part.
  ~BuildFolder();
  BuildFolder(const BuildFolder&) = delete;
  BuildFolder& operator=(const BuildFolder&) = delete;

  BuildState& state() { return state_; }
  // Where the next part is to be written.
  std::string next_part() const { return part_path(folder_, parts_.size()); }
  // The next part is durable: notes it together with the state.
  void add_finished_part(const ShardPart& part);
  // Makes NAME.shard: the only part itself, or an index. Then removes what earlier builds of this name left.
  void publish();

 private:
  void lock();
  void take_over();
  void remove_strangers() const;
  void remove_older_builds() const;

  std::string path_;
  std::string key_;
  std::string folder_;
  int lock_fd_ = -1;  // a kernel lock on the folder, which ends with the process
  BuildState state_;
  std::vector<ShardPart> parts_;   // finished and durable
  std::vector<BuildState> after_;  // [parts] the state when each was finished
};

}  // namespace ida::data
