// Servers that restore: damage that they find, and those that see nothing.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using testing::JobOptions;
using testing::Pair;
using testing::StartedCoordinator;

v1::FindCheckpointResult Found(uint64_t counter) {
  v1::FindCheckpointResult found;
  found.set_path(absl::StrCat("/c/", counter));
  *found.mutable_manifest()->mutable_snapshot() = Pair(1, counter);
  found.mutable_manifest()->set_global_step(10 * counter);
  found.mutable_manifest()->mutable_input()->set_next_epoch(2);
  return found;
}

class CoordinatorFillTest : public ::testing::Test {
 protected:
  // Up to servers that are told to restore the checkpoint 1.8.
  CoordinatorFillTest() : started_(JobOptions()) {
    started_.ReadLog();
    started_.Append();
    started_.Serve();
    started_.FindCheckpoint(Found(8));
    started_.Append();
  }

  testing::CoreDriver& driver() { return started_.driver(); }
  Outbox::SendItem TakeConfigure(uint32_t server) {
    auto sent = driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(server));
    EXPECT_TRUE(sent.has_value());
    return *std::move(sent);
  }
  static const v1::Configuration& Told(const Outbox::SendItem& sent) {
    return static_cast<const v1::ConfigureRequest&>(*sent.head).configuration();
  }
  v1::ConfigureReply Reply(const Outbox::SendItem& sent) {
    v1::ConfigureReply reply;
    *reply.mutable_configuration() = Told(sent).version();
    reply.set_incarnation(started_.incarnation(sent.to.index));
    return reply;
  }
  static absl::Status Damaged(const std::string& path) {
    return Refuse(v1::Refusal::DAMAGED, path, "ps-0.safetensors is torn");
  }

  StartedCoordinator started_;
};

TEST_F(CoordinatorFillTest, WhatAServerFindsDamagedIsPassedOver) {
  const auto first = TakeConfigure(0);
  const auto second = TakeConfigure(1);
  EXPECT_EQ(Told(first).servers(0).restore_directory(), "/c/8");
  driver().Fail(first, Damaged("/c/8"));
  EXPECT_TRUE(
      driver().HasNote("checkpoint /c/8 is passed over: ps-0: "
                       "ps-0.safetensors is torn"));
  // The other one finds the same a little later.
  driver().Fail(second, Damaged("/c/8"));
  EXPECT_FALSE(driver().exited);
  const auto find = driver().TakeIo<v1::FindCheckpoint>();
  ASSERT_TRUE(find.has_value());
  ASSERT_EQ(find->second.damaged_size(), 1);
  EXPECT_EQ(find->second.damaged(0).snapshot(), Pair(1, 8));
  EXPECT_THAT(find->second.damaged(0).why(), HasSubstr("is torn"));

  v1::FindCheckpointResult older = Found(7);
  *older.mutable_manifest()->mutable_variables() = {
      Told(first).layout().variables().begin(),
      Told(first).layout().variables().end()};
  driver().Complete(find->first, older);
  const v1::Configuration logged = started_.Append().configuration();
  EXPECT_EQ(logged.servers(0).restore_directory(), "/c/7");
  EXPECT_GT(logged.servers(0).generation(),
            Told(first).servers(0).generation());
  EXPECT_GT(logged.version(), Told(first).version());
  driver().Advance(absl::Seconds(1));
  started_.Serve();
  EXPECT_TRUE(driver().HasNote("all 2 servers are filled"));
  v1::StatusReply status;
  started_.core().FillStatus(&status);
  EXPECT_EQ(status.job().checkpoint_step(), 70u);
}

TEST_F(CoordinatorFillTest, AnAnswerAboutThePassedOverOneThatComesLateIsNone) {
  const auto first = TakeConfigure(0);
  const auto second = TakeConfigure(1);
  driver().Fail(first, Damaged("/c/8"));
  started_.FindCheckpoint(Found(7));
  started_.Append();
  driver().Fail(second, Damaged("/c/8"));
  EXPECT_FALSE(driver().exited) << driver().exit_status;
  driver().Advance(absl::Seconds(1));
  started_.Serve();
  EXPECT_TRUE(driver().HasNote("all 2 servers are filled"));
}

