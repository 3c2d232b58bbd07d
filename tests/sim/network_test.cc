#include "tests/sim/network.h"

#include <set>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kPatience = absl::Seconds(3);

SimNetwork::Sending Push(int64_t at = 1000) {
  static const std::string type = "PushRequest";
  return {PeerId::Worker(0), PeerId::Ps(1), &type, at};
}

TEST(SimNetworkTest, WithoutFaultsEverythingArrivesOnceWithinTheLongestDelay) {
  const Faults faults;
  RandomStream random(1);
  SimNetwork network(faults, &random);
  for (int i = 0; i < 100; ++i) {
    for (const SimNetwork::Fate& fate :
         {network.OfRequest(Push(), kPatience), network.OfReply(Push())}) {
      ASSERT_THAT(fate.arrives_at, SizeIs(1));
      EXPECT_GE(fate.arrives_at[0] - 1000,
                absl::ToInt64Nanoseconds(faults.shortest_delay));
      EXPECT_LE(fate.arrives_at[0] - 1000,
                absl::ToInt64Nanoseconds(faults.longest_delay));
      EXPECT_FALSE(fate.fails_at.has_value());
    }
  }
  EXPECT_EQ(network.counts().ToString(), "");
}

TEST(SimNetworkTest, ALostRequestMayBeToldWithinItsPatienceOrNever) {
  Faults faults;
  faults.lose_request = 1;
  RandomStream random(1);
  SimNetwork network(faults, &random);
  int told = 0;
  for (int i = 0; i < 100; ++i) {
    const SimNetwork::Fate fate = network.OfRequest(Push(), kPatience);
    EXPECT_THAT(fate.arrives_at, IsEmpty());
    if (!fate.fails_at.has_value()) continue;
    ++told;
    EXPECT_GT(*fate.fails_at, 1000);
    EXPECT_LE(*fate.fails_at, 1000 + absl::ToInt64Nanoseconds(kPatience));
  }
  EXPECT_GT(told, 0);
  EXPECT_LT(told, 100);
  EXPECT_EQ(network.counts().Of("lose_request", "PushRequest"), 100u);
}

TEST(SimNetworkTest, ALostReplyDoesNotArrive) {
  Faults faults;
  faults.lose_reply = 1;
  RandomStream random(1);
  SimNetwork network(faults, &random);
  EXPECT_THAT(network.OfReply(Push()).arrives_at, IsEmpty());
  EXPECT_THAT(network.OfRequest(Push(), kPatience).arrives_at, SizeIs(1));
  EXPECT_EQ(network.counts().Of("lose_reply", "PushRequest"), 1u);
}

TEST(SimNetworkTest, AGhostArrivesThoughItsSenderIsToldThatItFailed) {
  Faults faults;
  faults.ghost = 1;
  RandomStream random(1);
  SimNetwork network(faults, &random);
  const SimNetwork::Fate fate = network.OfRequest(Push(), kPatience);
  EXPECT_THAT(fate.arrives_at, SizeIs(1));
  EXPECT_TRUE(fate.fails_at.has_value());
  EXPECT_EQ(network.counts().Of("ghost", "PushRequest"), 1u);
}

TEST(SimNetworkTest, ADuplicateArrivesTwiceAndSoDoesASecondReply) {
  Faults faults;
  faults.duplicate = 1;
  faults.second_reply = 1;
  RandomStream random(1);
  SimNetwork network(faults, &random);
  EXPECT_THAT(network.OfRequest(Push(), kPatience).arrives_at, SizeIs(2));
  EXPECT_THAT(network.OfReply(Push()).arrives_at, SizeIs(2));
  EXPECT_EQ(network.counts().Of("duplicate", "PushRequest"), 1u);
}

TEST(SimNetworkTest, ASecondReplyComesThroughOnlyIfTheFaultIsWanted) {
  Faults faults;
  RandomStream random(1);
  SimNetwork without(faults, &random);
  faults.second_reply = 0.1;
  SimNetwork with(faults, &random);
  int admitted = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(without.AdmitsSecondReply("PushRequest"));
    if (with.AdmitsSecondReply("PushRequest")) ++admitted;
  }
  EXPECT_GT(admitted, 0);
  EXPECT_LT(admitted, 100);
  EXPECT_EQ(with.counts().Of("second_reply", "PushRequest"), admitted);
}

TEST(SimNetworkTest, ACutOffPeerNeitherSendsNorReceivesUntilItIsOver) {
  RandomStream random(1);
  SimNetwork network({}, &random);
  network.CutOff(PeerId::Ps(1), /*until=*/2000);
  EXPECT_THAT(network.OfRequest(Push(1999), kPatience).arrives_at, IsEmpty());
  SimNetwork::Sending back = Push(1999);
  std::swap(back.from, back.to);
  EXPECT_THAT(network.OfReply(back).arrives_at, IsEmpty());
  EXPECT_THAT(network.OfRequest(Push(2000), kPatience).arrives_at, SizeIs(1));
  SimNetwork::Sending elsewhere = Push(1999);
  elsewhere.to = PeerId::Ps(0);
  EXPECT_THAT(network.OfRequest(elsewhere, kPatience).arrives_at, SizeIs(1));
  EXPECT_EQ(network.counts().Of("cut_off", "PushRequest"), 1u);
  EXPECT_EQ(network.counts().Of("cut_off_reply", "PushRequest"), 1u);
}

TEST(SimNetworkTest, APayloadIsCutInOtherPlacesAndKeepsItsBytes) {
  RandomStream random(1);
  SimNetwork network({}, &random);
  const BufferChain payload = {Buffer::Copy(std::string("abcdefgh")), Buffer(),
                               Buffer::Copy(std::string("i"))};
  std::set<size_t> first_lengths;
  for (int i = 0; i < 50; ++i) {
    const BufferChain cut = network.Recut(payload);
    EXPECT_EQ(FlattenForTest(cut), "abcdefghi");
    for (const Buffer& piece : cut) EXPECT_GT(piece.size(), 0u);
    first_lengths.insert(cut[0].size());
  }
  EXPECT_GT(first_lengths.size(), 4u);
}

TEST(SimNetworkTest, ADrawLiesBetweenItsEndsAlsoIfTheyAreInTheWrongOrder) {
  RandomStream random(1);
  std::set<int64_t> drawn;
  for (int i = 0; i < 100; ++i) {
    drawn.insert(
        DrawNanoseconds(absl::Nanoseconds(5), absl::Nanoseconds(7), &random));
    EXPECT_EQ(
        DrawNanoseconds(absl::Nanoseconds(7), absl::Nanoseconds(5), &random),
        7);
  }
  EXPECT_EQ(drawn, (std::set<int64_t>{5, 6, 7}));
}

}  // namespace
}  // namespace paramd
