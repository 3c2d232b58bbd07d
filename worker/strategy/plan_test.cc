// Plans, on a session without a worker.
#include "worker/strategy/plan.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/core/testing/configurations.h"
#include "config/strategy.h"
#include "proto/paramd/v1/compute.pb.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using testing::Floats;
using testing::MakeConfiguration;
using testing::Pair;

class Listener : public StepObserver {
 public:
  void Pulled(bool with_push, Time /*begin*/, Time /*end*/) override {
    heard.push_back(with_push ? "pull with push" : "pull");
  }
  void Pushed(Time /*begin*/, Time /*end*/) override {
    heard.push_back("push");
  }

  std::vector<std::string> heard;
};

// Worker 3 of batches of 2; variable "a" of two elements on ps-0. The test
// plays the server and whoever computes.
class PlanTest : public ::testing::Test {
 protected:
  PlanTest() {
    job_.set_batch_per_replica(2);
    job_.set_epochs(1);
    configuration_ = MakeConfiguration({{"a", {2}, 0}}, 1);
  }

  void Begin(v1::Consistency::Mode mode, StepObserver* observer = nullptr) {
    configuration_.mutable_consistency()->set_mode(mode);
    ASSERT_TRUE(session_.Configure(configuration_, Pair(1, 7)).ok());
    steps_.emplace(&session_, &computation_, /*layers_from_bytes=*/1000,
                   observer, memory_, ConcurrentSteps(job_.pipeline()));
    plan_ =
        Plan::Create(configuration_, {.worker = 3, .examples = 8, .job = &job_},
                     &*steps_, &input_);
    plan_->Configure(configuration_, Pair(1, 7));
  }
  WorkerTurn* Turn() {
    out_ = Outbox();
    turn_ = std::make_unique<WorkerTurn>(Time(), &out_, &numbers_);
    return turn_.get();
  }
  void Advance(Plan::View view = {}) { plan_->Advance(view, Turn()); }
  bool Pulls() const {
    return out_.sends.size() == 1 &&
           out_.sends[0].head->GetDescriptor() == v1::PullRequest::descriptor();
  }
  bool Pushes() const {
    return out_.sends.size() == 1 &&
           out_.sends[0].head->GetDescriptor() == v1::PushRequest::descriptor();
  }
  // The work that was started; null: none.
  const v1::ComputeGradient* Computes() const {
    return out_.ios.empty() ? nullptr
                            : dynamic_cast<const v1::ComputeGradient*>(
                                  out_.ios[0].head.get());
  }
  void Pulled() {
    steps_->Pulled(/*given_up=*/false, Time());
    plan_->Pulled();
  }
  void Computed() { Computed(computation_.io()); }
  void Computed(IoId io) {
    auto head = std::make_unique<v1::ComputeGradientResult>();
    head->set_loss(1);
    head->set_examples(2);
    IoResult result;
    result.io = io;
    result.head = std::move(head);
    result.payload = {Floats({1, 2})};
    computation_.End(io);
    ASSERT_TRUE(steps_->TakeResult(result, 3, Turn()).ok());
  }
  void GiveInput(uint64_t begin, uint64_t end) {
    v1::PortionReply reply;
    reply.mutable_portion()->set_id(1);
    reply.mutable_portion()->set_epoch(1);
    reply.mutable_portion()->set_begin(begin);
    reply.mutable_portion()->set_end(end);
    Message message;
    message.is_reply = true;
    message.head = &reply;
    input_.Ask(v1::Header(), Turn());
    message.call = out_.sends.at(0).call;
    ASSERT_TRUE(input_.Take(message, 0, Turn()));
  }

  v1::JobConfig job_;
  WeightMemory memory_;
  v1::Configuration configuration_;
  // Nothing that was sent is answered here.
  Session session_{Session::Options{.worker = 3, .calls_per_server = 16}};
  Computation computation_;
  InputLeases input_{Time()};
  Listener observer_;
  absl::optional<Steps> steps_;
  std::unique_ptr<Plan> plan_;
  Outbox out_;
  WorkerNumbers numbers_;
  std::unique_ptr<WorkerTurn> turn_;
};

