// What becomes of checkpoints when any one call on a file goes wrong, over a
// whole cycle: prepare, write, commit, retire, delete, find. Always the old
// checkpoint is found or the new one, bit for bit, never a mix; one whose
// commit was acknowledged is; and the next chief's cycle leaves nothing behind.
//
// Of other faults there are tests elsewhere:
//   a bit flip at any byte of any file         directory_test, verify_test
//   a file that is not as reported             directory_test
//   two chiefs, one of them paused             coordinator/two_chiefs_test
//   two chiefs, of terms and numbers           directory_test
//   a rewind whose steps have the same numbers directory_test, retention_test
//   the clock set back                         retention_test
//   a manifest of a newer format               directory_test
//   a checkpoint of another job                coordinator_retire_test
//   a server that has written its file and     shard_snapshot_test, tests/sim
//     loses the coordinator                      (the coordinator dies at any
//     work)
//   a bit flip found while restoring           restore_reader_test, tests/sim
//   processes killed at any time               tests/cluster:crash_loop_test
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/directory.h"
#include "checkpoint/file_error.h"
#include "checkpoint/read_again.h"
#include "checkpoint/restore_reader.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/testing/sample.h"
#include "checkpoint/testing/system_calls.h"
#include "proto/refusal.h"
#include "proto/testing/pair.h"
#include "tensor/buffer.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Pair;
using testing::SampleManifest;
using testing::SampleVariable;
using testing::SystemCalls;

constexpr uint32_t kServers = 2;
constexpr uint64_t kRows = 6;  // Of each server; one element each.

// Not each one where every instruction costs ten.
uint64_t CallsApart() {
  return std::getenv("PARAMD_SANITIZER") != nullptr ? 7 : 1;
}

// How far a cycle has come, also seen after the process died.
struct Progress {
  bool committed = false;
  bool logged = false;  // That the older ones are retired.
};

class FaultTest : public ::testing::Test {
 protected:
  // Of which server the blocks changed since the base, in incremental files.
  static constexpr uint32_t kChangedServer = 0;

