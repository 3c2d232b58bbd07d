#include "worker/core/enlisting.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/testing/core_driver.h"
#include "proto/job_end.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

class EnlistingTest : public ::testing::Test {
 protected:
  EnlistingTest() { driver_.Start(); }

  static v1::EnlistRequest MakeRequest() {
    v1::EnlistRequest request;
    request.set_incarnation(9);
    return request;
  }
  // The request that is under way is refused so.
  void RefuseIt(absl::Status why) {
    const auto sent =
        driver_.TakeSend<v1::EnlistRequest>(PeerId::Coordinator());
    ASSERT_TRUE(sent.has_value());
    driver_.Fail(*sent, std::move(why));
  }
  bool Asks() { return driver_.TakeSend<v1::EnlistRequest>().has_value(); }

  Enlisting enlisting_{MakeRequest(), absl::Seconds(60)};
  testing::CoreDriver driver_{&enlisting_};
};

TEST_F(EnlistingTest, ItEndsWithWhatTheCoordinatorSays) {
  const auto sent = driver_.TakeSend<v1::EnlistRequest>();
  ASSERT_TRUE(sent.has_value());
  EXPECT_EQ(static_cast<const v1::EnlistRequest&>(*sent->head).incarnation(),
            9u);
  v1::EnlistReply reply;
  reply.set_index(4);
  driver_.Reply(*sent, reply);
  EXPECT_TRUE(driver_.exited);
  EXPECT_TRUE(driver_.exit_status.ok());
  ASSERT_TRUE(enlisting_.reply().has_value());
  EXPECT_EQ(enlisting_.reply()->index(), 4u);
}

TEST_F(EnlistingTest, Promise4_ItAsksAgainAndNamesWhatItWaitsFor) {
  RefuseIt(absl::UnavailableError("coordinator at c:1: refused"));
  EXPECT_EQ(enlisting_.overdue(driver_.now()), "coordinator at c:1: refused");
  EXPECT_FALSE(Asks());
  driver_.Advance(absl::Milliseconds(200));
  RefuseIt(RefuseForNow(v1::Refusal::NOT_READY, "ps-0", absl::Seconds(1),
                        "waiting for ps-0"));
  driver_.Advance(absl::Milliseconds(999));
  EXPECT_FALSE(Asks());
  driver_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(Asks());
  EXPECT_FALSE(driver_.exited);
}

TEST_F(EnlistingTest, WhenItsPatienceIsOverItEndsWithTheReason) {
  driver_.StandStill(absl::Seconds(60));
  RefuseIt(absl::UnavailableError("no such host"));
  driver_.Advance(absl::Milliseconds(200));
  EXPECT_TRUE(absl::IsUnavailable(driver_.exit_status));
  EXPECT_EQ(driver_.exit_status.message(),
            "the chief gave no index within 1m: no such host");
}

TEST_F(EnlistingTest, WhatIsRefusedForGoodEndsItWithTheSentence) {
  RefuseIt(Refuse(v1::Refusal::OVER_LIMIT, "max_joined_workers", "too many"));
  EXPECT_TRUE(absl::IsInvalidArgument(driver_.exit_status));
  EXPECT_EQ(driver_.exit_status.message(), "too many");
}

TEST_F(EnlistingTest, AnotherJobEndsIt) {
  RefuseIt(Refuse(v1::Refusal::OTHER_JOB, "job_name", "another job"));
  EXPECT_TRUE(absl::IsInvalidArgument(driver_.exit_status));
}

TEST_F(EnlistingTest, ABoundOfTheConnectionDoesNotEndIt) {
  RefuseIt(RefuseForNow(v1::Refusal::OVER_LIMIT, "coordinator",
                        absl::Milliseconds(100), "64 calls wait"));
  EXPECT_FALSE(driver_.exited);
}

TEST_F(EnlistingTest, Promise7_AJobThatHasEndedEndsIt) {
  RefuseIt(RefuseFinished("job", v1::Finished()));
  EXPECT_TRUE(driver_.exited);
  EXPECT_TRUE(driver_.exit_status.ok()) << driver_.exit_status;
  EXPECT_FALSE(enlisting_.reply().has_value());
}

TEST_F(EnlistingTest, WhoDoesNotKnowTheCallIsNoChief) {
  RefuseIt(absl::UnimplementedError("Enlist is served by coordinator"));
  EXPECT_TRUE(absl::IsInvalidArgument(driver_.exit_status));
  EXPECT_THAT(std::string(driver_.exit_status.message()),
              HasSubstr("served by coordinator"));
}

}  // namespace
}  // namespace paramd
