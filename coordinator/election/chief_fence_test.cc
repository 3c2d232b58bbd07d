#include "coordinator/election/chief_fence.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/paramd/v1/storage.pb.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

// A log whose entries have these tokens.
v1::ReadLogResult LogOf(std::initializer_list<uint64_t> tokens) {
  v1::ReadLogResult log;
  for (const uint64_t token : tokens) {
    v1::LogEntry* const entry = log.add_entries();
    entry->set_number(static_cast<uint64_t>(log.entries_size()));
    entry->set_election(token);
  }
  return log;
}

TEST(ChiefFenceTest, WhatCountsIsDoneByTheChiefAlone) {
  int asked = 0;
  absl::Status check;
  const ChiefFence fence{7, [&] { return ++asked, check; },
                         [] { return absl::OkStatus(); }};
  const google::protobuf::Descriptor* const counts[] = {
      v1::ReadLog::descriptor(), v1::AppendLog::descriptor(),
      v1::CommitCheckpoint::descriptor(), v1::DeleteCheckpoints::descriptor(),
      v1::WriteResult::descriptor()};
  for (const auto* const work : counts) EXPECT_TRUE(fence.MayDo(work).ok());
  EXPECT_EQ(asked, 5);
  check = absl::UnavailableError("its lease has ended");
  for (const auto* const work : counts) {
    EXPECT_EQ(fence.MayDo(work), check) << work->name();
  }
  EXPECT_TRUE(fence.MayDo(v1::PrepareCheckpoint::descriptor()).ok());
  EXPECT_TRUE(fence.MayDo(v1::FindCheckpoint::descriptor()).ok());
  EXPECT_TRUE(fence.MayDo(v1::WriteSummary::descriptor()).ok());
}

TEST(ChiefFenceTest, WithoutAnElectionItKeepsNobodyFromAnything) {
  const ChiefFence fence;
  EXPECT_TRUE(fence.MayDo(v1::AppendLog::descriptor()).ok());
  EXPECT_TRUE(fence.CheckNotFollowed(LogOf({9}).entries()).ok());
  EXPECT_EQ(fence.Guarded(v1::LogEntry()).election(), 0u);
}

TEST(ChiefFenceTest, EachEntryHasTheToken) {
  ChiefFence fence;
  fence.token = 7;
  v1::LogEntry entry;
  entry.set_number(3);
  EXPECT_EQ(fence.Guarded(entry).election(), 7u);
  EXPECT_EQ(fence.Guarded(entry).number(), 3u);
}

TEST(ChiefFenceTest, ALogOfALaterChiefIsNotRead) {
  absl::Status confirm = absl::UnavailableError("etcd is away");
  ChiefFence fence;
  fence.token = 7;
  fence.confirm = [&] { return confirm; };
  EXPECT_TRUE(fence.CheckNotFollowed(LogOf({0, 5, 7}).entries()).ok());
  const absl::Status followed =
      fence.CheckNotFollowed(LogOf({5, 7, 9}).entries());
  EXPECT_TRUE(absl::IsAborted(followed));
  EXPECT_THAT(std::string(followed.message()),
              HasSubstr("entry 3 of the configuration log has its token, 9; "
                        "this one's is 7"));
  confirm = absl::OkStatus();
  EXPECT_TRUE(fence.CheckNotFollowed(LogOf({5, 9}).entries()).ok())
      << "etcd has lost its data";
}

}  // namespace
}  // namespace paramd
