#include "config/setting_changes.h"

#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::JobConfig Job() {
  v1::JobConfig job;
  job.set_name("digits");
  job.set_seed(1);
  job.set_run_dir("/runs/1");
  job.set_epochs(5);
  job.mutable_model()->add_layers()->mutable_dense()->set_units(10);
  job.mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
  job.mutable_optimizer()->set_learning_rate(0.1);
  job.mutable_checkpoint()->set_every_steps(100);
  return job;
}

TEST(SettingChangesTest, TheSameJobElsewhereHasNotChanged) {
  v1::JobConfig job = Job();
  job.set_run_dir("/runs/2");
  const SettingChanges changes = ChangesSince(RecordedSettings(Job()), job);
  EXPECT_THAT(changes.may, IsEmpty());
  EXPECT_THAT(changes.may_not, IsEmpty());
}

TEST(SettingChangesTest, EpochsRateScheduleAndCheckpointsMayChange) {
  v1::JobConfig job = Job();
  job.set_epochs(20);
  job.mutable_optimizer()->set_learning_rate(0.01);
  job.mutable_optimizer()->set_schedule(v1::OptimizerConfig::COSINE);
  job.mutable_checkpoint()->set_every_steps(50);
  const SettingChanges changes = ChangesSince(RecordedSettings(Job()), job);
  EXPECT_THAT(changes.may_not, IsEmpty());
  EXPECT_EQ(ChangesText(changes.may),
            "optimizer.learning_rate is 0.01, was 0.1; optimizer.schedule is "
            "\"cosine\", was not there; epochs is 20, was 5; "
            "checkpoint.every_steps is 50, was 100");
}

v1::JobConfig JobOfTable(uint64_t capacity) {
  v1::JobConfig job = Job();
  auto& table = *job.mutable_model()->add_layers()->mutable_embedding();
  table.set_width(4);
  table.set_capacity(capacity);
  return job;
}

TEST(SettingChangesTest, HowManyRowsATableHasMayChange) {
  v1::JobConfig job = JobOfTable(2000);
  auto& table = *job.mutable_model()->mutable_layers(1)->mutable_embedding();
  table.set_memory_rows(100);
  const SettingChanges changes =
      ChangesSince(RecordedSettings(JobOfTable(1000)), job);
  EXPECT_THAT(changes.may_not, IsEmpty());
  EXPECT_EQ(ChangesText(changes.may),
            "model.layers[1].embedding.capacity is 2000, was 1000; "
            "model.layers[1].embedding.memory_rows is 100, was not there");
  table.set_admit_after(3);
  EXPECT_EQ(ChangesText(
                ChangesSince(RecordedSettings(JobOfTable(1000)), job).may_not),
            "model.layers[1].embedding.admit_after is 3, was not there");
}

TEST(SettingChangesTest, RowsByKeyAreAnotherTableThanRowsByNumber) {
  for (const uint64_t before : {0, 1000}) {
    const SettingChanges changes = ChangesSince(
        RecordedSettings(JobOfTable(before)), JobOfTable(1000 - before));
    EXPECT_THAT(changes.may, IsEmpty());
    EXPECT_THAT(ChangesText(changes.may_not),
                HasSubstr("embedding.capacity is "));
  }
}

TEST(SettingChangesTest, WhenABackupIsMadeMayChange) {
  v1::JobConfig job = Job();
  job.mutable_backup_and_restore()->set_directory("/shared/backup");
  job.mutable_backup_and_restore()->set_every_steps(50);
  job.mutable_backup_and_restore()->set_delete_at_success(false);
  const SettingChanges changes = ChangesSince(RecordedSettings(Job()), job);
  EXPECT_THAT(changes.may_not, IsEmpty());
  EXPECT_EQ(ChangesText(changes.may),
            "backup_and_restore.every_steps is 50, was not there; "
            "backup_and_restore.delete_at_success is false, was not there");
}

