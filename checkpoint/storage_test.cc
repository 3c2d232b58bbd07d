#include "checkpoint/storage.h"

#include <string>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/directory.h"
#include "checkpoint/file.h"
#include "checkpoint/testing/memory_storage.h"
#include "checkpoint/testing/sample.h"
#include "proto/refusal.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

using testing::CommitSample;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MemoryStorage;
using testing::Pair;
using testing::SampleVariable;

MemoryStorage& Memory() {
  static auto* const memory = [] {
    auto* const made = new MemoryStorage();
    AddStorage("memory", made);
    return made;
  }();
  return *memory;
}

TEST(StorageOfTest, APathWithoutASchemeIsTheMachines) {
  for (const char* path : {"/a/b", "a/b", "", "/odd://name", "://x"}) {
    EXPECT_EQ(&StorageOf(path), &PosixStorage()) << path;
  }
  EXPECT_EQ(&StorageOf("memory://a/b"), static_cast<Storage*>(&Memory()));
}

TEST(StorageOfTest, AnUnknownSchemeIsRefusedByName) {
  const absl::Status status = ReadWholeFile("tape://1/x", 10).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'tape://1/x'"));
  EXPECT_FALSE(IsDirectory("tape://1"));
}

// All that is asked of a storage is in the interface: one that has nothing but
// whole objects keeps, finds, damages and deletes checkpoints as a disk does.
TEST(StorageTest, AnObjectStoreCanHoldCheckpoints) {
  Memory().objects().clear();
  const std::string root = "memory://bucket/job";
  std::string newest;
  for (const uint64_t counter : {1, 2, 3}) {
    const auto path = CommitSample(root, {SampleVariable("w", {10})}, {}, 1,
                                   counter, 10 * counter, /*servers=*/2,
                                   /*slice_bytes=*/20);
    ASSERT_TRUE(path.ok()) << path.status();
    newest = *path;
  }
  EXPECT_EQ(newest, root + "/000001-00000003.step-30");
  CheckpointDirectory directory(root, 7);
  EXPECT_EQ(directory.Find({})->path(), newest);
  for (auto& [key, content] : Memory().objects()) {
    if (absl::StartsWith(key, newest + "/ps-")) content.pop_back();
  }
  EXPECT_EQ(directory.Find({})->manifest().snapshot(), Pair(1, 2));
  v1::DeleteCheckpoints remove;
  *remove.add_snapshots() = Pair(1, 1);
  *remove.add_snapshots() = Pair(1, 3);
  ASSERT_TRUE(directory.Delete(remove).ok());
  EXPECT_THAT(*ListDirectory(root), ElementsAre("000001-00000002.step-20"));
}

}  // namespace
}  // namespace paramd
