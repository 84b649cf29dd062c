// The disk of a process under test: counts its file operations, and makes one of them fail, tear or be the last.
#pragma once
#include <string>
#include <vector>

namespace ida::reliability {

enum class Fault {
  kNone,
  kFail,        // this operation fails once (EIO)
  kDead,        // this and every later operation fails (EIO)
  kFull,        // from here on nothing that needs space works (ENOSPC at odd operations, EDQUOT at even ones)
  kTear,        // of a write half its bytes reach the disk, then the process is gone
  kKill,        // the process is gone instead of this operation
  kKillLatest,  // the process is gone once `latest` has moved for the at-th time
};
const char* fault_name(Fault fault);

struct FaultPlan {
  Fault fault = Fault::kNone;
  int at = 0;  // operation number, from 1
};

// Replaces the table of file operations of this process for good. `log` is a file that gets a line "kind path" per
// operation, in their order; empty: none.
void install_faults(const FaultPlan& plan, const std::string& log);

struct Operation {
  std::string kind;  // open, create, read, write, sync, map, rename, unlink, symlink, mkdir, rmdir
  std::string path;
};
std::vector<Operation> read_operations(const std::string& log);

}  // namespace ida::reliability
