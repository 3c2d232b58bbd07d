#include "process/observe/status_poller.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

#include "process/testing/fake_process.h"

namespace paramd {
namespace {

v1::StatusReply SeventySeven() {
  v1::StatusReply reply;
  reply.mutable_server()->set_bytes(77);
  return reply;
}

TEST(StatusPollerTest, AnswersComeBackAndSilenceIsToldApart) {
  auto process = std::make_unique<FakeProcess>(SeventySeven());
  // Nobody listens on port 1 of this address.
  StatusPoller poller({process->address(), "127.77.77.77:1"},
                      absl::Milliseconds(100));
  while (!poller.Newest()[0].answered_last) usleep(1000);
  auto answers = poller.Newest();
  EXPECT_EQ(answers[0].newest->server().bytes(), 77);
  EXPECT_FALSE(answers[1].answered_last);
  EXPECT_FALSE(answers[1].newest.has_value());
  process.reset();
  while (poller.Newest()[0].answered_last) usleep(1000);
  EXPECT_EQ(poller.Newest()[0].newest->server().bytes(), 77);
}

}  // namespace
}  // namespace paramd
