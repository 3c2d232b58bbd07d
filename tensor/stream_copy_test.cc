#include "tensor/stream_copy.h"

#include <vector>

#include "gtest/gtest.h"

#include "base/random.h"

namespace paramd {
namespace {

TEST(StreamCopyTest, CopiesWhatIsAskedForFromAnyPlaceToAny) {
  RandomStream random(1);
  constexpr std::byte kUntouched{0xee};
  std::vector<std::byte> from(1000);
  for (std::byte& byte : from) byte = static_cast<std::byte>(random.Below(200));
  for (int i = 0; i < 2000; ++i) {
    const size_t bytes = random.Below(600);
    const size_t source = random.Below(200);
    const size_t target = random.Below(200);
    std::vector<std::byte> to(1000, kUntouched);
    StreamCopy(to.data() + target, from.data() + source, bytes);
    for (size_t at = 0; at < to.size(); ++at) {
      const bool inside = at >= target && at < target + bytes;
      ASSERT_EQ(to[at], inside ? from[source + at - target] : kUntouched)
          << bytes << " bytes, byte " << at;
    }
  }
}

}  // namespace
}  // namespace paramd
