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
  ShardFiller filler({.content = content.get(),
                      .lives = &lives,
                      .seed = configuration.seed()});
  while (!filler.done()) filler.Step();
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
  ShardFiller filler({.content = content.get(), .lives = &lives, .seed = 7});
  for (uint64_t blocks = 1; blocks <= 4; ++blocks) {
    EXPECT_FALSE(filler.done());
    filler.Step();
    EXPECT_EQ(filler.filled_bytes(), blocks << 20);
  }
  EXPECT_TRUE(filler.done());
}

// What `filler` wants to be read next as `io`; null: nothing.
std::unique_ptr<v1::ReadSlices> NextSlices(ShardFiller* filler, IoId io) {
  auto wanted = filler->NextRead(io).head;
  return std::unique_ptr<v1::ReadSlices>(
      static_cast<v1::ReadSlices*>(wanted.release()));
}

TEST(ShardFillerTest, WhatIsToBeReadNamesSlicesAndSlotsAndTheShareToCheck) {
  const auto content =
      Content(MakeAdamConfiguration({Zeros("w", {1280, 1024})}, 2), 1);
  RandomStream lives(1);
  ShardFiller::Checkpoint checkpoint;
  checkpoint.directory = "/dir";
  checkpoint.check.set_index(1);
  checkpoint.check.set_of(2);
  ShardFiller filler({.content = content.get(), .lives = &lives}, checkpoint);
  const auto wanted = NextSlices(&filler, 5);
  ASSERT_NE(wanted, nullptr);
  EXPECT_TRUE(filler.Wants(5));
  EXPECT_EQ(wanted->path(), "/dir");
  EXPECT_EQ(wanted->check().index(), 1u);
  EXPECT_EQ(wanted->check().of(), 2u);
  EXPECT_TRUE(wanted->first());
  EXPECT_TRUE(wanted->last());
  ASSERT_EQ(wanted->slices_size(), 1);
  EXPECT_EQ(wanted->slices(0).variable(), "w");
  EXPECT_EQ(wanted->slices(0).shape(1), 1024u);
  EXPECT_EQ(wanted->slices(0).row_begin(), 1024u);
  EXPECT_EQ(wanted->slices(0).row_end(), 1280u);
  ASSERT_EQ(wanted->slots_size(), 2);
  EXPECT_EQ(wanted->slots(0), "momentum");
  EXPECT_EQ(wanted->slots(1), "variance");
  EXPECT_EQ(filler.NextRead(6).head, nullptr);
}

TEST(ShardFillerTest, OfSeveralKindsOfOptimizerASliceSaysItsSlots) {
  v1::Configuration configuration = MakeAdamConfiguration(
      {Zeros("w", {3}), Zeros("t", {3}), Zeros("b", {3})});
  v1::OptimizerConfig* const optimizer = configuration.mutable_optimizer();
  optimizer->add_groups()->set_variables("t");
  optimizer->mutable_groups(0)->mutable_adagrad();
  optimizer->add_groups()->set_variables("b");
  optimizer->mutable_groups(1)->mutable_sgd();
  const auto content = Content(configuration);
  RandomStream lives(1);
  ShardFiller filler({.content = content.get(), .lives = &lives},
                     ShardFiller::Checkpoint{});
  const auto wanted = NextSlices(&filler, 5);
  ASSERT_NE(wanted, nullptr);
  ASSERT_EQ(wanted->slices_size(), 3);
  EXPECT_EQ(wanted->slots_size(), 3);
  const auto own = [&](int slice) {
    return std::vector<std::string>(wanted->slices(slice).own_slots().begin(),
                                    wanted->slices(slice).own_slots().end());
  };
  EXPECT_EQ(own(0), (std::vector<std::string>{"momentum", "variance"}));
  EXPECT_EQ(own(1), (std::vector<std::string>{"accumulator"}));
  EXPECT_EQ(own(2), std::vector<std::string>{});
  EXPECT_FALSE(wanted->slices(1).values_only());
  EXPECT_TRUE(wanted->slices(2).values_only()) << "plain descent keeps none";
}