TEST_F(PlanTest, APlanIsOfOneMode) {
  Begin(v1::Consistency::ASYNC);
  EXPECT_TRUE(plan_->Fits(v1::Consistency::BOUNDED));
  EXPECT_FALSE(plan_->Fits(v1::Consistency::SYNC));
  EXPECT_TRUE(plan_->takes_portions());
  Begin(v1::Consistency::SYNC);
  EXPECT_TRUE(plan_->Fits(v1::Consistency::SYNC));
  EXPECT_FALSE(plan_->Fits(v1::Consistency::ASYNC));
  EXPECT_FALSE(plan_->takes_portions());
}

TEST_F(PlanTest, AnAsynchronousStepPullsComputesAndPushes) {
  Begin(v1::Consistency::ASYNC);
  Advance();
  EXPECT_TRUE(Pulls());
  Pulled();
  Advance();
  EXPECT_EQ(Computes(), nullptr) << "there is no input";
  GiveInput(0, 4);
  Advance();
  ASSERT_NE(Computes(), nullptr);
  EXPECT_EQ(Computes()->end(), 2u);
  Computed();
  Advance({.stop = true});
  EXPECT_TRUE(out_.sends.empty()) << "told to stop";
  Advance();
  EXPECT_TRUE(Pushes());
  plan_->PushEnded(steps_->PushEnded(/*pulled=*/false, Time()));
  EXPECT_EQ(input_.BatchesLeft(2), 1u);
  Advance();
  EXPECT_TRUE(Pulls());
  EXPECT_FALSE(plan_->finished());
}

TEST_F(PlanTest, ALayerThatIsReadyIsThatOfItsVariable) {
  configuration_ = MakeConfiguration({{"a", {2}, 0}, {"b", {250}, 0}}, 1);
  Begin(v1::Consistency::ASYNC);
  Advance();
  Pulled();
  GiveInput(0, 2);
  Advance();
  ASSERT_EQ(out_.ios.size(), 2u) << "layers are asked for, too";
  auto head = std::make_unique<v1::TakeGradientsResult>();
  head->add_variables(1);
  IoResult part;
  part.io = out_.ios[1].io;
  part.head = std::move(head);
  part.payload = {Buffer::Allocate(1000)};
  ASSERT_TRUE(computation_.IsPart(part));
  steps_->TakePart(part, Turn());
  const std::vector<Buffer>& gradients = steps_->computing()->gradients;
  ASSERT_EQ(gradients.size(), 2u);
  EXPECT_TRUE(gradients[0].empty());
  EXPECT_EQ(gradients[1].size(), 1000u);
  EXPECT_EQ(out_.ios.size(), 1u) << "more is asked for";
}

// Step t + 2 is computed on the weights after push t, whatever ends first.
TEST_F(PlanTest, WithoutAFlushTwoStepsAreComputedAtATime) {
  job_.mutable_pipeline()->set_stages(2);
  job_.mutable_pipeline()->set_schedule(v1::PipelineConfig::SCHEDULE_2BW);
  Begin(v1::Consistency::ASYNC);
  GiveInput(0, 10);
  std::vector<IoId> ios;
  std::vector<const std::byte*> weights;  // Where they lie.
  const auto computes = [&] {
    ios.push_back(out_.ios.at(0).io);
    weights.push_back(out_.ios.at(0).payload.at(0).bytes().data());
  };
  Advance();
  ASSERT_TRUE(Pulls());
  Pulled();
  Advance();
  ASSERT_NE(Computes(), nullptr);
  computes();
  EXPECT_TRUE(Pulls()) << "before the first can be pushed";
  Pulled();
  Advance();
  ASSERT_NE(Computes(), nullptr);
  computes();
  EXPECT_TRUE(out_.sends.empty()) << "two are under way";
  Computed(ios[1]);
  Advance();
  EXPECT_TRUE(out_.sends.empty()) << "pushes keep their order";
  Computed(ios[0]);
  Advance();
  ASSERT_TRUE(Pushes());
  EXPECT_EQ(Computes(), nullptr) << "its weights are not there yet";
  plan_->PushEnded(steps_->PushEnded(/*pulled=*/true, Time()));
  EXPECT_EQ(steps_->computing()->ordinal, 2u);
  Advance();
  // The second step is pushed while the third is computed.
  ASSERT_NE(Computes(), nullptr);
  EXPECT_EQ(Computes()->begin(), 4u);
  EXPECT_TRUE(Pushes());
  computes();
  EXPECT_EQ(std::set<const std::byte*>(weights.begin(), weights.end()).size(),
            3u)
      << "one that is read is not pulled into";
  plan_->PushEnded(steps_->PushEnded(/*pulled=*/true, Time()));
  Advance();
  ASSERT_NE(Computes(), nullptr);
  computes();
  EXPECT_EQ(weights[3], weights[0]);
  EXPECT_FALSE(plan_->finished());
}

