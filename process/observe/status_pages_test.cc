#include "process/observe/status_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "proto/message_json.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Page = v1::StatusPage;

constexpr size_t kMostBytes = 64 << 10;

// Pages of a job with `servers` servers and `workers` workers that all are
// well.
class StatusPagesTest : public ::testing::Test {
 protected:
  StatusPagesTest() { Build(2, 2); }

  void Build(uint32_t servers, uint32_t workers) {
    report_.Clear();
    report_.set_asked("a:1");
    v1::JobStats* const job = report_.mutable_job();
    job->set_name("j");
    job->set_state(v1::RUNNING);
    job->set_epochs(3);
    job->set_epochs_done(1);
    job->set_global_step(2323);
    for (uint32_t i = 0; i < servers; ++i) {
      v1::StatusReply* const status = AddProcess(v1::PS, i, "ps");
      status->mutable_server()->set_bytes(1000);
      status->mutable_server()->set_restored(true);
      status->mutable_server()->set_memory_bytes(5000 + i);
    }
    for (uint32_t i = 0; i < workers; ++i) {
      v1::StatusReply* const status = AddProcess(v1::WORKER, i, "worker");
      status->mutable_worker()->set_examples_per_second(100);
      status->mutable_worker()->set_loss(0.25);
    }
    report_.mutable_processes(0)->set_address("a:1");
    Status(0)->set_build("0.1 abc");
    Status(0)->set_incarnation(7);
  }

  v1::StatusReply* AddProcess(v1::TaskType type, uint32_t index,
                              const char* name) {
    v1::Member* const member = report_.mutable_job()->add_members();
    member->mutable_task()->set_type(type);
    member->mutable_task()->set_index(index);
    member->set_state(v1::Member::ALIVE);
    member->set_silent_ms(100);
    v1::ProcessAnswer* const answer = report_.add_processes();
    answer->set_name(absl::StrCat(name, "-", index));
    return answer->mutable_status();
  }

  v1::StatusReply* Status(int i) {
    return report_.mutable_processes(i)->mutable_status();
  }
  v1::Member* Member(int i) {
    return report_.mutable_job()->mutable_members(i);
  }
  void Kill(int i, const std::string& error) {
    report_.mutable_processes(i)->clear_status();
    report_.mutable_processes(i)->set_error(error);
  }
  void Wait(int i, const std::string& who, const std::string& whom,
            uint64_t ms) {
    v1::Wait* const wait = Status(i)->add_waits();
    wait->set_who(who);
    wait->set_whom(whom);
    wait->set_since_ms(ms);
  }

  // A second after the report before.
  Page Next(uint64_t since = 0) {
    now_ = now_ + absl::Seconds(1);
    pages_.Add(report_, now_, absl::UnixEpoch() + (now_ - Time()));
    return pages_.PageAt(now_, since);
  }

  v1::ClusterReport report_;
  Time now_;
  StatusPages pages_{/*checkpoint_interval=*/absl::Seconds(60)};
};

std::vector<std::string> NamesOf(const Page& page) {
  std::vector<std::string> names;
  for (const Page::Process& process : page.processes()) {
    names.push_back(process.name());
  }
  return names;
}

std::vector<std::string> TextsOf(const Page& page) {
  std::vector<std::string> texts;
  for (const Page::Event& event : page.events()) texts.push_back(event.text());
  return texts;
}

TEST_F(StatusPagesTest, OfAJobThatTrains) {
  const Page page = Next();
  EXPECT_EQ(page.job(), "j");
  EXPECT_EQ(page.seen_by(), "ps-0");
  EXPECT_EQ(page.build(), "0.1 abc");
  EXPECT_EQ(page.incarnation(), 7u);
  EXPECT_EQ(page.level(), Page::GOOD);
  EXPECT_EQ(page.verdict(),
            "trains: epoch 1.00 of 3, step 2,323, 200 examples/s");
  EXPECT_THAT(NamesOf(page),
              ElementsAre("ps-0", "ps-1", "worker-0 (chief)", "worker-1"));
  for (const Page::Process& process : page.processes()) {
    EXPECT_EQ(process.level(), Page::GOOD) << process.name();
    EXPECT_EQ(process.is_server(), absl::StartsWith(process.name(), "ps"));
  }
  ASSERT_EQ(page.figures_size(), 4);
  EXPECT_EQ(page.figures(0).value(), "0");
  EXPECT_EQ(page.figures(0).note(), "of 4");
  EXPECT_EQ(page.figures(3).note(), "ps-1, no limit");
  for (const Page::Figure& figure : page.figures()) {
    EXPECT_EQ(figure.level(), Page::GOOD) << figure.name();
  }
}

