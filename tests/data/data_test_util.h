// Small corpora for the tests of this room.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/shard_writer.h"
#include "data/token_dataset.h"
#include "data/token_encoder.h"

namespace ida::data {

// Thousands of small files are written here and none has to survive a power loss.
inline const bool kSyncIsOff = [] {
  FileOps ops = system_file_ops();
  ops.fsync = [](int) { return 0; };
  replace_file_ops(ops);
  return true;
}();

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ida-data-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::string& content) const {
    const std::filesystem::path path(path_ + "/" + name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }
  std::vector<std::string> names() const { return list_directory(path_); }

 private:
  std::string path_;
};

inline std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Runs `call` and checks the error's exit code, that it is one line, and that it contains every part.
inline void expect_error(ExitCode code, const std::vector<std::string>& parts, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
    return;
  }
  ADD_FAILURE() << "no error; expected one with " << (parts.empty() ? "any text" : parts.front());
}

// One id a byte; 256 is BOS and 257 is EOS.
class ByteEncoder : public TokenEncoder {
 public:
  explicit ByteEncoder(bool bos = true, bool eos = true) : bos_(bos), eos_(eos) {}
  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::uint64_t text_bytes(std::span<const std::int32_t> ids) const override {
    return static_cast<std::uint64_t>(std::count_if(ids.begin(), ids.end(), [](std::int32_t id) { return id < 256; }));
  }
  std::int64_t vocab_size() const override { return 258; }
  std::optional<std::int32_t> bos_id() const override { return bos_ ? std::optional(256) : std::nullopt; }
  std::optional<std::int32_t> eos_id() const override { return eos_ ? std::optional(257) : std::nullopt; }
  std::string content_hash() const override { return "bytes"; }

 private:
  bool bos_;
  bool eos_;
};

struct TestDocument {
  std::vector<std::int32_t> tokens;
  std::int32_t source = 0;
  std::vector<std::uint8_t> trained = {};
  std::uint64_t text_bytes = 0;
};

inline void write_shard(const std::string& path, const std::vector<TestDocument>& documents, ShardInfo info) {
  ShardWriter writer(path, std::move(info));
  for (const TestDocument& document : documents) {
    writer.add_document({document.tokens, document.trained, document.source, document.text_bytes});
  }
  writer.finish();
}

inline ShardInfo test_info(std::int64_t vocab_size, std::vector<std::string> sources = {"a"}) {
  ShardInfo info;
  info.vocab_size = vocab_size;
  info.tokenizer_hash = "tok";
  info.source_names = std::move(sources);
  return info;
}

// A dataset of one shard in `folder`.
inline TokenDataset dataset_of(const TempFolder& folder, const std::vector<TestDocument>& documents, ShardInfo info) {
  const std::string path = folder / "data.shard";
  write_shard(path, documents, std::move(info));
  return TokenDataset::open({path});
}

// Documents of the given lengths whose tokens are 0, 1, 2, ... over the whole corpus, so an id names its place.
inline std::vector<TestDocument> counted_documents(const std::vector<std::int64_t>& lengths, std::int32_t first = 0) {
  std::vector<TestDocument> documents;
  for (const std::int64_t length : lengths) {
    TestDocument& document = documents.emplace_back();
    for (std::int64_t i = 0; i < length; ++i) document.tokens.push_back(first++);
    document.text_bytes = static_cast<std::uint64_t>(length) * 3;
  }
  return documents;
}

}  // namespace ida::data
