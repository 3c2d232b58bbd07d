#include "net/hello.h"

#include <functional>
#include <string>

#include "gtest/gtest.h"

#include "net/method_table.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

Identity Self(PeerId peer) {
  Identity self;
  self.task = TaskOf(peer);
  self.incarnation = 5;
  self.job_name = "fashion";
  self.job_digest = "aaaa";
  self.job_settings = {"name=\"fashion\"", "seed=1", "epochs=3"};
  self.cluster = {"ps=2", "ps[1]=b:1", "chief=c:1"};
  return self;
}

TEST(HelloTest, ProcessesOfOneJobAcceptEachOther) {
  const Identity ps = Self(PeerId::Ps(0));
  const Identity worker = Self(PeerId::Worker(1));
  EXPECT_TRUE(CheckHello(ps, MakeHello(worker)).ok());
  EXPECT_TRUE(CheckHelloReply(worker, PeerId::Ps(0), AnswerHello(ps)).ok());
}

TEST(HelloTest, TheCoordinatorIsWorkerZero) {
  const Identity ps = Self(PeerId::Ps(0));
  EXPECT_TRUE(CheckHelloReply(ps, PeerId::Coordinator(),
                              AnswerHello(Self(PeerId::Worker(0))))
                  .ok());
}

TEST(HelloTest, TheFirstEntryThatDiffersIsNamedWithBothValues) {
  const Identity ps = Self(PeerId::Ps(0));
  Identity worker = Self(PeerId::Worker(1));
  worker.cluster = {"ps=2", "ps[0]=a:1", "ps[1]=x:1", "chief=d:1"};
  absl::Status refused = CheckHello(ps, MakeHello(worker));
  EXPECT_EQ(refused.message(),
            "ps[1] differs: worker-1 has 'x:1', ps-0 has 'b:1'");
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::OTHER_JOB);
  EXPECT_EQ(RefusalOf(refused).entity(), "ps[1]");
  worker.job_name = "mnist";
  refused = CheckHelloReply(worker, PeerId::Ps(0), AnswerHello(ps));
  EXPECT_EQ(refused.message(),
            "job_name differs: ps-0 has 'fashion', worker-1 has 'mnist'");
}

TEST(HelloTest, AWorkerThatHasNoIndexYetIsNamedWithoutOne) {
  const Identity chief = Self(PeerId::Worker(0));
  Identity worker = Self(PeerId::AnyWorker());
  worker.job_name = "mnist";
  EXPECT_EQ(CheckHello(chief, MakeHello(worker)).message(),
            "job_name differs: the worker that joins has 'mnist', worker-0 has "
            "'fashion'");
}

TEST(HelloTest, TheFirstSettingThatDiffersIsNamedWithBothValues) {
  const Identity ps = Self(PeerId::Ps(0));
  Identity worker = Self(PeerId::Worker(1));
  worker.job_digest = "bbbb";
  worker.job_settings = {"name=\"fashion\"", "seed=2", "epochs=4"};
  EXPECT_EQ(CheckHello(ps, MakeHello(worker)).message(),
            "seed differs: worker-1 has '2', ps-0 has '1'");
  EXPECT_EQ(CheckHelloReply(worker, PeerId::Ps(0), AnswerHello(ps)).message(),
            "seed differs: ps-0 has '1', worker-1 has '2'");
  worker.job_settings = {"name=\"fashion\"", "seed=1"};
  EXPECT_EQ(CheckHello(ps, MakeHello(worker)).message(),
            "epochs differs: worker-1 has none, ps-0 has '3'");
}

TEST(HelloTest, SettingsThatAreTooManyAreComparedByDigest) {
  const Identity ps = Self(PeerId::Ps(0));
  Identity worker = Self(PeerId::Worker(1));
  worker.job_digest = "bbbb";
  worker.job_settings = {"layers=" + std::string(65536, 'x')};
  const v1::HelloRequest hello = MakeHello(worker);
  EXPECT_EQ(hello.job_settings_size(), 0);
  const absl::Status refused = CheckHello(ps, hello);
  EXPECT_EQ(refused.message(),
            "job_digest differs: worker-1 has 'bbbb', ps-0 has 'aaaa'");
  EXPECT_EQ(RefusalOf(refused).entity(), "job_digest");
}

