// Names in files of strangers: what an index, a manifest or a list names outside its place, or what is no regular file,
// is refused before anything of that name is opened.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "checkpoint/hf_model.h"
#include "checkpoint/manifest.h"
#include "data/source.h"
#include "fuzz/support.h"
#include "text/tokenizer.h"

namespace ida::fuzz {
namespace {

namespace fs = std::filesystem;

// Every path that was opened for reading while this lives.
class OpenLog {
 public:
  OpenLog() : before_(file_ops()) {
    paths().clear();
    FileOps ops = before_;
    ops.open = [](const char* path, int flags, mode_t mode) {
      paths().emplace_back(path);
      return system_file_ops().open(path, flags, mode);
    };
    replace_file_ops(ops);
  }
  ~OpenLog() { replace_file_ops(before_); }
  OpenLog(const OpenLog&) = delete;
  OpenLog& operator=(const OpenLog&) = delete;

  static std::vector<std::string>& paths() {
    static std::vector<std::string> all;
    return all;
  }

 private:
  FileOps before_;
};

// Ways to leave a folder or to name what is not a file in it.
std::vector<std::string> hostile_names() {
  std::vector<std::string> names = {"",
                                    ".",
                                    "..",
                                    "/",
                                    "//",
                                    "a/",
                                    "/etc/passwd",
                                    "//etc/passwd",
                                    "/dev/zero",
                                    "/proc/self/mem",
                                    "C:\\x",
                                    "\\\\host\\x",
                                    "~/x",
                                    std::string("a\0b", 3),
                                    std::string("\0", 1),
                                    std::string("a.safetensors\0", 14),
                                    "a\nb",
                                    "a\tb",
                                    "\x7F",
                                    "a\rb",
                                    std::string(256, 'a'),
                                    std::string(5000, 'a'),
                                    std::string(5000, '/')};
  const std::vector<std::string> ups = {"../",     "..\\",   "./../",  "x/../../", ".//..//",
                                        "%2e%2e/", "..%2f/", "....//", "..;/",     "\xC0\xAE\xC0\xAE/",
                                        "/",       "//",     "./",     "sub/",     "sub\\"};
  const std::vector<std::string> targets = {"secret", "secret.safetensors", "model.safetensors", "etc/passwd", "", ".",
                                            "secret/"};
  for (const std::string& up : ups) {
    for (const std::string& target : targets) {
      names.push_back(up + target);
      names.push_back(up + up + target);
    }
  }
  return names;
}

class HostilePaths : public testing::Test {
 protected:
  HostilePaths() : folder_(scratch_folder() + "/paths") {
    fs::remove_all(folder_);
    fs::create_directories(folder_ + "/model/sub");
    scratch_file("paths/secret.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10));
    scratch_file("paths/secret", "secret");
    scratch_file("paths/model/config.json", R"({"model_type":"llama","vocab_size":8,"hidden_size":4,"intermediate_size":6,)"
                                            R"("num_hidden_layers":1,"num_attention_heads":2})");
  }

  // Refused with the given code, and nothing opened but the `num_openable` files that belong there.
  template <typename Action>
  void expect_refused_unopened(ExitCode code, std::size_t num_openable, const std::string& what, Action&& action) {
    const OpenLog log;
    EXPECT_FALSE(accepted({code}, action)) << what;
    EXPECT_LE(OpenLog::paths().size(), num_openable) << what << " opened " << OpenLog::paths().back();
    ++num_refused_;
  }

  void open_index_with(const std::string& name) {
    const nlohmann::json index = {{"weight_map", {{"w", name}}}};
    // Names that are not UTF-8 cannot stand in JSON.
    scratch_file("paths/model/model.safetensors.index.json",
                 index.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    expect_refused_unopened(ExitCode::kCorrupt, 2, "index: " + name,
                            [&] { checkpoint::HfModel model(folder_ + "/model"); });
  }

  std::string folder_;
  int num_refused_ = 0;
};

TEST_F(HostilePaths, OfAnIndexAreNotOpened) {
  for (const std::string& name : hostile_names()) {
    open_index_with(name);
    open_index_with(name + ".safetensors");
  }
  EXPECT_GE(num_refused_, 400);
}

TEST_F(HostilePaths, SpecialFilesAndLinksOfAnIndexAreNotOpened) {
  const std::string shard = folder_ + "/model/x.safetensors";
  const auto refuse = [&] {
    open_index_with("x.safetensors");
    fs::remove_all(shard);
  };
  for (const char* target : {"../secret.safetensors", "/etc/passwd", "/dev/zero", "/dev/null", "/dev/tty", "/proc/self/mem",
                             "..", ".", "/", "sub", "nowhere", "x.safetensors", "../paths/secret.safetensors"}) {
    fs::create_symlink(target, shard);
    refuse();
  }
  fs::create_symlink(folder_ + "/secret.safetensors", shard);
  refuse();
  ASSERT_EQ(mkfifo(shard.c_str(), 0600), 0);
  refuse();
  fs::create_directory(shard);
  refuse();
}

TEST_F(HostilePaths, OfAManifestAreRefused) {
  for (const std::string& name : hostile_names()) {
    // "%2e%2e" and the like are names like others to a file system; only a separator or a dot name leads elsewhere.
    if (checkpoint::is_plain_file_name(name)) continue;
    checkpoint::Manifest manifest;
    manifest.files[name] = {.size_bytes = 1, .sha256 = std::string(64, '0')};
    std::string text;
    try {
      text = checkpoint::write_manifest(manifest);
    } catch (const nlohmann::json::exception&) {  // not UTF-8: no manifest can hold it
      continue;
    }
    expect_refused_unopened(ExitCode::kCorrupt, 0, "manifest: " + name,
                            [&] { checkpoint::parse_manifest(text, "manifest.json"); });
  }
  EXPECT_GE(num_refused_, 150);
}

// Entries of `[data]` and `[tokenizer] path` are the user's own and may lie anywhere, but must be what they seem.
TEST_F(HostilePaths, OfDataListsAndTokenizersAreNotOpenedUnlessRegular) {
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  fs::create_directory(folder_ + "/empty");
  fs::create_symlink("/dev/zero", folder_ + "/zero.txt");
  fs::create_symlink("fifo", folder_ + "/fifo.jsonl");
  fs::create_symlink("loop", folder_ + "/loop");
  scratch_file("paths/good.txt", "text");
  using namespace std::string_literals;
  const std::vector<std::string> entries = {"",
                                            "/dev/zero",
                                            "/dev/null",
                                            "/dev/stdin",
                                            "/dev/tty",
                                            fifo,
                                            folder_ + "/zero.txt",
                                            folder_ + "/fifo.jsonl",
                                            folder_ + "/loop",
                                            folder_ + "/empty",
                                            folder_ + "/nowhere",
                                            folder_ + "/good.txt/",
                                            folder_ + "/good.txt/.",
                                            folder_ + "/good.txt\0"s,
                                            folder_ + "/good.txt\0.shard"s,
                                            "\0"s + folder_,
                                            folder_ + "/" + std::string(300, 'a'),
                                            std::string(5000, 'a'),
                                            folder_ + "/" + std::string(5000, '/') + "x",
                                            folder_ + "\\good.txt",
                                            folder_ + "/%67ood.txt"};
  for (const std::string& entry : entries) {
    expect_refused_unopened(ExitCode::kUsage, 0, "data: " + entry, [&] { data::find_sources({entry}); });
    expect_refused_unopened(ExitCode::kUsage, 0, "tokenizer: " + entry, [&] { text::Tokenizer::load(entry); });
  }
}

}  // namespace
}  // namespace ida::fuzz
