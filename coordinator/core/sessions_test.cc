#include "coordinator/core/sessions.h"

#include <functional>

#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::Pair;
using ::paramd::testing::PartBench;

class SessionsTest : public ::testing::Test {
 protected:
  void Admit(uint32_t worker, uint64_t incarnation) {
    Admitted admitted{worker, {}};
    admitted.request.set_incarnation(incarnation);
    bench_.Do([&](Turn* turn) {
      sessions_.Admit(admitted, turn);
      sessions_.Announce(turn);
    });
    ShowOthers();
  }
  v1::HeartbeatRequest BeatOf(uint32_t worker) {
    v1::HeartbeatRequest beat;
    beat.mutable_header()->set_worker(worker);
    *beat.mutable_header()->mutable_generation() =
        sessions_.all().at(worker).generation;
    *beat.mutable_header()->mutable_configuration() =
        bench_.configuration.get().version();
    beat.set_state(bench_.configuration.get().state());
    beat.set_number(++number_);
    return beat;
  }
  // True if it was kept.
  bool Beat(uint32_t from, const v1::HeartbeatRequest& beat) {
    Message message;
    message.from = PeerId::Worker(from);
    message.call = ++call_;
    bool accepted = false;
    bench_.Do([&](Turn* turn) {
      accepted = sessions_.Accept(message, beat, turn);
      if (accepted) sessions_.Keep(message, beat, News(), turn);
    });
    ShowOthers();
    return accepted;
  }
  void Answer() {
    bench_.Do([&](Turn* turn) { sessions_.Answer(News(), turn); });
  }
  // The fence of the worker, which is over, gets into the log or does not.
  void EndFence(uint32_t worker, const absl::Status& status) {
    bench_.Do([&](Turn* turn) { sessions_.LogFence(worker, turn); });
    ASSERT_EQ(1u, bench_.out.ios.size());
    bench_.End(bench_.out.ios[0].io, status, v1::LogEntry());
    ShowOthers();
  }
  // What the dispatcher shows everybody.
  void ShowOthers() { bench_.workers = sessions_.all(); }
  absl::FunctionRef<Sessions::News(uint32_t)> News() { return news_of_; }
  v1::Refusal::Reason Refused() const {
    return RefusalOf(bench_.out.replies.at(0).status).reason();
  }
  const v1::HeartbeatReply& Reply() const {
    return static_cast<const v1::HeartbeatReply&>(
        *bench_.out.replies.at(0).head);
  }

  PartBench bench_{JobOptions()};
  Sessions sessions_;
  Sessions::News news_;
  const std::function<Sessions::News(uint32_t)> news_of_ = [this](uint32_t) {
    return news_;
  };
  uint64_t number_ = 0;
  CallId call_ = 0;
};

TEST_F(SessionsTest, WhoAreAdmittedTogetherBeginAtOneClock) {
  Admit(0, 7);
  sessions_.OnPushes(0, 5);
  ShowOthers();
  bench_.Do([&](Turn* turn) {
    for (const uint32_t worker : {1u, 2u, 3u}) {
      Admitted admitted{worker, {}};
      sessions_.Admit(admitted, turn);
      sessions_.OnPushes(worker, worker);  // None of the others' business.
    }
    sessions_.Announce(turn);
  });
  for (const uint32_t worker : {1u, 2u, 3u}) {
    EXPECT_EQ(5u, sessions_.all().at(worker).start_clock);
  }
  sessions_.OnPushes(0, 9);
  ShowOthers();
  Admit(4, 8);
  EXPECT_EQ(6u, sessions_.all().at(4).start_clock)
      << "that of worker 1, which is the lowest now";
}

TEST_F(SessionsTest, WhoIsAdmittedIsInANewConfiguration) {
  const v1::ConfigurationVersion before = bench_.configuration.get().version();
  Admit(1, 7);
  const WorkerRecord& worker = sessions_.all().at(1);
  EXPECT_EQ(7u, worker.incarnation);
  EXPECT_TRUE(before < worker.admitted);
  ASSERT_EQ(1, bench_.configuration.get().workers_size());
  EXPECT_EQ(worker.generation,
            bench_.configuration.get().workers(0).generation());
}

