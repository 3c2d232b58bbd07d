#include "net/outside_work.h"

#include <vector>

#include "gtest/gtest.h"

#include "proto/paramd/v1/storage.pb.h"

namespace paramd {
namespace {

class OutsideWorkTest : public ::testing::Test {
 protected:
  void Begin(IoId io) {
    work_.Begin(PeerId::Ps(0), {io, std::make_unique<v1::ReadLog>(), {}});
  }
  void TakeMail() {
    for (const auto& f : mailbox_->Take()) f();
  }

  const std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  std::vector<IoResult> ended_;
  OutsideWork work_{mailbox_, [this](PeerId core, IoResult result) {
                      EXPECT_EQ(core, PeerId::Ps(0));
                      ended_.push_back(std::move(result));
                    }};
};

TEST_F(OutsideWorkTest, AWorkEndsUnderItsIdThroughTheMailbox) {
  std::vector<Runtime::IoDone> done;
  work_.Handle(
      v1::ReadLog::descriptor(),
      [&](Outbox::IoItem, Runtime::IoDone d) { done.push_back(std::move(d)); });
  Begin(7);
  Begin(8);
  ASSERT_EQ(done.size(), 2u);
  done[1]({});
  EXPECT_TRUE(ended_.empty()) << "not on this thread";
  TakeMail();
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_[0].io, 8u);
  EXPECT_TRUE(ended_[0].status.ok());
}

TEST_F(OutsideWorkTest, WithoutAHandlerItIsNotImplemented) {
  Begin(7);
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_[0].io, 7u);
  EXPECT_EQ(ended_[0].status,
            absl::UnimplementedError("this process does not do ReadLog"));
}

TEST_F(OutsideWorkTest, Promise8_TooManyOpenOnesAreRefused) {
  std::vector<Runtime::IoDone> done;
  work_.Handle(
      v1::ReadLog::descriptor(),
      [&](Outbox::IoItem, Runtime::IoDone d) { done.push_back(std::move(d)); });
  for (IoId io = 1; io <= 4097; ++io) Begin(io);
  EXPECT_EQ(done.size(), 4096u);
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_[0].io, 4097u);
  EXPECT_TRUE(absl::IsResourceExhausted(ended_[0].status));
  done[0]({});
  TakeMail();
  Begin(4098);
  EXPECT_EQ(done.size(), 4097u);
}

}  // namespace
}  // namespace paramd
