// Whatever a quantised checkpoint says of its numbers, it can be written again,
// or is refused.

#include <cstdint>

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "checkpoint/quantization.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto read =
      paramd::ParseQuantization({reinterpret_cast<const char*>(data), size});
  if (!read.ok()) {
    paramd::fuzz::CheckRefusal(read.status());
    return 0;
  }
  paramd::RangeText(*read);
  const auto again =
      paramd::ParseQuantization(paramd::EncodeQuantization(*read));
  CHECK(again.ok(), "what is read can be written");
  CHECK(again->layers.size() == read->layers.size() &&
            again->left.size() == read->left.size(),
        "and is the same");
  return 0;
}
