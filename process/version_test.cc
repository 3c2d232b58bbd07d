#include "process/version.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(VersionTest, TheLinkersIdTellsThisProgramFromOthers) {
  // 20 bytes of SHA-1, as GNU's linkers write it unless they are told not to.
  EXPECT_THAT(ParamdBuildId(), ::testing::MatchesRegex("[0-9a-f]{40}"));
}

}  // namespace
}  // namespace paramd