// A pull that ended after the push that began beside it would be of either's
// weights, by chance.
TEST_F(PlanTest, WithoutAFlushNothingIsPushedBesideAPull) {
  job_.mutable_pipeline()->set_stages(2);
  job_.mutable_pipeline()->set_schedule(v1::PipelineConfig::SCHEDULE_2BW);
  Begin(v1::Consistency::ASYNC);
  GiveInput(0, 10);
  Advance();
  Pulled();
  Advance();
  ASSERT_TRUE(Pulls());
  Computed(out_.ios.at(0).io);
  Advance();
  EXPECT_TRUE(out_.sends.empty());
  Pulled();
  Advance();
  EXPECT_TRUE(Pushes());
}

// A mode in which others may have to be waited for has one step at a time.
TEST_F(PlanTest, InModeBoundedAPipelineIsFlushed) {
  job_.mutable_pipeline()->set_stages(2);
  job_.mutable_pipeline()->set_schedule(v1::PipelineConfig::SCHEDULE_PIPEDREAM);
  Begin(v1::Consistency::BOUNDED);
  GiveInput(0, 10);
  Advance();
  Pulled();
  Advance();
  ASSERT_NE(Computes(), nullptr);
  Advance();
  EXPECT_TRUE(out_.sends.empty() && out_.ios.empty());
}

TEST_F(PlanTest, AnObserverHearsOfWhatHasEnded) {
  Begin(v1::Consistency::ASYNC, &observer_);
  Advance();
  Pulled();
  GiveInput(0, 6);
  Advance();
  Computed();
  Advance();
  plan_->PushEnded(steps_->PushEnded(/*pulled=*/true, Time()));
  EXPECT_THAT(observer_.heard, ElementsAre("pull", "push", "pull with push"));
}

TEST_F(PlanTest, APushIsOfAllTheGradientsThatTheJobSays) {
  job_.set_accumulate(2);
  job_.set_push_every(3);
  Begin(v1::Consistency::ASYNC);
  GiveInput(0, 20);
  Advance();
  Pulled();
  Advance();
  ASSERT_NE(Computes(), nullptr);
  EXPECT_EQ(Computes()->end(), 12u);
  EXPECT_EQ(Computes()->divide_by(), 0u);
  Begin(v1::Consistency::SYNC);
  EXPECT_EQ(plan_->examples_per_push(), 4u);
}

// A program reads them until it is handed the others, whatever becomes of the
// session and its mode.
TEST_F(PlanTest, NoPullLandsInLentWeightsThatWereHandedOutLast) {
  float memory[2][2] = {};
  memory_.lent = {{memory[0], memory[1]}};
  Begin(v1::Consistency::ASYNC);
  Advance();
  Pulled();
  GiveInput(0, 4);
  Advance();
  ASSERT_NE(Computes(), nullptr);
  const std::byte* const handed_out = out_.ios[0].payload[0].bytes().data();
  Computed();
  *configuration_.mutable_contributors()->mutable_version() = Pair(1, 8);
  configuration_.mutable_contributors()->set_first_step(1);
  configuration_.mutable_contributors()->add_workers(3);
  for (int sessions = 0; sessions < 3; ++sessions) {
    Begin(v1::Consistency::SYNC);
    Advance();
    ASSERT_TRUE(Pulls());
    Pulled();
    EXPECT_NE(steps_->weights().present().buffers()[0].bytes().data(),
              handed_out);
    EXPECT_FALSE(steps_->weights().are_used());
  }
  Advance();
  EXPECT_TRUE(steps_->weights().are_used());
  // The step begins anew, with weights that nobody can have written to.
  *configuration_.mutable_contributors()->mutable_version() = Pair(1, 9);
  Computed();
  plan_->Configure(configuration_, Pair(1, 7));
  Advance();
  EXPECT_TRUE(Pulls());
}

