// A model of a disk that loses what was not synced: file operations are recorded while they happen, replayed into the
// model up to any of them, and turned into one of the folders that a power cut may leave there.
//
// The rules are POSIX's, not those of one file system: fsync of a file makes its bytes durable but not its name; fsync
// of a folder makes the names in it durable. Of everything since, any subset may be on the disk: each write, in whole, in
// part, or as zeros below a later one; each name made, moved (within a folder in one piece) or removed.
#pragma once
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace ida::reliability {

struct DiskEvent {
  std::string kind;       // open, create, write, sync, rename, unlink, symlink, mkdir, rmdir
  std::string path = {};  // of open, create and names; "to" of a rename
  std::string from = {};  // of a rename; target of a symlink
  int fd = -1;
  std::string bytes = {};
};

// Records the file operations below `root` for as long as it lives; they also happen. One at a time.
class DiskRecorder {
 public:
  explicit DiskRecorder(const std::string& root);
  ~DiskRecorder();
  DiskRecorder(const DiskRecorder&) = delete;
  DiskRecorder& operator=(const DiskRecorder&) = delete;
  const std::vector<DiskEvent>& events() const;  // paths relative to the root
};

class DiskModel {
 public:
  DiskModel();
  void apply(const DiskEvent& event);
  // Writes what a power cut now leaves into the empty folder `image`. `loss_frac`: how much of what was not synced goes.
  void cut_power(std::mt19937_64& random, double loss_frac, const std::string& image) const;

 private:
  struct Write {
    std::size_t offset = 0;
    std::string bytes;
  };
  struct Names {  // one atomic change of a folder
    std::vector<std::string> removed;
    std::map<std::string, int> added;
  };
  struct Node {
    char type = 'f';  // f file, d folder, l link
    std::string target;
    std::string data, durable;
    std::vector<Write> writes;  // since the last sync
    std::map<std::string, int> names, durable_names;
    std::vector<Names> changes;
  };
  int node_at(const std::string& path) const;
  int folder_of(const std::string& path) const;
  int add(char type);
  void change(int folder, const Names& names);
  void write_image(int folder, std::mt19937_64& random, double loss_frac, const std::string& path) const;

  std::vector<Node> nodes_;
  std::map<int, int> node_of_fd_;
};

}  // namespace ida::reliability
