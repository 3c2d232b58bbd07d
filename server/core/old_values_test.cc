#include "server/core/old_values.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

v1::BlockVersion Version(uint64_t life, uint64_t counter) {
  v1::BlockVersion version;
  version.set_life(life);
  version.set_counter(counter);
  return version;
}

constexpr OldValues::Place kPlace = {2, 1};

TEST(OldValuesTest, AWorkerFindsWhatItReadByItsVersion) {
  OldValues old(1);
  old.SetWorkers({4});
  const Buffer values = Buffer::Allocate(8);
  old.Read(4, kPlace, Version(7, 3), values);
  const Buffer* const found = old.Find(4, kPlace, Version(7, 3));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->bytes().data(), values.bytes().data());
  EXPECT_EQ(old.Find(4, kPlace, Version(7, 4)), nullptr);
  EXPECT_EQ(old.Find(4, kPlace, Version(8, 3)), nullptr);
  EXPECT_EQ(old.Find(4, {2, 2}, Version(7, 3)), nullptr);
  EXPECT_EQ(old.Find(5, kPlace, Version(7, 3)), nullptr);
}

TEST(OldValuesTest, Promise8_OnlyTheNewestVersionsAreKept) {
  OldValues old(2);
  old.SetWorkers({4});
  for (uint64_t counter = 1; counter <= 3; ++counter) {
    old.Read(4, kPlace, Version(7, counter), Buffer::Allocate(8));
    old.Read(4, kPlace, Version(7, counter), Buffer::Allocate(8));
  }
  EXPECT_EQ(old.Find(4, kPlace, Version(7, 1)), nullptr);
  EXPECT_NE(old.Find(4, kPlace, Version(7, 2)), nullptr);
  EXPECT_NE(old.Find(4, kPlace, Version(7, 3)), nullptr);
}

TEST(OldValuesTest, Promise8_NothingIsKeptForWhoIsNoWorker) {
  OldValues old(1);
  old.SetWorkers({4, 5});
  old.Read(6, kPlace, Version(7, 1), Buffer::Allocate(8));
  EXPECT_EQ(old.Find(6, kPlace, Version(7, 1)), nullptr);
  old.Read(4, kPlace, Version(7, 1), Buffer::Allocate(8));
  old.Read(5, kPlace, Version(7, 1), Buffer::Allocate(8));
  old.SetWorkers({5});
  old.SetWorkers({4, 5});
  EXPECT_EQ(old.Find(4, kPlace, Version(7, 1)), nullptr);
  EXPECT_NE(old.Find(5, kPlace, Version(7, 1)), nullptr);
}

TEST(OldValuesTest, BytesCountOnceAndOnlyWhatIsNotLive) {
  OldValues old(1);
  old.SetWorkers({1, 2, 3});
  const Buffer shared = Buffer::Allocate(100);
  const Buffer live = Buffer::Allocate(1000);
  old.Read(1, kPlace, Version(7, 1), shared);
  old.Read(2, kPlace, Version(7, 1), shared);
  old.Read(3, kPlace, Version(7, 2), live);
  EXPECT_EQ(old.BytesBut([&](OldValues::Place place, const Buffer& buffer) {
    EXPECT_EQ(place, kPlace);
    return buffer.bytes().data() == live.bytes().data();
  }),
            100u);
}

}  // namespace
}  // namespace paramd
