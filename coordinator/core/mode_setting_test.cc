#include "coordinator/core/mode_setting.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "config/consistency.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<v1::Consistency> Set(const std::string& key,
                                    const std::string& value,
                                    const std::string& present = "async") {
  v1::SetRequest request;
  request.set_key(key);
  request.set_value(value);
  return ModeToSet(request, *ParseStaleness(present));
}

void ExpectInvalid(const absl::Status& status, const std::string& part) {
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::INVALID);
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(ModeToSetTest, AsyncAndAnyBoundMayFollowEachOther) {
  EXPECT_EQ(StalenessText(*Set("staleness", "8")), "8");
  EXPECT_EQ(StalenessText(*Set("staleness", "0", "8")), "0");
  EXPECT_EQ(StalenessText(*Set("staleness", "async", "8")), "async");
}

TEST(ModeToSetTest, AnotherKeyIsRefusedByName) {
  ExpectInvalid(Set("epochs", "8").status(),
                "'epochs' can't be changed while the job runs; 'staleness' "
                "can");
}

TEST(ModeToSetTest, AValueThatIsNoneIsRefusedWithWhatMayBeWritten) {
  ExpectInvalid(Set("staleness", "fast").status(),
                "staleness must be \"async\", \"sync\" or a number");
  ExpectInvalid(Set("staleness", "fast").status(), "found \"fast\"");
}

TEST(ModeToSetTest, SyncNeitherBeginsNorEndsWhileTheJobRuns) {
  ExpectInvalid(Set("staleness", "sync", "8").status(),
                "staleness is 8 and can't be changed to sync");
  ExpectInvalid(Set("staleness", "async", "sync").status(),
                "staleness is sync and can't be changed to async");
  EXPECT_TRUE(Set("staleness", "sync", "sync").ok());
}

}  // namespace
}  // namespace paramd
