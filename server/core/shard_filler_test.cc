#include "server/core/shard_filler.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "server/core/testing/configurations.h"

namespace paramd {
namespace {

using testing::MakeAdamConfiguration;
using testing::MakeConfiguration;
using testing::Numbers;
using testing::Pair;
using testing::Payload;
using testing::Uniform;
using testing::Zeros;

std::unique_ptr<ShardContent> Content(const v1::Configuration& configuration,
                                      uint32_t server = 0) {
  return *ShardContent::Create(configuration,
                               {.server = server, .max_reply_bytes = 1 << 22});
}

std::unique_ptr<ShardContent> Filled(const v1::Configuration& configuration,
                                     uint32_t server = 0) {
  auto content = Content(configuration, server);
  RandomStream lives(server);
  auto filler = ShardFiller::FromInitialValues(content.get(),
                                               configuration.seed(), &lives);
  while (!filler->Step()) {
  }
  return content;
}

std::vector<float> Values(const Slice& slice) {
  BufferChain chain;
  for (int b = 0; b < slice.block_count(); ++b) {
    chain.push_back(slice.block(b).values());
  }
  return Numbers(chain);
}

TEST(ShardFillerTest, InitialValuesDoNotDependOnTheNumberOfServers) {
  // 5 MiB: two slices, a row above 4 MiB, a scalar.
  const auto variables = {Uniform("w", {1280, 1024}),
                          Uniform("row", {1, 1100000}), Uniform("s", {})};
  const auto alone = Filled(MakeConfiguration(variables));
  ASSERT_EQ(alone->owned().size(), 4u);
  EXPECT_EQ(alone->owned()[2]->block_count(), 5);
  const v1::Configuration two = MakeConfiguration(variables, 2);
  const auto even = Filled(two, 0);
  const auto odd = Filled(two, 1);
  for (int i = 0; i < 4; ++i) {
    const auto& split = i % 2 == 0 ? even : odd;
    EXPECT_EQ(Values(*alone->owned()[i]), Values(*split->owned()[i / 2])) << i;
  }
}

TEST(ShardFillerTest, UniformValuesLieInTheirRangeAndDependOnNameAndSeed) {
  v1::Configuration configuration =
      MakeConfiguration({Uniform("a", {1000}), Uniform("b", {1000})});
  const auto one = Filled(configuration);
  const std::vector<float> a = Values(*one->owned()[0]);
  double sum = 0;
  for (const float value : a) {
    EXPECT_GE(value, -0.5f);
    EXPECT_LT(value, 0.5f);
    sum += value;
  }
  EXPECT_NEAR(sum / 1000, 0, 0.05);
  EXPECT_NE(a, Values(*one->owned()[1]));
  configuration.set_seed(8);
  EXPECT_NE(a, Values(*Filled(configuration)->owned()[0]));
}

TEST(ShardFillerTest, ZerosAndSlotsStartAsZeros) {
  const auto content = Filled(MakeAdamConfiguration({Zeros("w", {3})}));
  EXPECT_EQ(Values(*content->owned()[0]), std::vector<float>(3));
  EXPECT_EQ(Numbers({content->owned()[0]->block(0).slots()}),
            std::vector<float>(6));
}

TEST(ShardFillerTest, EverySliceGetsALifeOfItsOwn) {
  const auto content =
      Filled(MakeConfiguration({Zeros("w", {3}), Zeros("b", {3})}));
  const uint64_t w = content->owned()[0]->block(0).version().life();
  const uint64_t b = content->owned()[1]->block(0).version().life();
  EXPECT_NE(w, 0u);
  EXPECT_NE(w, b);
}

TEST(ShardFillerTest, AStepIsAboutABlock) {
  const auto content = Content(MakeConfiguration({Zeros("w", {4, 262144})}));
  RandomStream lives(1);
  auto filler = ShardFiller::FromInitialValues(content.get(), 7, &lives);
  EXPECT_FALSE(filler->Step());
  EXPECT_FALSE(filler->Step());
  EXPECT_FALSE(filler->Step());
  EXPECT_TRUE(filler->Step());
}

TEST(ShardFillerTest, WantedNamesSlicesAndSlots) {
  const auto content =
      Content(MakeAdamConfiguration({Zeros("w", {1280, 1024})}, 2), 1);
  const auto wanted = ShardFiller::Wanted(*content, "/dir");
  EXPECT_EQ(wanted->path(), "/dir");
  ASSERT_EQ(wanted->slices_size(), 1);
  EXPECT_EQ(wanted->slices(0).variable(), "w");
  EXPECT_EQ(wanted->slices(0).shape(1), 1024u);
  EXPECT_EQ(wanted->slices(0).row_begin(), 1024u);
  EXPECT_EQ(wanted->slices(0).row_end(), 1280u);
  ASSERT_EQ(wanted->slots_size(), 2);
  EXPECT_EQ(wanted->slots(0), "momentum");
  EXPECT_EQ(wanted->slots(1), "variance");
}

class RestoreTest : public ::testing::Test {
 protected:
  // "w" is 300 rows of 1000, saved as one slice whose first block has 5 pushes
  // and whose second has 6; worker 1 is in the middle of push 6.
  RestoreTest()
      : content_(Content(MakeAdamConfiguration({Zeros("w", {300, 1000})}))) {
    auto* piece = result_.add_slices()->add_pieces();
    piece->set_row_begin(0);
    piece->set_row_end(300);
    auto* saved = piece->mutable_saved();
    saved->set_variable("w");
    saved->set_row_begin(0);
    saved->set_row_end(300);
    for (const uint64_t applied : {5, 6}) {
      saved->add_applied()->set_applied(applied);
      saved->mutable_applied(saved->applied_size() - 1)->set_blocks(1);
    }
    auto* record = saved->add_records();
    record->set_worker(1);
    *record->mutable_generation() = Pair(1, 11);
    record->set_sequence(6);
    record->add_missing_blocks(0);
    result_.mutable_manifest()->set_run_id("run");
    std::vector<float> numbers;
    for (int i = 0; i < 900000; ++i) numbers.push_back(i);
    payload_ = Payload(numbers);
  }

