#include "coordinator/core/take_over.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::Pair;

constexpr uint64_t kExamples = 100;
constexpr uint32_t kEpochs = 2;

// Three servers that coordinator 4 has filled together from checkpoint "/c";
// the last one owns nothing.
class TakeOverTest : public ::testing::Test {
 protected:
  TakeOverTest() : replies_(3) {
    v1::Configuration configuration;
    *configuration.mutable_version() = Pair(4, 9);
    for (uint32_t s = 0; s < 3; ++s) {
      v1::ServerMember* const member = configuration.add_servers();
      member->set_index(s);
      member->set_restore_directory("/c");
      *member->mutable_generation() = Pair(4, s + 1);
    }
    configuration.mutable_layout()->add_slices();
    configuration.mutable_layout()->add_slices()->set_server(1);
    for (uint32_t s = 0; s < 3; ++s) {
      replies_[s].set_filled(true);
      *replies_[s].mutable_generation() = Pair(4, s + 1);
      *replies_[s].mutable_configuration() = configuration;
      replies_[s].mutable_input_left()->set_next_epoch(1);
    }
    for (uint32_t s = 0; s < 3; ++s) {
      v1::ShardFile* const file = manifest_.add_files();
      file->set_server(s);
      *file->mutable_server_generation() = Pair(4, s + 1);
    }
  }

  TakeOver Recalled() const {
    TakeOver take_over;
    for (uint32_t s = 0; s < replies_.size(); ++s) {
      take_over.Recalled(s, replies_[s]);
    }
    return take_over;
  }
  std::string WhyNot(const TakeOver::Newest& newest) const {
    return Recalled().WhyNot(replies_[0].configuration().layout(), newest);
  }
  // Server `server` is a life that was restored by itself.
  void RestoreAlone(uint32_t server) {
    *replies_[server].mutable_generation() = Pair(4, 12);
  }
  // Life `generation` holds what was filled into life `filled`.
  void TakeOverByBackup(uint32_t server, const v1::ServerLife& generation,
                        const v1::ServerLife& filled) {
    *replies_[server].mutable_generation() = generation;
    v1::ServerMember* const member =
        replies_[server].mutable_configuration()->mutable_servers(
            static_cast<int>(server));
    *member->mutable_generation() = generation;
    *member->mutable_filled() = filled;
  }
  void Use(uint32_t server, uint64_t begin, uint64_t end) {
    v1::SavedInput::Range* const range = replies_[server].add_input_used();
    range->set_epoch(1);
    range->set_begin(begin);
    range->set_end(end);
  }
  void See(uint32_t server, uint64_t counter, uint64_t sequence) {
    v1::SavedSession* const session = replies_[server].add_sessions();
    session->set_worker(7);
    *session->mutable_generation() = Pair(4, counter);
    session->set_sequence(sequence);
  }

  std::vector<v1::RecallReply> replies_;
  v1::Manifest manifest_;  // Written by these lives.
};

TEST_F(TakeOverTest, ServersThatBeganTogetherWithTheNewestKeepWhatTheyHold) {
  EXPECT_EQ(WhyNot({nullptr, "/c"}), "");
  EXPECT_EQ(Recalled().generation(1), Pair(4, 2));
  EXPECT_EQ(Recalled().restore_directory(1), "/c");
}

TEST_F(TakeOverTest, ThoseThatWroteTheNewestDoTheSame) {
  RestoreAlone(1);
  *manifest_.mutable_files(1)->mutable_server_generation() = Pair(4, 12);
  EXPECT_EQ(WhyNot({&manifest_, "/later"}), "");
}

TEST_F(TakeOverTest, OneThatWasRestoredSinceTheNewestMakesAllRestore) {
  RestoreAlone(1);
  EXPECT_EQ(WhyNot({&manifest_, "/later"}),
            "a server was restored since the newest checkpoint");
  EXPECT_EQ(WhyNot({nullptr, "/c"}),
            "a server was restored since the newest checkpoint");
}

