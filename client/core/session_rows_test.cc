// Lookups and pushes of rows of sparse variables.
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/core/testing/session_test_base.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using testing::Floats;
using ::testing::IsEmpty;
using testing::kOp;
using testing::Numbers;

// "a" of two elements on ps-0; "t", sparse, of 8 rows of 2 on ps-1.
class SessionRowsTest : public testing::SessionTestBase {
 protected:
  SessionRowsTest() {
    v1::Configuration configuration =
        testing::MakeConfiguration({{"a", {2}, 0}, {"t", {8, 2}, 1}}, 2);
    configuration.mutable_layout()->mutable_variables(1)->set_sparse(true);
    Use(configuration);
  }

  void MakeRows(const std::vector<uint64_t>& numbers) {
    rows_ = std::make_unique<SparseRows>(*SparseRows::Create(
        session_->placement(),
        {Buffer::Copy(AsBytes(absl::MakeConstSpan(numbers)))}));
  }
  void Lookup(const std::vector<uint64_t>& numbers) {
    MakeRows(numbers);
    session_->StartLookup(kOp, rows_.get(), 4, 0, now_, &out_);
  }
  void PushRows(std::vector<float> gradient) {
    Session::PushInfo info;
    info.sequence = 1;
    info.weights = &weights_;
    info.rows = rows_.get();
    info.pull_into = pull_into_;
    session_->StartPush(kOp, info, {Floats({1, 2}), Floats(gradient)}, now_,
                        &out_);
  }
  static std::vector<uint32_t> RowsOf(const Buffer& buffer) {
    const auto* numbers =
        reinterpret_cast<const uint32_t*>(buffer.bytes().data());
    return {numbers, numbers + buffer.size() / sizeof(uint32_t)};
  }
  static v1::PullReply RowsReply() {
    v1::PullReply reply;
    reply.set_encoding(v1::FP32);
    reply.mutable_row_versions()->add_lives(3);
    reply.mutable_row_versions()->add_counters(8);
    return reply;
  }
  void AnswerPush(const Outbox::SendItem& sent,
                  const std::vector<v1::PushedBlock::Result>& results) {
    v1::PushReply reply;
    *reply.mutable_server_generation() = testing::Pair(1, 2);
    for (const auto result : results) reply.add_row_results(result);
    Answer(sent, absl::OkStatus(), &reply);
  }

  std::unique_ptr<SparseRows> rows_;
};

TEST_F(SessionRowsTest, ALookupAsksForItsRowsAndTakesThem) {
  Lookup({1, 6});
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, PeerId::Ps(1));
  const auto& pull = HeadOf<v1::PullRequest>(sent[0]);
  EXPECT_EQ(pull.clock(), 4u);
  EXPECT_EQ(pull.blocks_size(), 0);
  EXPECT_THAT(pull.rows().slices(), ElementsAre(1));
  EXPECT_THAT(pull.rows().blocks(), ElementsAre(0));
  EXPECT_THAT(pull.rows().rows(), ElementsAre(2));
  EXPECT_THAT(RowsOf(sent[0].payload[0]), ElementsAre(1, 6));
  const v1::PullReply reply = RowsReply();
  Answer(sent[0], absl::OkStatus(), &reply, {Floats({1, 2, 3, 4})});
  const auto finished = session_->TakeFinished();
  ASSERT_TRUE(finished.has_value());
  EXPECT_TRUE(finished->status.ok()) << finished->status;
  EXPECT_THAT(Numbers({rows_->values(0)}), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(rows_->version({1, 0}).counter(), 8u);
}

TEST_F(SessionRowsTest, ALookupOfNoRowsEndsAtOnce) {
  Lookup({});
  EXPECT_THAT(Sent(), IsEmpty());
  EXPECT_TRUE(session_->TakeFinished()->status.ok());
}

TEST_F(SessionRowsTest, AnAnswerOfOtherRowsChangesNothing) {
  Lookup({1, 6});
  const v1::PullReply reply = RowsReply();
  Answer(Sent()[0], absl::OkStatus(), &reply, {Floats({1, 2})});
  EXPECT_TRUE(absl::IsInvalidArgument(session_->TakeFinished()->status));
  EXPECT_THAT(Numbers({rows_->values(0)}), ElementsAre(0, 0, 0, 0));
}

