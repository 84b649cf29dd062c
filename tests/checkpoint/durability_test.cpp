// The order of operations that power loss depends on: nothing is renamed before it was synced, nothing is announced
// before its folder was.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "checkpoint/store.h"
#include "checkpoint/temp_dir.h"
#include "checkpoint/tiny_checkpoint.h"

namespace ida::checkpoint {
namespace {

struct Event {
  std::string what;  // "write", "sync", "rename", "symlink"
  std::string path;
  std::string to;  // of a rename
};
std::vector<Event> events;
std::map<int, std::string> path_of_fd;

const FileOps kRecordingOps = {
    .open =
        [](const char* path, int flags, mode_t mode) {
          const int fd = system_file_ops().open(path, flags, mode);
          path_of_fd[fd] = path;
          return fd;
        },
    .read = system_file_ops().read,
    .write =
        [](int fd, const void* data, std::size_t size) {
          events.push_back({"write", path_of_fd[fd], ""});
          return system_file_ops().write(fd, data, size);
        },
    .fsync =
        [](int fd) {
          events.push_back({"sync", path_of_fd[fd], ""});
          return 0;
        },
    .close = system_file_ops().close,
    .map = system_file_ops().map,
    .unmap = system_file_ops().unmap,
    .rename =
        [](const char* from, const char* to) {
          events.push_back({"rename", from, to});
          return system_file_ops().rename(from, to);
        },
    .unlink = system_file_ops().unlink,
    .symlink =
        [](const char* target, const char* path) {
          events.push_back({"symlink", path, target});
          return system_file_ops().symlink(target, path);
        },
    .mkdir = system_file_ops().mkdir,
    .rmdir = system_file_ops().rmdir,
};

void record_save(const std::string& dir) {
  CheckpointStore store(dir);
  const FileOps old = replace_file_ops(kRecordingOps);
  events.clear();
  store.save(TinyState(2).contents());
  replace_file_ops(old);
}

std::size_t index_of_rename_to(const std::string& to) {
  const auto found =
      std::find_if(events.begin(), events.end(), [&](const Event& e) { return e.what == "rename" && e.to == to; });
  EXPECT_NE(found, events.end()) << to;
  return static_cast<std::size_t>(found - events.begin());
}

bool synced_between(const std::string& path, std::size_t begin, std::size_t end) {
  return std::any_of(events.begin() + static_cast<std::ptrdiff_t>(begin), events.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](const Event& e) { return e.what == "sync" && e.path == path; });
}

TEST(Durability, FilesAreSyncedBeforeTheyGetTheirName) {
  const TempDir dir;
  record_save(dir.path());
  int num_files = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const std::string from = events[i].path;
    std::size_t last_write = 0;
    bool written = false;
    for (std::size_t j = 0; j < i; ++j) {
      if (events[j].what == "write" && events[j].path == from) {
        last_write = j;
        written = true;
      }
    }
    if (events[i].what != "rename" || !written) continue;
    EXPECT_TRUE(synced_between(from, last_write, i)) << events[i].to;
    ++num_files;
  }
  EXPECT_EQ(num_files, 6);  // model, optim, tokenizer, config, state, manifest
}

TEST(Durability, TheManifestIsLastAndLatestMovesAfterTheFolder) {
  const TempDir dir;
  record_save(dir.path());
  const std::string saving = dir / ".step-2.saving";
  const std::size_t manifest = index_of_rename_to(saving + "/manifest.json");
  const std::size_t published = index_of_rename_to(dir / "step-2");
  const std::size_t latest = index_of_rename_to(dir / "latest");
  for (std::size_t i = manifest; i < events.size(); ++i) EXPECT_NE(events[i].what, "write") << events[i].path;
  EXPECT_LT(manifest, published);
  EXPECT_TRUE(synced_between(saving, manifest, published));
  EXPECT_TRUE(synced_between(dir.path(), published, latest));
  EXPECT_TRUE(synced_between(dir.path(), latest, events.size()));
  EXPECT_LT(published, latest);
}

}  // namespace
}  // namespace ida::checkpoint
