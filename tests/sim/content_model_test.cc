#include "tests/sim/content_model.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/sim/fine_cut.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kLife = 77;

// One server, ps-0 as generation 1-3, and worker 1 as generation 1-7.
class ContentModelTest : public ::testing::Test {
 protected:
  ContentModelTest() {
    configuration_.mutable_version()->set_term(1);
    configuration_.mutable_version()->set_counter(1);
    v1::ServerMember* const server = configuration_.add_servers();
    SetGeneration(3, server->mutable_generation());
    server->set_incarnation(100);
    v1::WorkerMember* const worker = configuration_.add_workers();
    worker->set_index(1);
    SetGeneration(7, worker->mutable_generation());
    for (size_t s = 0; s < job_.slices().size(); ++s) {
      configuration_.mutable_layout()->add_slices();
    }
    EXPECT_TRUE(content_.Configured(configuration_, true).ok());
  }
  template <class Number>
  static void SetGeneration(uint64_t counter, Number* generation) {
    generation->set_term(1);
    generation->set_counter(counter);
  }
  // Push `sequence` of the first block, as it was sent.
  v1::PushRequest Sent(uint64_t sequence) {
    v1::PushRequest push;
    push.mutable_header()->set_worker(1);
    SetGeneration(7, push.mutable_header()->mutable_generation());
    push.mutable_header()->set_sequence(sequence);
    push.set_epoch(1);
    push.set_input_begin((sequence - 1) * IntegerJob::kBatch);
    push.set_input_end(sequence * IntegerJob::kBatch);
    EXPECT_TRUE(ledger_.See(PeerId::Worker(1), push).ok());
    return push;
  }
  // What the server answers, with so many pushes in the block.
  absl::Status Answered(const v1::PushRequest& push,
                        v1::PushedBlock::Result result, uint64_t counter,
                        uint64_t life = kLife) {
    v1::PushReply reply;
    SetGeneration(3, reply.mutable_server_generation());
    *reply.mutable_configuration() = configuration_.version();
    v1::PushedBlock* const block = reply.add_blocks();
    block->set_result(result);
    block->mutable_version()->set_life(life);
    block->mutable_version()->set_counter(counter);
    return content_.Pushed(server_, push, reply);
  }
  // A pull's answer in which the first block has the values of this sum.
  absl::Status Pulled(float sum, uint64_t counter) {
    v1::PullRequest request;
    request.add_blocks();
    v1::PullReply reply;
    reply.set_encoding(v1::FP32);
    SetGeneration(3, reply.mutable_server_generation());
    v1::PulledBlock* const block = reply.add_blocks();
    block->mutable_version()->set_life(kLife);
    block->mutable_version()->set_counter(counter);
    const IntegerJob::BlockPlace& place = job_.blocks()[0];
    block->set_elements(place.elements);
    std::vector<float> values;
    for (uint64_t e = 0; e < place.elements; ++e) {
      values.push_back(
          job_.ValueOf(place.variable, place.first_element + e, sum));
    }
    return content_.Pulled(
        server_, request, /*rows=*/{}, reply,
        {Buffer::Copy(AsBytes(absl::MakeConstSpan(values)))});
  }
  float CoefficientOf(uint64_t sequence) {
    return job_.Coefficient({1, (sequence - 1) * IntegerJob::kBatch},
                            /*block=*/0);
  }

  const FineCut cut_{{.block_elements = 16, .slice_bytes = 128}};
  const IntegerJob job_{/*seed=*/1};
  SimStorage storage_;
  PushLedger ledger_{job_};
  ContentModel content_{job_, ledger_, storage_};
  const SimProcess server_ = {PeerId::Ps(0), 1};
  v1::Configuration configuration_;
};

void ExpectWrongContent(const absl::Status& status, const std::string& part) {
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST_F(ContentModelTest, ABlockContainsWhatWasAppliedToIt) {
  const v1::PushRequest push = Sent(1);
  EXPECT_FALSE(content_.Contains(0, {1, 3}, 0, 0));
  EXPECT_TRUE(Answered(push, v1::PushedBlock::APPLIED, 1).ok());
  EXPECT_TRUE(content_.Contains(0, {1, 3}, 0, 0));
  EXPECT_FALSE(content_.Contains(0, {1, 3}, 1, 0));
  EXPECT_TRUE(Pulled(CoefficientOf(1), 1).ok());
  EXPECT_EQ(content_.counts().blocks_applied, 1u);
}

TEST_F(ContentModelTest, APushIsNotAppliedTwice) {
  const v1::PushRequest push = Sent(1);
  EXPECT_TRUE(Answered(push, v1::PushedBlock::APPLIED, 1).ok());
  EXPECT_TRUE(Answered(push, v1::PushedBlock::ALREADY_APPLIED, 1).ok());
  ExpectWrongContent(Answered(push, v1::PushedBlock::APPLIED, 2),
                     "is applied a second time");
}

TEST_F(ContentModelTest, WhatIsNotInIsNotSaidToBe) {
  ExpectWrongContent(Answered(Sent(1), v1::PushedBlock::ALREADY_APPLIED, 0),
                     "is said to be in, and is not");
}

TEST_F(ContentModelTest, ValuesAreThoseOfThePushesThatAreIn) {
  EXPECT_TRUE(Answered(Sent(1), v1::PushedBlock::APPLIED, 1).ok());
  ExpectWrongContent(Pulled(CoefficientOf(1) + 1, 1),
                     "its 1 pushes are not what is in it");
}

TEST_F(ContentModelTest, AVersionCountsThePushesOfOneLife) {
  EXPECT_TRUE(Answered(Sent(1), v1::PushedBlock::APPLIED, 1).ok());
  ExpectWrongContent(Answered(Sent(2), v1::PushedBlock::APPLIED, 1),
                     "has version 1; 2 pushes are in");
  ExpectWrongContent(Answered(Sent(3), v1::PushedBlock::APPLIED, 3, kLife + 1),
                     "which is that of other content");
}

TEST_F(ContentModelTest, OnlyASessionThatIsListedPushes) {
  v1::PushRequest push = Sent(1);
  SetGeneration(8, push.mutable_header()->mutable_generation());
  EXPECT_TRUE(ledger_.See(PeerId::Worker(1), push).ok());
  ExpectWrongContent(Answered(push, v1::PushedBlock::APPLIED, 1),
                     "may push, which configuration 1.1 does not list");
}

TEST_F(ContentModelTest, AGenerationIsOfOneProcess) {
  EXPECT_TRUE(Answered(Sent(1), v1::PushedBlock::APPLIED, 1).ok());
  v1::PushReply reply;
  SetGeneration(3, reply.mutable_server_generation());
  ExpectWrongContent(content_.Pushed({PeerId::Ps(0), 2}, Sent(2), reply),
                     "two processes answer as ps-0 as generation 1-3");
  v1::Configuration other = configuration_;
  other.mutable_version()->set_counter(2);
  other.mutable_servers(0)->set_incarnation(101);
  ExpectWrongContent(content_.Configured(other, false),
                     "two processes are given ps-0");
}

}  // namespace
}  // namespace paramd