TEST(ShardFillerTest, AServerWithoutSlicesChecksItsShareAllTheSame) {
  const auto content = Content(MakeConfiguration({Zeros("w", {3})}, 2), 1);
  ASSERT_TRUE(content->owned().empty());
  RandomStream lives(1);
  ShardFiller filler({.content = content.get(), .lives = &lives},
                     ShardFiller::Checkpoint());
  const auto wanted = NextSlices(&filler, 5);
  ASSERT_NE(wanted, nullptr);
  EXPECT_TRUE(wanted->first() && wanted->last());
  EXPECT_FALSE(filler.done());
  IoResult result;
  result.io = 5;
  result.head = std::make_unique<v1::ReadSlicesResult>();
  EXPECT_TRUE(filler.Take(result).ok());
  EXPECT_TRUE(filler.done());
}

// Seven slices of 2 numbers, in windows of two slices.
class WindowTest : public ::testing::Test {
 protected:
  WindowTest()
      : content_(Content(MakeConfiguration(
            {Zeros("a", {2}), Zeros("b", {2}), Zeros("c", {2}), Zeros("d", {2}),
             Zeros("e", {2}), Zeros("f", {2}), Zeros("g", {2})}))),
        filler_(
            {.content = content_.get(), .lives = &lives_, .window_bytes = 16},
            ShardFiller::Checkpoint()) {}

  absl::Status Take(IoId io, int slices, const std::vector<float>& numbers) {
    auto read = std::make_unique<v1::ReadSlicesResult>();
    for (int s = 0; s < slices; ++s) read->add_slices()->add_pieces();
    IoResult result;
    result.io = io;
    result.head = std::move(read);
    result.payload = Payload(numbers);
    return filler_.Take(result);
  }

  RandomStream lives_{3};
  std::unique_ptr<ShardContent> content_;
  ShardFiller filler_;
};

TEST_F(WindowTest, ThreeAreReadAtATimeAndFilledInOrderWhicheverComesFirst) {
  const auto first = NextSlices(&filler_, 1);
  const auto second = NextSlices(&filler_, 2);
  const auto third = NextSlices(&filler_, 3);
  ASSERT_EQ(first->slices_size(), 2);
  EXPECT_TRUE(first->first());
  EXPECT_FALSE(first->last());
  ASSERT_EQ(second->slices_size(), 2);
  EXPECT_FALSE(second->first());
  ASSERT_EQ(third->slices_size(), 2);
  EXPECT_EQ(NextSlices(&filler_, 4), nullptr);
  EXPECT_TRUE(filler_.full());

  ASSERT_TRUE(Take(2, 2, {5, 6, 7, 8}).ok());
  ASSERT_TRUE(Take(3, 2, {9, 10, 11, 12}).ok());
  EXPECT_FALSE(filler_.CanStep()) << "what is before it is not there";
  ASSERT_TRUE(Take(1, 2, {1, 2, 3, 4}).ok());
  EXPECT_FALSE(filler_.Wants(1));
  while (filler_.CanStep()) filler_.Step();
  EXPECT_FALSE(filler_.done());
  const auto last = NextSlices(&filler_, 4);
  ASSERT_EQ(last->slices_size(), 1);
  EXPECT_TRUE(last->last());
  ASSERT_TRUE(Take(4, 1, {13, 14}).ok());
  while (filler_.CanStep()) filler_.Step();
  EXPECT_TRUE(filler_.done());
  for (int s = 0; s < 7; ++s) {
    EXPECT_EQ(Values(*content_->owned()[s]),
              (std::vector<float>{2.0f * s + 1, 2.0f * s + 2}));
  }
}

TEST_F(WindowTest, AWindowOfAnotherSizeIsDataLoss) {
  NextSlices(&filler_, 1);
  EXPECT_EQ(Take(1, 1, {1, 2}),
            absl::DataLossError("checkpoint gave 1 slices; 2 were asked for"));
  EXPECT_EQ(Take(1, 2, {1, 2}),
            absl::DataLossError("checkpoint gave 8 bytes; the slices asked for "
                                "have 16"));
  EXPECT_FALSE(filler_.CanStep());
}

