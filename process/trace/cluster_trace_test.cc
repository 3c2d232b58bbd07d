#include "process/trace/cluster_trace.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// A process whose clock shows `ahead_ns` more than ours, known to 1 µs.
class Recorded {
 public:
  Recorded(const std::string& process, int64_t ahead_ns) : ahead_(ahead_ns) {
    trace_.process = process;
    trace_.clock.Add(Time::FromNanoseconds(0), Time::FromNanoseconds(2000),
                     1000 + ahead_ns);
  }

  // At that time by our clock, in microseconds.
  v1::TraceEvent* Add(const std::string& lane, const std::string& name,
                      int64_t at_us, uint64_t for_us, uint32_t thread = 1) {
    v1::TraceEvent* const event = trace_.events.add_events();
    event->set_name(NameIn(name));
    event->set_lane(NameIn(lane));
    event->set_thread(thread);
    event->set_begin_ns(1000 * at_us + ahead_);
    event->set_duration_ns(1000 * for_us);
    return event;
  }
  void AddNumber(const std::string& name, uint64_t value,
                 v1::TraceEvent* event) {
    v1::TraceNumber* const number = event->add_numbers();
    number->set_name(NameIn(name));
    number->set_value(value);
  }
  ProcessTrace& trace() { return trace_; }

 private:
  uint32_t NameIn(const std::string& name) {
    for (int i = 0; i < trace_.events.names_size(); ++i) {
      if (trace_.events.names(i) == name) return static_cast<uint32_t>(i);
    }
    trace_.events.add_names(name);
    return static_cast<uint32_t>(trace_.events.names_size() - 1);
  }

  const int64_t ahead_;
  ProcessTrace trace_;
};

void AddFlow(uint64_t id, v1::TraceFlow::Phase phase, v1::TraceEvent* event) {
  v1::TraceFlow* const flow = event->add_flows();
  flow->set_id(id);
  flow->set_phase(phase);
}

std::vector<Json> OfPhase(const Json& trace, const std::string& phases) {
  std::vector<Json> found;
  for (const Json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph").get<std::string>();
    if (phases.find(phase) != std::string::npos) found.push_back(event);
  }
  return found;
}

