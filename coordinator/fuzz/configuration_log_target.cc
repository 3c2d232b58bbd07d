// Whatever stands in the files of a configuration log, its entries are numbered
// from 1 on without a gap, or the log is refused. The first byte says whether
// the entry's checksum is made right before.

#include <cstdint>
#include <string>

#include "absl/strings/str_format.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/fuzz/pieces.h"
#include "checkpoint/storage.h"
#include "checkpoint/testing/memory_storage.h"
#include "coordinator/configuration_log.h"

namespace paramd {
namespace {

testing::MemoryStorage& Storage() {
  static auto* const storage = [] {
    auto* const made = new testing::MemoryStorage();
    AddStorage("memory", made);
    return made;
  }();
  return *storage;
}

// With the line that its checksum stands in.
std::string Entry(absl::string_view json) {
  const uint32_t sum =
      Crc32c({reinterpret_cast<const std::byte*>(json.data()), json.size()});
  return absl::StrFormat("crc32c=%08x bytes=%d\n%s", sum, json.size(), json);
}

void Check(fuzz::Pieces pieces) {
  const bool is_whole = pieces.Byte() % 2 == 1;
  Storage().objects().clear();
  uint64_t count = 0;
  while (!pieces.done() && count < 4) {
    const absl::string_view text = pieces.TakeSized();
    Storage().objects()[absl::StrFormat("memory://log/%08d", ++count)] =
        is_whole ? Entry(text) : std::string(text);
  }
  const auto entries = DirectoryLog("memory://log").ReadAll();
  if (!entries.ok()) return fuzz::CheckRefusal(entries.status());
  CHECK(entries->size() == count, "every entry is there");
  for (size_t i = 0; i < entries->size(); ++i) {
    CHECK((*entries)[i].number() == i + 1, "under its own number");
  }
}

}  // namespace
}  // namespace paramd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paramd::Check(paramd::fuzz::Pieces(data, size));
  return 0;
}