// Two slices of two blocks each, in windows of one; slots of Adam.
class InPlaceTest : public ::testing::Test {
 protected:
  InPlaceTest()
      : content_(Content(MakeAdamConfiguration(
            {Zeros("a", {300, 1000}), Zeros("b", {300, 1000})}))),
        filler_({.content = content_.get(),
                 .lives = &lives_,
                 .window_bytes = 1,
                 .in_place = true},
                ShardFiller::Checkpoint()) {}

  // Steps until there is something to read.
  ShardFiller::Read Ask(IoId io) {
    ShardFiller::Read read = filler_.NextRead(io);
    while (read.head == nullptr && filler_.CanStep()) {
      filler_.Step();
      read = filler_.NextRead(io);
    }
    return read;
  }
  absl::Status Take(IoId io, BufferChain payload) {
    auto read = std::make_unique<v1::ReadSlicesResult>();
    auto* const piece = read->add_slices()->add_pieces();
    piece->set_row_end(300);
    piece->mutable_saved()->set_row_end(300);
    piece->mutable_saved()->add_applied()->set_applied(5);
    piece->mutable_saved()->mutable_applied(0)->set_blocks(2);
    IoResult result;
    result.io = io;
    result.head = std::move(read);
    result.payload = std::move(payload);
    return filler_.Take(result);
  }
  static void Write(Buffer* buffer, float first) {
    auto* const numbers =
        reinterpret_cast<float*>(buffer->mutable_bytes().data());
    for (size_t i = 0; i < buffer->size() / sizeof(float); ++i) {
      numbers[i] = first + static_cast<float>(i);
    }
  }

  RandomStream lives_{3};
  std::unique_ptr<ShardContent> content_;
  ShardFiller filler_;
};

TEST_F(InPlaceTest, MemoryIsMadeABlockAStepBeforeItIsAskedFor) {
  EXPECT_EQ(filler_.NextRead(1).head, nullptr);
  filler_.Step();
  EXPECT_EQ(filler_.NextRead(1).head, nullptr);
  filler_.Step();
  const ShardFiller::Read read = filler_.NextRead(1);
  ASSERT_NE(read.head, nullptr);
  ASSERT_EQ(read.memory.size(), 4u);
  EXPECT_EQ(read.memory[0].size(), 262144u * 4);
  EXPECT_EQ(read.memory[1].size(), 262144u * 8);
  EXPECT_EQ(read.memory[2].size(), 37856u * 4);
  EXPECT_EQ(read.memory[3].size(), 37856u * 8);
  for (const Buffer& buffer : read.memory) EXPECT_TRUE(buffer.unique());
  EXPECT_EQ(filler_.filled_bytes(), 0u);
}

TEST_F(InPlaceTest, WhatLiesThereIsTheContentWithoutACopy) {
  ShardFiller::Read first = Ask(1);
  ShardFiller::Read second = Ask(2);
  ASSERT_NE(second.head, nullptr);
  EXPECT_TRUE(static_cast<const v1::ReadSlices&>(*second.head).last());
  EXPECT_FALSE(filler_.CanStep());
  const std::byte* const values = first.memory[2].bytes().data();
  const std::byte* const slots = first.memory[3].bytes().data();
  Write(&first.memory[2], 7);
  Write(&first.memory[3], 100);
  ASSERT_TRUE(Take(2, std::move(second.memory)).ok());
  EXPECT_FALSE(filler_.CanStep()) << "what is before it is not there";
  ASSERT_TRUE(Take(1, std::move(first.memory)).ok());
  while (filler_.CanStep()) filler_.Step();
  EXPECT_TRUE(filler_.done());
  EXPECT_EQ(filler_.filled_bytes(), 2u * 300000 * 12);
  const Block& block = content_->owned()[0]->block(1);
  EXPECT_EQ(block.values().bytes().data(), values);
  EXPECT_EQ(block.slots().bytes().data(), slots);
  EXPECT_EQ(Numbers({block.values()}).front(), 7);
  EXPECT_EQ(Numbers({block.slots()}).back(), 100 + 2 * 37856 - 1);
  EXPECT_TRUE(block.values().unique() && block.slots().unique());
  EXPECT_EQ(block.applied(), 5u);
  EXPECT_NE(block.version().life(),
            content_->owned()[1]->block(1).version().life());
}

