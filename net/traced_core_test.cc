#include "net/traced_core.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/paramd/v1/compute.pb.h"
#include "proto/paramd/v1/data.pb.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::unique_ptr<v1::PushRequest> PushNumber(uint64_t sequence,
                                            uint64_t request_id) {
  auto push = std::make_unique<v1::PushRequest>();
  push->mutable_header()->set_sequence(sequence);
  push->mutable_header()->set_request_id(request_id);
  push->add_blocks()->set_slice(4);
  return push;
}

// Does in its next turn what the test has put down.
class Scripted : public Core {
 public:
  void Start(Time, Outbox*) override {}
  void Receive(Message message, Time, Outbox* out) override {
    received_ += message.is_reply ? 0 : 1;
    Act(out);
  }
  void Completed(IoResult, Time, Outbox* out) override { Act(out); }
  void Tick(Time, Outbox* out) override { Act(out); }
  Time next_tick() const override { return Time::FromNanoseconds(5); }
  std::string overdue(Time) const override { return "somebody"; }

  std::vector<std::pair<CallId, uint64_t>> sends_;  // Request ids by call.
  std::vector<CallId> replies_;
  int received_ = 0;

 private:
  void Act(Outbox* out) {
    for (const auto& [call, request_id] : std::exchange(sends_, {})) {
      out->Send(PeerId::Ps(0), call, PushNumber(17, request_id), {},
                absl::Seconds(1));
    }
    for (const CallId call : std::exchange(replies_, {})) {
      out->Reply(call, std::make_unique<v1::PushReply>());
    }
  }
};

class TracedCoreTest : public ::testing::Test {
 protected:
  void Receive(CallId call, const google::protobuf::Message& request) {
    Message message;
    message.call = call;
    message.head = &request;
    Outbox out;
    traced_.Receive(std::move(message), Time(), &out);
  }
  void Answer(CallId call, const absl::Status& status) {
    const v1::PushReply reply;
    Message message;
    message.call = call;
    message.is_reply = true;
    message.status = status;
    message.head = status.ok() ? &reply : nullptr;
    Outbox out;
    traced_.Receive(std::move(message), Time(), &out);
  }
  void Complete(std::unique_ptr<google::protobuf::Message> head) {
    IoResult result;
    result.head = std::move(head);
    Outbox out;
    traced_.Completed(std::move(result), Time(), &out);
  }
  void Tick() {
    Outbox out;
    traced_.Tick(Time(), &out);
  }
  // "Push s7 t8": an event, and what passed in it.
  std::vector<std::string> Recorded() {
    std::vector<std::string> texts;
    for (const auto& event : trace_.TakeRecording().events) {
      std::string text = event.name;
      for (const ChromeTrace::Flow& flow : event.flows) {
        absl::StrAppend(&text,
                        flow.phase == ChromeTrace::Phase::kStart  ? " s"
                        : flow.phase == ChromeTrace::Phase::kStep ? " t"
                                                                  : " f",
                        flow.id);
      }
      EXPECT_LE(event.begin, event.end);
      texts.push_back(text);
    }
    return texts;
  }

  // "push=17 slice=4 ", of the only one.
  std::string NumbersOfTheEvent() {
    const ChromeTrace::Recording recording = trace_.TakeRecording();
    EXPECT_EQ(recording.events.size(), 1u);
    std::string text;
    for (const auto& event : recording.events) {
      for (const ChromeTrace::Number& number : event.numbers) {
        absl::StrAppend(&text, number.name, "=", number.value, " ");
      }
    }
    return text;
  }

  ChromeTrace trace_{"", 0, ChromeTrace::Keeps::kWhatIsAskedFor};
  Scripted core_;
  TracedCore traced_{&core_, &trace_};
};

