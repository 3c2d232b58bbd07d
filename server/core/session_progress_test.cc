#include "server/core/session_progress.h"

#include <cstdint>
#include <map>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

class SessionProgressTest : public ::testing::Test {
 protected:
  SessionProgressTest() { progress_.Begin(/*blocks=*/3); }

  // Blocks of push `sequence`, made of ten examples of epoch 1.
  bool Apply(uint32_t worker, uint64_t sequence, uint64_t blocks,
             uint64_t input, uint64_t backup = 0) {
    v1::PushRequest push;
    push.mutable_header()->set_worker(worker);
    push.mutable_header()->mutable_generation()->set_term(1);
    push.mutable_header()->mutable_generation()->set_counter(worker + 1);
    push.mutable_header()->set_sequence(sequence);
    push.set_epoch(1);
    push.set_input_begin(input);
    push.set_input_end(input + 10);
    v1::ConfigurationVersion since;
    since.set_counter(backup);
    return progress_.Applied(push, blocks, since);
  }

  void SetLiving(const std::vector<uint32_t>& workers) {
    std::map<uint32_t, v1::SessionId> sessions;
    for (const uint32_t worker : workers) {
      sessions[worker].set_term(1);
      sessions[worker].set_counter(worker + 1);
    }
    progress_.SetLiving(sessions);
  }

  v1::RecallReply Told() const {
    v1::RecallReply reply;
    progress_.Fill(&reply);
    return reply;
  }

  void SetLeft(uint32_t epoch, uint64_t offset) {
    v1::SavedInput left;
    left.set_next_epoch(epoch);
    left.set_next_offset(offset);
    progress_.SetLeft(left);
  }

  SessionProgress progress_;
};

TEST_F(SessionProgressTest, APushIsWholeWhenAllItsBlocksAreIn) {
  Apply(0, 1, 2, 0);
  EXPECT_EQ(Told().sessions(0).sequence(), 0u);
  EXPECT_EQ(Told().input_used_size(), 0);
  Apply(0, 1, 0, 0);  // A chunk that came again.
  EXPECT_EQ(Told().input_used_size(), 0);
  Apply(0, 1, 1, 0);
  const v1::RecallReply told = Told();
  EXPECT_EQ(told.sessions(0).sequence(), 1u);
  EXPECT_EQ(told.sessions(0).generation().counter(), 1u);
  ASSERT_EQ(told.input_used_size(), 1);
  EXPECT_EQ(told.input_used(0).begin(), 0u);
  EXPECT_EQ(told.input_used(0).end(), 10u);
}

TEST_F(SessionProgressTest, WhatALaterPushOverwroteIsNotUsed) {
  Apply(0, 1, 2, 0);
  Apply(0, 2, 3, 10);
  Apply(0, 1, 1, 0);
  const v1::RecallReply told = Told();
  EXPECT_EQ(told.sessions(0).sequence(), 2u);
  ASSERT_EQ(told.input_used_size(), 1);
  EXPECT_EQ(told.input_used(0).begin(), 10u);
}

TEST_F(SessionProgressTest, InputThatLiesTogetherIsOneRange) {
  Apply(0, 1, 3, 20);
  Apply(1, 1, 3, 0);
  EXPECT_EQ(Told().input_used_size(), 2);
  Apply(1, 2, 3, 10);
  ASSERT_EQ(Told().input_used_size(), 1);
  EXPECT_EQ(Told().input_used(0).begin(), 0u);
  EXPECT_EQ(Told().input_used(0).end(), 30u);
  Apply(1, 3, 3, 10);  // Handed out again.
  EXPECT_EQ(Told().input_used_size(), 1);
  EXPECT_EQ(Told().input_used(0).end(), 30u);
}

TEST_F(SessionProgressTest, WhatIsReportedAsUsedIsForgotten) {
  SetLeft(1, 0);
  Apply(0, 1, 3, 0);
  Apply(0, 2, 3, 40);
  SetLeft(1, 20);
  ASSERT_EQ(Told().input_used_size(), 1);
  EXPECT_EQ(Told().input_used(0).begin(), 40u);
  EXPECT_EQ(Told().input_left().next_offset(), 20u);
}

TEST_F(SessionProgressTest, AnEarlierWordThatComesLateChangesNothing) {
  SetLeft(1, 20);
  SetLeft(1, 10);
  EXPECT_EQ(Told().input_left().next_offset(), 20u);
  v1::SavedInput held = Told().input_left();
  v1::SavedInput::Range* const range = held.add_remaining();
  range->set_epoch(1);
  range->set_end(10);
  progress_.SetLeft(held);
  EXPECT_EQ(Told().input_left().remaining_size(), 0);
}

