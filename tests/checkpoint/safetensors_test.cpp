#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/temp_dir.h"

namespace ida::checkpoint {
namespace {

std::string le64(std::uint64_t value) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &value, 8);
  return bytes;
}

std::string file_of(const std::string& header, const std::string& data) { return le64(header.size()) + header + data; }

SafetensorsContent parse(const std::string& file) { return parse_safetensors(as_bytes(file), "a.safetensors"); }

// The message of the refusal, or "" when the file is accepted.
std::string refusal(const std::string& file) {
  try {
    parse(file);
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ExitCode::kCorrupt));
    const std::string message = error.what();
    EXPECT_EQ(message.find("a.safetensors"), 0U) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message;
  }
  return "";
}

void expect_refused(const std::string& file, const std::string& named) {
  const std::string message = refusal(file);
  EXPECT_NE(message.find(named), std::string::npos) << "'" << message << "' does not say '" << named << "'";
  EXPECT_NE(message, "");
}

const std::string kEight(8, 'x');
// One U8 tensor "a" of 8 bytes with the given fields.
std::string entry_file(const std::string& fields) { return file_of("{\"a\":{" + fields + "}}", kEight); }
const std::string kGoodFields = R"("dtype":"U8","shape":[8],"data_offsets":[0,8])";

TEST(SafetensorsReader, AcceptsWhatTheReferenceAccepts) {
  EXPECT_EQ(refusal(entry_file(kGoodFields)), "");
  EXPECT_EQ(refusal(file_of("{}", "")), "");
  EXPECT_EQ(refusal(file_of(" \t\r\n{\"a\":{" + kGoodFields + "}} \t\r\n ", kEight)), "");
  EXPECT_EQ(refusal(file_of("{\"__metadata__\":null}", "")), "");
  EXPECT_EQ(refusal(file_of("{\"__metadata__\":{}}", "")), "");
  EXPECT_EQ(refusal(entry_file(kGoodFields + R"(,"extra":{"x":[1,null,{"y":-1.5e3}]})")), "");
  const SafetensorsContent scalar = parse(entry_file(R"("dtype":"F64","shape":[],"data_offsets":[0,8])"));
  EXPECT_TRUE(scalar.tensors[0].shape.empty());
  const SafetensorsContent empty = parse(file_of(R"({"z":{"dtype":"F32","shape":[3,0],"data_offsets":[0,0]}})", ""));
  EXPECT_EQ(empty.tensors[0].shape, (std::vector<std::int64_t>{3, 0}));
  EXPECT_EQ(refusal(entry_file(R"("dtype":"F4","shape":[16],"data_offsets":[0,8])")), "");
  const SafetensorsContent meta = parse(file_of(R"({"__metadata__":{"format":"pt","k":"\u00e9"}})", ""));
  EXPECT_EQ(meta.metadata.at("k"), "\xC3\xA9");
}

TEST(SafetensorsReader, SortsByOffsetAndGivesViews) {
  const std::string header = R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[5,8]},)"
                             R"("a":{"dtype":"I8","shape":[5],"data_offsets":[0,5]}})";
  const std::string file = file_of(header, "01234567");
  const SafetensorsContent content = parse(file);
  ASSERT_EQ(content.tensors.size(), 2U);
  EXPECT_EQ(content.tensors[0].name, "a");
  EXPECT_EQ(content.tensors[0].dtype_name(), "I8");
  EXPECT_EQ(content.tensors[1].bytes.size(), 3U);
  EXPECT_EQ(std::to_integer<char>(content.tensors[1].bytes[0]), '5');
}

TEST(SafetensorsReader, RefusesBadHeaderSizes) {
  for (std::size_t size = 0; size < 8; ++size) expect_refused(std::string(size, '\1'), "too short");
  expect_refused(le64(kMaxHeaderBytes + 1) + "{}", "at most");
  expect_refused(le64(~std::uint64_t{0}) + "{}", "at most");
  expect_refused(le64(std::uint64_t{1} << 63) + "{}", "at most");
  expect_refused(le64(3) + "{}", "does not fit");
  expect_refused(le64(kMaxHeaderBytes) + "{}", "does not fit");
  expect_refused(le64(0), "start with");
}

