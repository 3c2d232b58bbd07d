// Two chiefs with one log and one directory of checkpoints, one of them paused
// somewhere between reading the log and deleting: nothing disappears that the
// other may restore. What a chief does in which order is the coordinator's core
// and has its test there.
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/directory.h"
#include "checkpoint/file.h"
#include "checkpoint/testing/sample.h"
#include "checkpoint/testing/system_calls.h"
#include "coordinator/configuration_log.h"
#include "proto/refusal.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using testing::Pair;
using testing::SampleVariable;
using testing::SystemCalls;

class Chief {
 public:
  Chief(const std::string& run, uint64_t nonce)
      : log_(run + "/configuration"),
        checkpoints_(run + "/checkpoints", nonce),
        nonce_(nonce) {}

  void ReadLog() {
    const auto entries = log_.ReadAll();
    ASSERT_TRUE(entries.ok()) << entries.status();
    find_.clear_retired();
    for (const v1::LogEntry& entry : *entries) {
      if (entry.has_retired()) *find_.add_retired() = entry.retired();
    }
    next_ = entries->size() + 1;
  }
  absl::Status TakeTerm(uint64_t term) {
    v1::LogEntry entry;
    entry.set_term(term);
    return Append(std::move(entry));
  }
  absl::Status LogRetired(uint64_t counter) {
    v1::LogEntry entry;
    *entry.mutable_retired() = Pair(1, counter);
    return Append(std::move(entry));
  }
  void Delete(uint64_t counter) {
    v1::DeleteCheckpoints remove;
    *remove.add_snapshots() = Pair(1, counter);
    EXPECT_TRUE(checkpoints_.Delete(remove).ok());
  }
  absl::StatusOr<v1::FindCheckpointResult> Find() {
    return checkpoints_.Find(find_);
  }

 private:
  absl::Status Append(v1::LogEntry entry) {
    entry.set_number(next_);
    entry.set_nonce(nonce_ << 32 | next_);
    const absl::Status status = log_.Append(entry);
    if (status.ok()) ++next_;
    return status;
  }

  DirectoryLog log_;
  CheckpointDirectory checkpoints_;
  const uint64_t nonce_;
  uint64_t next_ = 1;
  v1::FindCheckpoint find_;
};

// The first chief has term 1, has committed 1.1 and 1.2, and keeps one.
class TwoChiefsTest : public ::testing::Test {
 protected:
  TwoChiefsTest()
      : run_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(run_);
    first_ = std::make_unique<Chief>(run_, 1);
    second_ = std::make_unique<Chief>(run_, 2);
    first_->ReadLog();
    EXPECT_TRUE(first_->TakeTerm(1).ok());
    for (const uint64_t counter : {1, 2}) {
      const auto path = testing::CommitSample(
          run_ + "/checkpoints", {SampleVariable("w", {10})}, {}, 1, counter,
          10 * counter, /*servers=*/2, /*slice_bytes=*/20);
      EXPECT_TRUE(path.ok()) << path.status();
      newest_ = *path;
    }
  }

  void DamageTheNewest() {
    std::filesystem::remove(newest_ + "/manifest.json");
  }

  const std::string run_;
  std::unique_ptr<Chief> first_;
  std::unique_ptr<Chief> second_;
  std::string newest_;
};

TEST_F(TwoChiefsTest, OneThatIsPausedBeforeItRetiresDeletesNothing) {
  second_->ReadLog();
  ASSERT_TRUE(second_->TakeTerm(2).ok());
  EXPECT_TRUE(absl::IsAborted(first_->LogRetired(1)));
  DamageTheNewest();
  const auto found = second_->Find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->manifest().snapshot(), Pair(1, 1));
}

TEST_F(TwoChiefsTest, OneThatReadTheLogBeforeARetirementHasToReadItAgain) {
  second_->ReadLog();
  ASSERT_TRUE(first_->LogRetired(1).ok());
  EXPECT_TRUE(absl::IsAborted(second_->TakeTerm(2)));
  first_->Delete(1);
  second_->ReadLog();
  ASSERT_TRUE(second_->TakeTerm(2).ok());
  EXPECT_EQ(second_->Find()->manifest().snapshot(), Pair(1, 2));
}

TEST_F(TwoChiefsTest, OneThatDeletesLateDeletesWhatNobodyRestores) {
  ASSERT_TRUE(first_->LogRetired(1).ok());
  second_->ReadLog();
  ASSERT_TRUE(second_->TakeTerm(2).ok());
  EXPECT_EQ(second_->Find()->manifest().snapshot(), Pair(1, 2));
  first_->Delete(1);
  EXPECT_EQ(second_->Find()->manifest().snapshot(), Pair(1, 2));
  EXPECT_THAT(*ListDirectory(run_ + "/checkpoints"),
              ElementsAre("000001-00000002.step-20"));
}

TEST_F(TwoChiefsTest, ARetiredOneIsNotRestoredThoughTheNewestIsDamaged) {
  ASSERT_TRUE(first_->LogRetired(1).ok());
  second_->ReadLog();
  ASSERT_TRUE(second_->TakeTerm(2).ok());
  DamageTheNewest();
  EXPECT_FALSE(second_->Find().ok());
}

// Whichever call of an append it meets.
TEST_F(TwoChiefsTest, AStaleFileHandleIsNotTakenForAnotherChief) {
  bool met = true;
  uint64_t failed = 0;
  for (uint64_t at = 1; met && at < 200; ++at) {
    Chief chief(absl::StrCat(run_, "/", at), 1);
    ASSERT_TRUE(chief.TakeTerm(1).ok());
    const SystemCalls stale(SystemCalls::Fault::kError, at, ESTALE);
    const absl::Status status = chief.LogRetired(1);
    met = stale.count() >= at;
    EXPECT_FALSE(absl::IsAborted(status)) << "call " << at << ": " << status;
    if (absl::IsUnavailable(status)) ++failed;
  }
  EXPECT_GT(failed, 3u);
}

}  // namespace
}  // namespace paramd
