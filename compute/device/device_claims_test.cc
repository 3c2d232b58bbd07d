#include "compute/device/device_claims.h"

#include <optional>

#include "gtest/gtest.h"

namespace paramd {
namespace {

// Two objects have files of their own, as two processes do.

TEST(DeviceClaimsTest, AGpuHasOneProcess) {
  DeviceClaims first(::testing::TempDir());
  DeviceClaims second(::testing::TempDir());
  EXPECT_TRUE(first.Claim("0000:3b:00.0"));
  EXPECT_FALSE(second.Claim("0000:3b:00.0"));
  EXPECT_TRUE(second.Claim("0000:af:00.0"));
  EXPECT_TRUE(first.Claim("0000:3b:00.0"));
}

TEST(DeviceClaimsTest, AProcessThatHasEndedHasNone) {
  std::optional<DeviceClaims> first(::testing::TempDir());
  EXPECT_TRUE(first->Claim("0000:86:00.0"));
  first.reset();
  EXPECT_TRUE(DeviceClaims(::testing::TempDir()).Claim("0000:86:00.0"));
}

TEST(DeviceClaimsTest, WithoutAFolderNothingIsKeptFromAnybody) {
  DeviceClaims claims("/nowhere");
  EXPECT_TRUE(claims.Claim("0000:3b:00.0"));
}

}  // namespace
}  // namespace paramd
