#include "coordinator/core/retired_checkpoints.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::SnapshotNumber Number(uint64_t counter) {
  return MakeNumber<v1::SnapshotNumber>(1, counter);
}

google::protobuf::RepeatedPtrField<v1::SnapshotNumber> UpTo(uint64_t last) {
  google::protobuf::RepeatedPtrField<v1::SnapshotNumber> versions;
  for (uint64_t i = 1; i <= last; ++i) *versions.Add() = Number(i);
  return versions;
}

TEST(RetiredCheckpointsTest, NoneIsToBeDeletedBeforeItIsLogged) {
  RetiredCheckpoints retired;
  const auto work = retired.Begin(UpTo(2));
  EXPECT_THAT(work.to_log, ElementsAre(Number(1), Number(2)));
  EXPECT_THAT(work.to_delete, IsEmpty());
  EXPECT_THAT(retired.logged(), IsEmpty());
  EXPECT_EQ(retired.Logged(), Number(1));
  EXPECT_EQ(retired.Logged(), Number(2));
  EXPECT_THAT(retired.logged(), ElementsAre(Number(1), Number(2)));
}

TEST(RetiredCheckpointsTest, OneThatIsBeingLoggedIsNotLoggedTwice) {
  RetiredCheckpoints retired;
  retired.Begin(UpTo(1));
  const auto again = retired.Begin(UpTo(2));
  EXPECT_THAT(again.to_log, ElementsAre(Number(2)));
  EXPECT_THAT(again.to_delete, IsEmpty());
}

TEST(RetiredCheckpointsTest, OneThatStayedThoughRetiredIsDeletedAgain) {
  RetiredCheckpoints retired;
  retired.Read(Number(1));
  const auto work = retired.Begin(UpTo(2));
  EXPECT_THAT(work.to_delete, ElementsAre(Number(1)));
  EXPECT_THAT(work.to_log, ElementsAre(Number(2)));
}

TEST(RetiredCheckpointsTest, AFewAreLoggedAtOnce) {
  RetiredCheckpoints retired;
  EXPECT_THAT(retired.Begin(UpTo(100)).to_log,
              SizeIs(RetiredCheckpoints::kMostAtOnce));
  EXPECT_THAT(retired.Begin(UpTo(100)).to_log, IsEmpty());
  retired.Logged();
  EXPECT_THAT(retired.Begin(UpTo(100)).to_log, ElementsAre(Number(9)));
}

}  // namespace
}  // namespace paramd
