#include "cli/local/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paramd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SupervisorTest : public ::testing::Test {
 protected:
  SupervisorTest()
      : directory_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(directory_);
    CatchSupervisorSignals();
    options_.restarts.first_wait = absl::Milliseconds(1);
    options_.log_directory = directory_;
    options_.on_line = [this](const std::string& task,
                              const std::string& line) {
      lines_.push_back(absl::StrCat("[", task, "] ", line));
    };
    options_.on_event = [this](const std::string& sentence) {
      events_.push_back(sentence);
    };
  }

  // A task whose process is a shell; the first one is the chief.
  void Add(const std::string& name, const std::string& script) {
    tasks_.push_back({.name = name,
                      .is_chief = tasks_.empty(),
                      .process = {"/bin/sh",
                                  {"sh", "-c", script},
                                  {absl::StrCat("DIR=", directory_),
                                   "PATH=/usr/bin:/bin"}}});
  }

  Supervisor::Outcome Run() {
    Supervisor supervisor(options_, tasks_);
    const Supervisor::Outcome outcome = supervisor.Run();
    states_ = supervisor.States();
    return outcome;
  }

  std::string FileText(const std::string& name) {
    std::ifstream file(directory_ + "/" + name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const std::string directory_;
  Supervisor::Options options_;
  std::vector<SupervisedTask> tasks_;
  std::vector<std::string> lines_;
  std::vector<std::string> events_;
  std::vector<TaskState> states_;
};

TEST_F(SupervisorTest, AllTasksThatExitZeroAreAFinishedJob) {
  Add("worker-0", "echo one; echo two >&2; printf three");
  Add("ps-0", "echo four");
  const auto outcome = Run();
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(events_, IsEmpty());
  EXPECT_THAT(lines_, Contains("[worker-0] two"));
  EXPECT_THAT(lines_, Contains("[worker-0] three"));
  EXPECT_THAT(lines_, Contains("[ps-0] four"));
  EXPECT_EQ(FileText("worker-0.log"), "one\ntwo\nthree\n");
}

TEST_F(SupervisorTest, ATaskThatMayDoBetterIsRestarted) {
  Add("worker-0",
      "echo x >> $DIR/lives; [ $(wc -l < $DIR/lives) = 3 ] || exit 138");
  const auto outcome = Run();
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(FileText("lives"), "x\nx\nx\n");
  EXPECT_THAT(events_,
              ElementsAre("worker-0 exited 138; restart 1 of 3 in 1ms",
                          "worker-0 exited 138; restart 2 of 3 in 2ms"));
  EXPECT_EQ(states_[0].restarts, 2);
  EXPECT_EQ(states_[0].kind, TaskState::Kind::kFinished);
}

TEST_F(SupervisorTest, AKilledTaskIsRestartedAndTheOthersLiveOn) {
  Add("worker-0", "until [ -e $DIR/second ]; do sleep 0.01; done");
  Add("ps-0",
      "if [ -e $DIR/first ]; then touch $DIR/second; "
      "else touch $DIR/first; kill -9 $$; fi");
  EXPECT_EQ(Run().exit_code, 0);
  EXPECT_THAT(events_, ElementsAre(HasSubstr("ps-0 exited 137; restart 1")));
  EXPECT_EQ(states_[0].restarts, 0);
}

TEST_F(SupervisorTest, EachProcessOfATaskHasArgumentsOfItsOwn) {
  int starts = 0;
  options_.more_arguments = [&starts](const SupervisedTask& task) {
    return std::vector<std::string>{task.name, absl::StrCat(++starts)};
  };
  Add("worker-0", "echo $0 $1; [ $1 = 2 ] || exit 138");
  EXPECT_EQ(Run().exit_code, 0);
  EXPECT_THAT(lines_,
              ElementsAre("[worker-0] worker-0 1", "[worker-0] worker-0 2"));
}

TEST_F(SupervisorTest, ATaskThatIsKilledOnPurposeIsRestarted) {
  Add("worker-0", "until [ -e $DIR/second ]; do sleep 0.01; done");
  Add("ps-0",
      "if [ -e $DIR/first ]; then touch $DIR/second; "
      "else touch $DIR/first; exec sleep 1000; fi");
  options_.tick = absl::Milliseconds(1);
  Supervisor* running = nullptr;
  pid_t killed = 0;
  options_.on_tick = [&] {
    if (killed != 0 || !std::filesystem::exists(directory_ + "/first")) return;
    EXPECT_FALSE(running->Kill("ps-7").has_value());
    killed = running->Kill("ps-0").value_or(0);
  };
  Supervisor supervisor(options_, tasks_);
  running = &supervisor;
  EXPECT_EQ(supervisor.Run().exit_code, 0);
  EXPECT_GT(killed, 0);
  EXPECT_THAT(events_, ElementsAre(HasSubstr("ps-0 exited 137; restart 1")));
}

TEST_F(SupervisorTest, UsedUpRestartsStopTheClusterAsTheLastProcessEnded) {
  options_.restarts.most_restarts = 1;
  for (const auto& [end, code] :
       {std::pair("exit 138", 138), std::pair("kill -9 $$", 1)}) {
    tasks_.clear();
    Add("worker-0", "exec sleep 1000");
    Add("ps-0", end);
    const auto outcome = Run();
    EXPECT_EQ(outcome.exit_code, code);
    EXPECT_EQ(outcome.sentence,
              absl::StrCat("ps-0 exited ", states_[1].exit_code,
                           " and its 1 restarts are used up"));
  }
}

TEST_F(SupervisorTest, AFailureStopsTheClusterWithItsLastTwentyLines) {
  Add("worker-0", "for i in $(seq 30); do echo line $i; done; exit 1");
  Add("ps-0", "exec sleep 1000");
  const auto outcome = Run();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.sentence, "worker-0 exited 1");
  ASSERT_THAT(outcome.last_lines, SizeIs(20));
  EXPECT_EQ(outcome.last_lines.front(), "line 11");
  EXPECT_EQ(outcome.last_lines.back(), "line 30");
  EXPECT_EQ(states_[1].exit_code, 128 + SIGTERM);
}

