#include "coordinator/summary/summary_writer.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "checkpoint/testing/system_calls.h"
#include "coordinator/summary/event.pb.h"
#include "coordinator/summary/tf_record.h"

namespace paramd {
namespace {

using testing::SystemCalls;

std::string NewDirectory(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/", name, "-", getpid());
}

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

v1::WriteSummary Scalar(uint64_t step, const std::string& tag, double value) {
  v1::WriteSummary summary;
  summary.set_step(step);
  (*summary.mutable_scalars())[tag] = value;
  return summary;
}

v1::WriteSummary Restart(uint64_t step) {
  v1::WriteSummary summary;
  summary.set_step(step);
  summary.set_restarted(true);
  return summary;
}

std::vector<std::string> FilesIn(const std::string& directory) {
  return *ListDirectory(directory);
}

// The events of a file; fails if a record is not whole or damaged.
std::vector<summary::Event> EventsOf(const std::string& path) {
  std::vector<summary::Event> events;
  const std::string text = *ReadWholeFile(path, uint64_t{1} << 20);
  absl::string_view rest = text;
  while (const auto data = TakeTfRecord(&rest)) {
    EXPECT_TRUE(events.emplace_back().ParseFromString(std::string(*data)));
  }
  EXPECT_TRUE(rest.empty());
  return events;
}

TEST(TfRecordTest, HasLengthAndMaskedChecksumsAround) {
  // As TensorBoard's RecordWriter writes b"paramd".
  EXPECT_EQ(absl::BytesToHexString(TfRecord("paramd")),
            "0600000000000000"
            "7369d537"
            "706172616d64"
            "1d799bd7");
}

TEST(SummaryWriterTest, AFileBeginsWithItsVersionAndHasEachScalar) {
  const std::string directory = NewDirectory("begins");
  {
    SummaryWriter writer(directory);
    EXPECT_TRUE(writer.Write(Scalar(100, "train/loss", 0.5), At(1000)).ok());
    EXPECT_TRUE(writer.Write(Scalar(200, "workers", 2), At(1002)).ok());
  }
  const auto files = FilesIn(directory);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_TRUE(absl::StartsWith(files[0], "events.out.tfevents.0000001000."))
      << files[0];
  EXPECT_TRUE(absl::EndsWith(files[0], absl::StrCat(".", getpid())));
  const auto events = EventsOf(absl::StrCat(directory, "/", files[0]));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].step(), 100);
  EXPECT_EQ(events[1].wall_time(), 1000);
  EXPECT_EQ(events[1].summary().value(0).tag(), "train/loss");
  EXPECT_EQ(events[1].summary().value(0).simple_value(), 0.5f);
  EXPECT_EQ(events[2].step(), 200);
}

TEST(SummaryWriterTest, ARestartIsSaidBeforeWhatComesAfterIt) {
  const std::string directory = NewDirectory("restart");
  SummaryWriter writer(directory);
  EXPECT_TRUE(writer.Write(Restart(300), At(1000)).ok());
  EXPECT_TRUE(writer.Write(Scalar(400, "workers", 1), At(1001)).ok());
  const auto events =
      EventsOf(absl::StrCat(directory, "/", FilesIn(directory)[0]));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].step(), 300);
  EXPECT_EQ(events[1].session_log().status(), summary::SessionLog::START);
  EXPECT_EQ(events[2].step(), 400);
}

TEST(TfRecordTest, WhatIsNotWholeOrDamagedIsNoRecord) {
  const std::string record = TfRecord("paramd");
  for (size_t size = 0; size < record.size(); ++size) {
    absl::string_view rest = absl::string_view(record).substr(0, size);
    EXPECT_FALSE(TakeTfRecord(&rest).has_value()) << size;
  }
  for (size_t at = 0; at < record.size(); ++at) {
    std::string damaged = record;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    absl::string_view rest = damaged;
    EXPECT_FALSE(TakeTfRecord(&rest).has_value()) << at;
  }
}

