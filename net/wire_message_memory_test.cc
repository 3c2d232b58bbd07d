#include <unistd.h>

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "net/wire_message.h"
#include "proto/paramd/v1/hello.pb.h"

namespace paramd {
namespace {

constexpr uint64_t kMemoryId = 5;

const Method& MethodOf(const google::protobuf::Descriptor* request) {
  return *MethodTable::Get().OfRequest(request);
}

class WireMessageMemoryTest : public ::testing::Test {
 protected:
  WireMessageMemoryTest() {
    auto made = SharedMapping::Make();
    auto opened = SharedMapping::Open(made->fd);
    close(made->fd);
    client_.emplace(SharedMemory::End::kClient, kMemoryId,
                    std::move(made->mapping));
    server_.emplace(SharedMemory::End::kServer, kMemoryId, *std::move(opened));
    head_.set_clock(7);
  }

  WireMessage Decode(const OutgoingMessage& message) {
    auto decoded = DecodeMessage(message.bytes, *push_.request);
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    return *std::move(decoded);
  }

  const Method& push_ = MethodOf(v1::PushRequest::descriptor());
  v1::PushRequest head_;
  const std::string big_ = std::string(100000, 'p');
  absl::optional<SharedMemory> client_, server_;
};

TEST_F(WireMessageMemoryTest, ABigPayloadGoesThroughMemory) {
  const OutgoingMessage sent =
      EncodeRequest(push_, head_, {Buffer::Copy(big_)}, &*client_);
  EXPECT_LT(sent.bytes.Length(), 100u);
  EXPECT_EQ(sent.size, sent.bytes.Length() + big_.size());
  WireMessage received = Decode(sent);
  EXPECT_TRUE(received.payload.empty());
  const auto shared = TakeShared(&received);
  ASSERT_TRUE(shared.has_value());
  EXPECT_EQ(received.head->SerializeAsString(), head_.SerializeAsString());
  ASSERT_TRUE(TakeSharedPayload(*shared, &*server_, &received).ok());
  EXPECT_EQ(FlattenForTest(received.payload), big_);
}

TEST_F(WireMessageMemoryTest,
       ASmallPayloadGoesInTheMessageWhichNamesTheMemory) {
  const OutgoingMessage sent = EncodeRequest(
      push_, head_, {Buffer::Copy(std::string("small"))}, &*client_);
  EXPECT_EQ(sent.size, sent.bytes.Length());
  WireMessage received = Decode(sent);
  const auto shared = TakeShared(&received);
  ASSERT_TRUE(shared.has_value());
  EXPECT_EQ(shared->memory(), kMemoryId);
  EXPECT_TRUE(TakeSharedPayload(*shared, nullptr, &received).ok());
  EXPECT_EQ(FlattenForTest(received.payload), "small");
}

TEST_F(WireMessageMemoryTest, AnAnswerSpeaksOfMemoryOnlyIfItsPayloadLiesThere) {
  v1::PushReply reply;
  OutgoingMessage sent = EncodeReply(
      push_, reply, {Buffer::Copy(std::string("small"))}, &*server_);
  auto received = DecodeMessage(sent.bytes, *push_.reply);
  EXPECT_FALSE(TakeShared(&*received).has_value());
  EXPECT_EQ(FlattenForTest(received->payload), "small");
  sent = EncodeReply(push_, reply, {Buffer::Copy(big_)}, &*server_);
  received = DecodeMessage(sent.bytes, *push_.reply);
  const auto shared = TakeShared(&*received);
  ASSERT_TRUE(shared.has_value());
  ASSERT_TRUE(TakeSharedPayload(*shared, &*client_, &*received).ok());
  EXPECT_EQ(FlattenForTest(received->payload), big_);
}

TEST_F(WireMessageMemoryTest,
       ARequestThatHasNoPayloadNamesTheMemoryForItsAnswer) {
  const Method& pull = MethodOf(v1::PullRequest::descriptor());
  v1::PullRequest head;
  head.set_clock(7);
  auto received = DecodeMessage(EncodeRequest(pull, head, {}, &*client_).bytes,
                                *pull.request);
  ASSERT_TRUE(received.ok()) << received.status();
  const auto shared = TakeShared(&*received);
  ASSERT_TRUE(shared.has_value());
  EXPECT_EQ(shared->memory(), kMemoryId);
  EXPECT_EQ(received->head->SerializeAsString(), head.SerializeAsString());
}

TEST_F(WireMessageMemoryTest, WithoutMemoryNothingIsSaidOfIt) {
  const BufferChain payload = {Buffer::Copy(big_)};
  const OutgoingMessage sent = EncodeRequest(push_, head_, payload, nullptr);
  EXPECT_EQ(sent.bytes.Length(), EncodeMessage(head_, payload).Length());
  WireMessage received = Decode(sent);
  EXPECT_FALSE(TakeShared(&received).has_value());
}

TEST_F(WireMessageMemoryTest, AMethodWithoutPayloadsSaysNothingOfMemory) {
  const Method& hello = MethodOf(v1::HelloRequest::descriptor());
  const OutgoingMessage sent =
      EncodeRequest(hello, v1::HelloRequest(), {}, &*client_);
  EXPECT_EQ(sent.size, 0u);  // An empty Hello.
}

TEST_F(WireMessageMemoryTest, WhatIsOverTheLimitIsNotPut) {
  const BufferChain payload = {
      Buffer::Copy(std::string(push_.most_bytes(), 'x'))};
  const OutgoingMessage sent = EncodeRequest(push_, head_, payload, &*client_);
  EXPECT_GT(sent.size, push_.most_bytes());
  EXPECT_EQ(client_->put_bytes(), 0u);
  // What is just below is put.
  const BufferChain less = {
      Buffer::Copy(std::string(push_.most_bytes() - 100, 'x'))};
  EXPECT_LE(EncodeRequest(push_, head_, less, &*client_).size,
            push_.most_bytes());
  EXPECT_EQ(client_->put_bytes(), push_.most_bytes() - 100);
}

TEST_F(WireMessageMemoryTest, WithoutRoomThePayloadIsInTheMessage) {
  const BufferChain payload = {
      Buffer::Copy(std::string(push_.most_bytes() - 100, 'x'))};
  int put = 0;
  while (true) {
    const OutgoingMessage sent =
        EncodeRequest(push_, head_, payload, &*client_);
    EXPECT_LE(sent.size, push_.most_bytes());
    if (sent.bytes.Length() > 100) {
      WireMessage received = Decode(sent);
      EXPECT_EQ(TakeShared(&received)->memory(), kMemoryId);
      EXPECT_EQ(ChainSize(received.payload), push_.most_bytes() - 100);
      break;
    }
    ++put;
  }
  EXPECT_EQ(put, 3);
}

TEST_F(WireMessageMemoryTest, TwoPayloadsAreMalformed) {
  WireMessage message =
      Decode(EncodeRequest(push_, head_, {Buffer::Copy(big_)}, &*client_));
  const auto shared = TakeShared(&message);
  message.payload = {Buffer::Copy(std::string("another"))};
  EXPECT_EQ(TakeSharedPayload(*shared, &*server_, &message),
            absl::InvalidArgumentError(
                "malformed PushRequest: a payload, and another in shared "
                "memory"));
}

TEST_F(WireMessageMemoryTest, UnknownMemoryIsALossAndABadPieceIsMalformed) {
  WireMessage message =
      Decode(EncodeRequest(push_, head_, {Buffer::Copy(big_)}, &*client_));
  auto shared = TakeShared(&message);
  EXPECT_EQ(TakeSharedPayload(*shared, nullptr, &message).code(),
            absl::StatusCode::kUnavailable);
  shared->mutable_pieces(0)->set_offset(1);
  const absl::Status bad = TakeSharedPayload(*shared, &*server_, &message);
  EXPECT_EQ(bad.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StartsWith(bad.message(),
                               "malformed PushRequest: shared payload: 100000 "
                               "bytes at 1 do not begin"))
      << bad;
}

}  // namespace
}  // namespace paramd
