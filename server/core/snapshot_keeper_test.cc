#include "server/core/snapshot_keeper.h"

#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"

#include "config/shard_description.h"
#include "proto/refusal.h"
#include "server/core/testing/configurations.h"
#include "server/core/testing/shard_bench.h"

namespace paramd {
namespace {

using ::paramd::testing::MakeSeal;
using ::paramd::testing::MakeWritten;
using ::paramd::testing::Pair;
using ::paramd::testing::Payload;
using ::paramd::testing::ShardBench;

class SnapshotKeeperTest : public ::testing::Test {
 protected:
  v1::Refusal::Reason Seal(const v1::SealRequest& seal) {
    absl::Status status;
    v1::SealReply reply;
    bench_.Do([&](ShardTurn* turn) {
      status = snapshots_.OnSeal(seal, &reply, turn);
    });
    return RefusalOf(status).reason();
  }
  // The end of the newest writing.
  void End(bool unseen = false, int slices = 0) {
    auto head = std::make_unique<v1::WriteShardResult>();
    head->mutable_file()->set_name("file");
    for (int i = 0; i < slices; ++i) {
      head->mutable_file()->add_slices()->set_row_begin(i);
    }
    head->set_unseen(unseen);
    IoResult result{bench_.next_io - 1, absl::OkStatus(), std::move(head),
                    Payload({1, 2})};
    ASSERT_TRUE(snapshots_.Wants(result.io));
    bench_.Do([&](ShardTurn* turn) {
      snapshots_.OnWriteEnded(std::move(result), turn);
    });
  }
  void AskWritten(uint64_t counter) {
    bench_.Do([&](ShardTurn* turn) {
      snapshots_.OnWritten(/*call=*/7, MakeWritten(counter), turn);
    });
  }
  // Of the one call that was answered; OK is an answer.
  absl::Status answer() const {
    EXPECT_EQ(bench_.out.replies.size(), 1u);
    return bench_.out.replies.at(0).status;
  }
  v1::ConfigureReply Configure(uint64_t newest, uint64_t committed) {
    v1::ConfigureRequest request;
    *request.mutable_header()->mutable_snapshot() = Pair(1, newest);
    *request.mutable_committed() = Pair(1, committed);
    v1::ConfigureReply reply;
    bench_.Do([&](ShardTurn* turn) {
      snapshots_.OnConfigure(request, turn);
      snapshots_.AnswerConfigure(request, &reply, turn);
    });
    return reply;
  }
  v1::Refusal::Reason Fetch() {
    v1::FetchShardRequest request;
    *request.mutable_header()->mutable_snapshot() = Pair(1, 1);
    request.set_limit(100);
    v1::FetchShardReply reply;
    BufferChain payload;
    const absl::Status status = snapshots_.OnFetch(request, &reply, &payload);
    EXPECT_EQ(ChainSize(payload), status.ok() ? 2 * sizeof(float) : 0);
    return RefusalOf(status).reason();
  }

  // All of the description, in windows of the answer's limit.
  std::string FetchDescription() {
    std::string bytes;
    for (v1::FetchShardReply reply;
         bytes.empty() || kDescriptionOffset + bytes.size() < reply.total();) {
      v1::FetchShardRequest request;
      *request.mutable_header()->mutable_snapshot() = Pair(1, 1);
      request.set_offset(kDescriptionOffset + bytes.size());
      request.set_limit(100);
      BufferChain payload;
      EXPECT_TRUE(snapshots_.OnFetch(request, &reply, &payload).ok());
      EXPECT_EQ(reply.offset(), request.offset());
      if (ChainSize(payload) == 0) break;
      bytes += FlattenForTest(payload);
    }
    return bytes;
  }

  // The description of a file of 400 slices.
  void ExpectToBeFetched(bool unseen) {
    bench_.options.max_description_bytes = 1000;
    Seal(MakeSeal(1));
    End(unseen, /*slices=*/400);
    AskWritten(1);
    ASSERT_TRUE(answer().ok());
    const auto& written =
        static_cast<const v1::WrittenReply&>(*bench_.out.replies[0].head);
    EXPECT_FALSE(written.has_file());
    EXPECT_EQ(written.unseen(), unseen);
    v1::ShardFile file;
    ASSERT_TRUE(file.ParseFromString(FetchDescription()));
    EXPECT_EQ(file.name(), "file");
    ASSERT_EQ(file.slices_size(), 400);
    EXPECT_EQ(file.slices(399).row_begin(), 399u);
  }

  static constexpr v1::Refusal::Reason kOk = v1::Refusal::REASON_UNSPECIFIED;

