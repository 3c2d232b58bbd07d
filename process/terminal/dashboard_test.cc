#include "process/terminal/dashboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"

#include "process/terminal/remaining_time.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ClusterView Running() {
  ClusterView view;
  view.version = "0.1";
  view.job_name = "fashion-mnist";
  view.staleness = "async";
  view.epochs = 5;
  view.epochs_done = 2.6;
  view.servers = {{"ps-0", "", 1040000, 0.21}, {"ps-1", "", 1130000, 0.2}};
  view.workers = {{"worker-0", true, "", 9240.3, 0.2911},
                  {"worker-1", false, "", 9100, 0.2872}};
  view.pushes = 5120;
  view.checkpoint_step = 5000;
  view.checkpoint_bytes = 2130000;
  view.checkpoint_ms = 41.2;
  return view;
}

TEST(DashboardTest, AViewOfAJobHasWhatItsFileSays) {
  v1::JobConfig job;
  job.set_name("fashion-mnist");
  job.set_staleness("sync");
  job.set_epochs(5);
  const ClusterView view = EmptyView(job, "0.1");
  EXPECT_EQ(view.version, "0.1");
  EXPECT_EQ(view.job_name, "fashion-mnist");
  EXPECT_EQ(view.staleness, "sync");
  EXPECT_EQ(view.epochs, 5u);
  EXPECT_TRUE(view.workers.empty());
  job.mutable_input()->mutable_follow();
  EXPECT_TRUE(EmptyView(job, "0.1").grows);
  EXPECT_EQ(EmptyView(job, "0.1").epochs, 0u) << "nobody knows how many";
}

TEST(DashboardTest, ABlockShowsEveryProcessAndTheJob) {
  EXPECT_EQ(RenderBlock(Running(), 120),
            "paramd 0.1  fashion-mnist  2 ps · 2 workers · async           "
            "epoch 3/5  ▇▇▇▇▁▁▁ 52 %\n"
            "  ps-0      1.0 MB  p50 pull 0.2 ms     "
            "worker-0 (chief)   9,240 ex/s   loss 0.291\n"
            "  ps-1      1.1 MB  p50 pull 0.2 ms     "
            "worker-1           9,100 ex/s   loss 0.287\n"
            "  pushes 5,120 applied · 0 given up     "
            "checkpoint at step 5000  2.1 MB  41 ms\n");
}

TEST(DashboardTest, WhatNobodyHasMeasuredIsADash) {
  ClusterView view = Running();
  view.servers[0].bytes.reset();
  view.servers[0].pull_p50_ms.reset();
  view.workers[1].examples_per_second.reset();
  view.workers[1].loss.reset();
  view.checkpoint_step.reset();
  const std::string block = RenderBlock(view, 120);
  EXPECT_THAT(block, HasSubstr("ps-0           –  p50 pull –"));
  EXPECT_THAT(block, HasSubstr("worker-1               – ex/s   loss –"));
  EXPECT_THAT(block, HasSubstr("no checkpoint yet"));
}

TEST(DashboardTest, AProcessThatDoesNotAnswerSaysWhy) {
  ClusterView view = Running();
  view.workers[1].note = "restarting";
  view.waiting_for = "worker-1 (silent for 3 s)";
  const std::string block = RenderBlock(view, 120);
  EXPECT_THAT(block, HasSubstr("worker-1           restarting\n"));
  EXPECT_THAT(block, HasSubstr("  waiting for worker-1 (silent for 3 s)\n"));
}

TEST(DashboardTest, NoLineIsWiderThanTheTerminal) {
  for (const absl::string_view line :
       absl::StrSplit(RenderBlock(Running(), 20), '\n', absl::SkipEmpty())) {
    EXPECT_LE(std::count_if(line.begin(), line.end(),
                            [](char c) { return (c & 0xC0) != 0x80; }),
              20)
        << line;
  }
}

// Every figure of a block, however its lines are laid out.
std::vector<std::string> WordsOf(const ClusterView& view, int width) {
  std::vector<std::string> words = absl::StrSplit(
      RenderBlock(view, width), absl::ByAnyChar(" \n"), absl::SkipEmpty());
  std::sort(words.begin(), words.end());
  return words;
}

TEST(DashboardTest, ANarrowTerminalShowsAllThatAWideOneShows) {
  ClusterView view = Running();
  view.left = absl::Seconds(130.7);
  view.waiting_for = "ps-1";
  ClusterView many = view;
  many.workers.resize(9, many.workers[1]);
  for (const ClusterView& one : {view, many}) {
    for (const int width : {60, 70, 80, 100}) {
      EXPECT_EQ(WordsOf(one, width), WordsOf(one, 1000)) << width;
    }
  }
}

