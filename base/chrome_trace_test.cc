#include "base/chrome_trace.h"

#include <atomic>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Lane = ChromeTrace::Lane;

Time At(int64_t microseconds) {
  return Time::FromNanoseconds(1000 * microseconds);
}

// Names of processes and lanes, and of the events in each: "worker-1/push".
std::map<std::string, std::vector<std::string>> LanesIn(
    const std::string& text) {
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> lanes;
  std::map<std::string, std::vector<std::string>> found;
  const auto all = nlohmann::json::parse(text);
  for (const auto& event : all.at("traceEvents")) {
    const std::string name = event.at("name");
    const int process = event.at("pid");
    const int lane = event.at("tid");
    if (name == "process_name") {
      processes[process] = event.at("args").at("name");
    } else if (name == "thread_name") {
      lanes[{process, lane}] = event.at("args").at("name");
    } else {
      found[processes.at(process) + "/" + lanes.at({process, lane})].push_back(
          name);
    }
  }
  return found;
}

TEST(ChromeTraceTest, EachKindOfWorkHasALane) {
  ChromeTrace trace("worker-1", 1);
  trace.Add(Lane::kPull, "pull", At(1), At(2));
  trace.Add(Lane::kDisk, "read", At(2), At(4));
  trace.Add(Lane::kCpu, "batch", At(5), At(6));
  trace.Add(Lane::kCompute, "step", At(6), At(9));
  trace.Add(Lane::kPush, "push", At(8), At(11));
  trace.Add(Lane::kEvaluate, "evaluate", At(12), At(13));
  trace.Add(Lane::kUpload, "weights", At(6), At(7));
  trace.Add(Lane::kDownload, "gradients", At(8), At(9));
  trace.Add(Lane::kSum, "gradients", At(7), At(8));
  const auto lanes = LanesIn(trace.ToJson());
  ASSERT_EQ(lanes.size(), 9u);
  EXPECT_THAT(lanes.at("worker-1/upload"), ElementsAre("weights"));
  EXPECT_THAT(lanes.at("worker-1/download"), ElementsAre("gradients"));
  EXPECT_THAT(lanes.at("worker-1/sum"), ElementsAre("gradients"));
  EXPECT_THAT(lanes.at("worker-1/disk"), ElementsAre("read"));
  EXPECT_THAT(lanes.at("worker-1/CPU"), ElementsAre("batch"));
  EXPECT_THAT(lanes.at("worker-1/compute"), ElementsAre("step"));
  EXPECT_THAT(lanes.at("worker-1/push"), ElementsAre("push"));
  EXPECT_THAT(lanes.at("worker-1/pull"), ElementsAre("pull"));
  EXPECT_THAT(lanes.at("worker-1/evaluate"), ElementsAre("evaluate"));
  EXPECT_THAT(trace.ToJson(), HasSubstr("\"ts\":8.000,\"dur\":3.000"));
}

TEST(ChromeTraceTest, ThreadsThatDoTheSameHaveALaneEach) {
  ChromeTrace trace("worker-0");
  trace.Add(Lane::kCpu, "cast", At(1), At(3));
  std::thread([&] { trace.Add(Lane::kCpu, "crop", At(2), At(4)); }).join();
  const auto lanes = LanesIn(trace.ToJson());
  ASSERT_EQ(lanes.size(), 2u);
  EXPECT_EQ(lanes.count("worker-0/CPU 1"), 1u);
  EXPECT_EQ(lanes.count("worker-0/CPU 2"), 1u);
}

TEST(ChromeTraceTest, WhatIsMoreThanItKeepsIsCounted) {
  ChromeTrace trace("worker-0");
  for (size_t i = 0; i < ChromeTrace::kMost + 3; ++i) {
    trace.Add(Lane::kDisk, "read", At(1), At(2));
  }
  trace.Add(Lane::kPush, "push", At(1), At(2));
  EXPECT_EQ(trace.left_out(), 3u);
  EXPECT_THAT(trace.ToJson(), HasSubstr("\"name\":\"push\",\"ph\":\"X\""))
      << "another kind has room of its own";
}

TEST(ChromeTraceTest, AScopeIsAnEventAndNothingWithoutATrace) {
  ChromeTrace trace("worker-0");
  { const ChromeTrace::Scope scope(&trace, Lane::kCompute, "step"); }
  { const ChromeTrace::Scope scope(nullptr, Lane::kCompute, "step"); }
  EXPECT_THAT(LanesIn(trace.ToJson()).at("worker-0/compute"),
              ElementsAre("step"));
}

TEST(ChromeTraceTest, WhatIsAskedForIsRecordedUntilItsEnd) {
  ChromeTrace trace("ps-0", 0, ChromeTrace::Keeps::kWhatIsAskedFor);
  trace.Add(Lane::kPush, "before", At(1), At(2));
  EXPECT_FALSE(trace.is_on());
  trace.Record(At(100));
  EXPECT_TRUE(trace.is_on());
  trace.Add(Lane::kPush, "push", At(50), At(200));
  trace.AddRecorded({.lane = Lane::kTurns,
                     .name = "Push",
                     .begin = At(60),
                     .end = At(70),
                     .numbers = {{"push", 17}},
                     .flows = {{7, ChromeTrace::Phase::kStep}}});
  trace.Add(Lane::kPush, "behind", At(100), At(101));
  EXPECT_FALSE(trace.is_recording()) << "it has ended by itself";
  trace.Add(Lane::kPush, "later", At(3), At(4));
  const ChromeTrace::Recording recording = trace.TakeRecording();
  ASSERT_EQ(recording.events.size(), 2u);
  EXPECT_STREQ(recording.events[0].name, "push");
  EXPECT_EQ(recording.events[1].numbers[0].value, 17u);
  EXPECT_EQ(recording.events[1].flows[0].id, 7u);
  EXPECT_EQ(recording.events[0].thread, recording.events[1].thread);
  EXPECT_EQ(recording.left_out, 0u);
  EXPECT_TRUE(trace.TakeRecording().events.empty());
}