TEST(SafetensorsReader, RefusesBadJson) {
  expect_refused(file_of("{\"a\xFF\":{" + kGoodFields + "}}", kEight), "not valid JSON");
  expect_refused(file_of("{\"\\ud800\":{" + kGoodFields + "}}", kEight), "not valid JSON");
  expect_refused(file_of("{\"a\n\":{" + kGoodFields + "}}", kEight), "not valid JSON");
  expect_refused(file_of("{\"a\":{" + kGoodFields + "}", kEight), "not valid JSON");
  expect_refused(file_of("{\"a\":{" + kGoodFields + "}}x", kEight), "not valid JSON");
  expect_refused(file_of("{\"a\":{" + kGoodFields + "},}", kEight), "not valid JSON");
  expect_refused(file_of("{\"a\":{" + kGoodFields + "}}" + std::string(3, '\0'), kEight), "NUL");
  expect_refused(file_of("\xEF\xBB\xBF{\"a\":{" + kGoodFields + "}}", kEight), "start with");
  expect_refused(file_of("[]", ""), "start with");
  expect_refused(file_of("   ", ""), "start with");
  expect_refused(file_of("{\"a\":" + std::string(1 << 20, '[') + "}", ""), "array");
  expect_refused(entry_file(kGoodFields + ",\"deep\":" + std::string(1 << 20, '[')), "nested");
  expect_refused(entry_file(kGoodFields + ",\"deep\":NaN"), "not valid JSON");
}

TEST(SafetensorsReader, RefusesBadTypes) {
  expect_refused(file_of("{\"a\":null}", ""), "wrong type");
  expect_refused(file_of("{\"a\":3}", ""), "wrong type");
  expect_refused(file_of("{\"a\":[]}", ""), "array");
  expect_refused(file_of(R"({"__metadata__":{"k":1}})", ""), "not a string");
  expect_refused(file_of(R"({"__metadata__":{"k":null}})", ""), "not a string");
  expect_refused(file_of(R"({"__metadata__":{"k":{}}})", ""), "object");
  expect_refused(file_of(R"({"__metadata__":[]})", ""), "array");
  expect_refused(file_of(R"({"__metadata__":"x"})", ""), "wrong type");
  expect_refused(entry_file(R"("dtype":"U9","shape":[8],"data_offsets":[0,8])"), "U9");
  expect_refused(entry_file(R"("dtype":"u8","shape":[8],"data_offsets":[0,8])"), "dtype");
  expect_refused(entry_file(R"("dtype":8,"shape":[8],"data_offsets":[0,8])"), "wrong type");
  for (const char* number : {"-1", "-0", "8.0", "1e2", "18446744073709551616", "\"8\"", "true", "null", "[8]"}) {
    const std::string n = number;
    EXPECT_NE(refusal(entry_file(R"("dtype":"U8","shape":[)" + n + R"(],"data_offsets":[0,8])")), "") << n;
    EXPECT_NE(refusal(entry_file(R"("dtype":"U8","shape":[8],"data_offsets":[0,)" + n + "]")), "") << n;
    EXPECT_NE(refusal(entry_file(R"("dtype":"U8","shape":)" + (n == "[8]" ? "8" : n) + R"(,"data_offsets":[0,8])")), "");
  }
  expect_refused(entry_file(R"("dtype":"U8","shape":[8],"data_offsets":[8])"), "data_offsets");
  expect_refused(entry_file(R"("dtype":"U8","shape":[8],"data_offsets":[0,8,8])"), "data_offsets");
  expect_refused(entry_file(R"("dtype":"U8","shape":[8],"data_offsets":{})"), "object");
  expect_refused(entry_file(R"("dtype":"U8","shape":[8])"), "'data_offsets' is missing");
  expect_refused(entry_file(R"("dtype":"U8","data_offsets":[0,8])"), "'shape' is missing");
  expect_refused(entry_file(R"("shape":[8],"data_offsets":[0,8])"), "'dtype' is missing");
}