TEST_F(PlanTest, WhileItDrainsNothingBegins) {
  Begin(v1::Consistency::ASYNC);
  GiveInput(0, 4);
  Advance({.draining = true});
  EXPECT_TRUE(out_.sends.empty());
  EXPECT_TRUE(out_.ios.empty());
}

// A sparse variable "t" of 8 rows of 2 beside it.
class SparsePlanTest : public PlanTest {
 protected:
  SparsePlanTest() {
    configuration_ = MakeConfiguration({{"a", {2}, 0}, {"t", {8, 2}, 0}}, 1);
    configuration_.mutable_layout()->mutable_variables(1)->set_sparse(true);
  }

  // Until the worker asks which rows its first examples read.
  void BeginStep() {
    Begin(v1::Consistency::ASYNC);
    GiveInput(0, 4);
    Advance();
    Pulled();
    Advance();
    ASSERT_EQ(out_.ios.size(), 1u);
    EXPECT_EQ(out_.ios[0].head->GetDescriptor(), v1::CollectRows::descriptor());
  }
  void Collected(const std::vector<uint64_t>& rows) {
    IoResult result;
    result.io = computation_.io();
    result.head = std::make_unique<v1::CollectRowsResult>();
    result.payload = {Buffer::Copy(AsBytes(absl::MakeConstSpan(rows)))};
    computation_.End(result.io);
    status_ = steps_->TakeResult(result, 3, Turn());
  }

  absl::Status status_;
};

TEST_F(SparsePlanTest, AStepAsksForItsRowsLooksThemUpAndComputesOnThem) {
  BeginStep();
  Collected({1, 5});
  ASSERT_TRUE(status_.ok()) << status_;
  ASSERT_EQ(out_.sends.size(), 1u);
  const auto& lookup =
      dynamic_cast<const v1::PullRequest&>(*out_.sends[0].head);
  ASSERT_EQ(lookup.rows().rows_size(), 1);
  EXPECT_EQ(lookup.rows().rows(0), 2u);
  steps_->LookedUp(/*given_up=*/false, Turn());
  ASSERT_NE(Computes(), nullptr);
  const BufferChain& weights = out_.ios[0].payload;
  ASSERT_EQ(weights.size(), 3u) << "two variables, and numbers of rows";
  EXPECT_EQ(weights[1].size(), 2u * 2 * sizeof(float));
  EXPECT_EQ(weights[2].size(), 2u * sizeof(uint64_t));
}

TEST_F(SparsePlanTest, ALookupThatIsGivenUpBeginsAnew) {
  BeginStep();
  Collected({1, 5});
  steps_->LookedUp(/*given_up=*/true, Turn());
  EXPECT_EQ(out_.sends.size(), 1u);
  EXPECT_EQ(Computes(), nullptr);
}

TEST_F(SparsePlanTest, WhatIsDroppedIsNotComputed) {
  BeginStep();
  Collected({1, 5});
  Message answer;
  answer.call = out_.sends.at(0).call;
  answer.is_reply = true;
  answer.status = absl::InvalidArgumentError("too late");
  steps_->DropComputing();
  EXPECT_TRUE(steps_->at_rest());
  EXPECT_TRUE(session_.Receive(answer, Time(), &out_));
  EXPECT_FALSE(session_.TakeFinished().has_value());
}

TEST_F(SparsePlanTest, RowsThatTheVariableHasNotEndTheWorker) {
  BeginStep();
  Collected({8});
  EXPECT_TRUE(absl::IsInvalidArgument(status_));
}