TEST(DashboardTest, WhatDoesNotFitBesideEachOtherStandsUnderEachOther) {
  EXPECT_EQ(RenderBlock(Running(), 60),
            "paramd 0.1  fashion-mnist  2 ps · 2 workers · async\n"
            "epoch 3/5  ▇▇▇▇▁▁▁ 52 %\n"
            "  ps-0      1.0 MB  p50 pull 0.2 ms\n"
            "  ps-1      1.1 MB  p50 pull 0.2 ms\n"
            "  worker-0 (chief)   9,240 ex/s   loss 0.291\n"
            "  worker-1           9,100 ex/s   loss 0.287\n"
            "  pushes 5,120 applied · 0 given up\n"
            "  checkpoint at step 5000  2.1 MB  41 ms\n");
  // By two columns less than there are on a wide one.
  EXPECT_THAT(RenderBlock(Running(), 80),
              HasSubstr("  ps-0      1.0 MB  p50 pull 0.2 ms   "
                        "worker-0 (chief)   9,240 ex/s   loss 0.291\n"));
}

TEST(DashboardTest, ManyProcessesAreSummedUp) {
  ClusterView view = Running();
  for (int i = 2; i < 9; ++i) {
    view.workers.push_back(
        {"worker", false, i == 8 ? "starting" : "", 1000.0, 0.3});
  }
  const std::string block = RenderBlock(view, 120);
  EXPECT_EQ(std::count(block.begin(), block.end(), '\n'), 3);
  EXPECT_THAT(block, HasSubstr("2 of 2 ps  2.2 MB  p50 pull 0.2 ms"));
  EXPECT_THAT(block, HasSubstr("8 of 9 workers  25,340 ex/s   loss 0.298"));
}

TEST(DashboardTest, OneLineSaysTheSame) {
  ClusterView view = Running();
  EXPECT_EQ(RenderLine(view),
            "epoch 3/5  52 % of the job  18,340 ex/s  loss 0.289  "
            "pushes 5,120 applied · 0 given up  "
            "checkpoint at step 5000  2.1 MB  41 ms");
  view.test = "accuracy 0.881";
  view.test_epoch = 2;
  view.waiting_for = "ps-1";
  EXPECT_THAT(RenderLine(view),
              HasSubstr("test accuracy 0.881 after epoch 2  waiting for ps-1"));
}

TEST(DashboardTest, WhatIsLeftIsSaidWhereItIsKnown) {
  ClusterView view = Running();
  view.left = absl::Seconds(130.7);
  EXPECT_THAT(RenderLine(view), HasSubstr("52 % of the job, 2m10s left  "));
  EXPECT_THAT(RenderBlock(view, 120), HasSubstr("52 %, 2m10s left\n"));
}

TEST(RemainingTimeTest, ItFollowsFromTheLastMinute) {
  RemainingTime remaining;
  Time now = Time() + absl::Seconds(5);
  EXPECT_EQ(remaining.Take(1, 10, now), absl::nullopt);
  EXPECT_EQ(remaining.Take(2, 10, now + absl::Seconds(10)), absl::Seconds(80));
  // An epoch takes twice as long now.
  for (int second = 20; second <= 200; second += 10) {
    remaining.Take(1.5 + second / 20.0, 20, now + absl::Seconds(second));
  }
  EXPECT_EQ(remaining.Take(12, 20, now + absl::Seconds(210)),
            absl::Seconds(160));
}

TEST(RemainingTimeTest, NothingIsKnownOfAJobThatStandsOrWentBackOrIsDone) {
  RemainingTime remaining;
  const Time now = Time() + absl::Seconds(5);
  remaining.Take(5, 10, now);
  EXPECT_EQ(remaining.Take(5, 10, now + absl::Seconds(10)), absl::nullopt);
  EXPECT_EQ(remaining.Take(3, 10, now + absl::Seconds(20)), absl::nullopt);
  EXPECT_EQ(remaining.Take(10, 10, now + absl::Seconds(30)), absl::nullopt);
}

TEST(DashboardTest, AFinishedJobIsAtItsLastEpoch) {
  ClusterView view = Running();
  view.epochs_done = 5;
  EXPECT_THAT(RenderBlock(view, 120), HasSubstr("epoch 5/5  ▇▇▇▇▇▇▇ 100 %"));
}