TEST_F(SupervisorTest, WhereAllFailTheChiefIsNamedThoughOthersEndFirst) {
  Add("worker-0",
      "trap 'echo the loss is nan; exit 1' TERM; touch $DIR/there; "
      "while :; do sleep 0.01; done");
  Add("ps-0",
      "until [ -e $DIR/there ]; do sleep 0.01; done; echo told; exit 1");
  const auto outcome = Run();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.sentence, "worker-0 exited 1");
  EXPECT_THAT(outcome.last_lines, Contains("the loss is nan"));
}

TEST_F(SupervisorTest, ABadConfigurationStopsTheClusterWithTwo) {
  Add("worker-0", "exec sleep 1000");
  Add("ps-0", "echo paramd: no such job >&2; exit 2");
  const auto outcome = Run();
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_FALSE(outcome.port_taken);
  EXPECT_THAT(outcome.last_lines, ElementsAre("paramd: no such job"));
}

TEST_F(SupervisorTest, APortInUseIsToldApartFromABadConfiguration) {
  options_.is_port_taken = [](const SupervisedTask& task) {
    return task.name == "ps-0";
  };
  Add("worker-0", "exec sleep 1000");
  Add("ps-0", "exit 2");
  EXPECT_TRUE(Run().port_taken);
}

TEST_F(SupervisorTest, ATaskThatIgnoresSigtermIsKilledAfterTheDrain) {
  options_.drain_timeout = absl::Milliseconds(20);
  Add("worker-0", "until [ -e $DIR/deaf ]; do sleep 0.01; done; exit 1");
  Add("ps-0", "trap '' TERM; touch $DIR/deaf; while :; do sleep 1; done");
  EXPECT_EQ(Run().exit_code, 1);
  EXPECT_THAT(events_, ElementsAre("ps-0 did not stop in time; killed"));
  EXPECT_EQ(states_[1].exit_code, 128 + SIGKILL);
}

TEST_F(SupervisorTest, WhatOutlivesTheChiefIsNamedAndKilled) {
  options_.finish_grace = absl::Seconds(1);
  Add("worker-0", "exit 0");
  Add("ps-0", "exit 0");
  Add("ps-1", "exec sleep 1000");
  EXPECT_EQ(Run().exit_code, 0);
  EXPECT_THAT(events_,
              ElementsAre("ps-1 did not end within 1s of the chief; killed"));
}

TEST_F(SupervisorTest, InterruptAndTerminationEndAllTasks) {
  for (const auto& [signal, code] :
       {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    tasks_.clear();
    Add("worker-0", "trap 'exit 143' TERM; while :; do sleep 0.01; done");
    Add("ps-0", "exec sleep 1000");
    // Pending until the supervisor reads it.
    raise(signal);
    EXPECT_EQ(Run().exit_code, code);
    EXPECT_THAT(events_, IsEmpty());
  }
}

TEST_F(SupervisorTest, ASignalThatComesTwiceAtOnceKillsNobody) {
  Add("worker-0",
      "trap 'touch $DIR/told; until [ -e $DIR/late ]; do sleep 0.01; done; "
      "exit 143' TERM; touch $DIR/ready; while :; do sleep 0.01; done");
  options_.tick = absl::Milliseconds(1);
  int told = 0;
  options_.on_tick = [&] {
    if (!std::filesystem::exists(directory_ + "/ready")) return;
    if (told++ == 0) {
      raise(SIGTERM);
      raise(SIGTERM);
    } else if (std::filesystem::exists(directory_ + "/told")) {
      std::ofstream(directory_ + "/late");
    }
  };
  EXPECT_EQ(Run().exit_code, 143);
  EXPECT_THAT(events_, IsEmpty());
  EXPECT_EQ(states_[0].exit_code, 143);
}

TEST_F(SupervisorTest, WithoutTheChiefNobodyIsWaitedForLong) {
  Add("worker-0", "until [ -e $DIR/deaf ]; do sleep 0.01; done; exit 1");
  Add("ps-0", "trap '' TERM; touch $DIR/deaf; while :; do sleep 1; done");
  EXPECT_EQ(Run().exit_code, 1);
  EXPECT_THAT(events_, ElementsAre("ps-0 can save nothing without the chief; "
                                   "killed"));
}

TEST_F(SupervisorTest, TheDeathOfTheParentLeavesNoProcess) {
  // Orphans become children of this process, so that it can wait for them.
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  Add("worker-0", "echo $$ > $DIR/new; mv $DIR/new $DIR/pid; exec sleep 1000");
  const pid_t parent = fork();
  if (parent == 0) {
    Run();
    _exit(0);
  }
  while (FileText("pid").empty()) usleep(1000);
  const pid_t orphan = std::stoi(FileText("pid"));
  kill(parent, SIGKILL);
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
  int status = 0;
  ASSERT_EQ(waitpid(orphan, &status, 0), orphan);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

}  // namespace
}  // namespace paramd
