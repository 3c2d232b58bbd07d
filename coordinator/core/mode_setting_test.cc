#include "coordinator/core/mode_setting.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "config/consistency.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<v1::Consistency> Set(const std::string& key,
                                    const std::string& value,
                                    uint32_t backup_workers = 0) {
  v1::SetRequest request;
  request.set_key(key);
  request.set_value(value);
  v1::JobConfig job;
  job.set_backup_workers(backup_workers);
  return ModeToSet(request, job);
}

void ExpectInvalid(const absl::Status& status, const std::string& part) {
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::INVALID);
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(ModeToSetTest, EveryModeOfTheJobFileMayBeSet) {
  for (const char* const value : {"async", "0", "8", "sync"}) {
    EXPECT_EQ(StalenessText(*Set("staleness", value)), value);
  }
}

TEST(ModeToSetTest, SyncHasTheBackupWorkersOfTheJob) {
  EXPECT_EQ(Set("staleness", "sync", 2)->backup_workers(), 2u);
  EXPECT_EQ(Set("staleness", "8", 2)->backup_workers(), 0u);
}

TEST(ModeToSetTest, AnotherKeyIsRefusedByName) {
  ExpectInvalid(Set("epochs", "8").status(),
                "'epochs' can't be changed while the job runs; 'staleness', "
                "'learning_rate_scale', 'checkpoint.every_steps', "
                "'checkpoint.every_seconds', 'log_level' and 'rebalance' can");
}

TEST(ModeToSetTest, AValueThatIsNoneIsRefusedWithWhatMayBeWritten) {
  ExpectInvalid(Set("staleness", "fast").status(),
                "staleness must be \"async\", \"sync\" or a number");
  ExpectInvalid(Set("staleness", "fast").status(), "found \"fast\"");
}

TEST(ModeToSetTest, WithReplicationItMayNotBecomeSync) {
  v1::SetRequest request;
  request.set_key("staleness");
  v1::JobConfig job;
  job.set_replication(2);
  for (const char* const value : {"8", "async"}) {
    request.set_value(value);
    EXPECT_TRUE(ModeToSet(request, job).ok());
  }
  request.set_value("sync");
  ExpectInvalid(ModeToSet(request, job).status(), "with replication 2");
}

TEST(ModeToSetTest, WithOneThresholdForAllServersItStaysSync) {
  v1::SetRequest request;
  request.set_key("staleness");
  v1::JobConfig job;
  v1::OptimizerConfig::Pruning* const pruning =
      job.mutable_optimizer()->add_pruning();
  for (const char* const value : {"8", "async"}) {
    request.set_value(value);
    pruning->set_scope(v1::OptimizerConfig::Pruning::BLOCK);
    EXPECT_TRUE(ModeToSet(request, job).ok());
    pruning->set_scope(v1::OptimizerConfig::Pruning::GLOBAL);
    ExpectInvalid(ModeToSet(request, job).status(),
                  "optimizer.pruning of scope global");
    pruning->clear_scope();
    pruning->set_structure(v1::OptimizerConfig::Pruning::CHANNELS);
    ExpectInvalid(ModeToSet(request, job).status(),
                  "optimizer.pruning of structure channels");
    pruning->clear_structure();
  }
  request.set_value("sync");
  EXPECT_TRUE(ModeToSet(request, job).ok());
}

// Two servers: 40 and 24 bytes of values.
v1::Layout SmallLayout() {
  v1::Layout layout;
  for (const uint64_t rows : {10, 3}) {
    v1::Variable* const variable = layout.add_variables();
    variable->add_shape(rows);
    if (rows == 3) variable->add_shape(2);
    v1::Slice* const slice = layout.add_slices();
    slice->set_variable(layout.variables_size() - 1);
    slice->set_row_end(rows);
    slice->set_server(layout.variables_size() - 1);
  }
  return layout;
}

TEST(CheckHoldableTest, StepsWithBackupWorkersMustFitBesideTheBlocks) {
  v1::JobConfig job;
  job.set_backup_workers(1);
  const v1::Consistency sync = *Set("staleness", "sync", 1);
  job.set_sync_park_bytes(120);
  EXPECT_TRUE(CheckHoldable(sync, job, SmallLayout(), 3).ok());
  job.set_sync_park_bytes(119);
  ExpectInvalid(CheckHoldable(sync, job, SmallLayout(), 3),
                "a step of 3 workers has 120 bytes of gradients on ps-0; "
                "sync_park_bytes is 119");
}

TEST(CheckHoldableTest, WithoutBackupWorkersOneSumIsEnough) {
  EXPECT_TRUE(CheckHoldable(*Set("staleness", "sync"), v1::JobConfig(),
                            SmallLayout(), 3)
                  .ok());
}

TEST(CheckHoldableTest, BackupWorkersMustLeaveSomebody) {
  ExpectInvalid(CheckHoldable(*Set("staleness", "sync", 2), v1::JobConfig(),
                              SmallLayout(), 2),
                "backup_workers is 2 of 2 workers");
}

}  // namespace
}  // namespace paramd
