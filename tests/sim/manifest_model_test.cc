#include "tests/sim/manifest_model.h"

#include "gtest/gtest.h"

#include "tests/sim/fine_cut.h"

namespace paramd {
namespace {

// A job that went on from step 40. In configuration 1.9 are worker-0, of which
// the coordinator knows 5 pushes, cut at 7, and worker-1 with 2; worker-2 had
// ended.
class ManifestModelTest : public ::testing::Test {
 protected:
  ManifestModelTest() {
    v1::Manifest before;
    before.set_global_step(40);
    model_.Begin(1, &before);
    EXPECT_TRUE(content_.Configured(Configuration(), /*is_layout=*/true).ok());
    for (uint32_t worker = 0; worker < 3; ++worker) {
      model_.Heard(Header(worker, 5));
      model_.Noted(Header(worker, 5));
    }
    Cut(0, 7);
    Cut(1, 2);
  }

  static v1::Configuration Configuration() {
    v1::Configuration configuration;
    configuration.mutable_version()->set_term(1);
    configuration.mutable_version()->set_counter(9);
    configuration.add_servers()->mutable_generation()->set_term(1);
    for (uint32_t worker = 0; worker < 2; ++worker) {
      v1::WorkerMember* const member = configuration.add_workers();
      member->set_index(worker);
      *member->mutable_generation() = Header(worker, 0).generation();
    }
    return configuration;
  }
  static v1::Header Header(uint32_t worker, uint64_t pushes) {
    v1::Header header;
    header.set_worker(worker);
    header.mutable_generation()->set_term(1);
    header.mutable_generation()->set_counter(3 + worker);
    header.set_sequence(pushes);
    return header;
  }
  v1::HeartbeatRequest Cut(uint32_t worker, uint64_t sequence,
                           uint64_t term = 1) {
    v1::HeartbeatRequest beat;
    *beat.mutable_header() = Header(worker, 0);
    beat.mutable_cut()->mutable_snapshot()->set_term(term);
    beat.mutable_cut()->mutable_snapshot()->set_counter(5);
    beat.mutable_cut()->set_sequence(sequence);
    model_.HeardCut(beat);
    return beat;
  }
  void Seal(uint64_t term = 1) {
    v1::SealRequest seal;
    seal.mutable_header()->mutable_snapshot()->set_term(term);
    seal.mutable_header()->mutable_snapshot()->set_counter(5);
    seal.mutable_header()->mutable_configuration()->set_term(term);
    seal.mutable_header()->mutable_configuration()->set_counter(9);
    model_.Sealing(seal);
    for (uint64_t n = 1; n <= 60; ++n) {
      v1::PushRequest push;
      *push.mutable_header() = Header(0, n);
      push.set_epoch(1);
      EXPECT_TRUE(ledger_.See(PeerId::Worker(0), push).ok());
    }
  }
  // Of a manifest of this step.
  absl::string_view Check(uint64_t step, uint64_t term = 1) {
    v1::Manifest manifest;
    manifest.mutable_snapshot()->set_term(term);
    manifest.mutable_snapshot()->set_counter(5);
    manifest.set_global_step(step);
    status_ = model_.CheckCheckpoint(manifest);
    return status_.message();
  }

  const FineCut cut_{{.block_elements = 16, .slice_bytes = 128}};
  const IntegerJob job_{3};
  const SimStorage storage_;
  PushLedger ledger_{job_};
  ContentModel content_{job_, ledger_, storage_};
  ManifestModel model_{ledger_, content_};
  absl::Status status_;
};

TEST_F(ManifestModelTest, AStepIsTheSumOfTheCutsAndOfWhatEndedSessionsTold) {
  Seal();
  EXPECT_EQ(Check(53), "it is of step 53; its cuts come to 54 to 54");
  EXPECT_EQ(Check(55), "it is of step 55; its cuts come to 54 to 54");
  EXPECT_EQ(Check(54), "");
  EXPECT_EQ(model_.exact(), 1u);
}

TEST_F(ManifestModelTest, WhatACoordinatorHeardAndDidNotAnswerMayCount) {
  model_.Heard(Header(2, 6));
  Seal();
  EXPECT_EQ(Check(56), "it is of step 56; its cuts come to 54 to 55");
  EXPECT_EQ(Check(55), "");
  EXPECT_EQ(model_.exact(), 0u);
}

TEST_F(ManifestModelTest, OfAnEndedSessionNothingBehindItsCutNeedCount) {
  Cut(2, 3);
  Seal();
  EXPECT_EQ(Check(51), "it is of step 51; its cuts come to 52 to 54");
  EXPECT_EQ(Check(52), "");
}

TEST_F(ManifestModelTest, OfACutThatWasAnsweredNothingBehindItCounts) {
  model_.NotedCut(Cut(2, 3));
  Seal();
  EXPECT_EQ(Check(53), "it is of step 53; its cuts come to 52 to 52");
  EXPECT_EQ(Check(52), "");
}

// Worker-2 had made 6 pushes, and told of 5 of them.
TEST_F(ManifestModelTest,
       AfterATakeOverASessionThatEndedCountsNoMoreThanItsPushes) {
  for (uint64_t n = 1; n <= 6; ++n) {
    v1::PushRequest push;
    *push.mutable_header() = Header(2, n);
    push.set_epoch(1);
    EXPECT_TRUE(ledger_.See(PeerId::Worker(2), push).ok());
  }
  v1::Configuration configuration = Configuration();
  configuration.mutable_version()->set_term(2);
  EXPECT_TRUE(content_.Configured(configuration, /*is_layout=*/false).ok());
  model_.TakeOver(2);
  Cut(0, 7, 2);
  Cut(1, 2, 2);
  Seal(2);
  EXPECT_EQ(Check(56, 2), "it is of step 56; its cuts come to 49 to 55");
  EXPECT_EQ(Check(48, 2), "it is of step 48; its cuts come to 49 to 55");
  EXPECT_EQ(Check(55, 2), "");
  EXPECT_EQ(model_.exact(), 0u);
}

TEST_F(ManifestModelTest,
       ASessionIsWhereItWasCutThoughNoServerHasItsLastPushes) {
  Seal();
  v1::Manifest manifest;
  manifest.mutable_snapshot()->set_term(1);
  manifest.mutable_snapshot()->set_counter(5);
  manifest.set_global_step(54);
  v1::SavedSession* const session = manifest.add_sessions();
  *session->mutable_generation() = Header(0, 0).generation();
  session->set_sequence(7);
  EXPECT_TRUE(model_.CheckCheckpoint(manifest).ok());
  for (const uint64_t other : {6, 8}) {
    session->set_sequence(other);
    EXPECT_FALSE(model_.CheckCheckpoint(manifest).ok()) << other;
  }
}

TEST_F(ManifestModelTest, AfterATakeOverStepsDoNotFall) {
  model_.TakeOver(1);
  Seal();
  EXPECT_EQ(Check(61), "it is of step 61 after 60 pushes");
  EXPECT_EQ(Check(44), "");
  EXPECT_EQ(Check(43), "it is of step 43, the one before of 44");
}

}  // namespace
}  // namespace paramd