TEST_F(SessionRowsTest, AnAnswerWithoutAVersionForEachBlockIsAskedForAgain) {
  Lookup({1, 6});
  v1::PullReply reply = RowsReply();
  reply.mutable_row_versions()->add_lives(4);
  Answer(Sent()[0], absl::OkStatus(), &reply, {Floats({1, 2, 3, 4})});
  EXPECT_FALSE(session_->TakeFinished().has_value());
  EXPECT_THAT(Numbers({rows_->values(0)}), ElementsAre(0, 0, 0, 0));
  TickWhenWanted();
  EXPECT_EQ(Sent().size(), 1u);
}

TEST_F(SessionRowsTest, APullLeavesOutWhatItsWeightsHaveNot) {
  weights_ = Weights::WithoutSparse(session_->placement());
  Pull();
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, PeerId::Ps(0));
}

TEST_F(SessionRowsTest, APushNamesItsRowsAndAsksForNoneBehindIt) {
  weights_ = Weights::WithoutSparse(session_->placement());
  Weights next = Weights::WithoutSparse(session_->placement());
  pull_into_ = &next;
  MakeRows({1, 6});
  PushRows({1, 2, 3, 4});
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_TRUE(HeadOf<v1::PushRequest>(sent[0]).has_pull());
  const auto& push = HeadOf<v1::PushRequest>(sent[1]);
  EXPECT_FALSE(push.has_pull());
  EXPECT_EQ(push.blocks_size(), 0);
  EXPECT_THAT(push.rows().rows(), ElementsAre(2));
  EXPECT_THAT(push.rows_computed_on().lives(), ElementsAre(0))
      << "they were not looked up";
  EXPECT_THAT(RowsOf(sent[1].payload[0]), ElementsAre(1, 6));
  EXPECT_THAT(Numbers({sent[1].payload[1]}), ElementsAre(1, 2, 3, 4));
}

TEST_F(SessionRowsTest, APushOfNoRowsStillNamesTheBlocks) {
  MakeRows({});
  PushRows({});
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 2u) << "no gradient is waited for";
  const auto& push = HeadOf<v1::PushRequest>(sent[1]);
  EXPECT_THAT(push.rows().slices(), ElementsAre(1));
  EXPECT_THAT(push.rows().rows(), ElementsAre(0));
  EXPECT_THAT(sent[1].payload, IsEmpty());
}

TEST_F(SessionRowsTest, APushSaysWhichVersionsItsRowsWereReadOf) {
  Lookup({1, 6});
  const v1::PullReply reply = RowsReply();
  Answer(Sent()[0], absl::OkStatus(), &reply, {Floats({1, 2, 3, 4})});
  ASSERT_TRUE(session_->TakeFinished()->status.ok());
  PushRows({1, 2, 3, 4});
  const auto sent = Sent();
  const auto& push = HeadOf<v1::PushRequest>(sent[1]);
  EXPECT_THAT(push.rows_computed_on().lives(), ElementsAre(3));
  EXPECT_THAT(push.rows_computed_on().counters(), ElementsAre(8));
}

TEST_F(SessionRowsTest, Promise1_RowsThatAreNotAnsweredForAreResent) {
  MakeRows({1, 6});
  PushRows({1, 2, 3, 4});
  auto sent = Sent();
  Answer(sent[0], PushReplyTo(sent[0]));
  AnswerPush(sent[1], {});
  EXPECT_FALSE(session_->TakeFinished().has_value());
  TickWhenWanted();
  sent = Sent();
  ASSERT_EQ(sent.size(), 1u);
  AnswerPush(sent[0], {v1::PushedBlock::ALREADY_APPLIED});
  ASSERT_TRUE(session_->TakeFinished().has_value());
}

TEST_F(SessionRowsTest, RowsThatAreInBeforeTheyWereSentAreAnothers) {
  MakeRows({1, 6});
  PushRows({1, 2, 3, 4});
  const auto sent = Sent();
  AnswerPush(sent[1], {v1::PushedBlock::ALREADY_APPLIED});
  EXPECT_EQ(RefusalOf(session_->TakeFinished()->status).reason(),
            v1::Refusal::SUPERSEDED);
}

}  // namespace
}  // namespace paramd