TEST_F(TracedCoreTest, AWorkersChunksStartAndEnd) {
  trace_.Record(Time::Never());
  core_.sends_ = {{1, 71}, {2, 72}};
  Complete(std::make_unique<v1::TakeGradientsResult>());
  Answer(1, absl::OkStatus());
  // Without an answer it is sent again, as the same.
  Answer(2, absl::DeadlineExceededError("late"));
  core_.sends_ = {{3, 72}};
  Tick();
  Answer(3, absl::OkStatus());
  EXPECT_THAT(Recorded(),
              ElementsAre("TakeGradientsResult s71 s72", "PushReply f71",
                          "refusal t72", "Tick t72", "PushReply f72"));
}

TEST_F(TracedCoreTest, AServersChunksPassInTheTurnThatTakesThemIn) {
  trace_.Record(Time::Never());
  core_.replies_ = {9};
  Receive(9, *PushNumber(17, 71));
  // With a backup the answer comes later.
  Receive(10, *PushNumber(17, 72));
  Tick();
  core_.replies_ = {10};
  Tick();
  Receive(11, v1::PullRequest());
  EXPECT_THAT(Recorded(),
              ElementsAre("Push t71", "Push t72", "Tick t72", "Pull"));
}

TEST_F(TracedCoreTest, AnEventSaysWhichBlocksItIsAbout) {
  trace_.Record(Time::Never());
  auto layers = std::make_unique<v1::TakeGradientsResult>();
  layers->add_variables(3);
  core_.sends_ = {{1, 71}};
  Complete(std::move(layers));
  EXPECT_EQ(NumbersOfTheEvent(),
            "variable=3 worker=0 term=0 session=0 push=17 block_count=1 "
            "slice=4 block=0 ");
}

TEST_F(TracedCoreTest, AChunkThatFollowsAnAnswerSaysAllToo) {
  trace_.Record(Time::Never());
  core_.sends_ = {{1, 71}};
  Tick();
  trace_.TakeRecording();
  trace_.Record(Time::Never());
  core_.sends_ = {{2, 72}, {3, 73}};
  Answer(1, absl::OkStatus());
  EXPECT_EQ(NumbersOfTheEvent(),
            "worker=0 term=0 session=0 push=17 block_count=1 slice=4 block=0 "
            "slice=4 block=0 ");
}

TEST_F(TracedCoreTest, NoSliceIsWithoutItsBlock) {
  trace_.Record(Time::Never());
  for (CallId call = 1; call <= 20; ++call) {
    core_.sends_.emplace_back(call, 70 + call);
  }
  Tick();
  // Five of the push, and pairs: the 32nd would be half of one.
  std::string expected = "worker=0 term=0 session=0 push=17 block_count=1 ";
  for (int i = 0; i < 13; ++i) absl::StrAppend(&expected, "slice=4 block=0 ");
  EXPECT_EQ(NumbersOfTheEvent(), expected);
}

TEST_F(TracedCoreTest, WithoutARecordingTheCoreDoesTheSame) {
  core_.sends_ = {{1, 71}};
  Receive(9, *PushNumber(17, 72));
  TracedCore alone(&core_, nullptr);
  Outbox out;
  core_.replies_ = {9};
  alone.Tick(Time(), &out);
  EXPECT_EQ(out.replies.size(), 1u);
  EXPECT_EQ(core_.received_, 1);
  EXPECT_EQ(traced_.next_tick(), Time::FromNanoseconds(5));
  EXPECT_EQ(traced_.overdue(Time()), "somebody");
  EXPECT_THAT(Recorded(), IsEmpty());
}

TEST_F(TracedCoreTest, WhatWasUnderWayInAnEarlierRecordingIsForgotten) {
  trace_.Record(Time::Never());
  core_.sends_ = {{1, 71}};
  Tick();
  EXPECT_THAT(Recorded(), ElementsAre("Tick s71"));
  Tick();
  trace_.Record(Time::Never());
  Answer(1, absl::OkStatus());
  EXPECT_THAT(Recorded(), ElementsAre("PushReply"));
}

}  // namespace
}  // namespace paramd
