#include "net/hello.h"

#include "gtest/gtest.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

Identity Self(PeerId peer) {
  Identity self;
  self.task = TaskOf(peer);
  self.incarnation = 5;
  self.job_name = "fashion";
  self.job_digest = "aaaa";
  self.cluster_digest = "cccc";
  return self;
}

TEST(HelloTest, ProcessesOfOneJobAcceptEachOther) {
  const Identity ps = Self(PeerId::Ps(0));
  const Identity worker = Self(PeerId::Worker(1));
  EXPECT_TRUE(CheckHello(ps, MakeHello(worker)).ok());
  EXPECT_TRUE(
      CheckHelloReply(worker, PeerId::Ps(0), AnswerHello(ps)).ok());
}

TEST(HelloTest, TheCoordinatorIsWorkerZero) {
  const Identity ps = Self(PeerId::Ps(0));
  EXPECT_TRUE(CheckHelloReply(ps, PeerId::Coordinator(),
                              AnswerHello(Self(PeerId::Worker(0))))
                  .ok());
}

TEST(HelloTest, EachEntryThatDiffersIsNamedWithBothValues) {
  const Identity ps = Self(PeerId::Ps(0));
  Identity worker = Self(PeerId::Worker(1));
  worker.cluster_digest = "dddd";
  absl::Status refused = CheckHello(ps, MakeHello(worker));
  EXPECT_EQ(refused.message(),
            "cluster_digest differs: worker-1 has 'dddd', ps-0 has 'cccc'");
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::OTHER_JOB);
  EXPECT_EQ(RefusalOf(refused).entity(), "cluster_digest");
  worker.job_name = "mnist";
  refused = CheckHelloReply(worker, PeerId::Ps(0), AnswerHello(ps));
  EXPECT_EQ(refused.message(),
            "job_name differs: ps-0 has 'fashion', worker-1 has 'mnist'");
}

TEST(HelloTest, AnotherTaskThanTheOneLookedForIsNamed) {
  const absl::Status refused =
      CheckHelloReply(Self(PeerId::Worker(1)), PeerId::Ps(0),
                      AnswerHello(Self(PeerId::Ps(1))));
  EXPECT_EQ(refused.message(), "another task answers: ps-1 instead of ps-0");
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::OTHER_JOB);
  EXPECT_EQ(RefusalOf(refused).entity(), "task");
}

TEST(HelloTest, WhatACallerDoesNotKnowIsNotCompared) {
  EXPECT_TRUE(CheckHello(Self(PeerId::Ps(0)), MakeHello(Identity())).ok());
}

TEST(HelloTest, RangesOfProtocolsMustMeet) {
  v1::HelloRequest hello = MakeHello(Self(PeerId::Worker(1)));
  hello.set_protocol_max(9);
  EXPECT_TRUE(CheckHello(Self(PeerId::Ps(0)), hello).ok());
  hello.set_protocol_min(2);
  EXPECT_EQ(RefusalOf(CheckHello(Self(PeerId::Ps(0)), hello)).reason(),
            v1::Refusal::PROTOCOL);
  hello.set_protocol_min(0);
  hello.set_protocol_max(0);
  EXPECT_EQ(RefusalOf(CheckHello(Self(PeerId::Ps(0)), hello)).reason(),
            v1::Refusal::PROTOCOL);
}

}  // namespace
}  // namespace paramd