  Slice& Restore(absl::string_view run_id = "run") {
    auto filler = ShardFiller::FromCheckpoint(content_.get(), result_, payload_,
                                              run_id, &lives_);
    EXPECT_TRUE(filler.ok()) << filler.status();
    while (!(*filler)->Step()) {
    }
    return *content_->owned()[0];
  }

  const PushId push_{1, Pair(1, 11), 6};
  RandomStream lives_{3};
  std::unique_ptr<ShardContent> content_;
  v1::ReadSlicesResult result_;
  BufferChain payload_;
};

TEST_F(RestoreTest, Promise3_ValuesSlotsAndCountsComeBack) {
  const Slice& slice = Restore();
  const auto first = Numbers({slice.block(0).values()});
  EXPECT_EQ(first.front(), 0);
  EXPECT_EQ(first.back(), 262143);
  EXPECT_EQ(Numbers({slice.block(1).values()}).front(), 262144);
  const auto slots = Numbers({slice.block(1).slots()});
  ASSERT_EQ(slots.size(), 2u * 37856);
  EXPECT_EQ(slots[0], 300000 + 262144);
  EXPECT_EQ(slots[37856], 600000 + 262144);
  EXPECT_EQ(slice.block(0).applied(), 5u);
  EXPECT_EQ(slice.block(1).applied(), 6u);
}

TEST_F(RestoreTest, Promise1_AnOpenPushGoesOnWhereItWas) {
  const Slice& slice = Restore();
  EXPECT_EQ(*slice.applied().Admit(push_, 1),
            AppliedPushes::Admission::kAlreadyApplied);
  EXPECT_EQ(*slice.applied().Admit(push_, 0), AppliedPushes::Admission::kApply);
}

TEST_F(RestoreTest, Promise1_OverOtherSlicesAnOpenPushCountsAsIn) {
  auto* piece = result_.mutable_slices(0)->mutable_pieces(0);
  piece->mutable_saved()->set_row_end(600);
  EXPECT_EQ(*Restore().applied().Admit(push_, 0),
            AppliedPushes::Admission::kAlreadyApplied);
}

TEST_F(RestoreTest, RecordsOfAnotherRunAreNotTakenOver) {
  EXPECT_EQ(*Restore("other").applied().Admit(push_, 1),
            AppliedPushes::Admission::kApply);
}

TEST_F(RestoreTest, RecordsOfAnotherRunAreCounted) {
  v1::SavedSlice saved;
  Restore("other").applied().Save(&saved);
  ASSERT_EQ(saved.records_size(), 1);
  EXPECT_EQ(saved.records(0).earlier(), 1u);
  EXPECT_EQ(saved.records(0).sequence(), 0u);
  ASSERT_EQ(saved.partial_size(), 1);
  EXPECT_EQ(saved.partial(0).missing_blocks(0), 0u);
}

TEST_F(RestoreTest, Promise3_PartialPushesStayNamed) {
  auto* const saved =
      result_.mutable_slices(0)->mutable_pieces(0)->mutable_saved();
  saved->mutable_records(0)->set_earlier(5);
  v1::PushRecord* const partial = saved->add_partial();
  partial->set_worker(2);
  partial->add_missing_blocks(1);
  v1::SavedSlice again;
  Restore().applied().Save(&again);
  ASSERT_EQ(again.partial_size(), 1);
  EXPECT_EQ(again.partial(0).worker(), 2u);
  EXPECT_EQ(again.records(0).earlier(), 5u);
}

TEST_F(RestoreTest, CountsComeFromThePieceInWhichABlockBegins) {
  // Rows 0 to 100 from one saved slice, the rest from one that began at 100.
  auto* got = result_.mutable_slices(0);
  *got->add_pieces() = got->pieces(0);
  got->mutable_pieces(0)->set_row_end(100);
  got->mutable_pieces(0)->mutable_saved()->set_row_end(100);
  got->mutable_pieces(1)->set_row_begin(100);
  got->mutable_pieces(1)->mutable_saved()->set_row_begin(100);
  got->mutable_pieces(1)->mutable_saved()->mutable_applied(0)->set_applied(9);
  const Slice& slice = Restore();
  EXPECT_EQ(slice.block(0).applied(), 5u);
  EXPECT_EQ(slice.block(1).applied(), 9u);
}

TEST_F(RestoreTest, Promise3_RunningGradientsComeFromTheSamePiece) {
  auto* got = result_.mutable_slices(0);
  *got->add_pieces() = got->pieces(0);
  got->mutable_pieces(0)->set_row_end(100);
  auto* first = got->mutable_pieces(0)->mutable_saved();
  first->set_row_end(100);
  first->add_gradient_rms(0.5f);
  got->mutable_pieces(1)->set_row_begin(100);
  auto* second = got->mutable_pieces(1)->mutable_saved();
  second->set_row_begin(100);
  second->add_gradient_rms(0.25f);
  const Slice& slice = Restore();
  EXPECT_EQ(slice.block(0).gradient_rms().value(), 0.5f);
  EXPECT_EQ(slice.block(1).gradient_rms().value(), 0.25f);
}

TEST_F(RestoreTest, WhereNoneWasKeptTheRunningGradientBeginsAnew) {
  EXPECT_EQ(Restore().block(1).gradient_rms().value(), 0);
}

TEST_F(RestoreTest, TooFewBytesAreDataLoss) {
  const auto filler = ShardFiller::FromCheckpoint(content_.get(), result_,
                                                  Payload({1}), "run", &lives_);
  EXPECT_EQ(filler.status(),
            absl::DataLossError("checkpoint gave 4 bytes; the slices of this "
                                "server have 3600000"));
}

TEST_F(RestoreTest, TooFewSlicesAreDataLoss) {
  const auto filler = ShardFiller::FromCheckpoint(
      content_.get(), v1::ReadSlicesResult(), payload_, "run", &lives_);
  EXPECT_EQ(
      filler.status(),
      absl::DataLossError("checkpoint gave 0 slices; this server owns 1"));
}

}  // namespace
}  // namespace paramd