TEST(SafetensorsReader, RefusesDuplicatesAndNulNames) {
  const std::string entry = "\"a\":{" + kGoodFields + "}";
  expect_refused(file_of("{" + entry + "," + entry + "}", kEight), "twice");
  expect_refused(file_of(R"({"__metadata__":{},"__metadata__":{}})", ""), "twice");
  expect_refused(file_of(R"({"__metadata__":{"k":"1","k":"1"}})", ""), "twice");
  expect_refused(entry_file(kGoodFields + R"(,"dtype":"U8")"), "twice");
  expect_refused(entry_file(kGoodFields + R"(,"x":1,"x":1)"), "twice");
  expect_refused(file_of("{\"a\\u0000b\":{" + kGoodFields + "}}", kEight), "NUL");
}

TEST(SafetensorsReader, RefusesBadRanges) {
  const auto two = [](const std::string& first, const std::string& second) {
    return file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
                       R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}",
                   kEight);
  };
  EXPECT_EQ(refusal(two("[0,4]", "[4,8]")), "");
  EXPECT_EQ(refusal(two("[4,8]", "[0,4]")), "");
  expect_refused(two("[0,4]", "[0,4]"), "overlap");
  expect_refused(two("[0,4]", "[3,7]"), "'b'");
  expect_refused(two("[0,4]", "[5,9]"), "hole");
  expect_refused(two("[1,5]", "[5,9]"), "'a'");
  expect_refused(two("[0,4]", "[8,4]"), "'b'");
  expect_refused(two("[0,4]", "[18446744073709551612,0]"), "'b'");
  expect_refused(entry_file(R"("dtype":"U8","shape":[7],"data_offsets":[0,8])"), "need 7");
  expect_refused(entry_file(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), "need 12");
  expect_refused(file_of("{\"a\":{" + kGoodFields + "}}", kEight + "y"), "trailing");
  expect_refused(file_of("{\"a\":{" + kGoodFields + "}}", "1234567"), "truncated");
  expect_refused(file_of("{}", "y"), "trailing");
  expect_refused(entry_file(R"("dtype":"F4","shape":[15],"data_offsets":[0,8])"), "whole number");
  expect_refused(entry_file(R"("dtype":"F6_E2M3","shape":[5],"data_offsets":[0,4])"), "whole number");
  // 2^32 * 2^32 wraps to 0 elements, 2^61 elements of 8 bytes wrap to 0 bits.
  expect_refused(entry_file(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,8])"), "overflow");
  expect_refused(entry_file(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,8])"), "overflow");
  expect_refused(entry_file(R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,8])"), "overflow");
}

std::string small_file() {
  const std::string header = R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                             R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}}   )";
  return file_of(header, "0123456789abcdef012345");
}

TEST(SafetensorsReader, EveryTruncationIsRefused) {
  const std::string file = small_file();
  EXPECT_EQ(refusal(file), "");
  for (std::size_t size = 0; size < file.size(); ++size) EXPECT_NE(refusal(file.substr(0, size)), "") << size;
}

// Whatever the bytes, a view never leaves the file and only ida::Error comes out.
void expect_safe(const std::string& file) {
  try {
    const SafetensorsContent content = parse(file);
    const std::byte* begin = as_bytes(file).data();
    for (const TensorSpan& tensor : content.tensors) {
      ASSERT_GE(tensor.bytes.data(), begin);
      ASSERT_LE(tensor.bytes.data() + tensor.bytes.size(), begin + file.size());
    }
  } catch (const Error& error) {
    ASSERT_EQ(static_cast<int>(error.code()), static_cast<int>(ExitCode::kCorrupt));
  }
}

