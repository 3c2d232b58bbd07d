#include "coordinator/core/base_files.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

using testing::Pair;

v1::ShardFile FileOf(uint32_t server, uint64_t base) {
  v1::ShardFile file;
  file.set_server(server);
  file.set_name(server == 0 ? "first" : "second");
  file.set_bytes(100 + server);
  file.set_crc32c(7 + server);
  if (base != 0) *file.mutable_base()->mutable_snapshot() = Pair(1, base);
  return file;
}

// Of two servers: checkpoint 1.`counter`, whose files refer to these bases.
void Commit(uint64_t counter, uint64_t first_base, uint64_t second_base,
            BaseFiles* bases) {
  v1::Manifest manifest;
  *manifest.mutable_snapshot() = Pair(1, counter);
  *manifest.add_files() = FileOf(0, first_base);
  *manifest.add_files() = FileOf(1, second_base);
  bases->Committing(manifest);
  bases->Committed(absl::StrCat("/run/checkpoints/step-", counter));
}

TEST(BaseFilesTest, WithoutIncrementalOnesEachHasAllBlocks) {
  BaseFiles bases(0);
  EXPECT_TRUE(IsZero(bases.Next()));
  Commit(1, 0, 0, &bases);
  EXPECT_TRUE(IsZero(bases.Next()));
}

TEST(BaseFilesTest, AfterSoManyThatReferToItTheNextHasAllBlocks) {
  BaseFiles bases(2);
  EXPECT_TRUE(IsZero(bases.Next())) << "there is none yet";
  Commit(1, 0, 0, &bases);
  EXPECT_EQ(bases.Next(), Pair(1, 1));
  Commit(2, 1, 1, &bases);
  EXPECT_EQ(bases.Next(), Pair(1, 1)) << "no checkpoint with a base is one";
  Commit(3, 0, 1, &bases);
  EXPECT_TRUE(IsZero(bases.Next()));
  Commit(4, 0, 0, &bases);
  EXPECT_EQ(bases.Next(), Pair(1, 4));
}

TEST(BaseFilesTest, OneWhoseServersWroteAllBlocksUnaskedIsABase) {
  BaseFiles bases(2);
  Commit(1, 0, 0, &bases);
  Commit(2, 0, 0, &bases);
  EXPECT_EQ(bases.Next(), Pair(1, 2));
}

TEST(BaseFilesTest, WhatWasNotCommittedIsNone) {
  BaseFiles bases(2);
  Commit(1, 0, 0, &bases);
  v1::Manifest lost;
  *lost.mutable_snapshot() = Pair(1, 2);
  *lost.add_files() = FileOf(0, 0);
  bases.Committing(lost);
  EXPECT_EQ(bases.Next(), Pair(1, 1));
}

TEST(BaseFilesTest, WhatWillBeDeletedIsNone) {
  BaseFiles bases(2);
  Commit(1, 0, 0, &bases);
  bases.Retired(Pair(1, 7));
  EXPECT_EQ(bases.Next(), Pair(1, 1));
  bases.Retired(Pair(1, 1));
  EXPECT_TRUE(IsZero(bases.Next()));
}

TEST(BaseFilesTest, AFileIsToldWhereItsBaseLies) {
  BaseFiles bases(2);
  Commit(1, 0, 0, &bases);
  v1::ShardFile file = FileOf(1, 1);
  file.set_name("later");
  ASSERT_TRUE(bases.Complete(Pair(1, 1), &file).ok());
  EXPECT_EQ(file.base().snapshot(), Pair(1, 1));
  EXPECT_EQ(file.base().directory(), "step-1");
  EXPECT_EQ(file.base().name(), "second");
  EXPECT_EQ(file.base().bytes(), 101u);
  EXPECT_EQ(file.base().crc32c(), 8u);
  v1::ShardFile whole = FileOf(1, 0);
  ASSERT_TRUE(bases.Complete(Pair(1, 1), &whole).ok());
  EXPECT_FALSE(whole.has_base());
}

TEST(BaseFilesTest, AFileThatRefersToAnotherBaseIsRefusedByName) {
  BaseFiles bases(2);
  Commit(1, 0, 0, &bases);
  v1::ShardFile file = FileOf(0, 2);
  EXPECT_EQ(bases.Complete(Pair(1, 1), &file).message(),
            "'first' of ps-0 refers to its file of checkpoint 1.2, not of 1.1");
  file = FileOf(0, 1);
  EXPECT_EQ(
      bases.Complete({}, &file).message(),
      "'first' of ps-0 refers to its file of checkpoint 1.1, not of none");
  file = FileOf(2, 1);
  EXPECT_FALSE(bases.Complete(Pair(1, 1), &file).ok()) << "no such server";
  EXPECT_EQ(file.base().name(), "");
}

}  // namespace
}  // namespace paramd