TEST_F(SessionProgressTest, ANewLifeHasHeardNothing) {
  SetLeft(1, 20);
  Apply(0, 1, 3, 40);
  progress_.Begin(/*blocks=*/1);
  EXPECT_FALSE(Told().has_input_left());
  EXPECT_EQ(Told().input_used_size(), 0);
  EXPECT_EQ(Told().sessions_size(), 0);
  SetLeft(1, 0);
  Apply(0, 2, 1, 40);
  EXPECT_EQ(Told().sessions(0).sequence(), 2u);
}

TEST_F(SessionProgressTest, ItIsBounded) {
  for (uint32_t w = 0; w < SessionProgress::kMostSessions + 10; ++w) {
    Apply(w, 1, 3, 20 * w);
  }
  const v1::RecallReply told = Told();
  ASSERT_EQ(told.sessions_size(),
            static_cast<int>(SessionProgress::kMostSessions));
  EXPECT_EQ(told.sessions(0).worker(), 10u);  // The oldest are gone,
  EXPECT_EQ(told.input_used_size(),
            static_cast<int>(SessionProgress::kMostRanges));
  EXPECT_EQ(told.input_used(0).begin(), 0u);  // and input is used again.
}

TEST_F(SessionProgressTest, Promise1_ASessionThatLivesIsNeverForgotten) {
  SetLiving({0, 5});
  Apply(0, 7, 3, 0);
  Apply(5, 8, 2, 20);
  // Others come and go.
  for (uint32_t w = 6; w < SessionProgress::kMostSessions + 20; ++w) {
    Apply(w, 1, 3, 0);
  }
  v1::RecallReply told = Told();
  ASSERT_EQ(told.sessions_size(),
            static_cast<int>(SessionProgress::kMostSessions));
  EXPECT_EQ(told.sessions(0).worker(), 0u);
  EXPECT_EQ(told.sessions(0).sequence(), 7u);
  EXPECT_EQ(told.sessions(1).worker(), 5u);
  EXPECT_EQ(told.sessions(1).sequence(), 0u) << "its push is open";
  EXPECT_GT(told.sessions(2).worker(), 6u);

  SetLiving({5});  // The other has ended, and is the oldest.
  Apply(SessionProgress::kMostSessions + 20, 1, 3, 0);
  told = Told();
  ASSERT_EQ(told.sessions_size(),
            static_cast<int>(SessionProgress::kMostSessions));
  EXPECT_EQ(told.sessions(0).worker(), 5u);
}

// It has counted but the blocks that came since it was told the rest.
TEST_F(SessionProgressTest, Promise4_ABackupHearsOfAPushThatItWasToldAPartOf) {
  EXPECT_FALSE(Apply(0, 1, 1, 0));
  SessionProgress backup;
  backup.Begin(/*blocks=*/3);
  const auto tell = [&] {
    v1::ReplicateRequest::State state;
    progress_.Save(&state);
    backup.GoOnFrom(state);
    v1::RecallReply reply;
    backup.Fill(&reply);
    return reply;
  };
  EXPECT_EQ(tell().sessions(0).sequence(), 0u);
  EXPECT_FALSE(Apply(0, 1, 1, 0, /*backup=*/7));
  EXPECT_TRUE(Apply(0, 1, 1, 0, /*backup=*/7));
  const v1::RecallReply told = tell();
  EXPECT_EQ(told.sessions(0).sequence(), 1u);
  ASSERT_EQ(told.input_used_size(), 1);
  EXPECT_EQ(told.input_used(0).end(), 10u);
  EXPECT_FALSE(Apply(0, 2, 3, 10, /*backup=*/7)) << "all of it was told";
}

TEST_F(SessionProgressTest, Promise1_WhoLivesIsKeptThoughMoreLiveThanTheBound) {
  std::vector<uint32_t> all;
  for (uint32_t w = 0; w < SessionProgress::kMostSessions + 5; ++w) {
    all.push_back(w);
  }
  SetLiving(all);
  progress_.Begin(/*blocks=*/3);  // Another life, with the same sessions.
  for (const uint32_t w : all) Apply(w, 1, 3, 0);
  EXPECT_EQ(Told().sessions_size(), static_cast<int>(all.size()));
}

}  // namespace
}  // namespace paramd