TEST(SettingChangesTest, WhatMakesAnotherJobIsNamedWithBothValues) {
  v1::JobConfig job = Job();
  job.set_seed(7);
  job.mutable_model()->mutable_layers(0)->mutable_dense()->set_units(12);
  job.mutable_optimizer()->mutable_adam()->set_beta1(0.9);
  const SettingChanges changes = ChangesSince(RecordedSettings(Job()), job);
  EXPECT_THAT(changes.may, IsEmpty());
  EXPECT_EQ(ChangesText(changes.may_not),
            "seed is 7, was 1; model.layers[0].dense.units is 12, was 10; "
            "optimizer.adam.beta1 is 0.9, was not there; "
            "optimizer.sgd.momentum is not there, was 0.9");
}

TEST(SettingChangesTest, ASettingThatTheRecordLacksHadItsDefault) {
  v1::JobConfig job = Job();
  job.set_accumulate(1);
  job.mutable_optimizer()->mutable_sgd()->set_nesterov(false);
  SettingChanges changes = ChangesSince(RecordedSettings(Job()), job);
  EXPECT_THAT(changes.may, IsEmpty());
  EXPECT_THAT(changes.may_not, IsEmpty());

  job.set_accumulate(2);
  changes = ChangesSince(RecordedSettings(Job()), job);
  EXPECT_EQ(ChangesText(changes.may_not), "accumulate is 2, was not there");
}

// As one of a version whose default was another: its slots hold what it said.
TEST(SettingChangesTest, ADefaultOfThenIsNotThatOfNow) {
  v1::JobConfig job = Job();
  job.mutable_optimizer()->mutable_adagrad()->set_initial_accumulator(0.1);
  const std::vector<std::string> recorded = RecordedSettings(job);
  job.mutable_optimizer()->mutable_adagrad()->set_initial_accumulator(0);
  EXPECT_EQ(ChangesText(ChangesSince(recorded, job).may_not),
            "optimizer.adagrad.initial_accumulator is 0, was 0.1");
}

TEST(SettingChangesTest, AnotherStrategyMayDivideAStepInAnotherWay) {
  v1::JobConfig job = Job();
  job.set_strategy(v1::JobConfig::ONE_DEVICE);
  job.set_accumulate(2);
  const SettingChanges changes = ChangesSince(RecordedSettings(Job()), job);
  EXPECT_THAT(changes.may_not, IsEmpty());
  EXPECT_THAT(ChangesText(changes.may),
              HasSubstr("accumulate is 2, was not there"));
}

// Even one with defaults alone, as what the job file gives has all of them.
TEST(SettingChangesTest, AnotherKindOfOptimizerForAGroupIsAChange) {
  v1::JobConfig before = Job();
  v1::OptimizerConfig::Group* group = before.mutable_optimizer()->add_groups();
  group->set_variables("*/table");
  group->set_learning_rate(-1);
  v1::JobConfig job = before;
  group = job.mutable_optimizer()->mutable_groups(0);
  group->mutable_adagrad()->set_row_wise(false);
  EXPECT_EQ(ChangesText(ChangesSince(RecordedSettings(before), job).may_not),
            "optimizer.groups[0].adagrad.row_wise is false, was not there");
  EXPECT_EQ(ChangesText(ChangesSince(RecordedSettings(job), before).may_not),
            "optimizer.groups[0].adagrad.row_wise is not there, was false");
  job = before;
  job.mutable_optimizer()->mutable_groups(0)->set_learning_rate(0.5);
  const SettingChanges rate = ChangesSince(RecordedSettings(before), job);
  EXPECT_THAT(rate.may_not, IsEmpty());
  EXPECT_EQ(ChangesText(rate.may),
            "optimizer.groups[0].learning_rate is 0.5, was -1");
}

TEST(SettingChangesTest, MoreReplicasMayComputeAStep) {
  v1::JobConfig before = Job();
  before.set_strategy(v1::JobConfig::MULTI_WORKER_MIRRORED);
  before.set_replicas(2);
  before.set_batch_per_replica(60);
  v1::JobConfig job = before;
  job.set_replicas(3);
  SettingChanges changes = ChangesSince(RecordedSettings(before), job);
  EXPECT_THAT(changes.may_not, IsEmpty());
  EXPECT_EQ(ChangesText(changes.may), "replicas is 3, was 2");

  job.set_batch_per_replica(40);
  changes = ChangesSince(RecordedSettings(before), job);
  EXPECT_EQ(ChangesText(changes.may_not), "batch_per_replica is 40, was 60");

  before.set_global_batch(120);
  job.set_global_batch(120);
  changes = ChangesSince(RecordedSettings(before), job);
  EXPECT_THAT(changes.may_not, IsEmpty());
}

