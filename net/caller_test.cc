#include "net/caller.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

const Method& MethodOf(const google::protobuf::Message& request) {
  return *MethodTable::Get().OfRequest(request.GetDescriptor());
}

TEST(CallerTest, WhatACoreSaysOfItselfIsUnderstood) {
  for (const PeerId self : {PeerId::Ps(3), PeerId::Worker(0),
                            PeerId::Worker(12), PeerId::Coordinator()}) {
    const auto caller =
        IdentifyCaller(CallerText(self), "ipv4:127.0.0.1:41234");
    ASSERT_TRUE(caller.ok());
    EXPECT_EQ(caller->task, self);
    EXPECT_TRUE(caller->claimed);
    EXPECT_EQ(caller->address, "127.0.0.1:41234");
  }
  EXPECT_EQ(CallerText(PeerId()), "");
}

TEST(CallerTest, AnybodyElseIsOutside) {
  const auto anyone = IdentifyCaller("", "ipv6:%5B::1%5D:80");
  EXPECT_EQ(anyone->task, PeerId());
  EXPECT_EQ(anyone->role, v1::ROLE_ANYONE);
  EXPECT_EQ(anyone->address, "[::1]:80");
  EXPECT_EQ(IdentifyCaller("operator/0", "")->role, v1::ROLE_OPERATOR);
}

TEST(CallerTest, WhatIsNoRoleAndIndexIsInvalid) {
  for (const char* text : {"worker", "worker/", "worker/-1", "worker/1/2",
                           "boss/0", "/", "worker/99999999999"}) {
    const auto caller = IdentifyCaller(text, "");
    EXPECT_EQ(RefusalOf(caller.status()).reason(), v1::Refusal::INVALID)
        << text;
  }
}

TEST(CallerTest, ACallForAnotherProcessIsRefusedByNumber) {
  const std::string process = ProcessText(0x2a);
  EXPECT_EQ(process, "000000000000002a");
  const Method& push = MethodOf(v1::PushRequest());
  for (const char* who : {"worker/1", "chief/0", "operator/0", ""}) {
    const Caller caller = *IdentifyCaller(who, "ipv4:10.0.0.1:5");
    EXPECT_TRUE(CheckMeant(process, process, caller, push).ok());
    const absl::Status refused =
        CheckMeant(ProcessText(7), process, caller, push);
    EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::NOT_READY);
    EXPECT_TRUE(IsForAnotherProcess(refused));
    EXPECT_EQ(refused.message(),
              "a call of Push is for process 0000000000000007; this is process "
              "000000000000002a: say Hello to it first");
  }
}

TEST(CallerTest, ATaskSaysWhichProcessItMeansAndAnybodyElseNeedNot) {
  const Method& push = MethodOf(v1::PushRequest());
  for (const char* who : {"worker/1", "chief/0", "ps/0"}) {
    const Caller task = *IdentifyCaller(who, "");
    const absl::Status refused = CheckMeant("", "2a", task, push);
    EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::INVALID);
    EXPECT_FALSE(IsForAnotherProcess(refused));
    EXPECT_TRUE(absl::StrContains(refused.message(), kIncarnationKey));
    EXPECT_TRUE(CheckMeant("", "2a", task, MethodOf(v1::HelloRequest())).ok());
    // One that has no incarnation is not asked for.
    EXPECT_TRUE(CheckMeant("", ProcessText(0), task, push).ok());
  }
  EXPECT_TRUE(
      CheckMeant("", "2a", *IdentifyCaller("", ""), MethodOf(v1::PullRequest()))
          .ok());
}

TEST(CallerTest, TheTableDecidesWhoMayCall) {
  const Caller worker = *IdentifyCaller("worker/1", "ipv4:10.0.0.1:5");
  EXPECT_TRUE(CheckAllowed(worker, MethodOf(v1::PushRequest())).ok());
  EXPECT_TRUE(CheckAllowed(worker, MethodOf(v1::HelloRequest())).ok());
  EXPECT_EQ(CheckAllowed(worker, MethodOf(v1::ConfigureRequest())).code(),
            absl::StatusCode::kPermissionDenied);
}

TEST(CallerTest, AnOperatorCallsOverTheUnixSocketAndNotByTcp) {
  for (const Method* method :
       {&MethodOf(v1::StopRequest()), &MethodOf(v1::SetRequest())}) {
    EXPECT_TRUE(
        CheckAllowed(*IdentifyCaller("operator/0", "unix:"), *method).ok());
    const absl::Status refused = CheckAllowed(
        *IdentifyCaller("operator/0", "ipv4:127.9.8.7:5"), *method);
    EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::NOT_ALLOWED);
    EXPECT_EQ(refused.message(),
              absl::StrCat(method->name,
                           " is for operators, who call over the process's "
                           "Unix socket (worker-0.sock in the run's directory "
                           "is the chief's); the caller is at 127.9.8.7:5"));
  }
}

TEST(CallerTest, TheUnixSocketMakesNobodyAnotherRole) {
  const Method& stop = MethodOf(v1::StopRequest());
  EXPECT_FALSE(CheckAllowed(*IdentifyCaller("worker/1", "unix:"), stop).ok());
  EXPECT_FALSE(CheckAllowed(*IdentifyCaller("", "unix:"), stop).ok());
}

}  // namespace
}  // namespace paramd
