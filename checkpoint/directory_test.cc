#include "checkpoint/directory.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/crc32c.h"
#include "base/log.h"
#include "base/random.h"
#include "checkpoint/manifest.h"
#include "checkpoint/restore_reader.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/testing/sample.h"
#include "proto/refusal.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

using ::testing::Contains;
using testing::CutForServers;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Pair;
using testing::SampleBytes;
using testing::SampleManifest;
using testing::SampleVariable;
using testing::SampleWrite;
using ::testing::SizeIs;

// This thread may do what anybody may, root or not, while it lives.
class WithoutCapabilities {
 public:
  WithoutCapabilities() {
    syscall(SYS_capget, &header_, data_);
    __user_cap_data_struct none[2] = {data_[0], data_[1]};
    none[0].effective = none[1].effective = 0;
    syscall(SYS_capset, &header_, none);
  }
  ~WithoutCapabilities() { syscall(SYS_capset, &header_, data_); }

 private:
  __user_cap_header_struct header_ = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data_[2] = {};
};

class CheckpointDirectoryTest : public ::testing::Test {
 protected:
  CheckpointDirectoryTest()
      : root_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name(),
            "/checkpoints")) {
    std::filesystem::remove_all(DirectoryOf(root_));
  }

  // Prepared and written by `servers`, ready to be committed.
  v1::CommitCheckpoint Written(CheckpointDirectory* directory, uint64_t term,
                               uint64_t counter, uint64_t step,
                               uint32_t servers = 3) {
    v1::PrepareCheckpoint prepare;
    *prepare.mutable_snapshot() = Pair(term, counter);
    const auto prepared = directory->Prepare(prepare);
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    v1::CommitCheckpoint commit;
    commit.set_directory(prepared->directory());
    commit.mutable_retention()->set_keep(10);
    *commit.mutable_manifest() =
        SampleManifest(variables_, slots_, term, counter, step);
    const auto slices = CutForServers(variables_, servers, 400);
    for (uint32_t server = 0; server < servers; ++server) {
      BufferChain payload;
      const v1::WriteShard write = SampleWrite(
          prepared->directory(), slices, slots_, server, servers, &payload);
      const auto written = WriteShardFile(write, payload);
      EXPECT_TRUE(written.ok()) << written.status();
      *commit.mutable_manifest()->add_files() = written->file();
    }
    return commit;
  }

  std::string Committed(CheckpointDirectory* directory, uint64_t term,
                        uint64_t counter, uint64_t step) {
    const auto result =
        directory->Commit(Written(directory, term, counter, step));
    EXPECT_TRUE(result.ok()) << result.status();
    return result->path();
  }

  void FlipBit(const std::string& path, uint64_t bit) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(bit / 8);
    const int byte = file.get();
    file.seekp(bit / 8);
    file.put(static_cast<char>(byte ^ (1 << bit % 8)));
  }

  // Puts another manifest into a checkpoint, with its checksum.
  void Rewrite(const std::string& path, const v1::Manifest& manifest) {
    const std::string text = *EncodeManifest(manifest);
    std::ofstream(path + "/manifest.json") << text;
    std::ofstream(path + "/manifest.crc32c") << absl::StrFormat(
        "%08x\n", Crc32c(AsBytes<char>({text.data(), text.size()})));
  }

  const std::string root_;
  const std::vector<v1::Variable> variables_ = {
      SampleVariable("layer/kernel", {37, 11}), SampleVariable("bias", {130}),
      SampleVariable("temperature", {})};
  const std::vector<std::string> slots_ = {"momentum", "variance"};
};

TEST_F(CheckpointDirectoryTest, ACommittedCheckpointIsFound) {
  CheckpointDirectory directory(root_, 7);
  const std::string path = Committed(&directory, 1, 5, 9370);
  EXPECT_EQ(path, *AbsolutePath(root_ + "/000001-00000005.step-9370"));
  const auto found = directory.Find({});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->path(), path);
  EXPECT_EQ(found->manifest().global_step(), 9370u);
  EXPECT_EQ(found->manifest().format(), 1u);
  EXPECT_EQ(found->manifest().min_reader(), 1u);
  EXPECT_EQ(found->manifest().files_size(), 3);
  EXPECT_THAT(*ListDirectory(root_), ElementsAre("000001-00000005.step-9370"));
}