TEST(SettingChangesTest, WhereVariablesMayBeOthersTheModelMayButNotTheSeed) {
  v1::JobConfig job = Job();
  job.mutable_checkpoint()->set_allow_missing("head/*");
  job.mutable_model()->mutable_layers(0)->mutable_dense()->set_units(12);
  job.set_seed(7);
  const SettingChanges changes = ChangesSince(RecordedSettings(Job()), job);
  EXPECT_EQ(ChangesText(changes.may),
            "model.layers[0].dense.units is 12, was 10");
  EXPECT_EQ(ChangesText(changes.may_not), "seed is 7, was 1");
}

TEST(SettingChangesTest, ABranchWithoutLayersHasItsPlace) {
  const auto with_branches = [](bool first_is_empty) {
    v1::JobConfig job = Job();
    v1::ModelConfig& model = *job.mutable_model();
    model.clear_layers();
    auto* const parallel = model.add_layers()->mutable_parallel();
    for (const bool empty : {first_is_empty, !first_is_empty}) {
      auto* const branch = parallel->add_branches();
      if (!empty) branch->add_layers()->mutable_dense()->set_units(16);
    }
    return job;
  };
  const SettingChanges changes =
      ChangesSince(RecordedSettings(with_branches(true)), with_branches(false));
  EXPECT_FALSE(changes.may_not.empty());
}

v1::JobConfig WithLayers(bool recompute) {
  v1::JobConfig job = Job();
  v1::ModelConfig& model = *job.mutable_model();
  model.clear_layers();
  v1::Layer::Residual residual;
  residual.add_layers()->mutable_dense()->set_units(20);
  residual.add_layers()->mutable_relu();
  model.add_layers()->mutable_flatten();
  if (recompute) {
    auto* const around = model.add_layers()->mutable_recompute();
    *around->add_layers()->mutable_residual() = residual;
    around->add_layers()->mutable_dropout()->set_rate(0.1);
    auto* const inner = around->add_layers()->mutable_recompute();
    inner->add_layers()->mutable_tanh();
  } else {
    *model.add_layers()->mutable_residual() = residual;
    model.add_layers()->mutable_dropout()->set_rate(0.1);
    model.add_layers()->mutable_tanh();
  }
  model.add_layers()->mutable_dense()->set_units(10);
  return job;
}

TEST(SettingChangesTest, WhatIsComputedAgainIsNoChange) {
  for (const bool recompute : {false, true}) {
    const SettingChanges changes = ChangesSince(
        RecordedSettings(WithLayers(!recompute)), WithLayers(recompute));
    EXPECT_EQ(ChangesText(changes.may), "");
    EXPECT_EQ(ChangesText(changes.may_not), "");
  }
  v1::JobConfig other = WithLayers(true);
  v1::ModelConfig& model = *other.mutable_model();
  model.mutable_layers(2)->mutable_dense()->set_units(12);
  v1::Layer* const dense = model.mutable_layers(1)
                               ->mutable_recompute()
                               ->mutable_layers(0)
                               ->mutable_residual()
                               ->mutable_layers(0);
  dense->mutable_dense()->set_units(30);
  const SettingChanges changes =
      ChangesSince(RecordedSettings(WithLayers(false)), other);
  EXPECT_EQ(ChangesText(changes.may), "");
  EXPECT_EQ(
      ChangesText(changes.may_not),
      "model.layers[1].recompute.layers[0].residual.layers[0].dense.units "
      "is 30, was 20; "
      "model.layers[2].dense.units is 12, was 10");
}

TEST(SettingChangesTest, LayersInTwoOrdersAreAChange) {
  v1::JobConfig other = WithLayers(true);
  auto& layers = *other.mutable_model()
                      ->mutable_layers(1)
                      ->mutable_recompute()
                      ->mutable_layers();
  layers.SwapElements(0, 1);
  EXPECT_FALSE(
      ChangesSince(RecordedSettings(WithLayers(false)), other).may_not.empty());
}

}  // namespace
}  // namespace paramd