TEST_F(SessionsTest, AGenerationIsGivenOnce) {
  Admit(1, 7);
  const v1::SessionId first = sessions_.all().at(1).generation;
  EndFence(1, absl::OkStatus());
  Admit(1, 8);
  EXPECT_TRUE(first < sessions_.all().at(1).generation);
}

TEST_F(SessionsTest, AHeartbeatIsKeptUntilThereIsNews) {
  Admit(1, 7);
  EXPECT_TRUE(Beat(1, BeatOf(1)));
  Answer();
  EXPECT_TRUE(bench_.out.replies.empty());
  news_.snapshot = Pair(1, 3);
  news_.stop = true;
  Answer();
  EXPECT_EQ(Pair(1, 3), Reply().snapshot());
  EXPECT_TRUE(Reply().stop());
  EXPECT_FALSE(Reply().has_configuration());
}

TEST_F(SessionsTest, AHeartbeatIsKeptForOnePeriodAtMost) {
  Admit(1, 7);
  Beat(1, BeatOf(1));
  EXPECT_EQ(bench_.now + absl::Seconds(1), sessions_.next_tick());
  bench_.now = bench_.now + absl::Seconds(1);
  Answer();
  EXPECT_EQ(1u, bench_.out.replies.size());
  EXPECT_EQ(Time::Never(), sessions_.next_tick());
}

TEST_F(SessionsTest, ALaterHeartbeatFreesTheOneThatIsKept) {
  Admit(1, 7);
  Beat(1, BeatOf(1));
  const CallId first = call_;
  EXPECT_TRUE(Beat(1, BeatOf(1)));
  ASSERT_EQ(1u, bench_.out.replies.size());
  EXPECT_EQ(first, bench_.out.replies[0].call);
}

TEST_F(SessionsTest, WhatIsNotOfThePresentSessionIsRefused) {
  Admit(1, 7);
  const v1::HeartbeatRequest first = BeatOf(1);
  EXPECT_FALSE(Beat(0, first));
  EXPECT_EQ(v1::Refusal::NOT_ALLOWED, Refused());
  v1::HeartbeatRequest other_run = first;
  other_run.mutable_header()->set_incarnation(99);
  EXPECT_FALSE(Beat(1, other_run));
  EXPECT_EQ(v1::Refusal::OTHER_JOB, Refused());
  EXPECT_TRUE(Beat(1, first));
  EXPECT_FALSE(Beat(1, first));
  EXPECT_EQ(v1::Refusal::SUPERSEDED, Refused());
  EndFence(1, absl::OkStatus());
  EXPECT_FALSE(Beat(1, first));
  EXPECT_EQ(v1::Refusal::NOT_READY, Refused());
  Admit(1, 8);
  EXPECT_FALSE(Beat(1, first));
  EXPECT_EQ(v1::Refusal::FENCED, Refused());
}

TEST_F(SessionsTest, BeforeTheServersAreToldNobodyIsKnown) {
  Admit(1, 7);
  bench_.phase = JobPhase::kLoggingLayout;
  bench_.awaited = "ps-0";
  EXPECT_FALSE(Beat(1, BeatOf(1)));
  EXPECT_EQ("a coordinator that has just begun waits for ps-0",
            bench_.out.replies.at(0).status.message());
}

TEST_F(SessionsTest, WhoHasNoSessionHearsOfTheEnd) {
  Admit(1, 7);
  const v1::HeartbeatRequest beat = BeatOf(1);
  EndFence(1, absl::OkStatus());
  bench_.phase = JobPhase::kTellingEnd;
  EXPECT_FALSE(Beat(1, beat));
  EXPECT_EQ(v1::Refusal::JOB_FINISHED, Refused());
  const auto* heard = bench_.Raised<HeardOfEnd>();
  ASSERT_NE(nullptr, heard);
  EXPECT_EQ(1u, heard->worker);
}