TEST_F(CheckpointDirectoryTest, WhatThreeServersWroteAnyNumberReadsBitForBit) {
  CheckpointDirectory directory(root_, 7);
  const std::string path = Committed(&directory, 1, 1, 10);
  for (const uint32_t servers : {1, 2, 5}) {
    for (const uint64_t slice_bytes : {44, 1000, 1 << 20}) {
      v1::ReadSlices read;
      read.set_path(path);
      read.add_slots("variance");
      std::string expected;
      for (const auto& slice :
           CutForServers(variables_, servers, slice_bytes)) {
        auto* const want = read.add_slices();
        want->set_variable(slice.variable->name());
        *want->mutable_shape() = slice.variable->shape();
        want->set_row_begin(slice.rows.begin);
        want->set_row_end(slice.rows.end);
        for (const char* slot : {"", "variance"}) {
          expected +=
              FlattenForTest({SampleBytes(*slice.variable, slot, slice.rows)});
        }
      }
      v1::ReadSlicesResult result;
      BufferChain payload;
      read.mutable_check()->set_alone(true);
      read.set_last(true);
      const absl::Status status = RestoreReader().Read(read, &result, &payload);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(FlattenForTest(payload), expected);
      EXPECT_EQ(result.slices_size(), read.slices_size());
    }
  }
}

TEST_F(CheckpointDirectoryTest, WithoutAnyCheckpointThereIsNoManifest) {
  CheckpointDirectory directory(root_, 7);
  auto found = directory.Find({});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->has_manifest());
  Written(&directory, 1, 1, 10);
  found = directory.Find({});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->has_manifest());
}

TEST_F(CheckpointDirectoryTest, TheNewestIsTheHighestNumberNotTheHighestStep) {
  CheckpointDirectory directory(root_, 7);
  Committed(&directory, 1, 9, 5000);
  const std::string newest = Committed(&directory, 2, 1, 300);
  EXPECT_EQ(directory.Find({})->path(), newest);
}

TEST_F(CheckpointDirectoryTest, ARetiredOneIsPassedOver) {
  CheckpointDirectory directory(root_, 7);
  const std::string older = Committed(&directory, 1, 1, 10);
  Committed(&directory, 1, 2, 20);
  v1::FindCheckpoint find;
  *find.add_retired() = Pair(1, 2);
  EXPECT_EQ(directory.Find(find)->path(), older);
}

TEST_F(CheckpointDirectoryTest, ADamagedOneIsPassedOverForAnOlderOne) {
  CheckpointDirectory directory(root_, 7);
  const std::string older = Committed(&directory, 1, 1, 10);
  const std::string newer = Committed(&directory, 1, 2, 20);
  std::filesystem::resize_file(newer + "/ps-00002-of-00003.safetensors", 100);
  EXPECT_EQ(directory.Find({})->path(), older);
  std::filesystem::resize_file(older + "/ps-00001-of-00003.safetensors", 100);
  const auto none = directory.Find({});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("ps-00002-of-00003.safetensors' has 100 bytes"));
}

TEST_F(CheckpointDirectoryTest, OneThatAReaderFoundDamagedIsPassedOver) {
  CheckpointDirectory directory(root_, 7);
  const std::string older = Committed(&directory, 1, 1, 10);
  Committed(&directory, 1, 2, 20);
  v1::FindCheckpoint find;
  v1::FindCheckpoint::Damaged* damaged = find.add_damaged();
  *damaged->mutable_snapshot() = Pair(1, 2);
  damaged->set_why("ps-2 could not read it");
  EXPECT_EQ(directory.Find(find)->path(), older);
  damaged = find.add_damaged();
  *damaged->mutable_snapshot() = Pair(1, 1);
  damaged->set_why("nor this one");
  const auto none = directory.Find(find);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("of the newest: ps-2 could not read it"));
}