TEST_F(StatusPagesTest, AWorkerThatJoinedIsNoFaultWhateverBecomesOfIt) {
  AddProcess(v1::WORKER, 2, "worker");
  Member(4)->set_joined(true);
  Kill(4, "the chief is told no address (--listen)");
  const Page page = Next();
  EXPECT_EQ(page.level(), Page::GOOD);
  EXPECT_EQ(page.figures(0).value(), "0");
  ASSERT_EQ(page.processes_size(), 5);
  EXPECT_EQ(page.processes(4).name(), "worker-2 (joined)");
  EXPECT_EQ(page.processes(4).state(), "alive");
  Member(4)->set_state(v1::Member::LOST);
  EXPECT_EQ(Next().level(), Page::GOOD);
  report_.mutable_job()->mutable_members()->RemoveLast();
  report_.mutable_processes()->RemoveLast();
  EXPECT_EQ(Next().level(), Page::GOOD);
}

TEST_F(StatusPagesTest, WhatOperatorsDidIsAmongTheEventsOnce) {
  const auto call = [this](uint64_t number, const std::string& refused) {
    v1::OperatorCall* const added = Status(2)->add_operator_calls();
    added->set_number(number);
    added->mutable_origin()->set_who("operator/0");
    added->mutable_origin()->set_address("10.0.0.7:41234");
    added->set_call("Set");
    added->set_asks("key: \"staleness\"");
    added->set_refused(refused);
  };
  call(1, "");
  Next();
  call(2, "");
  call(3, "not for you");
  Next();
  EXPECT_THAT(TextsOf(Next()),
              ElementsAre("operator/0 at 10.0.0.7:41234: Set key: "
                          "\"staleness\"",
                          "operator/0 at 10.0.0.7:41234: Set key: "
                          "\"staleness\", refused: not for you"));
}

TEST_F(StatusPagesTest, AServerThatWasMovedIsAmongTheEventsOnce) {
  Next();
  v1::Balance* const balance = report_.mutable_job()->mutable_balance();
  balance->add_moved()->set_what("server 1 from ps-0 to ps-1");
  balance->mutable_moved(0)->set_why("ps-0 spends most");
  balance->set_moves(1);
  Next();
  EXPECT_THAT(
      TextsOf(Next()),
      ElementsAre("moved server 1 from ps-0 to ps-1: ps-0 spends most"));
}

TEST_F(StatusPagesTest, AJobThatIsBeingStoppedSaysSoFirst) {
  report_.mutable_job()->set_stopping("is being stopped by an operator (me)");
  report_.mutable_job()->set_waiting_for("a checkpoint to leave with");
  const Page page = Next();
  EXPECT_EQ(page.level(), Page::WARNING);
  EXPECT_EQ(
      page.verdict(),
      "is being stopped by an operator (me): epoch 1.00 of 3, step 2,323; "
      "waits for a checkpoint to leave with");
}

TEST_F(StatusPagesTest, AJobThatWasStoppedSaysHowFarItCame) {
  report_.mutable_job()->set_state(v1::FINISHED);
  report_.mutable_job()->set_stopping("stopped by an operator (me) at step 7");
  const Page page = Next();
  EXPECT_EQ(page.level(), Page::GOOD);
  EXPECT_EQ(page.verdict(), "stopped by an operator (me) at step 7");
}

TEST_F(StatusPagesTest, HowLongItStillTakesFollowsFromTheLastMinute) {
  Next();
  report_.mutable_job()->set_epochs_done(1.5);
  EXPECT_THAT(Next().verdict(), HasSubstr(", 3.0 s left"));
}