TEST(ChromeTraceTest, ATraceOfEverythingIsRecordedBesides) {
  ChromeTrace trace("worker-0");
  trace.Add(Lane::kPush, "first", At(1), At(2));
  trace.Record(At(100));
  trace.Add(Lane::kPush, "second", At(3), At(4));
  trace.AddRecorded({.name = "Push", .begin = At(5), .end = At(6)});
  EXPECT_EQ(trace.TakeRecording().events.size(), 2u);
  EXPECT_TRUE(trace.is_on());
  EXPECT_THAT(LanesIn(trace.ToJson()).at("worker-0/push"),
              ElementsAre("first", "second"));
  EXPECT_EQ(LanesIn(trace.ToJson()).size(), 1u) << "turns are not in the file";
}

TEST(ChromeTraceTest, ARecordingHasABoundAndSaysWhatWasMore) {
  ChromeTrace trace("ps-0", 0, ChromeTrace::Keeps::kWhatIsAskedFor);
  trace.Record(At(100));
  for (size_t i = 0; i < ChromeTrace::kMostRecorded + 3; ++i) {
    trace.Add(Lane::kDisk, "read", At(1), At(2));
  }
  ChromeTrace::Recording recording = trace.TakeRecording();
  EXPECT_EQ(recording.events.size(), ChromeTrace::kMostRecorded);
  EXPECT_EQ(recording.left_out, 3u);
  // What passes in an event counts as one.
  trace.Record(At(100));
  ChromeTrace::Event event{.begin = At(1), .end = At(2)};
  event.flows.assign(ChromeTrace::kMostRecorded / 4,
                     {7, ChromeTrace::Phase::kStep});
  for (int i = 0; i < 5; ++i) trace.AddRecorded(event);
  recording = trace.TakeRecording();
  EXPECT_EQ(recording.events.size(), 3u);
  EXPECT_EQ(recording.left_out, 2u);
}

TEST(ChromeTraceTest, AScopeThatBeganBeforeIsNotRecorded) {
  ChromeTrace trace("ps-0", 0, ChromeTrace::Keeps::kWhatIsAskedFor);
  {
    const ChromeTrace::Scope before(&trace, Lane::kCompute, "step");
    trace.Record(Time::Never());
    const ChromeTrace::Scope within(&trace, Lane::kCompute, "wait");
  }
  const ChromeTrace::Recording recording = trace.TakeRecording();
  ASSERT_EQ(recording.events.size(), 1u);
  EXPECT_STREQ(recording.events[0].name, "wait");
}

TEST(ChromeTraceTest, WhatIsClosedRecordsNothingAnyMore) {
  ChromeTrace trace("ps-0", 0, ChromeTrace::Keeps::kWhatIsAskedFor);
  trace.Record(Time::Never());
  trace.Add(Lane::kPush, "push", At(1), At(2));
  trace.CloseRecording();
  EXPECT_TRUE(trace.TakeRecording().events.empty());
  trace.Record(Time::Never());
  EXPECT_FALSE(trace.is_on());
}

TEST(ChromeTraceTest, ThreadsMayAddWhileARecordingBeginsAndEnds) {
  ChromeTrace trace("ps-0", 0, ChromeTrace::Keeps::kWhatIsAskedFor);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!done) {
        const ChromeTrace::Scope scope(&trace, Lane::kCpu, "map");
      }
    });
  }
  size_t recorded = 0;
  for (int i = 0; i < 50 || recorded == 0; ++i) {
    trace.Record(Time::Never());
    absl::SleepFor(absl::Microseconds(200));
    recorded += trace.TakeRecording().events.size();
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(recorded, 0u);
}

TEST(ChromeTraceTest, FilesAreJoined) {
  const std::string directory = ::testing::TempDir();
  std::vector<std::string> paths;
  for (uint32_t worker = 0; worker < 3; ++worker) {
    ChromeTrace trace(absl::StrCat("worker-", worker), worker);
    // The last has done nothing.
    if (worker < 2) trace.Add(Lane::kPush, "push", At(1), At(2));
    paths.push_back(absl::StrCat(directory, "/trace-", worker));
    ASSERT_TRUE(trace.WriteTo(paths.back()).ok());
  }
  const std::string joined = directory + "/joined";
  ASSERT_TRUE(JoinTraces(paths, joined).ok());
  std::ifstream file(joined);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto lanes = LanesIn(text);
  EXPECT_EQ(lanes.size(), 2u);
  EXPECT_THAT(lanes.at("worker-1/push"), ElementsAre("push"));
  EXPECT_THAT(text, HasSubstr("worker-2"));
}

TEST(ChromeTraceTest, WhatCannotBeReadOrWrittenIsNamed) {
  const ChromeTrace trace("worker-0");
  EXPECT_EQ(trace.WriteTo("/nowhere/trace").message(),
            "--trace: '/nowhere/trace' cannot be written: No such file or "
            "directory");
  EXPECT_EQ(JoinTraces({"/nowhere/trace"}, "/nowhere/else").message(),
            "--trace: '/nowhere/trace' is no trace of a worker");
}

}  // namespace
}  // namespace paramd
