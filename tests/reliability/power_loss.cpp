#include "reliability/power_loss.h"

#include <fcntl.h>
#include <unistd.h>

#include <cassert>
#include <filesystem>
#include <fstream>

#include "base/file.h"

namespace ida::reliability {
namespace {

namespace fs = std::filesystem;

std::string root_of_record;
std::vector<DiskEvent> record;
FileOps former;

bool inside(const std::string& path) { return path.starts_with(root_of_record + "/"); }
std::string relative(const std::string& path) { return path.substr(root_of_record.size() + 1); }

void add_event(int result, const char* kind, const std::string& path, const std::string& from = "") {
  if (result == 0 && inside(path)) record.push_back({.kind = kind, .path = relative(path), .from = from});
}

FileOps recording_ops() {
  FileOps ops = system_file_ops();
  ops.open = [](const char* path, int flags, mode_t mode) {
    const bool is_new = (flags & O_CREAT) != 0 && !path_exists(path);
    const int fd = system_file_ops().open(path, flags, mode);
    if (fd < 0) return fd;
    const std::string name = inside(path) ? relative(path) : path == root_of_record ? "" : "/";
    record.push_back({.kind = is_new ? "create" : "open", .path = name, .from = {}, .fd = fd});
    return fd;
  };
  ops.write = [](int fd, const void* data, std::size_t size) {
    record.push_back({.kind = "write", .path = {}, .from = {}, .fd = fd, .bytes = {static_cast<const char*>(data), size}});
    return system_file_ops().write(fd, data, size);
  };
  ops.fsync = [](int fd) {
    record.push_back({.kind = "sync", .path = {}, .from = {}, .fd = fd});
    return 0;
  };
  ops.rename = [](const char* from, const char* to) {
    const int result = system_file_ops().rename(from, to);
    add_event(result, "rename", to, inside(from) ? relative(from) : from);
    return result;
  };
  ops.unlink = [](const char* path) {
    const int result = system_file_ops().unlink(path);
    add_event(result, "unlink", path);
    return result;
  };
  ops.symlink = [](const char* target, const char* path) {
    const int result = system_file_ops().symlink(target, path);
    add_event(result, "symlink", path, target);
    return result;
  };
  ops.mkdir = [](const char* path, mode_t mode) {
    const int result = system_file_ops().mkdir(path, mode);
    add_event(result, "mkdir", path);
    return result;
  };
  ops.rmdir = [](const char* path) {
    const int result = system_file_ops().rmdir(path);
    add_event(result, "rmdir", path);
    return result;
  };
  return ops;
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void put(std::string& data, std::size_t offset, std::string_view bytes) {
  if (data.size() < offset + bytes.size()) data.resize(offset + bytes.size(), '\0');
  data.replace(offset, bytes.size(), bytes);
}

}  // namespace

DiskRecorder::DiskRecorder(const std::string& root) {
  root_of_record = root;
  record.clear();
  former = replace_file_ops(recording_ops());
}

DiskRecorder::~DiskRecorder() { replace_file_ops(former); }

const std::vector<DiskEvent>& DiskRecorder::events() const { return record; }

DiskModel::DiskModel() { add('d'); }

int DiskModel::add(char type) {
  nodes_.emplace_back().type = type;
  return static_cast<int>(nodes_.size()) - 1;
}

int DiskModel::node_at(const std::string& path) const {
  int node = 0;
  for (const fs::path& part : fs::path(path)) {
    const auto& names = nodes_[static_cast<std::size_t>(node)].names;
    const auto found = names.find(part.string());
    if (found == names.end()) return -1;
    node = found->second;
  }
  return node;
}

int DiskModel::folder_of(const std::string& path) const { return node_at(fs::path(path).parent_path().string()); }

void DiskModel::change(int folder, const Names& names) {
  Node& node = nodes_[static_cast<std::size_t>(folder)];
  for (const std::string& name : names.removed) node.names.erase(name);
  for (const auto& [name, child] : names.added) node.names[name] = child;
  node.changes.push_back(names);
}

void DiskModel::apply(const DiskEvent& event) {
  const std::string name = last_part(event.path);
  if (event.kind == "create") {
    const int node = add('f');
    change(folder_of(event.path), {.removed = {}, .added = {{name, node}}});
    node_of_fd_[event.fd] = node;
  } else if (event.kind == "open") {
    node_of_fd_[event.fd] = event.path.starts_with('/') ? -1 : node_at(event.path);
  } else if (event.kind == "write") {
    Node& node = nodes_[static_cast<std::size_t>(node_of_fd_.at(event.fd))];
    node.writes.push_back({node.data.size(), event.bytes});
    node.data += event.bytes;
  } else if (event.kind == "sync") {
    const int index = node_of_fd_.at(event.fd);
    if (index < 0) return;
    Node& node = nodes_[static_cast<std::size_t>(index)];
    node.durable = node.data;
    node.writes.clear();
    node.durable_names = node.names;
    node.changes.clear();
  } else if (event.kind == "rename") {
    const int folder = folder_of(event.path);
    assert(folder == folder_of(event.from));  // nothing of ours moves between folders
    const int node = node_at(event.from);
    change(folder, {.removed = {last_part(event.from)}, .added = {{name, node}}});
  } else if (event.kind == "unlink" || event.kind == "rmdir") {
    change(folder_of(event.path), {.removed = {name}, .added = {}});
  } else {
    const int node = add(event.kind == "mkdir" ? 'd' : 'l');
    nodes_[static_cast<std::size_t>(node)].target = event.from;
    change(folder_of(event.path), {.removed = {}, .added = {{name, node}}});
  }
}

void DiskModel::write_image(int folder, std::mt19937_64& random, double loss_frac, const std::string& path) const {
  const auto lost = [&] { return std::uniform_real_distribution<>(0.0, 1.0)(random) < loss_frac; };
  std::map<std::string, int> names = nodes_[static_cast<std::size_t>(folder)].durable_names;
  for (const Names& made : nodes_[static_cast<std::size_t>(folder)].changes) {
    if (lost()) continue;
    for (const std::string& name : made.removed) names.erase(name);
    for (const auto& [name, node] : made.added) names[name] = node;
  }
  for (const auto& [name, index] : names) {
    const Node& node = nodes_[static_cast<std::size_t>(index)];
    const std::string child = path + "/" + name;
    if (node.type == 'd') {
      fs::create_directory(child);
      write_image(index, random, loss_frac, child);
    } else if (node.type == 'l') {
      fs::create_symlink(node.target, child);
    } else {
      std::string data = node.durable;
      for (const Write& write : node.writes) {
        if (lost()) continue;
        const std::size_t size = lost() ? random() % (write.bytes.size() + 1) : write.bytes.size();
        put(data, write.offset, std::string_view(write.bytes).substr(0, size));
      }
      std::ofstream(child, std::ios::binary) << data;
    }
  }
}

void DiskModel::cut_power(std::mt19937_64& random, double loss_frac, const std::string& image) const {
  write_image(0, random, loss_frac, image);
}

}  // namespace ida::reliability