// What makes a page bad, and what it says then.
TEST_F(StatusPagesTest, TheVerdictNamesWhatIsWrong) {
  struct Case {
    std::function<void()> happens;
    Page::Level level;
    std::string verdict;
  };
  const std::vector<Case> cases = {
      {[&] { Wait(2, "coordinator", "worker-1 to join", 1000); }, Page::GOOD,
       "trains: epoch 1.00 of 3"},
      {[&] {
         Wait(2, "coordinator", "worker-1 to join", 12300);
         report_.mutable_job()->set_waiting_for("worker-1 to join");
       },
       Page::WARNING,
       "trains: epoch 1.00 of 3, step 2,323, 200 examples/s; waits for "
       "worker-1 to join, for 12 s"},
      {[&] {
         Wait(2, "coordinator", "worker-1 to join", 90000);
         report_.mutable_job()->set_waiting_for("worker-1 to join");
         Status(2)->clear_worker();
         Status(3)->clear_worker();
       },
       Page::BAD, "waits for worker-1 to join, for 90 s"},
      {[&] { Kill(1, "refused"); }, Page::BAD,
       "trains: epoch 1.00 of 3, step 2,323, 200 examples/s; ps-1: no answer"},
      {[&] { Member(3)->set_state(v1::Member::LOST); }, Page::BAD,
       "trains: epoch 1.00 of 3, step 2,323, 200 examples/s; worker-1: lost"},
      {[&] { Wait(3, "worker-1", "ps-0", 40000); }, Page::BAD,
       "trains: epoch 1.00 of 3, step 2,323, 200 examples/s; "
       "worker-1 waits for ps-0, for 40 s"},
      {[&] {
         report_.mutable_job()->set_checkpoint_failure("the disk is full");
       },
       Page::WARNING,
       "trains: epoch 1.00 of 3, step 2,323, 200 examples/s; the newest "
       "checkpoint failed: the disk is full"},
      {[&] {
         report_.clear_job();
         report_.set_job_error("the chief at c:1: refused");
       },
       Page::BAD, "the job is not known: the chief at c:1: refused"},
      {[&] {
         report_.mutable_job()->set_state(v1::FINISHED);
         Kill(0, "refused");
       },
       Page::GOOD, "finished: epoch 1.00 of 3, step 2,323"},
  };
  for (const Case& one : cases) {
    Build(2, 2);
    one.happens();
    const Page page = Next();
    EXPECT_EQ(page.level(), one.level) << one.verdict;
    EXPECT_THAT(page.verdict(), StartsWith(one.verdict));
  }
}

TEST_F(StatusPagesTest, TheWorstProcessesStandFirst) {
  Member(1)->set_state(v1::Member::STARTING);
  Wait(2, "worker-0", "ps-1", 3000);
  Kill(3, "refused");
  const Page page = Next();
  EXPECT_THAT(NamesOf(page),
              ElementsAre("worker-1", "worker-0 (chief)", "ps-1", "ps-0"));
  EXPECT_EQ(page.processes(0).state(), "no answer");
  EXPECT_EQ(page.processes(0).figures(), "no answer: refused");
  EXPECT_EQ(page.processes(1).state(), "waits");
  EXPECT_THAT(page.processes(1).waits(),
              ElementsAre("worker-0 waits for ps-1, for 3.0 s"));
  EXPECT_EQ(page.processes(2).level(), Page::WARNING);
}

TEST_F(StatusPagesTest, FiguresAreBadWhereSomebodyHasToAct) {
  Kill(1, "refused");
  v1::JobStats* const job = report_.mutable_job();
  job->set_pushes_lost(1200);
  job->set_checkpoint_path("/c");
  job->set_checkpoint_step(40);
  job->set_checkpoint_ago_ms(121000);
  Status(0)->mutable_server()->set_memory_bytes(95);
  Status(0)->mutable_server()->set_memory_limit_bytes(100);
  const Page page = Next();
  std::vector<std::string> values;
  for (const Page::Figure& figure : page.figures()) {
    EXPECT_EQ(figure.level(), Page::BAD) << figure.name();
    values.push_back(absl::StrCat(figure.value(), " | ", figure.note()));
  }
  EXPECT_THAT(values,
              ElementsAre("1 | of 4", "1,200 | doubled: 0",
                          "2 min 1 s | step 40", "95 B | ps-0, limit 100 B"));
  job->set_checkpoint_ago_ms(119000);
  EXPECT_EQ(Next().figures(2).level(), Page::GOOD);
}

