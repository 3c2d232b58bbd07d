#include "tests/sim/step_witness.h"

#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "config/consistency.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StepWitnessTest : public ::testing::Test {
 protected:
  StepWitnessTest()
      : witness_(storage_, &report_, [this](const absl::Status& status) {
          failure_ = std::string(status.message());
        }) {
    pull_.set_after_step(4);
    push_.mutable_header()->set_worker(1);
    push_.set_step(4);
    push_.mutable_contributors()->set_counter(9);
    decide_.mutable_contributors()->set_counter(9);
    decide_.set_step(4);
    decide_.add_workers(0);
    decide_.set_examples(8);
  }
  template <typename Reply>
  void Answer(const google::protobuf::Message& request, const Reply& reply) {
    witness_.Answered(
        server_, PeerId::Worker(1), request, {},
        {1, absl::OkStatus(), std::make_unique<Reply>(reply), {}});
  }
  void Applied(uint64_t step) {
    v1::DecideReply reply;
    reply.mutable_contributors()->set_counter(9);
    reply.set_step(step);
    Answer(decide_, reply);
  }
  void Pushed(v1::PushedBlock::Result result) {
    v1::PushReply reply;
    reply.add_blocks()->set_result(result);
    Answer(push_, reply);
  }

  SimStorage storage_;
  WorkloadReport report_;
  std::string failure_;
  StepWitness witness_;
  const SimProcess server_ = {PeerId::Ps(0), 1};
  v1::PullRequest pull_;
  v1::PushRequest push_;
  v1::DecideRequest decide_;
};

TEST_F(StepWitnessTest, AStepIsTheSameForAllServers) {
  witness_.Sent(server_, PeerId::Ps(0), decide_);
  witness_.Sent(server_, PeerId::Ps(1), decide_);
  EXPECT_THAT(failure_, IsEmpty());
  decide_.add_workers(1);
  witness_.Sent(server_, PeerId::Ps(1), decide_);
  EXPECT_THAT(failure_, HasSubstr("step 4 is of workers 0,1 of 8 examples for "
                                  "ps-1, of 0 of 8 examples for others"));
}

TEST_F(StepWitnessTest, AContributionToAStepThatIsAppliedIsNotKept) {
  Applied(3);
  Pushed(v1::PushedBlock::HELD);
  EXPECT_THAT(failure_, IsEmpty());
  Applied(4);
  Pushed(v1::PushedBlock::ALREADY_APPLIED);
  EXPECT_THAT(failure_, IsEmpty());
  Pushed(v1::PushedBlock::HELD);
  EXPECT_THAT(failure_, HasSubstr("keeps a contribution of worker-1 to step 4, "
                                  "and has applied step 4"));
}

TEST_F(StepWitnessTest, APullIsAnsweredWithWhatItIsToSee) {
  v1::PullReply reply;
  reply.set_step(4);
  Answer(pull_, reply);
  EXPECT_THAT(failure_, IsEmpty());
  reply.set_step(3);
  Answer(pull_, reply);
  EXPECT_THAT(failure_, HasSubstr("answers a pull after step 4 with step 3"));
}

TEST_F(StepWitnessTest, AContributionIsNotAppliedByItself) {
  Pushed(v1::PushedBlock::APPLIED);
  EXPECT_THAT(failure_, HasSubstr("applies what was pushed to step 4"));
}

TEST_F(StepWitnessTest, APushOfNoStepIsNotKept) {
  push_.set_step(0);
  Pushed(v1::PushedBlock::APPLIED);
  EXPECT_THAT(failure_, IsEmpty());
  Pushed(v1::PushedBlock::HELD);
  EXPECT_THAT(failure_, HasSubstr("keeps a push that is of no step"));
}

TEST_F(StepWitnessTest, AModeIsInTheLogBeforeItIsTold) {
  v1::ConfigureRequest configure;
  *configure.mutable_configuration()->mutable_consistency() =
      *ParseStaleness("4");
  witness_.Sent({PeerId::Coordinator(), 1}, PeerId::Ps(0), configure);
  EXPECT_THAT(failure_, HasSubstr("has staleness 4, which is not in the log"));
}

}  // namespace
}  // namespace paramd