TEST_F(TakeOverTest, OneThatABackupTookOverIsAsTheLifeThatWasFilled) {
  TakeOverByBackup(1, Pair(4, 12), Pair(4, 2));
  EXPECT_EQ(WhyNot({nullptr, "/c"}), "") << "with which all began";
  EXPECT_EQ(WhyNot({&manifest_, "/later"}), "") << "which that life wrote";
  *manifest_.mutable_files(1)->mutable_server_generation() = Pair(4, 12);
  EXPECT_EQ(WhyNot({&manifest_, "/later"}), "") << "which this one wrote";
  *manifest_.mutable_files(1)->mutable_server_generation() = Pair(4, 13);
  EXPECT_NE(WhyNot({&manifest_, "/later"}), "") << "which a later one wrote";
  EXPECT_EQ(Recalled().generation(1), Pair(4, 12));
  EXPECT_EQ(Recalled().filled(1), Pair(4, 2));
  EXPECT_EQ(Recalled().filled(0), Pair(4, 1));
}

TEST_F(TakeOverTest, SeveralTakeOversUnderTwoCoordinatorsAreAsOne) {
  TakeOverByBackup(0, Pair(5, 9), Pair(4, 1));
  TakeOverByBackup(1, Pair(4, 12), Pair(4, 2));
  EXPECT_EQ(WhyNot({nullptr, "/c"}), "");
  *manifest_.mutable_files(0)->mutable_server_generation() = Pair(4, 30);
  EXPECT_EQ(WhyNot({&manifest_, "/later"}), "") << "between the two";
}

TEST_F(TakeOverTest, OneThatWasRestoredBeforeItWasTakenOverMakesAllRestore) {
  TakeOverByBackup(1, Pair(4, 15), Pair(4, 12));
  EXPECT_NE(WhyNot({nullptr, "/c"}), "");
  EXPECT_NE(WhyNot({&manifest_, "/later"}), "");
  *manifest_.mutable_files(1)->mutable_server_generation() = Pair(4, 12);
  EXPECT_EQ(WhyNot({&manifest_, "/later"}), "") << "written since";
}

TEST_F(TakeOverTest, WhatCameOfAnotherCheckpointIsNotKept) {
  EXPECT_NE(WhyNot({nullptr, "/other"}), "");
  *replies_[2].mutable_generation() = Pair(3, 3);
  EXPECT_NE(WhyNot({nullptr, "/c"}), "") << "of two starts";
  EXPECT_NE(WhyNot({&manifest_, "/later"}), "");
  manifest_.mutable_files()->RemoveLast();
  EXPECT_NE(WhyNot({&manifest_, "/later"}), "") << "of fewer servers";
}

TEST_F(TakeOverTest, OneThatIsEmptyMakesAllRestore) {
  replies_[1].set_filled(false);
  EXPECT_EQ(WhyNot({nullptr, "/c"}), "ps-1 is empty");
  EXPECT_NE(TakeOver().WhyNot({}, {}), "") << "nobody was asked";
}

TEST_F(TakeOverTest, UnderAnotherLayoutAllRestore) {
  v1::Layout other = replies_[0].configuration().layout();
  other.add_slices();
  EXPECT_EQ(Recalled().WhyNot(other, {nullptr, "/c"}),
            "ps-0 has another layout");
}

TEST_F(TakeOverTest, InputIsUsedWhenEveryServerThatOwnsSomethingHasIt) {
  Use(0, 0, 30);
  Use(1, 20, 50);
  const v1::SavedInput left = Recalled().InputLeft(Epochs(kExamples, kEpochs));
  ASSERT_EQ(left.remaining_size(), 1);
  EXPECT_EQ(left.remaining(0).begin(), 0u);
  EXPECT_EQ(left.remaining(0).end(), 20u);
  EXPECT_EQ(left.next_epoch(), 1u);
  EXPECT_EQ(left.next_offset(), 30u);
}

TEST_F(TakeOverTest, WhatWorkersReportedAsUsedOneServerNeedHaveHeard) {
  replies_[1].mutable_input_left()->set_next_offset(60);
  Use(0, 50, 70);
  Use(1, 60, 70);
  const v1::SavedInput left = Recalled().InputLeft(Epochs(kExamples, kEpochs));
  EXPECT_EQ(left.remaining_size(), 0);
  EXPECT_EQ(left.next_offset(), 70u);
}

