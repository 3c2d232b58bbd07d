// Whatever stands in a safetensors file, its tensors lie side by side in it and
// can be read and written again, or it is refused.

#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "checkpoint/fuzz/files.h"
#include "checkpoint/safetensors.h"

namespace paramd {
namespace {

void Check(const SafetensorsFile& file, uint64_t bytes) {
  uint64_t at = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    CHECK(tensor.begin == at && tensor.end >= at, "tensors leave no hole");
    at = tensor.end;
    CHECK(file.Find(tensor.name) == &tensor, "names are unique");
    BufferChain content;
    CHECK(file.Read(tensor, 0, tensor.end - tensor.begin, &content).ok(),
          "a tensor can be read");
    CHECK(ChainSize(content) == tensor.end - tensor.begin, "all of it");
  }
  CHECK(file.data_begin() + at == bytes, "tensors are all that there is");
  const auto header = EncodeSafetensorsHeader(file.tensors());
  CHECK(header.ok(), "what is read can be written");
  CHECK(header->size() % 8 == 0, "and its data are aligned");
  const auto again =
      ParseSafetensorsHeader(absl::string_view(*header).substr(8), at);
  CHECK(again.ok() && again->size() == file.tensors().size(),
        "and read once more");
}

}  // namespace
}  // namespace paramd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paramd::fuzz::SetFiles(
      {{"file", std::string(reinterpret_cast<const char*>(data), size)}});
  const auto file = paramd::SafetensorsFile::Open(paramd::fuzz::PathOf("file"));
  if (file.ok()) {
    paramd::Check(**file, size);
  } else {
    paramd::fuzz::CheckRefusal(file.status());
  }
  return 0;
}