// What was asked of a pull that came to nothing says nothing of the weights.
TEST_F(SparsePlanTest, RowsAreThoseOfTheWeightsThatWerePulled) {
  v1::Contributors* const contributors = configuration_.mutable_contributors();
  *contributors->mutable_version() = Pair(1, 8);
  contributors->add_workers(3);
  contributors->set_first_step(1);
  contributors->mutable_input()->set_next_epoch(1);
  const auto lookup = [&] {
    Collected({1, 5});
    return dynamic_cast<const v1::PullRequest&>(*out_.sends.at(0).head);
  };
  Begin(v1::Consistency::SYNC);
  Advance();
  Pulled();
  Advance();
  EXPECT_EQ(lookup().after_step(), 0u);
  steps_->LookedUp(/*given_up=*/false, Turn());
  IoResult result;
  result.io = computation_.io();
  auto computed = std::make_unique<v1::ComputeGradientResult>();
  computed->set_examples(2);
  steps_->Note(computation_.io(), *computed);
  result.head = std::move(computed);
  result.payload = {Floats({1, 2}), Floats({1, 2, 3, 4})};
  computation_.End(computation_.io());
  ASSERT_TRUE(steps_->TakeResult(result, 3, Turn()).ok());
  Advance();
  EXPECT_EQ(out_.sends.size(), 2u) << "blocks, and rows";
  plan_->PushEnded(steps_->PushEnded(/*pulled=*/false, Time()));
  Advance();
  ASSERT_EQ(out_.sends.size(), 1u);
  EXPECT_EQ(
      dynamic_cast<const v1::PullRequest&>(*out_.sends[0].head).after_step(),
      1u);
  // The step begins anew, on the weights that it has.
  *contributors->mutable_version() = Pair(1, 9);
  plan_->Configure(configuration_, Pair(1, 7));
  Advance();
  EXPECT_EQ(lookup().after_step(), 0u);
}

class SyncPlanTest : public PlanTest {
 protected:
  // This worker and another one, from step 1 and the first example on.
  SyncPlanTest() {
    v1::Contributors* const contributors =
        configuration_.mutable_contributors();
    *contributors->mutable_version() = Pair(1, 8);
    contributors->add_workers(3);
    contributors->add_workers(4);
    contributors->set_first_step(1);
    contributors->mutable_input()->set_next_epoch(1);
    Begin(v1::Consistency::SYNC);
  }
};

TEST_F(SyncPlanTest, AShareIsOfTheGlobalBatch) {
  Advance();
  EXPECT_TRUE(Pulls());
  Pulled();
  Advance();
  ASSERT_NE(Computes(), nullptr);
  EXPECT_EQ(Computes()->begin(), 0u);
  EXPECT_EQ(Computes()->end(), 2u);
  EXPECT_EQ(Computes()->divide_by(), 4u);
  Computed();
  Advance();
  EXPECT_TRUE(Pushes());
  EXPECT_EQ(steps_->pushing()->number, 1u);
}

TEST_F(SyncPlanTest, AStepThatWasDecidedWithoutItIsAbandoned) {
  Advance();
  Pulled();
  Advance();
  ASSERT_NE(Computes(), nullptr);
  EXPECT_FALSE(plan_->LeftOut(0, Turn()));
  EXPECT_TRUE(plan_->LeftOut(1, Turn()));
  EXPECT_EQ(out_.ios.at(0).head->GetDescriptor(),
            v1::AbandonGradient::descriptor());
  EXPECT_EQ(steps_->computing(), nullptr);
  computation_.End(computation_.io());
  Advance();
  EXPECT_TRUE(Pulls()) << "for the step behind it";
}

TEST_F(SyncPlanTest, OtherContributorsBeginTheStepAnew) {
  Advance();
  Pulled();
  Advance();
  ASSERT_NE(Computes(), nullptr);
  configuration_.mutable_contributors()->mutable_workers()->RemoveLast();
  *configuration_.mutable_contributors()->mutable_version() = Pair(1, 9);
  plan_->Configure(configuration_, Pair(1, 7));
  EXPECT_EQ(steps_->computing(), nullptr);
  EXPECT_TRUE(steps_->computes_in_vain());
  computation_.End(computation_.io());
  Advance();
  ASSERT_NE(Computes(), nullptr);
  EXPECT_EQ(Computes()->divide_by(), 2u);
}

TEST_F(SyncPlanTest, WhoDoesNotContributeWaitsForTheCoordinator) {
  EXPECT_EQ(plan_->waiting_for(Pair(1, 7)), "");
  configuration_.mutable_contributors()->mutable_workers()->Clear();
  *configuration_.mutable_contributors()->mutable_version() = Pair(1, 9);
  plan_->Configure(configuration_, Pair(1, 7));
  EXPECT_EQ(plan_->waiting_for(Pair(1, 7)),
            "the coordinator to let worker-3 generation 1.7 contribute");
  Advance();
  EXPECT_TRUE(out_.sends.empty());
}

}  // namespace
}  // namespace paramd