// A worker sends a chunk at 10, a server whose clock is far ahead takes it in
// at 20, and the worker has the answer at 30.
ClusterTrace AFollowedPush() {
  Recorded worker("worker-0", 0);
  v1::TraceEvent* const sends =
      worker.Add("turns", "TakeGradientsResult", 10, 2);
  worker.AddNumber("variable", 1, sends);
  worker.AddNumber("push", 17, sends);
  worker.AddNumber("slice", 2, sends);
  worker.AddNumber("block", 5, sends);
  AddFlow(0xabc, v1::TraceFlow::START, sends);
  worker.Add("compute", "step", 1, 9);
  AddFlow(0xabc, v1::TraceFlow::END, worker.Add("turns", "PushReply", 30, 2));
  Recorded server("ps-0", 5'000'000'000);
  v1::TraceEvent* const applies = server.Add("turns", "Push", 20, 4);
  AddFlow(0xabc, v1::TraceFlow::STEP, applies);
  // One whose beginning nobody has seen.
  AddFlow(0xdef, v1::TraceFlow::STEP, applies);
  ClusterTrace trace;
  trace.processes = {worker.trace(), server.trace()};
  trace.layout.add_variables()->set_name("dense/bias");
  trace.layout.add_variables()->set_name("dense/kernel");
  for (int i = 0; i < 3; ++i) trace.layout.add_slices()->set_variable(1);
  return trace;
}

TEST(ClusterTraceTest, ProcessesAreNamedAndTheirTimesAreOurs) {
  const Json trace = Json::parse(TraceJson(AFollowedPush()));
  std::map<int, std::string> processes;
  for (const Json& event : OfPhase(trace, "M")) {
    if (event.at("name") == "process_name") {
      processes[event.at("pid").get<int>()] =
          event.at("args").at("name").get<std::string>();
    }
  }
  std::map<std::string, double> times;  // Since the first event.
  for (const Json& event : OfPhase(trace, "X")) {
    times[processes.at(event.at("pid").get<int>()) + " " +
          event.at("name").get<std::string>()] = event.at("ts").get<double>();
  }
  EXPECT_EQ(times,
            (std::map<std::string, double>{{"worker-0 step", 0},
                                           {"worker-0 TakeGradientsResult", 9},
                                           {"ps-0 Push", 19},
                                           {"worker-0 PushReply", 29}}));
}

TEST(ClusterTraceTest, APushIsFollowedThroughBothProcesses) {
  const Json trace = Json::parse(TraceJson(AFollowedPush()));
  std::vector<std::string> phases;
  double last = -1;
  auto flows = OfPhase(trace, "stf");
  std::sort(flows.begin(), flows.end(), [](const Json& a, const Json& b) {
    return a.at("ts").get<double>() < b.at("ts").get<double>();
  });
  for (const Json& flow : flows) {
    EXPECT_EQ(flow.at("id"), "0xabc") << "the other has no beginning";
    EXPECT_GT(flow.at("ts").get<double>(), last);
    last = flow.at("ts").get<double>();
    phases.push_back(flow.at("ph").get<std::string>());
    // It lies in an event of its lane, which the arrow binds to.
    int lies_in = 0;
    for (const Json& event : OfPhase(trace, "X")) {
      if (event.at("pid") != flow.at("pid") ||
          event.at("tid") != flow.at("tid")) {
        continue;
      }
      const double begin = event.at("ts").get<double>();
      const double end = begin + event.at("dur").get<double>();
      lies_in += begin <= last && last <= end ? 1 : 0;
    }
    EXPECT_EQ(lies_in, 1);
  }
  EXPECT_THAT(phases, ElementsAre("s", "t", "f"));
}

TEST(ClusterTraceTest, BlocksAndVariablesAreNamed) {
  const Json trace = Json::parse(TraceJson(AFollowedPush()));
  Json numbers;
  for (const Json& event : OfPhase(trace, "X")) {
    if (event.contains("args")) numbers = event.at("args");
  }
  EXPECT_EQ(numbers, Json::parse(R"({"variables": ["dense/kernel"],
      "blocks": ["dense/kernel: slice 2, block 5"], "push": 17})"));
  ClusterTrace unknown = AFollowedPush();
  unknown.layout.Clear();
  EXPECT_THAT(TraceJson(unknown), HasSubstr("[\"slice 2, block 5\"]"));
}

TEST(ClusterTraceTest, WhatIsKnownOfItIsInIt) {
  ClusterTrace cluster = AFollowedPush();
  cluster.processes[1].events.set_left_out(12);
  cluster.missing = {"worker-1 is missing: \"gone\""};
  const Json trace = Json::parse(TraceJson(cluster));
  EXPECT_EQ(trace.at("otherData"), Json::parse(R"({
      "clocks": {
        "worker-0": {"offset_us": 0.0, "error_us": 1.0, "calls": 1},
        "ps-0": {"offset_us": 5000000.0, "error_us": 1.0, "calls": 1}},
      "left_out": {"worker-0": 0, "ps-0": 12},
      "missing": ["worker-1 is missing: \"gone\""]})"));
  EXPECT_THAT(trace.dump(), HasSubstr("12 events left out"));
  EXPECT_EQ(LeftOutOf(cluster), 12u);
  EXPECT_EQ(EventsIn(cluster), 4u);
  EXPECT_EQ(ErrorOf(cluster), absl::Microseconds(2));
}

TEST(ClusterTraceTest, ThreadsThatDoTheSameHaveALaneEach) {
  Recorded worker("worker-0", 0);
  worker.Add("CPU", "crop", 1, 2, /*thread=*/7);
  worker.Add("CPU", "crop", 1, 2, /*thread=*/9);
  worker.Add("compute", "step", 1, 2, /*thread=*/7);
  ClusterTrace cluster;
  cluster.processes = {worker.trace()};
  std::vector<std::string> lanes;
  for (const Json& event : OfPhase(Json::parse(TraceJson(cluster)), "M")) {
    if (event.at("name") == "thread_name") {
      lanes.push_back(event.at("args").at("name").get<std::string>());
    }
  }
  EXPECT_THAT(lanes, ElementsAre("CPU 1", "CPU 2", "compute"));
}

TEST(ClusterTraceTest, NobodysNameBreaksTheFile) {
  Recorded stranger("ps-\"0\"\n\x80", 0);
  stranger.Add("l\"ane", "e\\vent\x1b[0m", 1, 2);
  ClusterTrace cluster;
  cluster.processes = {stranger.trace()};
  EXPECT_TRUE(Json::accept(TraceJson(cluster)));
  EXPECT_TRUE(Json::accept(TraceJson(ClusterTrace())));
}

TEST(ClusterTraceTest, WhatIsNoCharacterBreaksNothing) {
  // Half of a surrogate pair, and what lies above U+10FFFF.
  for (const std::string wrong : {"\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    ClusterTrace cluster = AFollowedPush();
    cluster.processes[0].process = wrong;
    *cluster.processes[1].events.mutable_names(0) = wrong;
    cluster.layout.mutable_variables(1)->set_name(wrong);
    cluster.missing = {wrong};
    EXPECT_TRUE(Json::accept(TraceJson(cluster)));
  }
}

TEST(ClusterTraceTest, PiecesAreJoined) {
  Recorded first("worker-0", 0);
  first.Add("turns", "Push", 1, 1);
  Recorded second("worker-0", 0);
  second.AddNumber("push", 3, second.Add("pull", "pull", 2, 1));
  second.Add("turns", "Push", 3, 1);
  second.trace().events.set_total(3);
  ProcessTrace all;
  ASSERT_TRUE(AddPiece(first.trace().events, &all).ok());
  ASSERT_TRUE(AddPiece(second.trace().events, &all).ok());
  ASSERT_EQ(all.events.events_size(), 3);
  const auto name = [&](uint32_t index) {
    return all.events.names(static_cast<int>(index));
  };
  EXPECT_EQ(name(all.events.events(1).name()), "pull");
  EXPECT_EQ(name(all.events.events(1).numbers(0).name()), "push");
  EXPECT_EQ(name(all.events.events(2).name()), "Push");
  EXPECT_EQ(all.events.events(0).name(), all.events.events(2).name());
  EXPECT_EQ(all.events.total(), 3u);
}

TEST(ClusterTraceTest, WhatAStrangerSaysIsChecked) {
  Recorded good("ps-0", 0);
  good.AddNumber("push", 3, good.Add("turns", "Push", 1, 1));
  const v1::TraceReply piece = good.trace().events;
  const auto refused = [&](const v1::TraceReply& wrong) {
    ProcessTrace all;
    const absl::Status status = AddPiece(wrong, &all);
    return absl::IsDataLoss(status) && all.events.events_size() == 0;
  };
  v1::TraceReply wrong = piece;
  wrong.mutable_events(0)->set_name(9);
  EXPECT_TRUE(refused(wrong));
  wrong = piece;
  wrong.mutable_events(0)->set_lane(9);
  EXPECT_TRUE(refused(wrong));
  wrong = piece;
  wrong.mutable_events(0)->mutable_numbers(0)->set_name(9);
  EXPECT_TRUE(refused(wrong));
  wrong = piece;
  wrong.mutable_events(0)->set_begin_ns(std::numeric_limits<int64_t>::min());
  EXPECT_TRUE(refused(wrong));
  wrong = piece;
  wrong.mutable_events(0)->set_duration_ns(
      std::numeric_limits<uint64_t>::max());
  EXPECT_TRUE(refused(wrong));
  wrong = piece;
  wrong.set_clock_ns(std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(refused(wrong));
}

}  // namespace
}  // namespace paramd
