// Whatever stands in an IDX file, it has as many bytes as its header says, or
// is refused.

#include <cstdint>

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "input/fuzz/read_source.h"
#include "input/idx_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string& path =
      paramd::fuzz::PathOfOneFile({reinterpret_cast<const char*>(data), size});
  for (const int dimensions : {1, 3}) {
    const auto file = paramd::ReadIdxFile(path, dimensions);
    if (!file.ok()) {
      paramd::fuzz::CheckRefusal(file.status());
      continue;
    }
    uint64_t values = 1;
    for (const uint64_t dimension : file->shape) values *= dimension;
    CHECK(file->shape.size() == static_cast<size_t>(dimensions),
          "of the rank that is needed");
    CHECK(values == file->bytes.size(), "all values are there");
  }
  return 0;
}
