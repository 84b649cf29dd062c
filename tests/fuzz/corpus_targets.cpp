// Training data before it is encoded: .jsonl files and files of token ids.
#include <algorithm>
#include <cstring>

#include "data/document.h"
#include "data/encode_document.h"
#include "fuzz/support.h"

namespace ida::fuzz {
namespace {

using data::DocumentStatus;
using data::EncodedDocument;
using data::LossMask;

// One id for an ASCII byte, none for the others, as a vocabulary without byte tokens. '^' and '$' in a text are BOS and
// EOS, as special tokens written in a text are.
class ToyEncoder final : public data::TokenEncoder {
 public:
  // Bit 0 of `choice`: has BOS; bit 1: has EOS.
  explicit ToyEncoder(unsigned choice) : bos_(choice & 1), eos_(choice & 2) {}
  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    for (const char c : text) {
      if (static_cast<unsigned char>(c) < 0x80) ids.push_back(c);
    }
    return ids;
  }
  std::uint64_t text_bytes(std::span<const std::int32_t> ids) const override { return ids.size(); }
  std::int64_t vocab_size() const override { return 0x80; }
  std::optional<std::int32_t> bos_id() const override { return bos_ ? std::optional('^') : std::nullopt; }
  std::optional<std::int32_t> eos_id() const override { return eos_ ? std::optional('$') : std::nullopt; }
  std::string content_hash() const override { return "toy"; }

 private:
  bool bos_;
  bool eos_;
};

const std::initializer_list<ExitCode> kCodes = {ExitCode::kUsage, ExitCode::kCorrupt};

void check_encoded(const EncodedDocument& document, const ToyEncoder& encoder) {
  if (document.status == DocumentStatus::kEmpty || document.status == DocumentStatus::kBinary) {
    require(document.ids.empty() && document.trained.empty(), "a document that is left out has ids");
    return;
  }
  require(!document.ids.empty(), "a document without ids counts as text");
  for (const std::int32_t id : document.ids) require(id >= 0 && id < encoder.vocab_size(), "an id outside the vocabulary");
  const std::vector<std::uint8_t>& trained = document.trained;
  require(trained.empty() || trained.size() == document.ids.size(), "a mask of another length than its ids");
  const bool has_target = trained.empty() || std::find(trained.begin() + 1, trained.end(), 1) != trained.end();
  require(has_target == (document.status == DocumentStatus::kText), "a document without a target is not told apart");
}

// Encodes under every mask: the ids are the same, and a narrower mask trains nothing more.
void check_document(const data::RawDocument& raw, const ToyEncoder& encoder) {
  const data::PlainChatTemplate chat;
  EncodedDocument wider;
  for (const LossMask mask : {LossMask::kAll, LossMask::kAssistant, LossMask::kCompletion}) {
    EncodedDocument document = data::encode_document(raw, encoder, mask, chat);
    const bool taken = accepted(kCodes, [&] {
      if (document.error) std::rethrow_exception(document.error);
    });
    if (!taken) return;  // what one mask refuses, the narrower ones refuse
    check_encoded(document, encoder);
    if (mask != LossMask::kAll) {
      require(document.ids == wider.ids && document.text_bytes == wider.text_bytes, "a mask changes the ids");
      for (std::size_t i = 0; i < document.trained.size() && !wider.trained.empty(); ++i)
        require(document.trained[i] <= wider.trained[i], "a narrower mask trains more");
    }
    wider = std::move(document);
  }
}

void use_corpus(const std::string& path, unsigned choice) {
  std::vector<data::Source> sources;
  if (!accepted(kCodes, [&] { sources = data::find_sources({path}); })) return;
  accepted(kCodes, [&] {
    data::for_each_document(
        sources, [](std::string_view text, std::int32_t) { require(!text.empty(), "an empty document was visited"); });
  });
  accepted(kCodes, [&] {
    const ToyEncoder encoder(choice);
    data::DocumentReader reader(sources, {}, encoder.eos_id());
    data::RawDocument raw;
    while (reader.next(raw)) check_document(raw, encoder);
  });
}

// A file of tokens with the number of tokens that its size allows.
std::string with_own_count(std::string_view file) {
  constexpr std::size_t kHeaderBytes = 1024;
  std::string repaired(file);
  if (file.size() < kHeaderBytes) return repaired;
  const std::size_t width = static_cast<unsigned char>(file[4]) == 1 ? 2 : 4;  // the version says it
  const auto count = static_cast<std::int32_t>((file.size() - kHeaderBytes) / width);
  std::memcpy(repaired.data() + 8, &count, sizeof(count));
  repaired.resize(kHeaderBytes + static_cast<std::size_t>(count) * width);
  return repaired;
}

template <typename Id>
std::string token_file(std::int32_t magic, std::int32_t version, const std::vector<Id>& ids) {
  std::vector<std::int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<std::int32_t>(ids.size());
  std::string file(reinterpret_cast<const char*>(header.data()), header.size() * sizeof(std::int32_t));
  return file.append(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(Id));
}

}  // namespace

// A byte, then the bytes of a .jsonl file. Bits 0 and 1 choose the encoder; bit 3: the texts alone are read.
void run_json_lines(Input input) {
  if (input.empty()) return;
  use_corpus(scratch_file("input.jsonl", text_of(input).substr(1)), std::to_integer<unsigned>(input[0]));
}

std::vector<std::string> json_lines_seeds() {
  return {
      "0{\"text\": \"one\"}\n\n{\"id\": 3, \"text\": \"tw\\u00f6 \\ud83d\\ude00 ^$\"}\r\n{\"text\":\"\"}",
      R"(2{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":"a"}]})",
      R"(3{"conversations":[{"from":"human","value":"h"},{"from":"gpt","value":"g"},{"from":"observation","value":"o"},)"
      R"({"from":"gpt","value":""}]})",
      R"(3{"prompt":"p","completion":"c"})"
      "\n"
      R"({"prompt":"","completion":"\u00e4"})",
      R"(1{"prompt":[{"role":"user","content":"p"}],"completion":"c"})",
      R"(2{"instruction":"i","input":"x","output":"o"})"
      "\n"
      R"({"instruction":"i","output":"o"})",
      R"(3{"input_ids":[94,5,6,36],"labels":[-100,-100,6,36]})"
      "\n"
      R"({"input_ids":[7,127]})"
      "\n"
      R"({"input_ids":[7,8],"labels":[7,-100]})",
      R"(0{"meta":{"a":[1,-2.5e3,null,true]},"text":"x"})",
      R"(8{"messages":[{"role":"user","content":"u"},{"role":"assistant","content":"a"}]})"
      "\n"
      R"({"text":"t"})"};
}

// A byte, then the bytes of a file of tokens. Bits 0 and 1 choose the encoder; bit 2: the count is made right first;
// bit 3: the texts alone are read, of which there are none.
void run_token_file(Input input) {
  if (input.empty()) return;
  const auto choice = std::to_integer<unsigned>(input[0]);
  const std::string_view body = text_of(input).substr(1);
  use_corpus(scratch_file("input.bin", (choice & 4) != 0 ? with_own_count(body) : std::string(body)), choice);
}

std::vector<std::string> token_file_seeds() {
  const std::string narrow = token_file<std::uint16_t>(20240520, 1, {'^', 5, 6, '$', '$', 7, '$'});
  const std::string wide = token_file<std::uint32_t>(20240801, 7, {'$', '^', 5, '$', 127, 1});
  return {"2" + narrow, "7" + narrow, "3" + wide, "6" + wide, "4" + narrow};
}

}  // namespace ida::fuzz
