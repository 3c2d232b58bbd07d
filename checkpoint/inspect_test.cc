#include "checkpoint/inspect.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/directory.h"
#include "checkpoint/testing/sample.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

using testing::CommitSample;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::SampleVariable;

class InspectTest : public ::testing::Test {
 protected:
  InspectTest()
      : run_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(run_);
  }

  std::string Commit(uint64_t counter, uint64_t step) {
    const auto path = CommitSample(run_ + "/checkpoints", variables_,
                                   {"momentum"}, 1, counter, step, 2, 400);
    EXPECT_TRUE(path.ok()) << path.status();
    return *path;
  }

  const std::string run_;
  const std::vector<v1::Variable> variables_ = {
      SampleVariable("layer/kernel", {37, 11}), SampleVariable("scale", {})};
};

TEST_F(InspectTest, TheListHasALineForEachNewestFirst) {
  Commit(1, 10);
  Commit(2, 20);
  for (const char* below : {"", "/checkpoints"}) {
    const auto text = ListCheckpoints(run_ + below);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_THAT(*text, ContainsRegex(
                           "000001-00000002.step-20 +20 +20..-..-..T.*ok\n"
                           "000001-00000001.step-10 +10 +20..-..-..T.*ok\n$"));
  }
}

TEST_F(InspectTest, TheListSaysWhatIsWrong) {
  const std::string path = Commit(1, 10);
  std::filesystem::resize_file(path + "/ps-00002-of-00002.safetensors", 30);
  size_t damaged = 0;
  EXPECT_THAT(*ListCheckpoints(run_, &damaged),
              HasSubstr("safetensors' has 30 bytes"));
  EXPECT_EQ(damaged, 1u);
  std::filesystem::remove(path + "/manifest.json");
  EXPECT_THAT(*ListCheckpoints(run_), HasSubstr("manifest.json"));
}

TEST_F(InspectTest, OneIsDescribedByRunDirectoryAndPathAlike) {
  Commit(1, 10);
  const std::string newest = Commit(2, 20);
  for (const std::string& path : {run_, run_ + "/checkpoints", newest}) {
    const auto text = InspectCheckpoint(path);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_THAT(*text, HasSubstr("snapshot    1.2\nstep        20\n"));
    EXPECT_THAT(*text, ContainsRegex("layer/kernel +37x11 +5 +momentum\n"));
    EXPECT_THAT(*text, ContainsRegex("scale +scalar +1 +momentum"));
    EXPECT_THAT(*text, ContainsRegex("ps-00001-of-00002.safetensors +ps-0"));
  }
}

TEST_F(InspectTest, RowsByKeyAreCountedByWhenTheyWereNamed) {
  v1::Variable table = SampleVariable("table", {103, 4});
  table.set_sparse(true);
  table.set_keyed(true);
  ASSERT_TRUE(CommitSample(run_ + "/checkpoints", {table, variables_[0]},
                           {"key", "used", "momentum"}, 1, 1, 10, 2, 400)
                  .ok());
  const auto text = InspectCheckpoint(run_, /*values=*/true);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, ContainsRegex("table +103x4 +5 +key,momentum,used"));
  EXPECT_THAT(*text, ContainsRegex("layer/kernel +37x11 +5 +momentum "));
  // 4 values and momentums, key and use: 48 bytes a row.
  EXPECT_THAT(*text, ContainsRegex("\ntable +103 +102 +4.9 kB +"
                                   "20 +21 +21 +20 +20\n"));
}

TEST_F(InspectTest, NumbersAreReadOnlyIfTheyAreAskedFor) {
  const std::string path = Commit(1, 10);
  EXPECT_THAT(*InspectCheckpoint(run_, /*values=*/true),
              ContainsRegex("layer/kernel +37x11 +5 +momentum +-0."));
  std::fstream file(path + "/ps-00001-of-00002.safetensors",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-3, std::ios::end);
  file.put('!');
  file.close();
  EXPECT_THAT(*ListCheckpoints(run_), HasSubstr(" ok\n"));
  EXPECT_THAT(*InspectCheckpoint(run_), HasSubstr("layer/kernel"));
  const auto text = InspectCheckpoint(run_, /*values=*/true);
  EXPECT_EQ(text.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("crc32c"));
}

