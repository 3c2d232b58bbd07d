#include "coordinator/core/fill_relay.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

using testing::Pair;

// Server 1 of 3 owns rows of "w" and all of "b"; pieces of 10 bytes.
class FillRelayTest : public ::testing::Test {
 protected:
  FillRelayTest() {
    configuration_.mutable_optimizer()->mutable_adam();
    for (const char* name : {"w", "b"}) {
      v1::Variable* const variable =
          configuration_.mutable_layout()->add_variables();
      variable->set_name(name);
      variable->add_shape(8);
    }
    AddSlice(0, 0, 4, 0);
    AddSlice(0, 4, 8, 1);
    AddSlice(1, 0, 8, 1);
    for (uint32_t s = 0; s < 3; ++s) {
      v1::ServerMember* const member = configuration_.add_servers();
      member->set_index(s);
      *member->mutable_generation() = Pair(1, 10 + s);
      member->set_restore_directory("/from");
    }
    relay_.Begin(configuration_, 1);
  }

  void AddSlice(uint32_t variable, uint64_t begin, uint64_t end,
                uint32_t server) {
    v1::Slice* const slice = configuration_.mutable_layout()->add_slices();
    slice->set_variable(variable);
    slice->set_row_begin(begin);
    slice->set_row_end(end);
    slice->set_server(server);
  }

  v1::ReadSlices ReadNext(uint32_t server) {
    const auto work = relay_.Read(server);
    EXPECT_EQ(work->server(), server);
    return work->read();
  }
  absl::Status Done(const std::string& bytes, uint64_t generation = 11) {
    v1::ReadSlicesResult result;
    result.mutable_manifest()->set_run_id("run");
    result.mutable_manifest()->add_files()->add_lost()->set_to(9);
    if (!bytes.empty()) {
      v1::ReadSlicesResult::Piece* const piece =
          result.add_slices()->add_pieces();
      piece->set_row_begin(4);
      piece->mutable_saved()->set_variable("w");
    }
    // As blocks come: in pieces that are not those that are sent.
    BufferChain payload;
    if (!bytes.empty()) {
      payload = {Buffer::Copy(bytes.substr(0, 3)),
                 Buffer::Copy(bytes.substr(3))};
    }
    return relay_.Done(1, Pair(1, generation), &result, std::move(payload));
  }
  void Filled(uint32_t slice, uint64_t offset) {
    v1::FillReply reply;
    reply.set_slice(slice);
    reply.set_offset(offset);
    relay_.Filled(1, reply);
  }
  std::string Sent(v1::FillRequest* request) {
    BufferChain payload;
    *request = relay_.FillFor(1, &payload);
    return FlattenForTest(payload);
  }

  v1::Configuration configuration_;
  FillRelay relay_{10};
};

TEST_F(FillRelayTest, ASliceBehindAllMeansThatNoneIsWanted) {
  ReadNext(1);
  ASSERT_TRUE(Done("abcdefghijklmno").ok());
  Filled(~uint32_t{0}, 0);
  EXPECT_FALSE(relay_.NeedsRead(1));
  EXPECT_FALSE(relay_.NeedsFill(1));
}

TEST_F(FillRelayTest, OfSeveralKindsOfOptimizerASliceSaysItsSlots) {
  v1::OptimizerConfig* const optimizer = configuration_.mutable_optimizer();
  optimizer->add_groups()->set_variables("w");
  optimizer->mutable_groups(0)->mutable_adagrad();
  optimizer->add_groups()->set_variables("b");
  optimizer->mutable_groups(1)->mutable_sgd();
  FillRelay relay(10);
  relay.Begin(configuration_, 1);
  const auto work = relay.Read(1);
  // All that some variable has, and so "w" has: it need not say it.
  EXPECT_EQ(work->read().slots_size(), 1);
  EXPECT_EQ(work->read().slices(0).own_slots_size(), 0);
  optimizer->mutable_groups(1)->clear_sgd();
  optimizer->mutable_groups(1)->mutable_rmsprop();
  FillRelay other(10);
  other.Begin(configuration_, 1);
  const auto read = other.Read(1);
  EXPECT_EQ(read->read().slots_size(), 2);
  ASSERT_EQ(read->read().slices(0).own_slots_size(), 1);
  EXPECT_EQ(read->read().slices(0).own_slots(0), "accumulator");
  EXPECT_FALSE(read->read().slices(0).values_only());
}

TEST_F(FillRelayTest, OneSliceAfterTheOtherIsReadAndSentInPieces) {
  EXPECT_FALSE(relay_.NeedsRead(0));
  ASSERT_TRUE(relay_.NeedsRead(1));
  const v1::ReadSlices read = ReadNext(1);
  EXPECT_EQ(read.path(), "/from");
  EXPECT_TRUE(read.first());
  EXPECT_FALSE(read.last());
  EXPECT_EQ(read.check().index(), 1u);
  EXPECT_EQ(read.check().of(), 3u);
  EXPECT_EQ(read.slots_size(), 2);
  ASSERT_EQ(read.slices_size(), 1);
  EXPECT_EQ(read.slices(0).variable(), "w");
  EXPECT_EQ(read.slices(0).row_begin(), 4u);
  EXPECT_FALSE(relay_.NeedsRead(1));
  EXPECT_FALSE(relay_.NeedsFill(1));

  ASSERT_TRUE(Done("abcdefghijklmno").ok());
  ASSERT_TRUE(relay_.NeedsFill(1));
  v1::FillRequest fill;
  EXPECT_EQ(Sent(&fill), "abcdefghij");
  EXPECT_EQ(fill.slice(), 0u);
  EXPECT_EQ(fill.total(), 15u);
  EXPECT_EQ(fill.run_id(), "run");
  EXPECT_EQ(fill.pieces(0).row_begin(), 4u);
  EXPECT_EQ(fill.lost(0).to(), 9u);
  Filled(0, 10);
  EXPECT_EQ(Sent(&fill), "klmno");
  EXPECT_EQ(fill.offset(), 10u);
  EXPECT_EQ(fill.pieces_size(), 0);
  Filled(1, 0);

  ASSERT_TRUE(relay_.NeedsRead(1));
  const v1::ReadSlices last = ReadNext(1);
  EXPECT_FALSE(last.first());
  EXPECT_TRUE(last.last());
  EXPECT_EQ(last.slices(0).variable(), "b");
  ASSERT_TRUE(Done("pqrst").ok());
  Filled(2, 0);
  EXPECT_FALSE(relay_.NeedsRead(1));
  EXPECT_FALSE(relay_.NeedsFill(1));
}