TEST_F(TakeOverTest, ASessionHasComeAsFarAsOnEveryServer) {
  See(0, 5, 3);
  See(1, 5, 2);
  See(0, 6, 9);  // Of which server 1 has nothing.
  See(0, 7, 0);
  See(1, 7, 1);
  const std::vector<v1::SavedSession> sessions = Recalled().Sessions();
  ASSERT_EQ(sessions.size(), 1u);
  EXPECT_EQ(sessions[0].generation(), Pair(4, 5));
  EXPECT_EQ(sessions[0].worker(), 7u);
  EXPECT_EQ(sessions[0].sequence(), 2u);
}

TEST_F(TakeOverTest, SessionsGoOnThatTheNewestConfigurationHas) {
  const auto add = [this](uint32_t server, uint32_t worker, uint64_t counter) {
    v1::WorkerMember* const member =
        replies_[server].mutable_configuration()->add_workers();
    member->set_index(worker);
    *member->mutable_generation() = Pair(4, counter);
  };
  for (uint32_t s = 0; s < 3; ++s) {
    replies_[s].mutable_configuration()->mutable_consistency()->set_mode(
        v1::Consistency::ASYNC);
    for (uint32_t w = 0; w < 3; ++w) add(s, w, 5 + w);
  }
  *replies_[1].mutable_configuration()->mutable_version() = Pair(4, 10);
  add(1, 7, 9);
  const auto all = Recalled().SessionsThatGoOn(v1::Consistency::ASYNC, {});
  ASSERT_EQ(all.size(), 3u) << "worker 0 was of the last coordinator's process";
  EXPECT_EQ(all.at(1).generation(), Pair(4, 6));
  EXPECT_EQ(all.at(2).generation(), Pair(4, 7));
  EXPECT_EQ(all.at(7).generation(), Pair(4, 9));
  const auto some = Recalled().SessionsThatGoOn(
      v1::Consistency::ASYNC, {{1, Pair(4, 6)}, {2, Pair(4, 3)}});
  EXPECT_EQ(some.count(1), 0u) << "its fence is logged";
  EXPECT_EQ(some.count(2), 1u) << "that of a session before it is";
  EXPECT_TRUE(Recalled().SessionsThatGoOn(v1::Consistency::BOUNDED, {}).empty())
      << "servers have not heard of that mode";
}

v1::SavedSession At(uint64_t counter, uint64_t sequence) {
  v1::SavedSession session;
  session.set_worker(7);
  *session.mutable_generation() = Pair(4, counter);
  session.set_sequence(sequence);
  return session;
}

TEST_F(TakeOverTest, AStepCountsASessionUpToItsCut) {
  *manifest_.add_sessions() = At(5, 20);
  EXPECT_EQ(PushesCounted(manifest_, 7, Pair(4, 5)), 20u);
  EXPECT_EQ(PushesCounted(manifest_, 7, Pair(4, 6)), 0u) << "a later one";
  EXPECT_EQ(PushesCounted(manifest_, 8, Pair(4, 5)), 0u) << "of nobody there";
  EXPECT_EQ(PushesCounted(v1::Manifest(), 7, Pair(4, 5)), 0u);
}

TEST_F(TakeOverTest,
       OfASessionThatEndedBeforeItCountsAllButWhatIsBehindItsCut) {
  *manifest_.add_sessions() = At(5, 20);
  EXPECT_GE(PushesCounted(manifest_, 7, Pair(4, 3)), 1'000'000u);
  *manifest_.add_ended() = At(4, 9);
  manifest_.mutable_ended(0)->set_ended_with(12);
  EXPECT_EQ(PushesCounted(manifest_, 7, Pair(4, 4)), 9u);
  EXPECT_EQ(PushesCounted(manifest_, 7, Pair(4, 5)), 20u);
}

}  // namespace
}  // namespace paramd