  ShardBench bench_;
  SnapshotKeeper snapshots_{bench_.view};
};

TEST_F(SnapshotKeeperTest, ASealStartsOneWritingHoweverOftenItComes) {
  EXPECT_EQ(Seal(MakeSeal(1)), kOk);
  EXPECT_EQ(bench_.out.ios.size(), 1u);
  EXPECT_EQ(Seal(MakeSeal(1)), kOk);
  EXPECT_TRUE(bench_.out.ios.empty());
  v1::SealRequest elsewhere = MakeSeal(1);
  elsewhere.set_directory("/elsewhere");
  EXPECT_EQ(Seal(elsewhere), v1::Refusal::INVALID);
}

TEST_F(SnapshotKeeperTest, ASealThatIsRefusedStartsNothing) {
  v1::SealRequest no_nonce = MakeSeal(1);
  no_nonce.set_nonce(0);
  EXPECT_EQ(Seal(no_nonce), v1::Refusal::INVALID);
  v1::SealRequest other_life = MakeSeal(1);
  *other_life.mutable_server_generations(0) = Pair(1, 9);
  EXPECT_EQ(Seal(other_life), v1::Refusal::INVALID);
  bench_.checks.answer = Refuse(v1::Refusal::NOT_READY, "ps-0", "filling");
  EXPECT_EQ(Seal(MakeSeal(1)), v1::Refusal::NOT_READY);
  EXPECT_EQ(bench_.next_io, 1u);
}

TEST_F(SnapshotKeeperTest, WrittenIsAnsweredWhenItIs) {
  Seal(MakeSeal(1));
  AskWritten(1);
  EXPECT_TRUE(bench_.out.replies.empty());
  End();
  EXPECT_TRUE(answer().ok());
  AskWritten(1);
  EXPECT_TRUE(answer().ok());
}

TEST_F(SnapshotKeeperTest, WhoWaitsForLongIsToldToAskAgain) {
  Seal(MakeSeal(1));
  AskWritten(1);
  bench_.now = snapshots_.next_tick();
  bench_.Do([&](ShardTurn* turn) { snapshots_.AnswerLate(turn); });
  EXPECT_EQ(RefusalOf(answer()).reason(), v1::Refusal::WAIT);
  EXPECT_EQ(snapshots_.next_tick(), Time::Never());
}

TEST_F(SnapshotKeeperTest, ALaterSealGivesUpTheEarlierSnapshot) {
  Seal(MakeSeal(1));
  const IoId io = bench_.next_io - 1;
  AskWritten(1);
  EXPECT_EQ(Seal(MakeSeal(2)), kOk);
  EXPECT_EQ(RefusalOf(answer()).reason(), v1::Refusal::SUPERSEDED);
  EXPECT_FALSE(snapshots_.Wants(io));
  EXPECT_EQ(Seal(MakeSeal(1)), v1::Refusal::SUPERSEDED);
}

TEST_F(SnapshotKeeperTest, Promise8_CallsThatWaitAreBounded) {
  Seal(MakeSeal(1));
  for (size_t i = 0; i < SnapshotKeeper::kMostParked; ++i) {
    AskWritten(1);
    ASSERT_TRUE(bench_.out.replies.empty());
  }
  AskWritten(1);
  EXPECT_EQ(RefusalOf(answer()).reason(), v1::Refusal::OVER_LIMIT);
}

TEST_F(SnapshotKeeperTest, AFileNotSeenIsFetchedUntilItIsCommitted) {
  Seal(MakeSeal(1));
  EXPECT_EQ(Fetch(), v1::Refusal::SUPERSEDED) << "it is being written";
  End(/*unseen=*/true);
  EXPECT_EQ(Fetch(), kOk);
  Configure(/*newest=*/1, /*committed=*/0);
  EXPECT_EQ(Fetch(), kOk);
  Configure(/*newest=*/1, /*committed=*/1);
  EXPECT_EQ(Fetch(), v1::Refusal::SUPERSEDED);
}

TEST_F(SnapshotKeeperTest, ADescriptionTooLongForAnAnswerIsFetched) {
  ExpectToBeFetched(/*unseen=*/false);
  EXPECT_EQ(Fetch(), v1::Refusal::SUPERSEDED) << "its server has written it";
}

TEST_F(SnapshotKeeperTest, ALongDescriptionIsFetchedBesideAFileNotSeen) {
  ExpectToBeFetched(/*unseen=*/true);
  EXPECT_EQ(Fetch(), kOk);
}

TEST_F(SnapshotKeeperTest, AShortDescriptionIsInTheAnswer) {
  Seal(MakeSeal(1));
  End(/*unseen=*/false, /*slices=*/400);
  AskWritten(1);
  const auto& written =
      static_cast<const v1::WrittenReply&>(*bench_.out.replies.at(0).head);
  EXPECT_EQ(written.file().slices_size(), 400);
  v1::FetchShardRequest request;
  *request.mutable_header()->mutable_snapshot() = Pair(1, 1);
  request.set_offset(kDescriptionOffset);
  request.set_limit(100);
  v1::FetchShardReply reply;
  BufferChain payload;
  EXPECT_EQ(RefusalOf(snapshots_.OnFetch(request, &reply, &payload)).reason(),
            v1::Refusal::SUPERSEDED);
}

TEST_F(SnapshotKeeperTest, OnlyOneThatDrainsAndWorkersStoppedForIsLeftWith) {
  Seal(MakeSeal(1));
  EXPECT_TRUE(IsZero(snapshots_.drained_by()));
  bench_.draining = true;
  v1::SealRequest running = MakeSeal(2);
  running.set_stopped(false);
  Seal(running);
  EXPECT_TRUE(IsZero(snapshots_.drained_by()));
  Seal(MakeSeal(3));
  EXPECT_EQ(snapshots_.drained_by(), Pair(1, 3));
  EXPECT_EQ(Configure(3, 0).drained_by(), Pair(1, 3));
  EXPECT_FALSE(bench_.out.exited);
  Configure(3, 3);
  EXPECT_TRUE(bench_.out.exited);
}

TEST_F(SnapshotKeeperTest, BehindOneThatWasGivenUpItGoesOnApplying) {
  bench_.draining = true;
  Seal(MakeSeal(3));
  Configure(/*newest=*/4, /*committed=*/2);
  EXPECT_TRUE(IsZero(snapshots_.drained_by()));
}

TEST_F(SnapshotKeeperTest, NewContentHasNoSnapshot) {
  Seal(MakeSeal(1));
  AskWritten(1);
  snapshots_.Drop();
  bench_.Do([&](ShardTurn* turn) { snapshots_.AnswerParked(turn); });
  EXPECT_EQ(RefusalOf(answer()).reason(), v1::Refusal::SUPERSEDED);
}

}  // namespace
}  // namespace paramd
