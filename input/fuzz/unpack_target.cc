// Whatever a compressed file holds, it is unpacked to something that can be
// read, or is refused. The first byte says whether zlib's format may be it,
// too.

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "input/fuzz/read_source.h"
#include "input/unpack.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // In memory: a disk would take most of the time.
  static const int in_memory = setenv("TMPDIR", "/dev/shm", 1);
  CHECK(in_memory == 0, "the environment can be set");
  paramd::fuzz::Pieces pieces(data, size);
  const bool or_zlib = pieces.Byte() % 2 == 1;
  const absl::string_view packed = pieces.Rest();
  auto files = paramd::fuzz::OneFile(packed);
  const auto content = paramd::Unpacked(std::move(files[0]), or_zlib);
  if (!content.ok()) {
    paramd::fuzz::CheckRefusal(content.status());
    return 0;
  }
  // Deflate makes at most 1032 bytes of one.
  CHECK((*content)->size() <= 1032 * packed.size(), "no more than is packed");
  std::vector<std::byte> bytes((*content)->size());
  CHECK((*content)->Read(0, absl::MakeSpan(bytes)).ok(), "all of it is there");
  return 0;
}