TEST_F(StatusPagesTest, WithoutTheChiefNobodyKnowsWhoIsMissing) {
  report_.clear_job();
  const Page page = Next();
  EXPECT_EQ(page.figures(0).name(), "processes missing");
  EXPECT_EQ(page.figures(0).value(), "–");
  EXPECT_EQ(page.figures(0).level(), Page::BAD);
}

TEST_F(StatusPagesTest, AServerWithoutItsBackupIsWarnedOf) {
  for (const uint32_t server : {0, 1}) {
    Member(server)->set_peer(2 * server);
    Member(server)->set_backup_peer(3 - 2 * server);
    Member(server)->set_backup_is_member(true);
  }
  const auto figure = [](const Page& page) {
    for (const Page::Figure& f : page.figures()) {
      if (f.name() == "servers without a whole backup") {
        return absl::StrCat(f.value(), " ", f.note(), " ",
                            Page::Level_Name(f.level()));
      }
    }
    return std::string("none");
  };
  EXPECT_EQ(figure(Next()), "0 of 2 GOOD");
  Member(1)->set_backup_is_member(false);
  const Page page = Next();
  EXPECT_EQ(figure(page), "1 of 2 WARNING");
  EXPECT_EQ(page.processes(0).name(), "ps-1");
  EXPECT_EQ(page.processes(0).level(), Page::WARNING);
}

TEST_F(StatusPagesTest, APointIsOfWhatHappenedSinceTheReportBefore) {
  v1::Staleness* const staleness =
      Status(0)->mutable_server()->mutable_staleness();
  staleness->add_histogram(100);  // None.
  staleness->add_histogram(0);
  Next();
  staleness->add_histogram(98);  // 2 or 3.
  staleness->add_histogram(2);   // 4 to 7.
  Status(3)->mutable_worker()->set_loss(0.75);
  Page page = Next(/*since=*/1);
  ASSERT_EQ(page.points_size(), 1);
  EXPECT_EQ(page.points(0).number(), 2u);
  EXPECT_EQ(page.points(0).unix_seconds(), 2);
  EXPECT_EQ(page.points(0).loss(), 0.5f);
  EXPECT_EQ(page.points(0).examples_per_second(), 200);
  EXPECT_EQ(page.points(0).staleness_p50(), 3);
  EXPECT_EQ(page.points(0).staleness_p99(), 7);
  EXPECT_EQ(page.points(0).memory_bytes(), 5001);
  // Nothing was applied, and nobody computes.
  for (const int worker : {2, 3}) {
    Status(worker)->mutable_worker()->set_examples_per_second(0);
  }
  page = Next(/*since=*/2);
  EXPECT_FALSE(page.points(0).has_loss());
  EXPECT_FALSE(page.points(0).has_staleness_p50());
  // A server that began anew counts from nothing.
  staleness->clear_histogram();
  staleness->add_histogram(0);
  staleness->add_histogram(5);
  EXPECT_EQ(Next(3).points(0).staleness_p50(), 1);
}

TEST_F(StatusPagesTest, AServerThatWasAwayHasNotCountedAllOfItAnew) {
  for (const int server : {0, 1}) {
    v1::Staleness* const staleness =
        Status(server)->mutable_server()->mutable_staleness();
    for (const uint64_t count : {0, 0, 0, 1000})
      staleness->add_histogram(count);
  }
  Next();
  const v1::StatusReply answer = *Status(1);
  Kill(1, "refused");
  Status(0)->mutable_server()->mutable_staleness()->set_histogram(0, 10);
  // What the other one does is seen.
  EXPECT_EQ(Next(1).points(0).staleness_p99(), 0);
  *Status(1) = answer;
  Status(1)->mutable_server()->mutable_staleness()->set_histogram(1, 10);
  EXPECT_EQ(Next(2).points(0).staleness_p99(), 1);
  // One that began anew hides none of the others.
  Status(1)->mutable_server()->mutable_staleness()->clear_histogram();
  Status(0)->mutable_server()->mutable_staleness()->set_histogram(2, 10);
  EXPECT_EQ(Next(3).points(0).staleness_p50(), 3);
}