TEST_F(CheckpointDirectoryTest, AnotherRunsCheckpointsAreRefusedByName) {
  CheckpointDirectory first(root_, 7);
  v1::CommitCheckpoint commit = Written(&first, 1, 1, 10);
  commit.mutable_manifest()->set_run_id("run-a");
  const std::string path = first.Commit(commit)->path();

  CheckpointDirectory second(root_, 8);
  v1::FindCheckpoint find;
  find.set_run_id("run-a");
  EXPECT_EQ(second.Find(find)->path(), path);
  CheckpointDirectory third(root_, 9);
  find.set_run_id("run-b");
  const auto found = third.Find(find);
  EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(found.status().message()),
              HasSubstr("checkpoint '" + path +
                        "' is of run run-a, and this is run run-b: "));
  // One that began when there was none yet commits nothing, deletes nothing.
  commit = Written(&third, 1, 2, 20);
  commit.mutable_manifest()->set_run_id("run-b");
  commit.mutable_retention()->set_keep(1);
  EXPECT_EQ(third.Commit(commit).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(second.Find({})->path(), path);
}

TEST_F(CheckpointDirectoryTest, AnyFlippedBitIsSeen) {
  CheckpointDirectory directory(root_, 7);
  const std::string path = Committed(&directory, 1, 1, 10);
  ASSERT_TRUE(VerifyCheckpoint(path).ok());
  RandomStream random(3);
  const std::vector<std::string> names = *ListDirectory(path);
  for (const std::string& name : names) {
    // The index is for others and made from the rest: nothing reads it here.
    if (name == "model.safetensors.index.json") continue;
    const std::string file = absl::StrCat(path, "/", name);
    const uint64_t bits = std::filesystem::file_size(file) * 8;
    for (int i = 0; i < 50; ++i) {
      const uint64_t bit = random.Below(bits);
      FlipBit(file, bit);
      EXPECT_FALSE(VerifyCheckpoint(path).ok()) << name << " bit " << bit;
      FlipBit(file, bit);
    }
  }
  EXPECT_TRUE(VerifyCheckpoint(path).ok());
}

TEST_F(CheckpointDirectoryTest, AMissingFileIsSeen) {
  CheckpointDirectory directory(root_, 7);
  for (const char* name :
       {"manifest.json", "manifest.crc32c", "ps-00001-of-00003.safetensors"}) {
    const std::string path = Committed(&directory, 1, 1, 10);
    std::filesystem::remove(absl::StrCat(path, "/", name));
    EXPECT_FALSE(VerifyCheckpoint(path).ok()) << name;
    std::filesystem::remove_all(path);
  }
}

TEST_F(CheckpointDirectoryTest, ACheckpointUnderAnotherNumberIsNotThatOne) {
  CheckpointDirectory directory(root_, 7);
  const std::string path = Committed(&directory, 1, 1, 10);
  const std::string copy = root_ + "/000001-00000002.step-10";
  std::filesystem::copy(path, copy);
  EXPECT_THAT(std::string(VerifyCheckpoint(copy).status().message()),
              HasSubstr("holds snapshot 1.1"));
}

TEST_F(CheckpointDirectoryTest, AFileThatIsNotAsReportedIsNotCommitted) {
  CheckpointDirectory directory(root_, 7);
  const v1::CommitCheckpoint commit = Written(&directory, 1, 1, 10);
  FlipBit(commit.directory() + "/ps-00003-of-00003.safetensors", 7777);
  const auto result = directory.Commit(commit);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("crc32c"));
  EXPECT_FALSE(directory.Find({})->has_manifest());
}

TEST_F(CheckpointDirectoryTest, AManifestWithAHoleIsNotCommitted) {
  CheckpointDirectory directory(root_, 7);
  v1::CommitCheckpoint commit = Written(&directory, 1, 1, 10);
  commit.mutable_manifest()->mutable_files()->DeleteSubrange(1, 1);
  const auto result = directory.Commit(commit);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("misses"));
}

