#include "server/core/restorer.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/testing/configurations.h"
#include "server/core/testing/shard_bench.h"

namespace paramd {
namespace {

using ::paramd::testing::Pair;
using ::paramd::testing::Payload;
using ::paramd::testing::ShardBench;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RestorerTest : public ::testing::Test {
 protected:
  // New content, out of this directory, or drawn.
  void Begin(const std::string& directory) {
    bench_.configuration.mutable_servers(0)->set_restore_directory(directory);
    bench_.MakeContent();
    bench_.Do([&](ShardTurn* turn) { restorer_.Begin(turn); });
  }
  // Ticks for as long as it wants to be; whether the content became complete.
  bool Advance() {
    bool complete = false;
    while (!complete && restorer_.next_tick() <= bench_.now) {
      bench_.Do([&](ShardTurn* turn) { complete = restorer_.Advance(turn); });
      for (Outbox::IoItem& io : bench_.out.ios) reading_ = io.io;
    }
    return complete;
  }
  std::unique_ptr<v1::ReadSlicesResult> Slices() {
    auto read = std::make_unique<v1::ReadSlicesResult>();
    read->mutable_manifest()->set_run_id("run");
    auto* const piece = read->add_slices()->add_pieces();
    piece->set_row_end(2);
    piece->mutable_saved()->set_row_end(2);
    piece->mutable_saved()->set_variable("w");
    v1::ShardFile* const file = read->mutable_manifest()->add_files();
    file->add_slices()->set_variable("w");
    v1::LostPushes* const lost = file->add_lost();
    *lost->mutable_generation() = Pair(1, 11);
    lost->set_from(3);
    lost->set_to(4);
    return read;
  }
  void EndReading(absl::Status status,
                  std::unique_ptr<v1::ReadSlicesResult> read,
                  BufferChain payload = {}) {
    ASSERT_TRUE(restorer_.Wants(reading_));
    const IoResult result{reading_, std::move(status), std::move(read),
                          std::move(payload)};
    bench_.Do([&](ShardTurn* turn) { restorer_.OnRead(result, turn); });
  }
  absl::Status Fill(const std::vector<float>& numbers, v1::FillReply* reply) {
    v1::FillRequest request;
    *request.mutable_header()->mutable_server_generation() = Pair(1, 1);
    request.set_total(8);
    request.set_run_id("run");
    v1::FillRequest::Piece* const piece = request.add_pieces();
    piece->set_row_end(2);
    piece->mutable_saved()->set_row_end(2);
    absl::Status status;
    bench_.Do([&](ShardTurn* turn) {
      status = restorer_.OnFill(request, Payload(numbers), reply, turn);
    });
    return status;
  }

  ShardBench bench_;
  Restorer restorer_{/*life_seed=*/1, bench_.view};
  IoId reading_ = 0;
};

TEST_F(RestorerTest, InitialValuesAreDrawnWithoutReading) {
  EXPECT_EQ(restorer_.state(), FillState::kNone);
  Begin("");
  EXPECT_EQ(restorer_.state(), FillState::kFilling);
  EXPECT_TRUE(Advance());
  EXPECT_EQ(restorer_.state(), FillState::kFilled);
  EXPECT_EQ(restorer_.next_tick(), Time::Never());
  EXPECT_EQ(bench_.next_io, 1u);
  EXPECT_THAT(bench_.Values(), ElementsAre(0, 0));
}

TEST_F(RestorerTest, ACheckpointComesWithWhatItListsAsLost) {
  Begin("/from");
  EXPECT_FALSE(Advance());
  EndReading(absl::OkStatus(), Slices(), Payload({3, 4}));
  EXPECT_TRUE(Advance());
  EXPECT_THAT(bench_.Values(), ElementsAre(3, 4));
  EXPECT_EQ(bench_.data.lost.total(), 2u);
}

TEST_F(RestorerTest, WhatCannotBeReadIsSaidWhenTheCoordinatorAsks) {
  Begin("/from");
  Advance();
  EndReading(absl::DataLossError("truncated file"), nullptr);
  EXPECT_EQ(restorer_.state(), FillState::kFailed);
  v1::ConfigureReply reply;
  const absl::Status said = restorer_.AnswerConfigure(&reply);
  EXPECT_EQ(RefusalOf(said).reason(), v1::Refusal::DAMAGED);
  EXPECT_THAT(std::string(said.message()),
              HasSubstr("could not restore '/from': truncated file"));
}

TEST_F(RestorerTest, ACheckpointThatIsNotSeenIsHandedOver) {
  v1::FillReply reply;
  EXPECT_EQ(RefusalOf(Fill({3, 4}, &reply)).reason(), v1::Refusal::NOT_READY)
      << "nothing is wanted";
  Begin("/from");
  Advance();
  auto unseen = std::make_unique<v1::ReadSlicesResult>();
  unseen->set_unseen(true);
  EndReading(absl::OkStatus(), std::move(unseen));
  v1::ConfigureReply asked;
  EXPECT_TRUE(restorer_.AnswerConfigure(&asked).ok());
  EXPECT_TRUE(asked.unseen());
  EXPECT_TRUE(Fill({3, 4}, &reply).ok());
  EXPECT_EQ(reply.slice(), 1u) << "there is no more";
  EXPECT_TRUE(Advance());
  EXPECT_THAT(bench_.Values(), ElementsAre(3, 4));
}

TEST_F(RestorerTest, InitialValuesThatItDoesNotSeeComeThroughTheChief) {
  bench_.configuration.mutable_warm_start()->set_path("/initial.safetensors");
  bench_.configuration.mutable_warm_start()->set_variables("*");
  Begin("");
  for (const Outbox::IoItem& io : bench_.out.ios) reading_ = io.io;
  Advance();
  ASSERT_TRUE(restorer_.Wants(reading_));
  auto unseen = std::make_unique<v1::ReadWarmStartResult>();
  unseen->set_unseen(true);
  IoResult result{reading_, absl::OkStatus(), std::move(unseen), {}};
  bench_.Do([&](ShardTurn* turn) { restorer_.OnRead(result, turn); });
  v1::ConfigureReply asked;
  EXPECT_TRUE(restorer_.AnswerConfigure(&asked).ok());
  EXPECT_TRUE(asked.unseen());
  v1::FillReply reply;
  EXPECT_TRUE(Fill({5, 6}, &reply).ok());
  EXPECT_TRUE(Advance());
  EXPECT_THAT(bench_.Values(), ElementsAre(5, 6));
}

TEST_F(RestorerTest, ANewGenerationBeginsAnew) {
  Begin("/from");
  Advance();
  const IoId earlier = reading_;
  Begin("");
  EXPECT_FALSE(restorer_.Wants(earlier));
  EXPECT_TRUE(Advance());
  Begin("/from");
  EXPECT_EQ(restorer_.state(), FillState::kFilling);
}

TEST_F(RestorerTest, WhatIsFilledMayBeOfNoUse) {
  Begin("");
  Advance();
  restorer_.Fail(absl::InvalidArgumentError("no room for a step"));
  v1::ConfigureReply reply;
  EXPECT_EQ(restorer_.AnswerConfigure(&reply).message(), "no room for a step");
}

}  // namespace
}  // namespace paramd
