// Whatever stands in an .npy or .npz file, its rows are of the type and shape
// that its header says, or it is refused. The first byte says whether it has
// classes.

#include <cstdint>

#include "absl/strings/match.h"

#include "base/fuzz/pieces.h"
#include "input/fuzz/read_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paramd::fuzz::Pieces pieces(data, size);
  paramd::v1::InputSource::Npy config;
  auto* const array = config.add_arrays();
  array->set_name("x");
  if (pieces.Byte() % 2 == 1) array->set_classes(10);
  const absl::string_view content = pieces.Rest();
  array->set_file(paramd::fuzz::PathOfOneFile(content));
  if (absl::StartsWith(content, "PK")) array->set_member("x");
  paramd::fuzz::CheckSource(paramd::OpenNpy("", config));
  return 0;
}