TEST(SummaryWriterTest, AScalarThatIsZeroHasItsValue) {
  const std::string directory = NewDirectory("zero");
  SummaryWriter writer(directory);
  EXPECT_TRUE(writer.Write(Scalar(1, "staleness/mean", 0), At(1000)).ok());
  const auto events =
      EventsOf(absl::StrCat(directory, "/", FilesIn(directory)[0]));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].summary().value(0).value_case(),
            summary::Summary::Value::kSimpleValue);
}

TEST(SummaryWriterTest, ARestartWritesAgainWhatEachTagHadAtItsStep) {
  const std::string directory = NewDirectory("again");
  {
    SummaryWriter writer(directory);
    EXPECT_TRUE(writer.Write(Scalar(100, "workers", 1), At(1000)).ok());
    EXPECT_TRUE(writer.Write(Scalar(300, "workers", 3), At(1000)).ok());
    EXPECT_TRUE(writer.Write(Scalar(400, "late", 9), At(1000)).ok());
  }
  {
    // By this one 300 is void, also for the life after it.
    SummaryWriter writer(directory);
    EXPECT_TRUE(writer.Write(Restart(200), At(1001)).ok());
  }
  SummaryWriter writer(directory);
  EXPECT_TRUE(writer.Write(Restart(350), At(1002)).ok());
  const auto files = FilesIn(directory);
  ASSERT_EQ(files.size(), 3u);
  const auto events = EventsOf(absl::StrCat(directory, "/", files[2]));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[2].step(), 350);
  ASSERT_EQ(events[2].summary().value_size(), 1);
  EXPECT_EQ(events[2].summary().value(0).tag(), "workers");
  EXPECT_EQ(events[2].summary().value(0).simple_value(), 1);
}

TEST(SummaryWriterTest, ALaterFileHasALaterNameAlsoIfTheClockWasSetBack) {
  const std::string directory = NewDirectory("clock");
  for (const int64_t seconds : {1000, 1000, 400}) {
    SummaryWriter writer(directory);
    EXPECT_TRUE(writer.Write(Scalar(1, "workers", 1), At(seconds)).ok());
  }
  const auto files = FilesIn(directory);
  ASSERT_EQ(files.size(), 3u);
  EXPECT_TRUE(absl::StrContains(files[1], ".0000001001.")) << files[1];
  EXPECT_TRUE(absl::StrContains(files[2], ".0000001002.")) << files[2];
}

TEST(SummaryWriterTest, NothingIsWrittenBehindATornRecord) {
  const std::string directory = NewDirectory("torn");
  SummaryWriter writer(directory);
  EXPECT_TRUE(writer.Write(Scalar(1, "workers", 1), At(1000)).ok());
  absl::Status full;
  {
    const SystemCalls calls(SystemCalls::Fault::kFull, 0, ENOSPC);
    full = writer.Write(Scalar(2, "workers", 1), At(1001));
  }
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(full.message(), directory)) << full;
  EXPECT_TRUE(writer.Write(Scalar(3, "workers", 1), At(1002)).ok());
  const auto files = FilesIn(directory);
  ASSERT_EQ(files.size(), 2u);
  const auto events = EventsOf(absl::StrCat(directory, "/", files[1]));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].step(), 3);
}

TEST(SummaryWriterTest, AFullDiskLeavesNoEmptyFiles) {
  const std::string directory = NewDirectory("full");
  SummaryWriter writer(directory);
  EXPECT_TRUE(writer.Write(Scalar(1, "workers", 1), At(1000)).ok());
  {
    const SystemCalls calls(SystemCalls::Fault::kFull, 0, ENOSPC);
    for (uint64_t step = 2; step < 6; ++step) {
      EXPECT_FALSE(writer.Write(Scalar(step, "workers", 1), At(1001)).ok());
    }
  }
  EXPECT_EQ(FilesIn(directory).size(), 1u);
  EXPECT_TRUE(writer.Write(Scalar(6, "workers", 1), At(1002)).ok());
  EXPECT_EQ(FilesIn(directory).size(), 2u);
}

TEST(SummaryWriterTest, ADirectoryThatCannotBeMadeIsNamed) {
  SummaryWriter writer("/proc/none");
  const absl::Status status = writer.Write(Scalar(1, "workers", 1), At(1000));
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(absl::StrContains(status.message(), "/proc/none")) << status;
}

}  // namespace
}  // namespace paramd
