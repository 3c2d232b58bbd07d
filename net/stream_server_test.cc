#include "net/stream_server.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "net/testing/raw_stream.h"
#include "net/testing/stream_loop.h"
#include "net/wire_message.h"
#include "proto/grpc/health/v1/health.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// Any small message.
using Text = grpc::health::v1::HealthCheckRequest;

Text Says(const std::string& words) {
  Text text;
  text.set_service(words);
  return text;
}

class StreamServerTest : public ::testing::Test {
 protected:
  // Says everything again, unless it is told to do something else.
  class Echo : public StreamHandler {
   public:
    Echo(int* alive, Stream* stream) : alive_(alive), stream_(stream) {
      ++*alive_;
    }
    ~Echo() override { --*alive_; }
    void Received(const grpc::ByteBuffer& message) override {
      const auto text = DecodeMessage(message, Text::default_instance());
      const auto& said = static_cast<const Text&>(*text->head).service();
      if (said == "silence") stream_->ExpectSilence();
      // More than a connection takes of which nobody reads.
      stream_->Write(absl::StartsWith(said, "big")
                         ? Says(std::string(64 << 20, 'x'))
                         : static_cast<const Text&>(*text->head));
      if (absl::EndsWith(said, "leave")) {
        stream_->Finish(absl::AbortedError("left"));
      }
    }
    void HalfClosed() override { stream_->Finish(absl::OkStatus()); }

   private:
    int* const alive_;
    Stream* const stream_;
  };

  std::unique_ptr<RawStream> Call(const std::string& first_words) {
    auto call = std::make_unique<RawStream>(loop_.address(), "/test/Echo");
    EXPECT_TRUE(call->Send(Says(first_words)));
    EXPECT_EQ(call->ReadAs<Text>().service(), first_words);
    return call;
  }
  // How a call ends of which nothing more comes.
  static absl::Status End(RawStream* call) {
    EXPECT_FALSE(call->Read().has_value());
    return call->Finish();
  }
  int Alive() {
    int alive = 0;
    loop_.Do([&] { alive = alive_; });
    return alive;
  }

  int alive_ = 0;  // Of the loop thread.
  StreamLoop loop_{[this](StreamServer* streams) {
    streams->Serve("/test/Echo", [this](Stream* stream) {
      return std::make_unique<Echo>(&alive_, stream);
    });
  }};
};

TEST_F(StreamServerTest, EveryMessageIsAnsweredInTurn) {
  const auto call = Call("0");
  for (int i = 1; i < 100; ++i) {
    ASSERT_TRUE(call->Send(Says(std::to_string(i))));
  }
  for (int i = 1; i < 100; ++i) {
    EXPECT_EQ(call->ReadAs<Text>().service(), std::to_string(i));
  }
  call->HalfClose();
  EXPECT_EQ(End(call.get()), absl::OkStatus());
}

TEST_F(StreamServerTest, WhatWasWrittenIsSentBeforeTheEnd) {
  const auto call = Call("leave");
  EXPECT_EQ(End(call.get()), absl::AbortedError("left"));
}

TEST_F(StreamServerTest, AMethodThatNobodyServesIsUnimplemented) {
  RawStream call(loop_.address(), "/test/Nothing");
  EXPECT_EQ(End(&call),
            absl::UnimplementedError("/test/Nothing is not served"));
}

TEST_F(StreamServerTest, ACallThatIsCancelledLeavesNothingBehind) {
  auto call = Call("hello");
  EXPECT_EQ(Alive(), 1);
  call.reset();
  while (Alive() != 0) {
  }
  Call("the next");
}

TEST_F(StreamServerTest, ACallerThatIsSilentForTooLongLosesItsCall) {
  const auto silent = Call("hello");
  const auto expected = Call("silence");
  loop_.Do([&] {
    const Time now = MonotonicNow();
    loop_.streams().Expire(now);
    EXPECT_LE(loop_.streams().next_deadline(), now + absl::Seconds(60));
    loop_.streams().Expire(now + absl::Seconds(60));
    EXPECT_GT(loop_.streams().next_deadline(), now + absl::Seconds(60));
  });
  EXPECT_EQ(End(silent.get()),
            absl::DeadlineExceededError("no message for 1m"));
  EXPECT_TRUE(expected->Send(Says("still here")));
  EXPECT_EQ(expected->ReadAs<Text>().service(), "still here");
}

TEST_F(StreamServerTest, BeyondTheBoundTheLongestSilentLosesItsCall) {
  std::vector<std::unique_ptr<RawStream>> calls;
  for (int i = 0; i < 256; ++i) calls.push_back(Call("hello"));
  EXPECT_TRUE(calls[0]->Send(Says("not I")));
  EXPECT_EQ(calls[0]->ReadAs<Text>().service(), "not I");
  calls.push_back(Call("hello"));
  const absl::Status end = End(calls[1].get());
  EXPECT_EQ(end.message(), "256 streams are open");
  EXPECT_EQ(RefusalOf(end).reason(), v1::Refusal::OVER_LIMIT);
  EXPECT_GT(RefusalOf(end).retry_after_ms(), 0u);
  EXPECT_EQ(Alive(), 256);
}

TEST_F(StreamServerTest, BeyondTheBoundACallIsRefusedIfAllMayBeSilent) {
  std::vector<std::unique_ptr<RawStream>> calls;
  for (int i = 0; i < 256; ++i) calls.push_back(Call("silence"));
  RawStream call(loop_.address(), "/test/Echo");
  EXPECT_EQ(RefusalOf(End(&call)).reason(), v1::Refusal::OVER_LIMIT);
  calls.pop_back();
  while (Alive() == 256) {
  }
  Call("hello");
}

TEST_F(StreamServerTest, AtTheEndEveryCallIsToldWhy) {
  const auto call = Call("hello");
  loop_.Do([&] {
    loop_.streams().RefuseAll(absl::UnavailableError("ending"));
    EXPECT_EQ(loop_.streams().ends_under_way(), 1);
  });
  EXPECT_EQ(End(call.get()), absl::UnavailableError("ending"));
  RawStream late(loop_.address(), "/test/Echo");
  EXPECT_EQ(End(&late), absl::UnavailableError("ending"));
  int under_way = 1;
  while (under_way != 0) {
    loop_.Do([&] { under_way = loop_.streams().ends_under_way(); });
  }
}

TEST_F(StreamServerTest, ACallerThatDoesNotReadIsCut) {
  RawStream call(loop_.address(), "/test/Echo");
  ASSERT_TRUE(call.Send(Says("big")));
  while (Alive() == 0) {
  }
  loop_.Do([&] { loop_.streams().Expire(MonotonicNow() + absl::Seconds(61)); });
  while (Alive() != 0) {
  }
}

TEST_F(StreamServerTest, AnEndThatNobodyReadsIsCut) {
  RawStream call(loop_.address(), "/test/Echo");
  ASSERT_TRUE(call.Send(Says("big, and leave")));
  const auto wait_for_ends = [&](int expected) {
    for (int ends = -1; ends != expected;) {
      loop_.Do([&] { ends = loop_.streams().ends_under_way(); });
    }
  };
  wait_for_ends(1);
  loop_.Do([&] { loop_.streams().Expire(MonotonicNow() + absl::Seconds(61)); });
  wait_for_ends(0);
}

}  // namespace
}  // namespace paramd