TEST(DashboardTest, FiguresComeFromTheProcessesThemselves) {
  ProcessReport server, chief, worker, silent;
  server.status.emplace();
  server.status->mutable_server()->set_bytes(77);
  server.status->mutable_server()->set_restored(true);
  chief.status.emplace();
  chief.status->mutable_worker()->set_examples_per_second(10);
  chief.status->mutable_worker()->set_loss(0.5);
  chief.status->mutable_worker()->set_epoch(1);
  chief.status->mutable_worker()->add_pull_p50_ms(0.5);
  v1::JobStats* job = chief.status->mutable_job();
  job->set_epochs_done(1.5);
  job->set_global_step(9);
  job->set_given_up(1);
  job->set_waiting_for("ps-1");
  job->mutable_evaluation()->set_epoch(1);
  job->mutable_evaluation()->set_examples(10);
  (*job->mutable_evaluation()->mutable_metrics())["accuracy"] = 0.8;
  worker.status.emplace();
  worker.status->mutable_worker()->add_pull_p50_ms(0.7);
  silent.note = "starting";
  ClusterView view;
  EXPECT_EQ(view.staleness, "");
  chief.status->mutable_job()->set_staleness("8");
  FillView({server, silent}, {chief, worker}, &view);
  EXPECT_EQ(view.staleness, "8");
  EXPECT_EQ(view.servers[0].bytes, 77);
  EXPECT_EQ(view.servers[0].pull_p50_ms, 0.7);
  EXPECT_FALSE(view.servers[1].bytes.has_value());
  EXPECT_EQ(view.servers[1].note, "starting");
  EXPECT_TRUE(view.workers[0].is_chief);
  EXPECT_EQ(view.workers[0].examples_per_second, 10);
  EXPECT_FALSE(view.workers[1].examples_per_second.has_value());
  EXPECT_EQ(view.epochs_done, 1.5);
  EXPECT_EQ(view.pushes, 9);
  EXPECT_EQ(view.given_up, 1);
  EXPECT_EQ(view.test, "accuracy 0.800");
  EXPECT_EQ(view.waiting_for, "ps-1");
  EXPECT_FALSE(view.checkpoint_step.has_value());
}

TEST(DashboardTest, AWorkerThatIsStalledOrDoesNotAnswerTrainsNothing) {
  ProcessReport stalled, silent;
  for (ProcessReport* report : {&stalled, &silent}) {
    report->status.emplace();
    report->status->mutable_worker()->set_epoch(1);
    report->status->mutable_worker()->set_loss(0.5);
  }
  silent.status->mutable_worker()->set_examples_per_second(4000);
  silent.note = "no answer";
  ClusterView view;
  FillView({}, {stalled, silent}, &view);
  EXPECT_EQ(view.workers[0].examples_per_second, 0);
  EXPECT_EQ(view.workers[1].examples_per_second, 0);
  EXPECT_THAT(RenderLine(view), HasSubstr("  0 ex/s  loss 0.500"));
}

TEST(DashboardTest, TheEndSaysWhatTheJobSeemsNotToHaveLearnt) {
  EndView end;
  end.warnings = {"1000 of 10000 examples are right"};
  EXPECT_THAT(RenderEnd(end),
              HasSubstr("warning:       1000 of 10000 examples are right\n"));
}

TEST(DashboardTest, TheEndNamesTheResultAndWhatToTryNext) {
  EndView end;
  end.program = "bazel-bin/cli/paramd";
  end.next = {"checkpoint inspect runs/fashion-mnist-1",
              "local --job 'my job.json' --workers 4"};
  end.test = "accuracy: 0.887";
  end.epochs = 5;
  end.seconds = 53.9;
  end.checkpoint_path = "runs/fashion-mnist-1/checkpoints/x";
  end.pushes_lost = 1234;
  EXPECT_EQ(RenderEnd(end),
            "test accuracy: 0.887   (5 epochs, 54 s)\n"
            "checkpoint:    runs/fashion-mnist-1/checkpoints/x   "
            "(opens in safetensors)\n"
            "pushes:        1,234 lost, 0 doubled\n"
            "\n"
            "Try next\n"
            "  bazel-bin/cli/paramd checkpoint inspect runs/fashion-mnist-1\n"
            "  bazel-bin/cli/paramd local --job 'my job.json' --workers 4\n");
  end.test.clear();
  end.checkpoint_path.clear();
  EXPECT_THAT(RenderEnd(end), Not(HasSubstr("accuracy")));
}

TEST(DashboardTest, NumbersAreReadable) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1234567), "1,234,567");
  EXPECT_EQ(BytesText(999), "999 B");
  EXPECT_EQ(BytesText(1000), "1.0 kB");
  EXPECT_EQ(BytesText(999999), "1.0 MB");
  EXPECT_EQ(BytesText(123456789), "123 MB");
  EXPECT_EQ(ShellQuoted("a'b"), "'a'\\''b'");
  EXPECT_EQ(ShellQuoted(""), "''");
}

}  // namespace
}  // namespace paramd