TEST_F(FillRelayTest, InitialValuesAreReadWhereThereIsNoCheckpoint) {
  configuration_.mutable_servers(0)->clear_restore_directory();
  configuration_.mutable_warm_start()->set_path("/from/initial.safetensors");
  relay_.Begin(configuration_, 0);
  const auto work = relay_.Read(0);
  ASSERT_TRUE(work->has_initial());
  EXPECT_EQ(work->initial().warm_start().path(), "/from/initial.safetensors");
  ASSERT_EQ(work->initial().slices_size(), 1);
  v1::ReadWarmStartResult result;
  EXPECT_EQ(relay_.Done(0, Pair(1, 10), &result, {}).code(),
            absl::StatusCode::kDataLoss);
  result.add_found(true);
  ASSERT_TRUE(
      relay_.Done(0, Pair(1, 10), &result, {Buffer::Copy("abcdefgh")}).ok());
  ASSERT_TRUE(relay_.NeedsFill(0));
  BufferChain payload;
  const v1::FillRequest fill = relay_.FillFor(0, &payload);
  EXPECT_EQ(fill.total(), 8u);
  EXPECT_EQ(fill.pieces_size(), 0);
}

TEST_F(FillRelayTest, WhatTheServerDidNotGetIsSentAgain) {
  relay_.Read(1);
  ASSERT_TRUE(Done("abcdefghijklmno").ok());
  v1::FillRequest fill;
  Sent(&fill);
  Filled(0, 0);
  EXPECT_EQ(Sent(&fill), "abcdefghij");
  Filled(0, 4);
  EXPECT_EQ(Sent(&fill), "efghijklmn");
}

TEST_F(FillRelayTest, ASliceThatTheServerHasNoMoreIsReadAgain) {
  relay_.Read(1);
  ASSERT_TRUE(Done("abc").ok());
  Filled(1, 0);
  relay_.Read(1);
  ASSERT_TRUE(Done("pqrst").ok());
  Filled(0, 0);
  ASSERT_TRUE(relay_.NeedsRead(1));
  EXPECT_EQ(ReadNext(1).slices(0).variable(), "w");
}

TEST_F(FillRelayTest, AnotherGenerationBeginsAnew) {
  relay_.Read(1);
  relay_.Begin(configuration_, 1);
  EXPECT_FALSE(relay_.NeedsRead(1)) << "that one is known";
  *configuration_.mutable_servers(1)->mutable_generation() = Pair(1, 20);
  relay_.Begin(configuration_, 1);
  EXPECT_TRUE(relay_.NeedsRead(1));
  relay_.Read(1);
  ASSERT_TRUE(Done("abc", 11).ok());
  EXPECT_FALSE(relay_.NeedsFill(1)) << "what was read for the earlier one";
  ASSERT_TRUE(Done("abc", 20).ok());
  EXPECT_TRUE(relay_.NeedsFill(1));
  relay_.End(1);
  EXPECT_FALSE(relay_.NeedsFill(1));
}

TEST_F(FillRelayTest, ItBeginsAndEndsWithWhatTheServerSays) {
  *configuration_.mutable_version() = Pair(1, 2);
  v1::ConfigureReply reply;
  *reply.mutable_configuration() = Pair(1, 1);
  reply.set_unseen(true);
  relay_.Told(configuration_, 0, reply);
  EXPECT_FALSE(relay_.NeedsRead(0)) << "of an earlier configuration";
  *reply.mutable_configuration() = Pair(1, 2);
  relay_.Told(configuration_, 0, reply);
  EXPECT_TRUE(relay_.NeedsRead(0));
  reply.set_unseen(false);
  reply.set_restored(true);
  relay_.Told(configuration_, 0, reply);
  EXPECT_FALSE(relay_.NeedsRead(0));
}

TEST_F(FillRelayTest, AServerWithoutSlicesGetsOneEmptyPieceBehindTheCheck) {
  relay_.Begin(configuration_, 2);
  const v1::ReadSlices read = ReadNext(2);
  EXPECT_TRUE(read.first() && read.last());
  EXPECT_EQ(read.slices_size(), 0);
  const v1::ReadSlicesResult nothing;
  ASSERT_TRUE(relay_.Done(2, Pair(1, 12), &nothing, {}).ok());
  BufferChain payload;
  EXPECT_EQ(relay_.FillFor(2, &payload).total(), 0u);
  EXPECT_TRUE(payload.empty());
  relay_.Filled(2, {});
  EXPECT_FALSE(relay_.NeedsFill(2));
  EXPECT_FALSE(relay_.NeedsRead(2));
}

TEST_F(FillRelayTest, AnAnswerWithoutBytesIsDataLoss) {
  relay_.Read(1);
  EXPECT_EQ(Done("").code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace paramd
