#include "config/consistency.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

TEST(ConsistencyTest, EveryModeIsReadAndToldInTheSameWords) {
  for (const char* text : {"async", "sync", "0", "8", "1000000000"}) {
    const auto consistency = ParseStaleness(text);
    ASSERT_TRUE(consistency.ok()) << text;
    EXPECT_EQ(StalenessText(*consistency), text);
  }
  EXPECT_EQ(ParseStaleness("8")->mode(), v1::Consistency::BOUNDED);
  EXPECT_EQ(ParseStaleness("8")->bound(), 8u);
  EXPECT_EQ(ParseStaleness("sync")->mode(), v1::Consistency::SYNC);
}

TEST(ConsistencyTest, AnythingElseIsRefusedWithWhatMayBeWritten) {
  for (const char* text : {"", "Sync", "-1", "1.5", "1000000001", "8 pushes"}) {
    const auto consistency = ParseStaleness(text);
    EXPECT_EQ(consistency.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_THAT(consistency.status().message(),
                HasSubstr("\"async\", \"sync\" or a number of pushes"));
  }
}

}  // namespace
}  // namespace paramd