  explicit FaultTest(bool incremental = false)
      : incremental_(incremental),
        directory_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())),
        template_(directory_ + "/template"),
        root_(directory_ + "/checkpoints") {
    InitLogging("fault_test", LogLevel::kError);
    PauseReadsForTest([](absl::Duration) {});
    std::filesystem::remove_all(directory_);
    CheckpointDirectory chief(template_, 7);
    for (const uint64_t counter : {1, 2}) {
      Progress progress;
      EXPECT_TRUE(
          Save(&chief, template_, Pair(1, counter), &progress, 10).ok());
    }
  }

  // Whether its files have those of 1.1 as their bases.
  bool HasBase(const v1::SnapshotNumber& number) const {
    return incremental_ && number.term() == 1 && number.counter() > 1;
  }

  // All of them.
  std::vector<float> Expected(const v1::SnapshotNumber& number) const {
    std::vector<float> values;
    for (uint32_t server = 0; server < kServers; ++server) {
      const bool own = !HasBase(number) || server == kChangedServer;
      for (const float value : Values(own ? number : Pair(1, 1), server * kRows,
                                      (server + 1) * kRows)) {
        values.push_back(value);
      }
    }
    return values;
  }

  // Element i of a checkpoint is 1000 times its counter, plus 500 in another
  // term than the first, plus i.
  static std::vector<float> Values(const v1::SnapshotNumber& number,
                                   uint64_t begin, uint64_t end) {
    std::vector<float> values;
    for (uint64_t i = begin; i < end; ++i) {
      values.push_back(1000.0f * number.counter() +
                       (number.term() > 1 ? 500.0f : 0.0f) + i);
    }
    return values;
  }

  // `base`: the same server's file of 1.1; null: it has all blocks itself.
  static absl::StatusOr<v1::ShardFile> WriteShardOf(
      const std::string& directory, const v1::SnapshotNumber& number,
      uint32_t server, const v1::ShardFile* base = nullptr) {
    v1::WriteShard write;
    write.set_directory(directory);
    write.mutable_file()->set_name(absl::StrCat("ps-", server, ".safetensors"));
    const uint64_t begin = server * kRows;
    v1::SavedSlice* slice = write.mutable_file()->add_slices();
    slice->set_variable("w");
    slice->set_row_begin(begin);
    slice->set_row_end(begin + kRows);
    slice->set_values_tensor(absl::StrCat("w[", begin, "]"));
    std::string tensor_name = slice->values_tensor();
    if (base != nullptr) {
      v1::BaseFile* const file = write.mutable_file()->mutable_base();
      *file->mutable_snapshot() = Pair(1, 1);
      file->set_directory("000001-00000001.step-10");
      file->set_name(base->name());
      file->set_bytes(base->bytes());
      file->set_crc32c(base->crc32c());
      if (server != kChangedServer) {
        ASSIGN_OR_RETURN(const auto written, WriteShardFile(write, {}));
        return written.file();
      }
      tensor_name += "/blocks[0:1]";
      v1::ChangedBlocks* const changed = slice->add_changed();
      changed->set_blocks(1);
      changed->set_values_tensor(tensor_name);
    }
    auto* tensor = write.add_tensors();
    tensor->set_name(tensor_name);
    tensor->set_dtype(v1::FLOAT32);
    tensor->add_shape(kRows);
    tensor->set_bytes(kRows * sizeof(float));
    BufferChain payload;
    payload.push_back(
        Buffer::Copy(AsBytes<float>(Values(number, begin, begin + kRows))));
    ASSIGN_OR_RETURN(const auto written, WriteShardFile(write, payload));
    return written.file();
  }

  // One cycle of a chief and its servers, which goes on only while all is well.
  absl::Status Save(CheckpointDirectory* chief, const std::string& root,
                    const v1::SnapshotNumber& number, Progress* progress,
                    uint32_t keep = 1) const {
    v1::PrepareCheckpoint prepare;
    *prepare.mutable_snapshot() = number;
    ASSIGN_OR_RETURN(const auto prepared, chief->Prepare(prepare));
    v1::CommitCheckpoint commit;
    commit.set_directory(prepared.directory());
    commit.mutable_retention()->set_keep(keep);
    *commit.mutable_manifest() =
        SampleManifest({SampleVariable("w", {kServers * kRows})}, {},
                       number.term(), number.counter(), 10 * number.counter());
    v1::Manifest base;
    if (HasBase(number)) {
      ASSIGN_OR_RETURN(base, ReadManifest(root + "/000001-00000001.step-10"));
    }
    for (uint32_t server = 0; server < kServers; ++server) {
      ASSIGN_OR_RETURN(
          *commit.mutable_manifest()->add_files(),
          WriteShardOf(prepared.directory(), number, server,
                       HasBase(number) ? &base.files(server) : nullptr));
    }
    ASSIGN_OR_RETURN(const auto committed, chief->Commit(commit));
    progress->committed = true;
    v1::DeleteCheckpoints remove;
    *remove.mutable_snapshots() = committed.to_retire();
    progress->logged = committed.to_retire_size() > 0;
    RETURN_IF_ERROR(chief->Delete(remove).status());
    return chief->Find({}).status();
  }

  // A fresh copy of the two checkpoints that are there before.
  void Begin() {
    std::filesystem::remove_all(root_);
    std::filesystem::copy(template_, root_,
                          std::filesystem::copy_options::recursive);
    // What a crash before this one left.
    std::filesystem::create_directories(
        root_ + "/.tmp-000001-00000002-0000000000000001");
  }

  // The third checkpoint, by a chief that the fault hits.
  absl::Status SaveThird(Progress* progress) {
    CheckpointDirectory chief(root_, 8);
    return Save(&chief, root_, Pair(1, 3), progress);
  }

  static absl::StatusOr<std::vector<float>> TryRead(const std::string& path) {
    v1::ReadSlices read;
    read.set_path(path);
    auto* want = read.add_slices();
    want->set_variable("w");
    want->add_shape(kServers * kRows);
    want->set_row_end(kServers * kRows);
    read.mutable_check()->set_of(1);
    read.set_last(true);
    v1::ReadSlicesResult result;
    // As servers do, into their memory.
    BufferChain payload = {Buffer::Allocate(kServers * kRows * sizeof(float))};
    RETURN_IF_ERROR(RestoreReader().Read(read, &result, &payload));
    const std::string bytes = FlattenForTest(payload);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  static std::vector<float> Read(const std::string& path) {
    const auto values = TryRead(path);
    EXPECT_TRUE(values.ok()) << values.status();
    return values.value_or(std::vector<float>());
  }

  // What a job that goes on restores, all of it or an error; no number if none
  // was found. (That its directory seems to be gone is CommittedNote's to say.)
  absl::Status RestoreNewest(v1::SnapshotNumber* number,
                             std::vector<float>* values) const {
    number->Clear();
    CheckpointDirectory chief(root_, 9);
    ASSIGN_OR_RETURN(const auto found, chief.Find({}));
    if (!found.has_manifest()) {
      return absl::NotFoundError(*AbsolutePath(root_) + " has none");
    }
    *number = found.manifest().snapshot();
    ASSIGN_OR_RETURN(*values, TryRead(found.path()));
    return absl::OkStatus();
  }

  // Whatever call goes wrong while it is restored.
  void EveryCallOfARestoreFails(SystemCalls::Fault fault, int error) {
    SCOPED_TRACE(absl::StrCat("error ", error));
    Begin();
    Progress progress;
    CheckpointDirectory chief(root_, 8);
    ASSERT_TRUE(Save(&chief, root_, Pair(1, 3), &progress, /*keep=*/10).ok());
    v1::SnapshotNumber number;
    std::vector<float> values;
    uint64_t last = 0;
    {
      const SystemCalls calls(SystemCalls::Fault::kNone);
      ASSERT_TRUE(RestoreNewest(&number, &values).ok());
      last = calls.count();
    }
    ASSERT_GT(last, 10u);
    EXPECT_EQ(number, Pair(1, 3));
    uint64_t failed = 0;
    for (uint64_t at = 1; at <= last; ++at) {
      SCOPED_TRACE(absl::StrCat("call ", at, " of ", last));
      absl::Status restored;
      {
        const SystemCalls calls(fault, at, error);
        restored = RestoreNewest(&number, &values);
      }
      if (restored.ok()) {
        EXPECT_EQ(values, Expected(number));
      } else {
        ++failed;
        EXPECT_THAT(std::string(restored.message()),
                    HasSubstr(*AbsolutePath(root_)));
        // For which an older one is taken, and the job does not end.
        EXPECT_TRUE(IsZero(number) || absl::IsUnavailable(restored) ||
                    absl::IsDataLoss(restored))
            << restored;
      }
    }
    // What passes is tried again.
    const bool may_pass = MayPass(FileError(error, "read", root_));
    const bool is_alone = fault == SystemCalls::Fault::kError;
    EXPECT_EQ(failed > 0, !may_pass || !is_alone) << failed;
    ASSERT_TRUE(RestoreNewest(&number, &values).ok());
    EXPECT_EQ(values, Expected(Pair(1, 3)));
  }

  // What the next chief makes of it.
  void Check(const Progress& progress) {
    CheckpointDirectory next(root_, 9);
    v1::FindCheckpoint find;
    if (progress.logged) {
      if (!incremental_) *find.add_retired() = Pair(1, 1);
      *find.add_retired() = Pair(1, 2);
    }
    const auto found = next.Find(find);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_TRUE(found->has_manifest());
    const v1::SnapshotNumber number = found->manifest().snapshot();
    if (progress.committed || number != Pair(1, 2)) {
      EXPECT_EQ(number, Pair(1, 3));
    }
    EXPECT_EQ(Read(found->path()), Expected(number));
    Progress again;
    const absl::Status saved = Save(&next, root_, Pair(2, 1), &again);
    ASSERT_TRUE(saved.ok()) << saved;
    EXPECT_EQ(Read(next.Find({})->path()), Expected(Pair(2, 1)));
    EXPECT_THAT(*ListDirectory(root_), ElementsAre("000002-00000001.step-10"));
  }

  // Calls of a cycle in which nothing goes wrong.
  uint64_t CallsOfACycle() {
    Begin();
    Progress progress;
    const SystemCalls calls(SystemCalls::Fault::kNone);
    EXPECT_TRUE(SaveThird(&progress).ok());
    EXPECT_GT(calls.count(), 100u);
    return calls.count();
  }

  // Each alone, or all whose numbers are multiples of its: of those in the
  // second half there is no other.
  void EveryCallFails(int error,
                      SystemCalls::Fault fault = SystemCalls::Fault::kError) {
    const bool alone = fault == SystemCalls::Fault::kError;
    const uint64_t last = CallsOfACycle() / (alone ? 1 : 2);
    for (uint64_t at = 1; at <= last; at += CallsApart()) {
      SCOPED_TRACE(absl::StrCat("call ", at, " of ", last));
      Begin();
      Progress progress;
      {
        const SystemCalls calls(fault, at, error);
        SaveThird(&progress).IgnoreError();
      }
      Check(progress);
      if (HasFailure()) return;
    }
  }

  void EveryCallIsTheLast(SystemCalls::Fault fault) {
    const uint64_t last = CallsOfACycle();
    void* const shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    for (uint64_t at = 1; at <= last; at += CallsApart()) {
      SCOPED_TRACE(absl::StrCat("call ", at, " of ", last));
      Begin();
      auto* const progress = new (shared) Progress();
      const pid_t child = fork();
      if (child == 0) {
        const SystemCalls calls(fault, at);
        SaveThird(progress).IgnoreError();
        _exit(0);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
      Check(*progress);
      if (HasFailure()) return;
    }
    munmap(shared, sizeof(Progress));
  }

  const bool incremental_;
  const std::string directory_;
  const std::string template_;
  const std::string root_;
};

TEST_F(FaultTest, Promise3_AnyCallThatFailsWithAnIoErrorLeavesOldOrNew) {
  EveryCallFails(EIO);
}

TEST_F(FaultTest, Promise3_AnyCallThatFindsNoSpaceLeavesOldOrNew) {
  EveryCallFails(ENOSPC);
}

// So does what is done because one of them failed.
TEST_F(FaultTest, Promise3_EveryNthCallThatFailsLeavesOldOrNew) {
  EveryCallFails(EIO, SystemCalls::Fault::kEveryError);
  EveryCallFails(ENOSPC, SystemCalls::Fault::kEveryError);
}

TEST_F(FaultTest, Promise3_AChiefKilledAtAnyCallLeavesOldOrNew) {
  EveryCallIsTheLast(SystemCalls::Fault::kKill);
}

TEST_F(FaultTest, Promise3_AMachineWithoutPowerAtAnyCallLeavesOldOrNew) {
  EveryCallIsTheLast(SystemCalls::Fault::kPowerLoss);
}

TEST_F(FaultTest, Promise3_AnyCallOfARestoreThatFailsGivesAllOrAnError) {
  for (const int error : {EIO, ESTALE, ETIMEDOUT, ENOENT, EACCES}) {
    EveryCallOfARestoreFails(SystemCalls::Fault::kError, error);
    EveryCallOfARestoreFails(SystemCalls::Fault::kEveryError, error);
  }
}

// 1.2 and 1.3 have 1.1 for their base.
class IncrementalFaultTest : public FaultTest {
 protected:
  IncrementalFaultTest() : FaultTest(/*incremental=*/true) {}
};

TEST_F(IncrementalFaultTest, Promise3_AnyCallThatFailsLeavesOldOrNew) {
  EveryCallFails(EIO);
}

TEST_F(IncrementalFaultTest, Promise3_AnyCallThatFindsNoSpaceLeavesOldOrNew) {
  EveryCallFails(ENOSPC);
}

TEST_F(IncrementalFaultTest, Promise3_EveryNthCallThatFailsLeavesOldOrNew) {
  EveryCallFails(EIO, SystemCalls::Fault::kEveryError);
}

TEST_F(IncrementalFaultTest,
       Promise3_AnyCallOfARestoreThatFailsGivesAllOrAnError) {
  for (const int error : {EIO, ESTALE, ETIMEDOUT, ENOENT, EACCES}) {
    EveryCallOfARestoreFails(SystemCalls::Fault::kError, error);
    EveryCallOfARestoreFails(SystemCalls::Fault::kEveryError, error);
  }
}

TEST_F(IncrementalFaultTest, Promise3_AChiefKilledAtAnyCallLeavesOldOrNew) {
  EveryCallIsTheLast(SystemCalls::Fault::kKill);
}

TEST_F(IncrementalFaultTest, Promise3_NoPowerAtAnyCallLeavesOldOrNew) {
  EveryCallIsTheLast(SystemCalls::Fault::kPowerLoss);
}

TEST_F(FaultTest, AFullDiskIsOneSentenceWithThePath) {
  for (const int error : {ENOSPC, EDQUOT}) {
    Begin();
    Progress progress;
    {
      const SystemCalls calls(SystemCalls::Fault::kFull, 0, error);
      const absl::Status saved = SaveThird(&progress);
      EXPECT_TRUE(absl::IsResourceExhausted(saved)) << saved;
      EXPECT_THAT(std::string(saved.message()),
                  HasSubstr(*AbsolutePath(root_) + "/.tmp-000001-00000003"));
    }
    EXPECT_FALSE(progress.committed);
    Check(progress);
  }
}

TEST_F(FaultTest, ShortReadsAndWritesGoOn) {
  Begin();
  Progress progress;
  {
    const SystemCalls calls(SystemCalls::Fault::kShort);
    const absl::Status saved = SaveThird(&progress);
    EXPECT_TRUE(saved.ok()) << saved;
  }
  EXPECT_TRUE(progress.committed);
  Check(progress);
}

TEST_F(FaultTest, ADirectoryThatDisappearsIsNamedAndCommitsNothing) {
  CheckpointDirectory chief(root_, 8);
  v1::PrepareCheckpoint prepare;
  *prepare.mutable_snapshot() = Pair(1, 3);
  v1::CommitCheckpoint commit;
  commit.set_directory(chief.Prepare(prepare)->directory());
  *commit.mutable_manifest() =
      SampleManifest({SampleVariable("w", {kServers * kRows})}, {}, 1, 3, 30);
  for (uint32_t server = 0; server < kServers; ++server) {
    *commit.mutable_manifest()->add_files() =
        *WriteShardOf(commit.directory(), Pair(1, 3), server);
  }
  std::filesystem::rename(root_, root_ + ".elsewhere");
  const auto written = WriteShardOf(commit.directory(), Pair(1, 3), 0);
  EXPECT_TRUE(absl::IsNotFound(written.status()));
  EXPECT_THAT(std::string(written.status().message()),
              HasSubstr(*AbsolutePath(root_)));
  const auto committed = chief.Commit(commit);
  EXPECT_TRUE(absl::IsNotFound(committed.status()));
  EXPECT_THAT(std::string(committed.status().message()),
              HasSubstr(*AbsolutePath(root_)));
  // It was not mounted for a while.
  std::filesystem::rename(root_ + ".elsewhere", root_);
  EXPECT_TRUE(chief.Commit(commit).ok());
  EXPECT_EQ(Read(chief.Find({})->path()),
            Values(Pair(1, 3), 0, kServers * kRows));
}

}  // namespace
}  // namespace paramd
