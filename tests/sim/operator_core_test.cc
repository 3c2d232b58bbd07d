#include "tests/sim/operator_core.h"

#include "gtest/gtest.h"

#include "proto/paramd/v1/status.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

class OperatorCoreTest : public ::testing::Test {
 protected:
  OperatorCoreTest() { core_.Start(now_, &out_); }

  // The value that is asked for when the core wants to tick next.
  std::string Asked() {
    now_ = core_.next_tick();
    core_.Tick(now_, &out_);
    return static_cast<const v1::SetRequest&>(*out_.sends.back().head).value();
  }
  void Answer(const absl::Status& status) {
    const v1::SetReply reply;
    Message message;
    message.call = out_.sends.back().call;
    message.is_reply = true;
    message.status = status;
    message.head = status.ok() ? &reply : nullptr;
    core_.Receive(std::move(message), now_, &out_);
  }

  Time now_ = Time::FromNanoseconds(1);
  Outbox out_;
  OperatorCore core_{{{absl::Seconds(1), "8"}, {absl::Seconds(3), "async"}}};
};

TEST_F(OperatorCoreTest, EachValueIsSetAtItsTimeThenItLeaves) {
  EXPECT_EQ(core_.next_tick(), now_ + absl::Seconds(1));
  EXPECT_EQ(Asked(), "8");
  Answer(absl::OkStatus());
  EXPECT_EQ(Asked(), "async");
  EXPECT_EQ(now_, Time::FromNanoseconds(1) + absl::Seconds(3));
  EXPECT_FALSE(out_.exited);
  Answer(absl::OkStatus());
  EXPECT_TRUE(out_.exited && out_.exit_status.ok());
  EXPECT_EQ(core_.done(), 2u);
}

TEST_F(OperatorCoreTest, WhatWasNotAnsweredIsAskedAgain) {
  EXPECT_EQ(Asked(), "8");
  Answer(absl::UnavailableError("lost"));
  EXPECT_EQ(Asked(), "8");
  EXPECT_EQ(core_.done(), 0u);
}

TEST(OperatorCheckpointTest, IsAskedForByItsNumberUntilItIsThere) {
  OperatorCore core({{absl::Seconds(1), OperatorCore::kCheckpoint}});
  uint64_t step = 6;
  core.WatchStep([&step] { return step++; });
  Outbox out;
  Time now = Time::FromNanoseconds(1);
  core.Start(now, &out);
  for (const char* path : {"", "/done"}) {
    now = core.next_tick();
    core.Tick(now, &out);
    const auto& asked =
        static_cast<const v1::CheckpointRequest&>(*out.sends.back().head);
    EXPECT_EQ(asked.snapshot().counter(), *path == '\0' ? 0u : 4u);
    v1::CheckpointReply reply;
    reply.mutable_snapshot()->set_counter(4);
    reply.set_path(path);
    Message message;
    message.call = out.sends.back().call;
    message.is_reply = true;
    message.head = &reply;
    core.Receive(std::move(message), now, &out);
    EXPECT_EQ(out.exited, *path != '\0');
  }
  ASSERT_EQ(core.checkpoints().size(), 1u);
  EXPECT_EQ(core.checkpoints()[0].said.path(), "/done");
  EXPECT_EQ(core.checkpoints()[0].asked_at, 6u);
}

TEST_F(OperatorCoreTest, ItLeavesWhenTheJobHasEnded) {
  Asked();
  Answer(Refuse(v1::Refusal::JOB_FINISHED, "job", "finished"));
  EXPECT_TRUE(out_.exited && out_.exit_status.ok());
}

TEST_F(OperatorCoreTest, AValueThatIsRefusedIsAnError) {
  Asked();
  Answer(Refuse(v1::Refusal::INVALID, "staleness", "no"));
  EXPECT_TRUE(out_.exited && !out_.exit_status.ok());
}

}  // namespace
}  // namespace paramd
