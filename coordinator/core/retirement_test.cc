#include "coordinator/core/retirement.h"

#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::Pair;
using ::paramd::testing::PartBench;

class RetirementTest : public ::testing::Test {
 protected:
  void Retire(const v1::SnapshotNumber& number) {
    google::protobuf::RepeatedPtrField<v1::SnapshotNumber> old;
    *old.Add() = number;
    bench_.Do([&](Turn* turn) { retirement_.Retire(old, turn); });
  }
  bool IsDeleting() const {
    return bench_.out.ios.size() == 1 &&
           dynamic_cast<const v1::DeleteCheckpoints*>(
               bench_.out.ios[0].head.get()) != nullptr;
  }

  PartBench bench_{JobOptions()};
  Retirement retirement_;
};

TEST_F(RetirementTest, NothingIsDeletedBeforeTheLogHasIt) {
  Retire(Pair(1, 1));
  ASSERT_EQ(1u, bench_.out.ios.size());
  EXPECT_FALSE(IsDeleting());
  bench_.End(bench_.out.ios[0].io, absl::OkStatus(), v1::AppendLog());
  EXPECT_TRUE(IsDeleting());
  EXPECT_FALSE(retirement_.idle());
  bench_.End(bench_.out.ios[0].io, absl::OkStatus(), v1::DeleteCheckpoints());
  EXPECT_TRUE(retirement_.idle());
}

TEST_F(RetirementTest, WithoutTheLogTheProcessEnds) {
  Retire(Pair(1, 1));
  bench_.End(bench_.out.ios[0].io, absl::AbortedError("another chief"),
             v1::AppendLog());
  EXPECT_TRUE(bench_.out.exited);
  EXPECT_FALSE(IsDeleting());
}

TEST_F(RetirementTest, WhatADeadChiefRetiredIsDeletedAtOnce) {
  bench_.Do([&](Turn* turn) { retirement_.DeleteLogged(turn); });
  EXPECT_TRUE(bench_.out.ios.empty());
  retirement_.Read(Pair(1, 1));
  bench_.Do([&](Turn* turn) { retirement_.DeleteLogged(turn); });
  EXPECT_TRUE(IsDeleting());
}

}  // namespace
}  // namespace paramd