TEST_F(CheckpointDirectoryTest,
       OfTwoCommittersOfOneSnapshotTheSecondIsAborted) {
  CheckpointDirectory one(root_, 7);
  CheckpointDirectory two(root_, 8);
  const v1::CommitCheckpoint first = Written(&one, 1, 1, 10);
  const v1::CommitCheckpoint second = Written(&two, 1, 1, 10);
  EXPECT_NE(first.directory(), second.directory());
  EXPECT_TRUE(one.Commit(first).ok());
  EXPECT_EQ(two.Commit(second).status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(one.Find({})->has_manifest());
}

TEST_F(CheckpointDirectoryTest, AnOldTermCommitsAndDeletesNothing) {
  CheckpointDirectory old_chief(root_, 7);
  const v1::CommitCheckpoint late = Written(&old_chief, 1, 4, 40);
  CheckpointDirectory new_chief(root_, 8);
  const v1::CommitCheckpoint commit = Written(&new_chief, 2, 1, 50);
  EXPECT_EQ(old_chief.Commit(late).status().code(), absl::StatusCode::kAborted);
  v1::PrepareCheckpoint prepare;
  *prepare.mutable_snapshot() = Pair(1, 5);
  EXPECT_EQ(old_chief.Prepare(prepare).status().code(),
            absl::StatusCode::kAborted);
  EXPECT_TRUE(new_chief.Commit(commit).ok());
}

TEST_F(CheckpointDirectoryTest, ACommitSaysWhichNeedNotStayAndDeletesNone) {
  CheckpointDirectory directory(root_, 7);
  Committed(&directory, 1, 1, 10);
  Committed(&directory, 1, 2, 20);
  Committed(&directory, 1, 3, 30);
  v1::CommitCheckpoint commit = Written(&directory, 1, 4, 40);
  commit.mutable_retention()->set_keep(2);
  const auto result = directory.Commit(commit);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->to_retire(), ElementsAre(Pair(1, 1), Pair(1, 2)));
  EXPECT_THAT(*ListDirectory(root_), SizeIs(4));
}

TEST_F(CheckpointDirectoryTest, RetiredOnesAreDeletedAndAgainIsNoMistake) {
  CheckpointDirectory directory(root_, 7);
  v1::DeleteCheckpoints remove;
  *remove.add_snapshots() = Pair(1, 1);
  EXPECT_TRUE(directory.Delete(remove).ok());  // No directory yet.
  Committed(&directory, 1, 1, 10);
  Committed(&directory, 1, 2, 20);
  for (int again = 0; again < 2; ++again) {
    const auto result = directory.Delete(remove);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(result->deleted(), ElementsAre(Pair(1, 1)));
    EXPECT_THAT(*ListDirectory(root_), ElementsAre("000001-00000002.step-20"));
  }
}

TEST_F(CheckpointDirectoryTest, WhatIsDeletedMeanwhileIsNotRetiredAgain) {
  CheckpointDirectory directory(root_, 7);
  Committed(&directory, 1, 1, 10);
  Committed(&directory, 1, 2, 20);
  v1::DeleteCheckpoints remove;
  *remove.add_snapshots() = Pair(1, 1);
  ASSERT_TRUE(directory.Delete(remove).ok());
  v1::CommitCheckpoint commit = Written(&directory, 1, 3, 30);
  commit.mutable_retention()->set_keep(1);
  EXPECT_THAT(directory.Commit(commit)->to_retire(), ElementsAre(Pair(1, 2)));
}

TEST_F(CheckpointDirectoryTest, ADamagedOneIsRetiredInItsTurn) {
  CheckpointDirectory directory(root_, 7);
  FlipBit(Committed(&directory, 1, 1, 10) + "/manifest.json", 77);
  std::filesystem::remove(Committed(&directory, 1, 2, 20) + "/manifest.json");
  CheckpointDirectory next(root_, 8);
  v1::CommitCheckpoint commit = Written(&next, 1, 3, 30);
  commit.mutable_retention()->set_keep(2);
  EXPECT_THAT(next.Commit(commit)->to_retire(), ElementsAre(Pair(1, 1)));
}

// What a newer paramd keeps is not for an older one to judge.
TEST_F(CheckpointDirectoryTest, BesideAManifestOfANewerFormatNoneIsRetired) {
  CheckpointDirectory directory(root_, 7);
  Committed(&directory, 1, 1, 10);
  const std::string newer = Committed(&directory, 1, 2, 20);
  v1::Manifest manifest = *ReadManifest(newer);
  manifest.set_min_reader(1000);
  Rewrite(newer, manifest);
  CheckpointDirectory next(root_, 8);
  v1::CommitCheckpoint commit = Written(&next, 1, 3, 30);
  commit.mutable_retention()->set_keep(1);
  EXPECT_THAT(next.Commit(commit)->to_retire(), IsEmpty());
}