TEST_F(InPlaceTest, WhatWasReadElsewhereIsFilledIn) {
  Ask(1);
  std::vector<float> numbers;
  for (int i = 0; i < 900000; ++i) numbers.push_back(i);
  ASSERT_TRUE(Take(1, Payload(numbers)).ok());
  while (filler_.CanStep()) filler_.Step();
  const Block& block = content_->owned()[0]->block(1);
  EXPECT_EQ(Numbers({block.values()}).front(), 262144);
  EXPECT_EQ(Numbers({block.slots()})[37856], 600000 + 262144);
}

TEST_F(InPlaceTest, LessMemoryThanWasGivenIsDataLoss) {
  ShardFiller::Read read = Ask(1);
  read.memory.pop_back();
  EXPECT_TRUE(absl::IsDataLoss(Take(1, std::move(read.memory))));
}

TEST_F(InPlaceTest, WhatWasAskedForMayOutliveIt) {
  ShardFiller::Read read = Ask(1);
  content_.reset();
  Write(&read.memory[0], 1);
  EXPECT_EQ(Numbers({read.memory[0]}).front(), 1);
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

  absl::Status Take(ShardFiller* filler) {
    filler->NextRead(1);
    IoResult result;
    result.io = 1;
    result.head = std::make_unique<v1::ReadSlicesResult>(result_);
    result.payload = payload_;
    return filler->Take(result);
  }
  Slice& Restore(const std::string& run_id = "run") {
    ShardFiller::Checkpoint checkpoint;
    checkpoint.run_id = run_id;
    ShardFiller filler({.content = content_.get(), .lives = &lives_},
                       checkpoint);
    const absl::Status taken = Take(&filler);
    EXPECT_TRUE(taken.ok()) << taken;
    while (!filler.done()) filler.Step();
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

// Rows of 1000, of which 262 are a block: two slices of 1048 and 952, saved as
// two of 524 and 1476.
TEST_F(RestoreTest, Promise3_ABlockOfRowsHasTheCountOfTheOneThatItBeginsIn) {
  v1::Variable table = Zeros("w", {2000, 1000});
  table.set_sparse(true);
  content_ = Content(MakeConfiguration({table}));
  ASSERT_EQ(content_->owned().size(), 2u);
  v1::SavedSlice saved[2];
  uint64_t applied = 5;
  for (const int s : {0, 1}) {
    saved[s].set_variable("w");
    saved[s].set_row_begin(s == 0 ? 0 : 524);
    saved[s].set_row_end(s == 0 ? 524 : 2000);
    for (int block = 0; block < (s == 0 ? 2 : 6); ++block) {
      v1::AppliedRun* const run = saved[s].add_applied();
      run->set_applied(applied++);
      run->set_blocks(1);
    }
  }
  result_.clear_slices();
  const auto add = [&](uint64_t begin, uint64_t end, int s,
                       v1::ReadSlicesResult::Got* got) {
    auto* const piece = got->add_pieces();
    piece->set_row_begin(begin);
    piece->set_row_end(end);
    *piece->mutable_saved() = saved[s];
  };
  add(0, 524, 0, result_.add_slices());
  add(524, 1048, 1, result_.mutable_slices(0));
  add(1048, 2000, 1, result_.add_slices());
  std::vector<float> numbers(2000000);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(i);
  }
  payload_ = Payload(numbers);
  Restore();
  std::vector<uint64_t> counts;
  for (Slice* const slice : content_->owned()) {
    for (int b = 0; b < slice->block_count(); ++b) {
      counts.push_back(slice->block(b).applied());
      EXPECT_EQ(Numbers({slice->block(b).values()}).front(),
                static_cast<float>(slice->block_begin(b)));
    }
  }
  EXPECT_EQ(counts, (std::vector<uint64_t>{5, 6, 7, 8, 9, 10, 11, 12}));
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

}  // namespace
}  // namespace paramd