TEST(SafetensorsReader, RandomMutationsAreRefusedOrSafe) {
  const std::string seed = small_file();
  std::mt19937_64 random(7);
  const std::string alphabet = "{}[]\",:0123456789-.eE \\u\x7F\x80\xFFnull";
  for (int round = 0; round < 60000; ++round) {
    std::string file = seed;
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < edits; ++i) {
      const std::size_t at = random() % file.size();
      switch (random() % 5) {
        case 0: file[at] = static_cast<char>(random()); break;
        case 1: file[at] = static_cast<char>(file[at] ^ (1 << random() % 8)); break;
        case 2: file[at] = alphabet[random() % alphabet.size()]; break;
        case 3: file.erase(at, 1 + random() % 4); break;
        default: file.insert(at, 1, alphabet[random() % alphabet.size()]); break;
      }
      if (file.empty()) file = "x";
    }
    expect_safe(file);
  }
}

TEST(SafetensorsWriter, RewritingAReferenceFileGivesTheSameBytes) {
  const TempDir dir;
  for (const char* name :
       {"llama_mha", "llama_gqa_tied", "llama_packed", "llama3_ropescaled", "mistral_swa", "qwen2", "qwen3"}) {
    const std::string path = std::string(IDA_TESTS_DIR) + "/golden/" + name + "/model.safetensors";
    const SafetensorsFile file(path);
    EXPECT_EQ(file.metadata(), pytorch_metadata());
    const WrittenFile written = write_safetensors(dir / "out.safetensors", file.tensors(), file.metadata());
    const std::string bytes = read_file(dir / "out.safetensors");
    EXPECT_EQ(bytes, read_file(path)) << name;
    EXPECT_EQ(written.size_bytes, bytes.size());
    EXPECT_EQ(written.sha256, sha256_hex(bytes));
  }
}

TEST(SafetensorsWriter, OrderDoesNotDependOnTheCaller) {
  const TempDir dir;
  const std::string data(64, 'd');
  std::vector<TensorSpan> tensors;
  const auto add = [&](const std::string& name, StoredDType dtype, std::vector<std::int64_t> shape, std::size_t size) {
    tensors.push_back({name, dtype, std::move(shape), as_bytes(data).first(size)});
  };
  add("u8", StoredDType::kU8, {3}, 3);
  add("b", StoredDType::kBF16, {2, 2}, 8);
  add("a", StoredDType::kBF16, {1}, 2);
  add("\"q\"\n\xC3\xA9", StoredDType::kF32, {}, 4);
  add("empty", StoredDType::kF64, {0, 5}, 0);
  write_safetensors(dir / "one", tensors, {});
  std::reverse(tensors.begin(), tensors.end());
  write_safetensors(dir / "two", tensors, {});
  EXPECT_EQ(read_file(dir / "one"), read_file(dir / "two"));
  const SafetensorsFile file(dir / "one");
  std::vector<std::string> names;
  for (const TensorSpan& tensor : file.tensors()) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"empty", "\"q\"\n\xC3\xA9", "a", "b", "u8"}));
  EXPECT_EQ(file.require("b").shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(file.find("nothing"), nullptr);
  EXPECT_THROW(file.require("nothing"), Error);
  tensors.push_back(tensors[0]);
  EXPECT_THROW(write_safetensors(dir / "two", tensors, {}), Error);
}

TEST(SafetensorsWriter, AnAbandonedFileLeavesNothing) {
  const TempDir dir;
  {
    SafetensorsWriter writer(dir / "x.safetensors", {{"a", StoredDType::kU8, {4}}}, pytorch_metadata());
    EXPECT_EQ(list_directory(dir.path()).size(), 1U);
  }
  EXPECT_TRUE(list_directory(dir.path()).empty());
}

TEST(SafetensorsReader, FilesWrittenByTheReferenceImplementation) {
  const char* shared = std::getenv("IDA_TRAIN_SHARED");
  const std::string root = shared != nullptr ? shared : std::string(IDA_TESTS_DIR) + "/../../shared";
  const std::string folder = root + "/data/safetensors";
  if (!is_directory(folder)) GTEST_SKIP() << folder << " is not here";
  int num_files = 0;
  for (const std::string& name : list_directory(folder)) {
    if (!name.ends_with(".safetensors")) continue;
    const SafetensorsFile file(folder + "/" + name);
    EXPECT_FALSE(file.tensors().empty()) << name;
    ++num_files;
  }
  EXPECT_GE(num_files, 6);
}

}  // namespace
}  // namespace ida::checkpoint