// Or its damage would be taken for that of the next one.
TEST_F(CoordinatorFillTest, NothingIsReadOfOneThatWasPassedOver) {
  const auto first = TakeConfigure(0);
  const auto second = TakeConfigure(1);
  driver().Fail(first, Damaged("/c/8"));
  v1::ConfigureReply reply = Reply(second);
  reply.set_unseen(true);
  driver().Reply(second, reply);
  started_.FindCheckpoint(Found(7));
  started_.Append();
  driver().Advance(absl::Milliseconds(30));
  EXPECT_FALSE(driver().TakeIo<v1::ReadForServer>().has_value());
}

TEST_F(CoordinatorFillTest, WhereNoneIsRightTheJobEnds) {
  driver().Fail(TakeConfigure(0), Damaged("/c/8"));
  const auto find = driver().TakeIo<v1::FindCheckpoint>();
  driver().End(find->first, absl::DataLossError("no checkpoint verifies"));
  driver().LetAllHear();
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(absl::IsDataLoss(driver().exit_status));
}

// Supervisors start the next chief, who may read what could not be read now.
TEST_F(CoordinatorFillTest, WhereNoneCanBeReadNowTheJobIsTriedAgain) {
  v1::Refusal refusal;
  refusal.set_reason(v1::Refusal::DAMAGED);
  refusal.set_entity("/c/8");
  refusal.set_retry_after_ms(20);
  driver().Fail(TakeConfigure(0), Refuse(refusal, "a stale file handle"));
  EXPECT_TRUE(
      driver().HasNote("checkpoint /c/8 is passed over: ps-0: "
                       "a stale file handle"));
  const auto find = driver().TakeIo<v1::FindCheckpoint>();
  driver().End(find->first, absl::DataLossError("no checkpoint verifies"));
  EXPECT_TRUE(driver().exited);
  EXPECT_EQ(driver().exit_status,
            absl::UnavailableError("no checkpoint verifies"));
}

TEST_F(CoordinatorFillTest, WhileTheJobRunsDamageIsTheNextChiefs) {
  started_.Serve();
  started_.Restart(1);
  driver().Advance(absl::Seconds(1));
  const auto keepalive = TakeConfigure(1);
  driver().Fail(keepalive, absl::UnavailableError("gone"));
  driver().Advance(absl::Seconds(1));
  const auto recall = driver().TakeSend<v1::RecallRequest>(PeerId::Ps(1));
  ASSERT_TRUE(recall.has_value());
  v1::RecallReply recalled;
  recalled.set_incarnation(started_.incarnation(1));
  driver().Reply(*recall, recalled);
  driver().Fail(TakeConfigure(1), Damaged("/c/8"));
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(absl::IsAborted(driver().exit_status)) << driver().exit_status;
}

// Server 1 does not see the checkpoint.
class CoordinatorBlindTest : public CoordinatorFillTest {
 protected:
  CoordinatorBlindTest() {
    const auto configure = TakeConfigure(1);
    generation_ = Told(configure).servers(1).generation();
    v1::ConfigureReply reply = Reply(configure);
    reply.set_unseen(true);
    driver().Reply(configure, reply);
  }

  // The slice that is being read has these bytes.
  void EndRead(const std::string& bytes) {
    const auto read = driver().TakeIo<v1::ReadForServer>();
    ASSERT_TRUE(read.has_value());
    v1::ReadSlicesResult result;
    result.add_slices()->add_pieces();
    driver().Complete(read->first, result, {Buffer::Copy(bytes)});
  }

  v1::ServerLife generation_;
};

