#include "coordinator/configuration_log.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

class DirectoryLogTest : public ::testing::Test {
 protected:
  DirectoryLogTest()
      : directory_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name(),
            "/configuration")) {
    std::filesystem::remove_all(directory_);
  }

  static v1::LogEntry Entry(uint64_t number, uint64_t nonce) {
    v1::LogEntry entry;
    entry.set_number(number);
    entry.set_nonce(nonce);
    entry.set_run_id("run-1");
    entry.set_term(number);
    return entry;
  }

  const std::string directory_;
};

TEST_F(DirectoryLogTest, WithoutADirectoryItIsEmpty) {
  const auto entries = DirectoryLog(directory_).ReadAll();
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_TRUE(entries->empty());
}

TEST_F(DirectoryLogTest, EntriesComeBackInOrder) {
  DirectoryLog log(directory_);
  for (uint64_t number = 1; number <= 12; ++number) {
    v1::LogEntry entry = Entry(number, 7);
    if (number == 12) {
      entry.mutable_finished()->set_reason("all epochs are done: \"ü\"\n");
    }
    const absl::Status status = log.Append(entry);
    ASSERT_TRUE(status.ok()) << status;
  }
  const auto entries = DirectoryLog(directory_).ReadAll();
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 12u);
  EXPECT_EQ((*entries)[3].term(), 4u);
  EXPECT_EQ((*entries)[11].finished().reason(), "all epochs are done: \"ü\"\n");
}

TEST_F(DirectoryLogTest, ATakenNumberIsAborted) {
  DirectoryLog one(directory_), two(directory_);
  ASSERT_TRUE(one.Append(Entry(1, 7)).ok());
  EXPECT_EQ(two.Append(Entry(1, 8)).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(one.ReadAll()->at(0).nonce(), 7u);
}

TEST_F(DirectoryLogTest, TheSameEntryAgainIsOkWhileItIsTheNewest) {
  DirectoryLog log(directory_);
  ASSERT_TRUE(log.Append(Entry(1, 7)).ok());
  EXPECT_TRUE(log.Append(Entry(1, 7)).ok());
  ASSERT_TRUE(log.Append(Entry(2, 8)).ok());
  EXPECT_EQ(log.Append(Entry(1, 7)).code(), absl::StatusCode::kAborted);
}

TEST_F(DirectoryLogTest, NumbersAreDense) {
  DirectoryLog log(directory_);
  EXPECT_EQ(log.Append(Entry(0, 7)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(log.Append(Entry(2, 7)).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(log.ReadAll()->empty());
}

TEST_F(DirectoryLogTest, OneThatIsGoneIsNotMadeAgain) {
  DirectoryLog log(directory_);
  ASSERT_TRUE(log.Append(Entry(1, 7)).ok());
  std::filesystem::remove_all(directory_);
  EXPECT_TRUE(absl::IsFailedPrecondition(log.Append(Entry(2, 7))));
  EXPECT_FALSE(std::filesystem::exists(directory_));
}

TEST_F(DirectoryLogTest, OfManyWhoRaceForANumberOneWins) {
  constexpr int kAppenders = 8;
  for (uint64_t number = 1; number <= 10; ++number) {
    std::vector<absl::Status> statuses(kAppenders);
    std::vector<std::thread> threads;
    for (int i = 0; i < kAppenders; ++i) {
      threads.emplace_back([&, i] {
        statuses[i] = DirectoryLog(directory_).Append(Entry(number, i + 1));
      });
    }
    for (std::thread& thread : threads) thread.join();
    int winners = 0;
    for (int i = 0; i < kAppenders; ++i) {
      if (!statuses[i].ok()) {
        EXPECT_EQ(statuses[i].code(), absl::StatusCode::kAborted)
            << statuses[i];
        continue;
      }
      ++winners;
      EXPECT_EQ(DirectoryLog(directory_).ReadAll()->back().nonce(), i + 1u);
    }
    EXPECT_EQ(winners, 1);
  }
}

TEST_F(DirectoryLogTest, ADamagedOrMissingEntryIsNamed) {
  DirectoryLog log(directory_);
  for (uint64_t number = 1; number <= 3; ++number) {
    ASSERT_TRUE(log.Append(Entry(number, 7)).ok());
  }
  const std::string path = directory_ + "/00000002";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  auto entries = log.ReadAll();
  EXPECT_EQ(entries.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(entries.status().message()), HasSubstr("entry 2 ('"));
  std::ofstream(path) << "garbage";
  EXPECT_EQ(log.ReadAll().status().code(), absl::StatusCode::kDataLoss);
  std::filesystem::remove(path);
  entries = log.ReadAll();
  EXPECT_THAT(std::string(entries.status().message()), HasSubstr("is missing"));
}

TEST_F(DirectoryLogTest, WhatACrashLeftBehindIsNoEntry) {
  DirectoryLog log(directory_);
  ASSERT_TRUE(log.Append(Entry(1, 7)).ok());
  std::ofstream(directory_ + "/.tmp-2-0000000000000007-00000001") << "crc3";
  EXPECT_EQ(log.ReadAll()->size(), 1u);
  EXPECT_TRUE(log.Append(Entry(2, 7)).ok());
}

TEST_F(DirectoryLogTest, WhatACrashLeftBehindIsRemovedAndNothingElse) {
  DirectoryLog log(directory_);
  EXPECT_TRUE(log.RemoveCutOff().ok()) << "there is no directory";
  ASSERT_TRUE(log.Append(Entry(1, 7)).ok());
  const auto left = [this](const std::string& name) {
    return std::filesystem::exists(directory_ + "/" + name);
  };
  const std::string cut_off[] = {".tmp-2-0000000000000007-00000001",
                                 ".tmp-12345678901-ffffffffffffffff-00abcdef"};
  const std::string others[] = {"chief",
                                "chief.lock",
                                ".tmp-2",
                                ".tmp-2-7-1",
                                ".tmp-2-0000000000000007-0000001",
                                ".tmp-2-0000000000000007-00000001-",
                                ".tmp-02-0000000000000007-00000001"};
  for (const std::string& name : cut_off) {
    std::ofstream(directory_ + "/" + name) << "crc3";
  }
  for (const std::string& name : others) {
    std::ofstream(directory_ + "/" + name) << "mine";
  }
  EXPECT_TRUE(log.RemoveCutOff().ok());
  for (const std::string& name : cut_off) EXPECT_FALSE(left(name)) << name;
  for (const std::string& name : others) EXPECT_TRUE(left(name)) << name;
  EXPECT_EQ(log.ReadAll()->size(), 1u);
}

TEST_F(DirectoryLogTest, ADirectoryThatCannotBeMadeIsNamed) {
  std::filesystem::create_directories(directory_ + "/..");
  std::filesystem::remove_all(directory_);
  std::ofstream(directory_) << "a file";
  EXPECT_THAT(
      std::string(DirectoryLog(directory_).Append(Entry(1, 7)).message()),
      HasSubstr(directory_));
}

}  // namespace
}  // namespace paramd