TEST_F(CheckpointDirectoryTest, AManifestOfANewerFormatIsPassedOver) {
  CheckpointDirectory directory(root_, 7);
  const std::string older = Committed(&directory, 1, 1, 10);
  const std::string newer = Committed(&directory, 1, 2, 20);
  v1::Manifest manifest = *ReadManifest(newer);
  manifest.set_min_reader(1000);
  Rewrite(newer, manifest);
  EXPECT_EQ(directory.Find({})->path(), older);
  std::filesystem::remove_all(older);
  const auto alone = directory.Find({});
  EXPECT_EQ(alone.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(alone.status().message()),
              HasSubstr("needs a reader of format 1000"));
}

// The job went back to step 10, and counts on from there under a higher term.
TEST_F(CheckpointDirectoryTest, ARewindWhoseStepsHaveTheSameNumbersIsAnother) {
  CheckpointDirectory first(root_, 7);
  Committed(&first, 1, 1, 10);
  const std::string left = Committed(&first, 1, 2, 20);
  CheckpointDirectory second(root_, 8);
  const std::string again = Committed(&second, 2, 1, 20);
  EXPECT_NE(left, again);
  EXPECT_EQ(second.Find({})->path(), again);
  EXPECT_EQ(second.Find({})->manifest().snapshot(), Pair(2, 1));
}

// The same under one coordinator, whose servers go back.
TEST_F(CheckpointDirectoryTest, SoIsOneOfTheSameTerm) {
  CheckpointDirectory directory(root_, 7);
  Committed(&directory, 1, 1, 10);
  const std::string left = Committed(&directory, 1, 2, 20);
  const std::string again = Committed(&directory, 1, 3, 20);
  EXPECT_NE(left, again);
  EXPECT_EQ(directory.Find({})->path(), again);
  std::filesystem::remove(again + "/manifest.json");
  EXPECT_EQ(directory.Find({})->path(), left);
}

TEST_F(CheckpointDirectoryTest, LeftoversOfLowerNumbersAreDeleted) {
  CheckpointDirectory crashed(root_, 7);
  Written(&crashed, 1, 1, 10);
  std::filesystem::create_directories(root_ + "/.trash-000001-00000001.step-9");
  std::filesystem::create_directories(root_ + "/somebody's own");
  CheckpointDirectory directory(root_, 8);
  Written(&directory, 1, 2, 20);
  EXPECT_THAT(
      *ListDirectory(root_),
      ElementsAre(".tmp-000001-00000002-0000000000000008", "somebody's own"));
}

TEST_F(CheckpointDirectoryTest, AHigherLeftoverOfTheSameTermIsLeftAlone) {
  CheckpointDirectory directory(root_, 7);
  const v1::CommitCheckpoint higher = Written(&directory, 1, 3, 30);
  Committed(&directory, 1, 2, 20);
  EXPECT_TRUE(directory.Commit(higher).ok());
}

TEST_F(CheckpointDirectoryTest, ADirectoryThatCannotBeMadeIsNamed) {
  std::filesystem::create_directories(DirectoryOf(root_));
  std::ofstream(root_) << "a file";
  CheckpointDirectory directory(root_, 7);
  const auto result = directory.Prepare({});
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr(*AbsolutePath(root_)));
}

TEST_F(CheckpointDirectoryTest, ADirectoryThatMayNotBeWrittenIsNamed) {
  std::filesystem::create_directories(root_);
  ASSERT_EQ(chmod(root_.c_str(), 0555), 0);
  CheckpointDirectory directory(root_, 7);
  v1::PrepareCheckpoint prepare;
  *prepare.mutable_snapshot() = Pair(1, 1);
  absl::StatusOr<v1::PrepareCheckpointResult> result;
  {
    const WithoutCapabilities as_anybody;
    result = directory.Prepare(prepare);
  }
  chmod(root_.c_str(), 0755);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("permission denied"));
}

TEST_F(CheckpointDirectoryTest, ADirectoryThatWasNotPreparedIsRefused) {
  CheckpointDirectory directory(root_, 7);
  v1::CommitCheckpoint commit = Written(&directory, 1, 1, 10);
  commit.mutable_manifest()->mutable_snapshot()->set_counter(2);
  EXPECT_EQ(directory.Commit(commit).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CheckpointDirectoryTest, ANewerFormatIsRefusedByName) {
  CheckpointDirectory directory(root_, 7);
  v1::Manifest manifest = Written(&directory, 1, 1, 10).manifest();
  manifest.set_format(7);
  manifest.set_min_reader(6);
  const auto parsed = ParseManifest(*EncodeManifest(manifest));
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(parsed.status().message()),
              HasSubstr("needs a reader of format 6"));
}

