// safetensors files and the index of a sharded model.
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "checkpoint/hf_model.h"
#include "checkpoint/safetensors.h"
#include "fuzz/support.h"

namespace ida::fuzz {
namespace {

using checkpoint::SafetensorsContent;
using checkpoint::StoredDType;
using checkpoint::TensorSpan;

constexpr std::size_t kMaxDataBytes = 1 << 16;

std::string prefixed(std::string_view header) {
  std::string file(8, '\0');
  const std::uint64_t size = header.size();
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(size >> (8 * i) & 0xFF);
  return file.append(header);
}

bool same_tensor(const TensorSpan& a, const TensorSpan& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape &&
         std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end());
}

// Every byte after the header belongs to exactly one tensor, and each tensor has the size its shape says.
void check_content(const SafetensorsContent& content, std::string_view file, std::size_t header_bytes) {
  std::set<std::string_view> names;
  std::size_t position = 8 + header_bytes;
  for (const TensorSpan& tensor : content.tensors) {
    require(names.insert(tensor.name).second, "a tensor name appears twice");
    const auto at = reinterpret_cast<const char*>(tensor.bytes.data()) - file.data();
    require(tensor.bytes.empty() || at == static_cast<std::ptrdiff_t>(position), "a tensor does not follow the last one");
    __extension__ unsigned __int128 num_bits = static_cast<unsigned>(stored_dtype_info(tensor.dtype).bits);
    for (const std::int64_t dim : tensor.shape) num_bits *= static_cast<std::uint64_t>(dim);
    require(num_bits == static_cast<__uint128_t>(tensor.bytes.size()) * 8, "a tensor has another size than its shape");
    position += tensor.bytes.size();
  }
  require(position == file.size(), "bytes of the file belong to no tensor");
}

// What was read can be written, and reads back equal.
void check_round_trip(const SafetensorsContent& content) {
  const std::string path = scratch_folder() + "/copy.safetensors";
  checkpoint::write_safetensors(path, content.tensors, content.metadata);
  const checkpoint::SafetensorsFile copy(path);
  require(copy.metadata() == content.metadata, "metadata changed in a copy");
  require(copy.tensors().size() == content.tensors.size(), "a copy has another number of tensors");
  for (const TensorSpan& tensor : content.tensors) {
    const TensorSpan* found = copy.find(tensor.name);
    require(found != nullptr && same_tensor(*found, tensor), "a tensor changed in a copy");
  }
}

void read_file_bytes(std::string_view file) {
  accepted({ExitCode::kCorrupt}, [&] {
    const SafetensorsContent content = checkpoint::parse_safetensors(as_bytes(file), "input.safetensors");
    std::uint64_t header_bytes = 0;
    for (std::size_t i = 8; i-- > 0;) header_bytes = header_bytes << 8 | static_cast<unsigned char>(file[i]);
    check_content(content, file, header_bytes);
    check_round_trip(content);
  });
}

std::string two_tensors() {
  return R"({"__metadata__":{"format":"pt","note":"\u00e9"},)"
         R"("b":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
         R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[8,12],"more":[1,{"x":null}]}})";
}

std::vector<std::string> header_texts() {
  return {
      two_tensors(), "{}", R"( {"__metadata__":null,"s":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}  )",
      R"({"e":{"dtype":"U8","shape":[3,0,2],"data_offsets":[0,0]},"f":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})",
      R"({"w\"\\":{"data_offsets":[0,6],"shape":[8],"dtype":"F6_E2M3"}})"};
}

// A folder with config.json and two shards, of which only the index is hostile.
const std::string& model_folder() {
  static const std::string folder = [] {
    const std::string path = scratch_folder() + "/model";
    make_directories(path);
    write_file_atomic(path + "/config.json", std::string_view(R"({"model_type":"llama","vocab_size":8,"hidden_size":4,)"
                                                              R"("intermediate_size":6,"num_hidden_layers":1,)"
                                                              R"("num_attention_heads":2})"));
    for (const char* name : {"a", "b"}) {
      const TensorSpan tensor{.name = name, .dtype = StoredDType::kU8, .shape = {1}, .bytes = as_bytes("x")};
      checkpoint::write_safetensors(path + "/" + name + ".safetensors", {tensor}, checkpoint::pytorch_metadata());
    }
    return path;
  }();
  return folder;
}

}  // namespace

// The bytes of a file.
void run_safetensors_file(Input input) { read_file_bytes(text_of(input)); }

std::vector<std::string> safetensors_file_seeds() {
  std::vector<std::string> files;
  for (const std::string& header : header_texts()) files.push_back(prefixed(header));
  files[0] += std::string(12, '\7');
  files[2] += std::string(8, '\7');
  files[3] += std::string(2, '\7');
  files[4] += std::string(6, '\7');
  const std::string path = scratch_folder() + "/seed.safetensors";
  const std::string bytes(24, '\3');
  checkpoint::write_safetensors(
      path, {{.name = "model.norm.weight", .dtype = StoredDType::kF32, .shape = {2, 3}, .bytes = as_bytes(bytes)}},
      checkpoint::pytorch_metadata());
  files.push_back(read_file(path));
  return files;
}

// Two bytes: the size of the data, then the header's JSON. The length prefix always fits, which a mutation of a whole
// file seldom leaves so.
void run_safetensors_header(Input input) {
  const std::string_view text = text_of(input);
  if (text.size() < 2) return;
  const std::size_t data_bytes =
      static_cast<unsigned char>(text[0]) | static_cast<std::size_t>(static_cast<unsigned char>(text[1])) << 8;
  static_assert(0xFFFF < kMaxDataBytes);
  read_file_bytes(prefixed(text.substr(2)) + std::string(data_bytes, '\5'));
}

std::vector<std::string> safetensors_header_seeds() {
  std::vector<std::string> inputs;
  const std::string sizes = std::string("\x0C\0\0\0\x08\0\x02\0\x06\0", 10);
  for (std::size_t i = 0; i < header_texts().size(); ++i) inputs.push_back(sizes.substr(2 * i, 2) + header_texts()[i]);
  return inputs;
}

// The bytes of a model.safetensors.index.json beside the shards a.safetensors and b.safetensors.
void run_weight_index(Input input) {
  const std::string& folder = model_folder();
  scratch_file("model/model.safetensors.index.json", text_of(input));
  accepted({ExitCode::kCorrupt}, [&] {
    const checkpoint::HfModel model(folder);
    for (const auto& [name, tensor] : model.tensors()) require(name == "a" || name == "b", "a tensor of no shard");
  });
}

std::vector<std::string> weight_index_seeds() {
  return {R"({"metadata":{"total_size":2},"weight_map":{"a":"a.safetensors","b":"b.safetensors"}})",
          R"({"weight_map":{"a":"a.safetensors"}})", R"({"weight_map":{"b":"b.safetensors"},"x":[{"y":[1e5,-0.5,true]}]})"};
}

}  // namespace ida::fuzz
