#include "process/terminal/byte_size.h"

#include <cstdint>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

TEST(ByteSizeTest, NumbersAndUnitsOfAnyCase) {
  for (const auto& [text, bytes] :
       std::initializer_list<std::pair<const char*, uint64_t>>{
           {"1", 1},
           {"4096B", 4096},
           {"5GB", 5000000000},
           {"5gb", 5000000000},
           {"1.5 kB", 1500},
           {"0.5KiB", 512},
           {"500MiB", 524288000},
           {"2TB", 2000000000000},
           {"1TiB", 1099511627776}}) {
    const auto parsed = ParseByteSize(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(ByteSizeTest, AnythingElseIsRefusedByName) {
  for (const char* text : {"", "GB", "0", "0.1B", "-5GB", "5XB", "1.2.3GB",
                           "5GBs", "99999999999TB", "nan"}) {
    const auto parsed = ParseByteSize(text);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_THAT(std::string(parsed.status().message()),
                HasSubstr("such as 5GB or 500MiB"));
  }
}

}  // namespace
}  // namespace paramd
