#include "tests/sim/input_model.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/sim/fine_cut.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBatch = IntegerJob::kBatch;

class InputModelTest : public ::testing::Test {
 protected:
  InputModelTest() { input_.Begin(/*term=*/1, /*manifest=*/nullptr); }

  static SessionKey Session(uint32_t worker) { return {worker, {1, worker}}; }
  // The worker gets batches [begin, end) of epoch 1 as this portion.
  absl::Status HandOut(uint32_t worker, uint64_t number, uint64_t finished,
                       uint64_t begin, uint64_t end) {
    v1::PortionRequest request;
    request.mutable_header()->set_worker(worker);
    request.mutable_header()->mutable_generation()->set_term(1);
    request.mutable_header()->mutable_generation()->set_counter(worker);
    request.set_number(number);
    request.set_finished_id(finished);
    v1::PortionReply reply;
    reply.set_term(1);
    if (begin < end) {
      reply.mutable_portion()->set_id(number);
      reply.mutable_portion()->set_epoch(1);
      reply.mutable_portion()->set_begin(begin * kBatch);
      reply.mutable_portion()->set_end(end * kBatch);
    }
    return input_.HandedOut(request, reply);
  }
  static PushLedger::Push PushOf(uint32_t worker, uint64_t batch) {
    PushLedger::Push push;
    push.session = Session(worker);
    push.batch = {1, batch * kBatch};
    return push;
  }
  // A manifest of snapshot 1-5 that has used batches up to `used` of epoch 1.
  v1::Manifest CutAt(uint64_t used) {
    input_.Cut({1, 5});
    v1::Manifest manifest;
    manifest.mutable_snapshot()->set_term(1);
    manifest.mutable_snapshot()->set_counter(5);
    manifest.mutable_input()->set_next_epoch(1);
    manifest.mutable_input()->set_next_offset(used * kBatch);
    return manifest;
  }

  const FineCut cut_{{.block_elements = 16, .slice_bytes = 128}};
  const IntegerJob job_{/*seed=*/1};
  InputModel input_{job_};
};

void ExpectWrongInput(const absl::Status& status, const std::string& part) {
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST_F(InputModelTest, ABatchHasOneOwner) {
  EXPECT_TRUE(HandOut(1, 1, 0, 0, 2).ok());
  EXPECT_TRUE(HandOut(1, 1, 0, 0, 2).ok()) << "the same answer again";
  ExpectWrongInput(HandOut(2, 1, 0, 1, 3), "which is somebody's or done");
}

TEST_F(InputModelTest, OnlyItsOwnerPushesABatch) {
  EXPECT_TRUE(HandOut(1, 1, 0, 0, 1).ok());
  EXPECT_TRUE(input_.Pushed(PushOf(1, 0)).ok());
  ExpectWrongInput(input_.Pushed(PushOf(2, 0)), "which it was not given");
}

TEST_F(InputModelTest, APortionIsUsedUpWhenItsPushesAreWhole) {
  EXPECT_TRUE(HandOut(1, 1, 0, 0, 1).ok());
  ExpectWrongInput(HandOut(1, 2, /*finished=*/1, 1, 2),
                   "whose push is not whole");
  input_.Whole(PushOf(1, 0));
  EXPECT_TRUE(HandOut(1, 3, /*finished=*/1, 1, 2).ok());
}

TEST_F(InputModelTest, WhatAKilledWorkerHadMayBeHandedOutAgain) {
  EXPECT_TRUE(HandOut(1, 1, 0, 0, 2).ok());
  input_.Whole(PushOf(1, 0));
  input_.Fenced(Session(1), /*in_good_order=*/false);
  EXPECT_TRUE(HandOut(2, 1, 0, 0, 2).ok());
  EXPECT_EQ(input_.handed_out_again(), 2u);
  EXPECT_EQ(input_.TimesHandedOut(CutAt(0), {1, 0}), 2u);
}

TEST_F(InputModelTest, WhatALeaverHadPushedIsDone) {
  EXPECT_TRUE(HandOut(1, 1, 0, 0, 2).ok());
  input_.Whole(PushOf(1, 0));
  input_.Fenced(Session(1), /*in_good_order=*/true);
  ExpectWrongInput(HandOut(2, 1, 0, 0, 1), "which is somebody's or done");
  EXPECT_TRUE(HandOut(2, 2, 0, 1, 2).ok());
}

TEST_F(InputModelTest, ACheckpointLeavesWhatIsNotWhole) {
  EXPECT_TRUE(HandOut(1, 1, 0, 0, 2).ok());
  input_.Whole(PushOf(1, 0));
  EXPECT_TRUE(input_.CheckCheckpoint(CutAt(1)).ok());
  ExpectWrongInput(input_.CheckCheckpoint(CutAt(0)),
                   "batch 0 of epoch 1 is left");
  ExpectWrongInput(input_.CheckCheckpoint(CutAt(2)),
                   "batch 4 of epoch 1 is not left");
  ExpectWrongInput(input_.CheckFinished(CutAt(1)),
                   "the job ended without batch 4 of epoch 1");
}

TEST_F(InputModelTest, ATermBeginsWithWhatItsCheckpointLeaves) {
  const v1::Manifest manifest = CutAt(2);
  input_.Begin(2, &manifest);
  v1::PortionRequest request;
  request.mutable_header()->mutable_generation()->set_term(2);
  request.set_number(1);
  v1::PortionReply reply;
  reply.set_term(2);
  reply.mutable_portion()->set_epoch(1);
  reply.mutable_portion()->set_end(kBatch);
  ExpectWrongInput(input_.HandedOut(request, reply),
                   "which is somebody's or done");
}

TEST_F(InputModelTest, ASnapshotThatWasNotSealedIsNoCheckpoint) {
  v1::Manifest manifest = CutAt(0);
  manifest.mutable_snapshot()->set_counter(6);
  ExpectWrongInput(input_.CheckCheckpoint(manifest), "it was never sealed");
}

}  // namespace
}  // namespace paramd