TEST_F(StatusPagesTest, TheHottestSlicesOfAllServersComeFirst) {
  for (int server = 0; server < 2; ++server) {
    for (int i = 0; i < 8; ++i) {
      v1::SliceStats* const slice =
          Status(server)->mutable_server()->add_hottest_slices();
      slice->set_name(absl::StrCat("w", i));
      slice->set_named_blocks(100 - 10 * i + server);
    }
  }
  const Page page = Next();
  ASSERT_EQ(page.slices_size(), 10);
  EXPECT_EQ(page.slices(0).server(), "ps-1");
  EXPECT_EQ(page.slices(0).name(), "w0");
  EXPECT_EQ(page.slices(0).named_blocks(), 101u);
  EXPECT_EQ(page.slices(1).server(), "ps-0");
  EXPECT_EQ(page.slices(9).name(), "w4");
}

TEST_F(StatusPagesTest, WhatChangesIsAnEvent) {
  EXPECT_THAT(TextsOf(Next()), ElementsAre());
  Kill(3, "refused");
  Next();
  Member(3)->set_state(v1::Member::LOST);
  Next();
  Build(2, 2);
  Member(3)->mutable_generation()->set_term(1);
  Member(3)->mutable_generation()->set_counter(9);
  v1::JobStats* const job = report_.mutable_job();
  job->set_checkpoint_path("/c/1");
  job->set_checkpoint_step(4000);
  job->set_checkpoint_bytes(2000000);
  job->set_checkpoint_ms(1500);
  Next();
  // Nothing is known of others while the chief is away.
  report_.clear_job();
  report_.mutable_processes()->DeleteSubrange(1, 3);
  Next();
  Build(2, 2);
  report_.mutable_job()->set_checkpoint_path("/c/1");
  report_.mutable_job()->set_state(v1::FINISHING);
  EXPECT_THAT(
      TextsOf(Next()),
      ElementsAre("worker-1: alive → no answer, refused",
                  "worker-1: no answer → alive", "worker-1: generation – → 1.9",
                  "checkpoint: step 4,000, 2.0 MB in 1.5 s", "ps-0: alive → –",
                  "ps-0: – → alive", "the job is finishing"));
}

TEST_F(StatusPagesTest, ALongTimeStaysBounded) {
  for (int i = 0; i < 5000; ++i) {
    report_.mutable_job()->set_checkpoint_path(absl::StrCat("/c/", i));
    Next();
  }
  const Page page = Next();
  EXPECT_LE(page.points_size(), 160);
  EXPECT_GE(page.points_size(), 120);
  // From the beginning to now.
  EXPECT_LT(page.points(0).number(), 100u);
  EXPECT_EQ(page.points(page.points_size() - 1).number(), 5001u);
  EXPECT_EQ(page.events_size(), 50);
  EXPECT_EQ(pages_.PageAt(now_, 5000).points_size(), 1);
}

TEST_F(StatusPagesTest, OfAThousandProcessesItStaysSmall) {
  Build(500, 500);
  for (int i = 0; i < report_.processes_size(); ++i) {
    report_.mutable_processes(i)->set_address("ps-123.a-long-name.svc:2222");
    Status(i)->set_host("a-host-with-a-long-name-of-a-cluster");
  }
  Kill(999, "refused");
  for (int i = 0; i < 300; ++i) Next();
  const Page page = Next();
  EXPECT_EQ(page.processes(0).name(), "worker-499");
  EXPECT_EQ(page.processes_size() + static_cast<int>(page.processes_left_out()),
            1000);
  const auto json = MessageJson(page);
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_LE(json->size(), kMostBytes);
}

TEST_F(StatusPagesTest, WhatIsNoNumberIsNoPoint) {
  Status(3)->mutable_worker()->set_loss(
      std::numeric_limits<double>::quiet_NaN());
  const Page page = Next();
  ASSERT_EQ(page.points_size(), 1);
  EXPECT_FALSE(page.points(0).has_loss());
}

}  // namespace
}  // namespace paramd