TEST_F(CoordinatorBlindTest, ItsSlicesAreReadAndSentToIt) {
  const auto read = driver().TakeIo<v1::ReadForServer>();
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->second.server(), 1u);
  EXPECT_EQ(read->second.read().path(), "/c/8");
  EXPECT_TRUE(read->second.read().first() && read->second.read().last());
  ASSERT_EQ(read->second.read().slices_size(), 1);
  EXPECT_EQ(read->second.read().slices(0).variable(), "b");
  v1::ReadSlicesResult result;
  result.add_slices()->add_pieces();
  driver().Complete(read->first, result,
                    {Buffer::Copy(std::string("abcdefgh"))});

  driver().Advance(absl::Milliseconds(30));
  const auto fill = driver().TakeSend<v1::FillRequest>(PeerId::Ps(1));
  ASSERT_TRUE(fill.has_value());
  const auto& piece = static_cast<const v1::FillRequest&>(*fill->head);
  EXPECT_EQ(piece.header().server_generation(), generation_);
  EXPECT_EQ(piece.total(), 8u);
  EXPECT_EQ(FlattenForTest(fill->payload), "abcdefgh");
  v1::FillReply filled;
  filled.set_slice(1);
  driver().Reply(*fill, filled);
  driver().Advance(absl::Milliseconds(30));
  started_.Serve();
  EXPECT_TRUE(driver().HasNote("all 2 servers are filled"));
}

TEST_F(CoordinatorBlindTest, APieceThatIsLostIsSentAgain) {
  EndRead("abcdefgh");
  driver().Advance(absl::Milliseconds(30));
  const auto fill = driver().TakeSend<v1::FillRequest>(PeerId::Ps(1));
  ASSERT_TRUE(fill.has_value());
  driver().Fail(*fill, RefuseForNow(v1::Refusal::RETRY, "ps-1",
                                    absl::Milliseconds(20), "full"));
  driver().Advance(absl::Seconds(1));
  const auto again = driver().TakeSend<v1::FillRequest>(PeerId::Ps(1));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(FlattenForTest(again->payload), "abcdefgh");
}

TEST_F(CoordinatorBlindTest, DamageThatIsFoundForItIsPassedOverToo) {
  const auto read = driver().TakeIo<v1::ReadForServer>();
  driver().End(read->first, absl::DataLossError("'ps-1' has the crc32c 1"));
  EXPECT_TRUE(
      driver().HasNote("checkpoint /c/8 is passed over: ps-1: '/c/8' "
                       "can't be read for it: 'ps-1' has the crc32c 1"));
  const auto find = driver().TakeIo<v1::FindCheckpoint>();
  ASSERT_TRUE(find.has_value());
  EXPECT_EQ(find->second.damaged(0).snapshot(), Pair(1, 8));
}

TEST_F(CoordinatorBlindTest, WhatCannotBeReadForItIsPassedOverToo) {
  const auto read = driver().TakeIo<v1::ReadForServer>();
  driver().End(read->first, absl::UnavailableError("a stale file handle"));
  EXPECT_TRUE(
      driver().HasNote("checkpoint /c/8 is passed over: ps-1: '/c/8' "
                       "can't be read for it: a stale file handle"));
  driver().End(driver().TakeIo<v1::FindCheckpoint>()->first,
               absl::DataLossError("no checkpoint verifies"));
  EXPECT_TRUE(absl::IsUnavailable(driver().exit_status));
}

TEST_F(CoordinatorBlindTest, DamageThatTwoFindIsPassedOverOnce) {
  const auto read = driver().TakeIo<v1::ReadForServer>();
  driver().Fail(TakeConfigure(0), Damaged("/c/8"));
  driver().End(read->first, absl::DataLossError("'ps-1' has the crc32c 1"));
  EXPECT_FALSE(driver().exited) << driver().exit_status;
  const auto find = driver().TakeIo<v1::FindCheckpoint>();
  ASSERT_TRUE(find.has_value());
  EXPECT_EQ(find->second.damaged_size(), 1);
  EXPECT_FALSE(driver().TakeIo<v1::FindCheckpoint>().has_value());
}

TEST_F(CoordinatorBlindTest, AServerThatComesBackMeanwhileBeginsAnew) {
  const auto read = driver().TakeIo<v1::ReadForServer>();
  started_.Restart(1);
  const auto configure = driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1));
  if (configure.has_value()) {
    driver().Fail(*configure, absl::UnavailableError("gone"));
  }
  driver().Advance(absl::Seconds(1));
  started_.Serve();
  v1::ReadSlicesResult result;
  result.add_slices()->add_pieces();
  driver().Complete(read->first, result,
                    {Buffer::Copy(std::string("abcdefgh"))});
  EXPECT_FALSE(driver().TakeSend<v1::FillRequest>(PeerId::Ps(1)).has_value());
  EXPECT_FALSE(driver().exited);
}

}  // namespace
}  // namespace paramd