TEST_F(InspectTest, WhatIsLostIsListedByWorkerAndServer) {
  Commit(1, 10);
  EXPECT_THAT(*InspectCheckpoint(run_), Not(HasSubstr("\nlost ")));
  v1::LostPushes lost;
  lost.set_worker(3);
  *lost.mutable_generation() = testing::Pair(1, 7);
  lost.set_from(81);
  lost.set_to(100);
  lost.set_server(1);
  *lost.mutable_server_generation() = testing::Pair(1, 20);
  v1::LostPushes long_gone;
  long_gone.set_from(1);
  long_gone.set_to(7);
  ASSERT_TRUE(CommitSample(run_ + "/checkpoints", variables_, {"momentum"}, 1,
                           2, 20, 2, 400, {lost, long_gone})
                  .ok());
  const std::string text = *InspectCheckpoint(run_);
  EXPECT_THAT(text,
              ContainsRegex("lost +worker +generation +pushes +found by"));
  EXPECT_THAT(
      text, ContainsRegex("ps-1 +worker-3 +1.7 +81 to 100 +generation 1.20\n"));
  EXPECT_THAT(text, ContainsRegex("ps-0 +- +- +7 of sessions long gone"));
}

TEST_F(InspectTest, WhatOneServerAcknowledgedAloneIsShownIfThereIsAny) {
  Commit(1, 10);
  EXPECT_THAT(*InspectCheckpoint(run_), Not(HasSubstr("on one server")));
  ASSERT_TRUE(CommitSample(run_ + "/checkpoints", variables_, {"momentum"}, 1,
                           2, 20, 2, 400, {}, /*alone=*/12)
                  .ok());
  EXPECT_THAT(*InspectCheckpoint(run_),
              ContainsRegex("acknowledged on one server +chunks\n"
                            "ps-0 +12\nps-1 +12\n"));
}

TEST_F(InspectTest, WhatAnIncrementHasAsItsBaseIsShown) {
  const auto path = testing::CommitIncrement(
      Commit(1, 10),
      [](const auto& slice, uint64_t) { return slice.variable() == "scale"; });
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_THAT(*ListCheckpoints(run_),
              HasSubstr("ok, incremental, base 000001-00000001.step-10\n"));
  const std::string text = *InspectCheckpoint(run_, /*values=*/true);
  EXPECT_THAT(text, ContainsRegex("ps-00001-of-00002.safetensors +ps-0 .* "
                                  "000001-00000001.step-10/ps-00001-of-00002"));
  // The number of the increment, not the base's.
  const auto scale = [](const std::string& all) {
    return all.substr(all.find("scale "));
  };
  const auto base =
      InspectCheckpoint(run_ + "/checkpoints/000001-00000001.step-10", true);
  ASSERT_TRUE(base.ok()) << base.status();
  EXPECT_NE(scale(text), scale(*base));
}

TEST_F(InspectTest, ADamagedOneIsRefusedByName) {
  const std::string path = Commit(1, 10);
  std::filesystem::resize_file(path + "/ps-00002-of-00002.safetensors", 30);
  EXPECT_EQ(InspectCheckpoint(run_).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(InspectTest, WithoutACheckpointThePathIsNamed) {
  std::filesystem::create_directories(run_);
  for (const std::string& path : {run_, run_ + "/nowhere"}) {
    for (const auto& text : {ListCheckpoints(path), InspectCheckpoint(path)}) {
      EXPECT_EQ(text.status().code(), absl::StatusCode::kNotFound);
      EXPECT_THAT(std::string(text.status().message()),
                  HasSubstr(*AbsolutePath(path)));
    }
  }
}

}  // namespace
}  // namespace paramd
