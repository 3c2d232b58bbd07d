// Whatever stands in a manifest, its slices make up its variables and it can be
// written again, or it is refused.

#include <cstdint>

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "checkpoint/manifest.h"

namespace paramd {
namespace {

void CheckIndex(const SliceIndex& index, const v1::Manifest& manifest) {
  CHECK(
      index.entries().size() == static_cast<size_t>(manifest.variables_size()),
      "every variable is there");
  for (const SliceIndex::Entry& entry : index.entries()) {
    uint64_t row = 0;
    for (const SliceIndex::Saved& saved : entry.saved) {
      CHECK(saved.slice->row_begin() == row && saved.slice->row_end() > row,
            "its slices cover its rows, each once");
      CHECK(IsShardFileName(saved.file->name()), "in files of plain names");
      row = saved.slice->row_end();
    }
    CHECK(row == entry.shape.rows, "all of them");
    SlotsOf(manifest, *entry.variable);
  }
}

void Check(absl::string_view text) {
  const auto manifest = ParseManifest(text);
  if (!manifest.ok()) return fuzz::CheckRefusal(manifest.status());
  const auto written = EncodeManifest(*manifest);
  CHECK(written.ok(), "what is read can be written");
  const auto again = ParseManifest(*written);
  CHECK(again.ok(), "and read once more");
  const auto index = SliceIndex::Create(*manifest);
  if (!index.ok()) return fuzz::CheckRefusal(index.status());
  CheckIndex(*index, *manifest);
}

}  // namespace
}  // namespace paramd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paramd::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