TEST_F(SessionsTest, Promise5_ASilentSessionEndsWhenTheLogHasItsFence) {
  Admit(1, 7);
  const auto fence = [&](Turn* turn) { sessions_.FenceSilent(turn); };
  bench_.now = bench_.now + absl::Seconds(10);
  bench_.Do(fence);
  EXPECT_EQ(nullptr, bench_.Raised<SessionFenced>());
  bench_.now = bench_.now + absl::Seconds(1);
  bench_.Do(fence);
  ASSERT_NE(nullptr, bench_.Raised<SessionFenced>());
  bench_.Do(fence);
  EXPECT_TRUE(bench_.facts.empty());
  EXPECT_EQ(1, bench_.configuration.get().workers_size());
  EndFence(1, absl::OkStatus());
  const auto* ended = bench_.Raised<SessionEnded>();
  ASSERT_NE(nullptr, ended);
  EXPECT_EQ(7u, ended->session.incarnation);
  EXPECT_TRUE(sessions_.all().empty());
  EXPECT_EQ(0, bench_.configuration.get().workers_size());
}

TEST_F(SessionsTest, WithoutItsFenceInTheLogTheSessionStays) {
  Admit(1, 7);
  EndFence(1, absl::UnavailableError("no disk"));
  EXPECT_TRUE(bench_.out.exited);
  EXPECT_EQ(nullptr, bench_.Raised<SessionEnded>());
  EXPECT_TRUE(sessions_.all().contains(1));
}

TEST_F(SessionsTest, APauseOfThisProcessIsNobodysSilence) {
  Admit(1, 7);
  bench_.now = bench_.now + absl::Seconds(60);
  sessions_.OnPause(absl::Seconds(60));
  bench_.Do([&](Turn* turn) { sessions_.FenceSilent(turn); });
  EXPECT_TRUE(bench_.facts.empty());
}

TEST_F(SessionsTest, WhereAllSessionsEndKeptHeartbeatsAreRefused) {
  Admit(0, 7);
  Admit(1, 8);
  Beat(1, BeatOf(1));
  bench_.Do([&](Turn* turn) { sessions_.EndAll("join again", turn); });
  EXPECT_EQ(v1::Refusal::NOT_READY, Refused());
  EXPECT_TRUE(sessions_.all().empty());
  EXPECT_EQ(0, bench_.configuration.get().workers_size());
}

TEST_F(SessionsTest, AJoinerBeginsAtTheLowestClockOrBehindThoseThatAreGone) {
  Admit(0, 7);
  sessions_.OnPushes(0, 9);
  Admit(1, 8);
  EXPECT_EQ(9u, sessions_.all().at(1).start_clock);
  sessions_.OnPushes(1, 2);
  bench_.Do([&](Turn* turn) { sessions_.EndAll("join again", turn); });
  Admit(0, 7);
  EXPECT_EQ(11u, sessions_.all().at(0).start_clock);
}

TEST_F(SessionsTest, WithoutABoundNobodyHasABacklog) {
  Admit(0, 7);
  Admit(1, 8);
  sessions_.OnPushes(0, 9);
  bench_.Do([&](Turn* turn) { sessions_.RaiseStartClocks(turn); });
  EXPECT_EQ(9u, sessions_.all().at(1).clock());
  EXPECT_EQ(9u, sessions_.all().at(0).clock());
  EXPECT_EQ(9u, bench_.configuration.get().workers(1).start_clock());
}

TEST_F(SessionsTest, PeopleSeeWhoIsThereWhoJoinsAndWhoWasLost) {
  Admit(0, 7);
  Admit(1, 8);
  Beat(1, BeatOf(1));
  EndFence(0, absl::OkStatus());
  bool joins = false;
  const auto status = [&] {
    v1::JobStats stats;
    sessions_.FillStatus(
        bench_.job, bench_.now, [&](uint32_t) { return joins; }, &stats);
    return stats;
  };
  EXPECT_EQ(7u, status().members(0).incarnation());
  EXPECT_EQ(v1::Member::ALIVE, status().members(1).state());
  joins = true;
  EXPECT_EQ(v1::Member::STARTING, status().members(0).state());
}

TEST_F(SessionsTest, PeopleSeeWhoJoinedUnderAHigherLimitThanTheChiefHasNow) {
  Admit(5, 7);
  v1::JobStats stats;
  sessions_.FillStatus(
      bench_.job, bench_.now, [](uint32_t) { return false; }, &stats);
  EXPECT_EQ(1u, stats.joined_workers());
  EXPECT_EQ(0u, stats.max_joined_workers());
  ASSERT_EQ(3, stats.members_size());
  EXPECT_TRUE(stats.members(2).joined());
  EXPECT_EQ(5u, stats.members(2).task().index());
}

}  // namespace
}  // namespace paramd