// ---- a directory that is not the one that it was
// ------------------------------

// Of the sample's run; others are of other runs, or chiefs.
class HeldDirectoryTest : public CheckpointDirectoryTest {
 protected:
  HeldDirectoryTest() {
    InitLogging("directory_test", LogLevel::kError);
    EXPECT_TRUE(Prepare(&directory_, 1).ok());
  }
  ~HeldDirectoryTest() override {
    InitLogging("directory_test", LogLevel::kInfo);
  }
  static absl::Status Prepare(CheckpointDirectory* directory, uint64_t counter,
                              const std::string& run_id = "sample-1") {
    v1::PrepareCheckpoint prepare;
    *prepare.mutable_snapshot() = Pair(1, counter);
    prepare.set_run_id(run_id);
    return directory->Prepare(prepare).status();
  }
  void ExpectLost(absl::StatusCode code, const std::string& why) {
    const absl::Status prepared = Prepare(&directory_, 2);
    EXPECT_EQ(prepared.code(), code) << prepared;
    EXPECT_THAT(std::string(prepared.message()), HasSubstr(why));
    EXPECT_TRUE(directory_.held().lost());
    v1::DeleteCheckpoints remove;
    *remove.add_snapshots() = Pair(1, 1);
    EXPECT_FALSE(directory_.Delete(remove).ok());
    EXPECT_TRUE(absl::IsUnavailable(directory_.Find({}).status()));
  }

  CheckpointDirectory directory_{root_, 7};
  const std::string away_ = root_ + ".away";
};

TEST_F(HeldDirectoryTest, Promise3_OneThatIsGoneIsNotMadeAgain) {
  std::filesystem::rename(root_, away_);
  ExpectLost(absl::StatusCode::kNotFound, *AbsolutePath(root_));
  EXPECT_FALSE(std::filesystem::exists(root_));
  // It was not mounted for a while.
  std::filesystem::rename(away_, root_);
  EXPECT_TRUE(Prepare(&directory_, 2).ok());
  EXPECT_FALSE(directory_.held().lost());
}

TEST_F(HeldDirectoryTest, Promise3_IntoAnotherOneNothingIsWritten) {
  const v1::CommitCheckpoint commit = Written(&directory_, 1, 2, 20);
  std::filesystem::rename(root_, away_);
  std::filesystem::create_directory(root_);
  ExpectLost(absl::StatusCode::kFailedPrecondition, "instead of the directory");
  EXPECT_FALSE(directory_.Commit(commit).ok());
  EXPECT_THAT(*ListDirectory(root_), IsEmpty());
  std::filesystem::remove(root_);
  std::filesystem::rename(away_, root_);
  EXPECT_TRUE(directory_.Commit(commit).ok());
}

TEST_F(HeldDirectoryTest, OneThatIsMountedAgainIsKnownByItsMarker) {
  Committed(&directory_, 1, 1, 10);
  std::filesystem::rename(root_, away_);
  std::filesystem::copy(away_, root_, std::filesystem::copy_options::recursive);
  EXPECT_TRUE(Prepare(&directory_, 2).ok());
  EXPECT_EQ(directory_.Find({})->manifest().snapshot(), Pair(1, 1));
}

TEST_F(HeldDirectoryTest, OneThatWasEmptiedIsAnother) {
  std::filesystem::remove(root_ + "/.run");
  ExpectLost(absl::StatusCode::kFailedPrecondition, "/.run' is gone");
}

TEST_F(HeldDirectoryTest, OneThatAnotherRunHasTakenIsNamedWithBothRuns) {
  CheckpointDirectory successor(root_, 8), other(root_, 9);
  EXPECT_TRUE(Prepare(&successor, 2).ok());
  EXPECT_EQ(successor.held().marker(), directory_.held().marker());
  EXPECT_TRUE(Prepare(&other, 3, "b").ok());
  ExpectLost(absl::StatusCode::kFailedPrecondition,
             "of run b; this is run sample-1");
}

}  // namespace
}  // namespace paramd