TEST(HelloTest, AHelloOfALargeClusterIsBelowTheLimit) {
  Identity self = Self(PeerId::Worker(1));
  self.cluster.assign(100'000, "ps[1]=host.of.a.ps:1");
  EXPECT_LT(MakeHello(self).ByteSizeLong(), kMostControlBytes);
  EXPECT_LT(AnswerHello(self).ByteSizeLong(), kMostControlBytes);
  EXPECT_GT(MakeHello(self).cluster_size(), 10'000);
}

TEST(HelloTest, WhatAStrangerSendsIsCut) {
  v1::HelloRequest hello = MakeHello(Self(PeerId::Worker(1)));
  hello.set_job_digest("bbbb");
  hello.clear_job_settings();
  for (const char* line : {"name=\"fashion\"", "seed=1", "epochs=3"}) {
    hello.add_job_settings(line);
  }
  hello.add_job_settings(std::string(5000, 'k') + "=" + std::string(5000, 'v'));
  const absl::Status refused = CheckHello(Self(PeerId::Ps(0)), hello);
  EXPECT_EQ(refused.message(), std::string(200, 'k') +
                                   " differs: worker-1 has '" +
                                   std::string(200, 'v') + "', ps-0 has none");
  EXPECT_EQ(RefusalOf(refused).entity(), std::string(200, 'k'));
}

TEST(HelloTest, AnotherTaskThanTheOneLookedForIsNamed) {
  const absl::Status refused = CheckHelloReply(
      Self(PeerId::Worker(1)), PeerId::Ps(0), AnswerHello(Self(PeerId::Ps(1))));
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

TEST(HelloTest, Promise8_AHelloThatIsTooLongIsNotCompared) {
  const Identity ps = Self(PeerId::Ps(0));
  const auto told = [&](const std::function<void(v1::HelloRequest*)>& change) {
    v1::HelloRequest hello = MakeHello(Self(PeerId::Worker(1)));
    hello.set_job_name("of another job");
    change(&hello);
    const absl::Status refused = CheckHello(ps, hello);
    EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::OVER_LIMIT) << refused;
    return std::string(refused.message());
  };
  EXPECT_EQ(told([](v1::HelloRequest* hello) {
              for (int i = 0; i < 20000; ++i) hello->add_cluster("");
            }),
            "a Hello with 20003 entries of the cluster; the limit is 16384");
  EXPECT_EQ(told([](v1::HelloRequest* hello) {
              for (int i = 0; i < 20000; ++i) hello->add_job_settings("");
            }),
            "a Hello with 20003 settings; the limit is 16384");
  EXPECT_EQ(told([](v1::HelloRequest* hello) {
              hello->clear_cluster();
              hello->add_cluster(std::string(524289, 'x'));
            }),
            "a Hello with 524289 bytes of the cluster; the limit is 524288");
  EXPECT_EQ(told([](v1::HelloRequest* hello) {
              hello->clear_job_settings();
              hello->add_job_settings(std::string(65537, 'x'));
            }),
            "a Hello with 65537 bytes of settings; the limit is 65536");
  EXPECT_EQ(told([](v1::HelloRequest* hello) {
              hello->set_build(std::string(16384, 'x'));
            }).substr(0, 15),
            "a Hello with 16");
  v1::HelloReply reply = AnswerHello(ps);
  for (int i = 0; i < 20000; ++i) reply.add_cluster("");
  EXPECT_EQ(
      RefusalOf(CheckHelloReply(Self(PeerId::Worker(1)), PeerId::Ps(0), reply))
          .reason(),
      v1::Refusal::OVER_LIMIT);
}

}  // namespace
}  // namespace paramd
