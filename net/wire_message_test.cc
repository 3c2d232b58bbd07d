#include "net/wire_message.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/util/message_differencer.h"
#include "grpcpp/support/slice.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {
namespace {

using ::google::protobuf::util::MessageDifferencer;

std::string Flatten(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(bytes.Dump(&slices).ok());
  std::string all;
  for (const grpc::Slice& slice : slices) {
    all.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return all;
}

// `all` as gRPC might deliver it: cut at seeded places, empty pieces included.
grpc::ByteBuffer Cut(const std::string& all, RandomStream* random) {
  std::vector<grpc::Slice> slices;
  size_t at = 0;
  const uint64_t longest = 1 + random->Below(all.size() + 1);
  while (at < all.size()) {
    const size_t length =
        std::min<size_t>(random->Below(longest + 1), all.size() - at);
    slices.emplace_back(all.data() + at, length);
    at += length;
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string RandomBytes(size_t size, RandomStream* random) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random->Bits());
  return bytes;
}

v1::PushRequest RandomHead(RandomStream* random) {
  v1::PushRequest head;
  head.mutable_header()->set_worker(static_cast<uint32_t>(random->Below(9)));
  head.mutable_header()->set_request_id(random->Bits());
  head.mutable_header()->set_traceparent(std::string(random->Below(60), 'x'));
  head.set_encoding(v1::FP32);
  head.set_clock(random->Bits());
  for (uint64_t i = random->Below(20); i > 0; --i) {
    head.add_blocks()->set_elements(static_cast<uint32_t>(random->Bits()));
  }
  return head;
}

BufferChain RandomPayload(RandomStream* random) {
  BufferChain payload;
  for (uint64_t i = random->Below(6); i > 0; --i) {
    const uint64_t size =
        random->Chance(0.5) ? random->Below(50) : random->Below(12000);
    payload.push_back(Buffer::Copy(RandomBytes(size, random)));
  }
  return payload;
}

TEST(WireMessageTest, WhatIsEncodedIsWhatProtobufWouldWrite) {
  RandomStream random(1);
  for (int i = 0; i < 300; ++i) {
    const v1::PushRequest head = RandomHead(&random);
    const BufferChain payload = RandomPayload(&random);
    v1::PushRequest whole = head;
    whole.set_payload(FlattenForTest(payload));
    ASSERT_EQ(Flatten(EncodeMessage(head, payload)), whole.SerializeAsString());
  }
}

TEST(WireMessageTest, WhereAPayloadLiesIsWrittenBeforeIt) {
  RandomStream random(4);
  for (int i = 0; i < 300; ++i) {
    const v1::PushRequest head = RandomHead(&random);
    const BufferChain payload = RandomPayload(&random);
    v1::SharedPayload shared;
    shared.set_memory(random.Bits());
    for (uint64_t n = random.Below(3); n > 0; --n) {
      shared.add_pieces()->set_offset(random.Bits());
    }
    v1::PushRequest whole = head;
    *whole.mutable_shared() = shared;
    const std::string bytes = Flatten(EncodeMessage(head, payload, &shared));
    const size_t payload_bytes = ChainSize(payload);
    ASSERT_TRUE(absl::StartsWith(bytes, whole.SerializeAsString()));
    v1::PushRequest parsed;
    ASSERT_TRUE(parsed.ParseFromString(bytes));
    ASSERT_EQ(parsed.payload().size(), payload_bytes);
    const auto decoded =
        DecodeMessage(Cut(bytes, &random), v1::PushRequest::default_instance());
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_TRUE(MessageDifferencer::Equals(*decoded->head, whole));
    ASSERT_EQ(ChainSize(decoded->payload), payload_bytes);
  }
}

TEST(WireMessageTest, WhatProtobufWroteIsDecodedHoweverItIsCut) {
  RandomStream random(2);
  for (int i = 0; i < 300; ++i) {
    const v1::PushRequest head = RandomHead(&random);
    v1::PushRequest whole = head;
    whole.set_payload(RandomBytes(random.Below(9000), &random));
    const auto decoded = DecodeMessage(Cut(whole.SerializeAsString(), &random),
                                       v1::PushRequest::default_instance());
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_TRUE(MessageDifferencer::Equals(*decoded->head, head));
    ASSERT_EQ(FlattenForTest(decoded->payload), whole.payload());
  }
}

TEST(WireMessageTest, BigPiecesTravelByReferenceAndSmallOnesAreCopied) {
  const Buffer big = Buffer::Copy(std::string(kByReferenceBytes, 'b'));
  const Buffer small = Buffer::Copy(std::string(kByReferenceBytes - 1, 's'));
  std::vector<grpc::Slice> slices;
  {
    const grpc::ByteBuffer bytes =
        EncodeMessage(v1::PushRequest(), {small, small, big, small, big});
    ASSERT_TRUE(bytes.Dump(&slices).ok());
  }
  ASSERT_EQ(slices.size(), 4u);
  EXPECT_EQ(slices[1].begin(),
            reinterpret_cast<const uint8_t*>(big.bytes().data()));
  EXPECT_EQ(slices[3].begin(), slices[1].begin());
  EXPECT_EQ(slices[2].size(), small.size());
  EXPECT_TRUE(small.unique());
  EXPECT_FALSE(big.unique());
  slices.clear();
  EXPECT_TRUE(big.unique());
}

TEST(WireMessageTest, ManyPiecesTravelInOrderAndAreKeptUntilTheLastIsGone) {
  RandomStream random(5);
  const Buffer whole =
      Buffer::Copy(RandomBytes(5 * kByReferenceBytes, &random));
  BufferChain payload;
  for (const size_t part : {0, 1, 2, 4, 3}) {  // Some beside each other.
    payload.push_back(whole.Part(part * kByReferenceBytes, kByReferenceBytes));
    payload.push_back(Buffer::Copy(RandomBytes(kByReferenceBytes, &random)));
    payload.push_back(Buffer::Copy(RandomBytes(7, &random)));
    payload.push_back(payload.front());
    payload.push_back(whole.Part(kByReferenceBytes, kByReferenceBytes));
  }
  const std::string all = FlattenForTest(payload);
  v1::PushRequest head;
  head.set_payload(all);
  std::vector<grpc::Slice> slices;
  {
    const grpc::ByteBuffer bytes = EncodeMessage(v1::PushRequest(), payload);
    EXPECT_EQ(Flatten(bytes), head.SerializeAsString());
    ASSERT_TRUE(bytes.Dump(&slices).ok());
  }
  payload.clear();
  const grpc::Slice last = slices.back();
  slices.clear();
  EXPECT_FALSE(whole.unique());
  EXPECT_EQ(std::string(last.begin(), last.end()),
            all.substr(all.size() - last.size()));
}

TEST(WireMessageTest, ADecodedPayloadRefersToWhatWasReceived) {
  v1::PullReply whole;
  whole.set_payload(std::string(100000, 'p'));
  const std::string bytes = whole.SerializeAsString();
  const grpc::Slice slice(bytes);
  WireMessage decoded;
  {
    const grpc::ByteBuffer received(&slice, 1);
    decoded = *DecodeMessage(received, v1::PullReply::default_instance());
  }
  ASSERT_EQ(decoded.payload.size(), 1u);
  EXPECT_EQ(reinterpret_cast<const uint8_t*>(decoded.payload[0].bytes().data() +
                                             100000),
            slice.end());
}

TEST(WireMessageTest, AMessageWithoutPayloadHasAnEmptyChain) {
  v1::PushRequest head;
  head.set_clock(7);
  const auto decoded = DecodeMessage(EncodeMessage(head, {}),
                                     v1::PushRequest::default_instance());
  ASSERT_TRUE(decoded.ok());
  EXPECT_TRUE(decoded->payload.empty());
  EXPECT_TRUE(MessageDifferencer::Equals(*decoded->head, head));
  EXPECT_TRUE(DecodeMessage(EncodeMessage(v1::PullRequest(), {}),
                            v1::PullRequest::default_instance())
                  .ok());
}

std::string MessageOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return std::string(DecodeMessage(grpc::ByteBuffer(&slice, 1),
                                   v1::PushRequest::default_instance())
                         .status()
                         .message());
}

TEST(WireMessageTest, ALargeHeadHasItsMaps) {
  v1::ShardFile whole;
  for (int i = 0; i < 20; ++i) {
    v1::SavedSlice* const slice = whole.add_slices();
    slice->set_variable(std::string(20, 'v'));
    (*slice->mutable_slot_tensors())["momentum"] = absl::StrCat("tensor-", i);
  }
  const auto decoded =
      DecodeMessage(EncodeMessage(whole, {}), whole.default_instance());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_TRUE(MessageDifferencer::Equals(*decoded->head, whole));
}

TEST(WireMessageTest, WhatIsWrongIsNamed) {
  v1::PushRequest whole;
  whole.set_clock(5);
  whole.set_payload("123456");
  const std::string good = whole.SerializeAsString();
  EXPECT_EQ(MessageOf(good), "");
  EXPECT_EQ(MessageOf(good.substr(0, good.size() - 1)),
            "malformed PushRequest: the payload has 6 bytes; 5 follow");
  EXPECT_EQ(MessageOf(good + "x"),
            "malformed PushRequest: the payload has 6 bytes; 7 follow");
  EXPECT_EQ(MessageOf(good.substr(0, good.size() - 7)),
            "malformed PushRequest: the payload has no length");
  EXPECT_EQ(MessageOf("\x0a\x05"
                      "abc"),
            "malformed PushRequest: field 1 at byte 0 is cut short");
  EXPECT_EQ(MessageOf(std::string("\x00", 1)),
            "malformed PushRequest: no field at byte 0");
  EXPECT_EQ(MessageOf("\x0a\x02"
                      "zz"),
            "malformed PushRequest: the head is not of this type");
  // A length that would overflow an addition.
  EXPECT_EQ(MessageOf("\xc2\x3e\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            "malformed PushRequest: the payload has 18446744073709551615 "
            "bytes; 0 follow");
}

TEST(WireMessageTest, AHeadAboveTheLimitIsRefusedBeforeItIsParsed) {
  v1::PushRequest head;
  head.mutable_header()->set_traceparent(std::string(kMostHeadBytes, 'x'));
  const std::string message = MessageOf(head.SerializeAsString());
  EXPECT_NE(message.find("the limit is 1048576"), std::string::npos) << message;
}

TEST(WireMessageTest, BytesNobodyWroteAreRefusedOrReadAsProtobufReadsThem) {
  // It would say on stderr what it found, thousands of times.
  google::protobuf::SetLogHandler(nullptr);
  RandomStream random(3);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    v1::PushRequest whole = RandomHead(&random);
    if (random.Chance(0.7)) whole.set_payload(RandomBytes(40, &random));
    std::string bytes = whole.SerializeAsString();
    for (uint64_t n = 1 + random.Below(4); n > 0 && !bytes.empty(); --n) {
      bytes[random.Below(bytes.size())] = static_cast<char>(random.Bits());
    }
    if (random.Chance(0.3)) bytes.resize(random.Below(bytes.size() + 1));
    const auto decoded =
        DecodeMessage(Cut(bytes, &random), v1::PushRequest::default_instance());
    if (!decoded.ok()) {
      ASSERT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    ++accepted;
    v1::PushRequest parsed;
    ASSERT_TRUE(parsed.ParseFromString(bytes));
    ASSERT_EQ(FlattenForTest(decoded->payload), parsed.payload());
    parsed.clear_payload();
    ASSERT_EQ(decoded->head->SerializeAsString(), parsed.SerializeAsString());
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace paramd
