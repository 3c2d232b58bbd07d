#include "worker/pipeline/stage_threads.h"

#include "gtest/gtest.h"

#include "worker/pipeline/stage_mail.h"

namespace paramd {
namespace {

// Device 0 waits for mail that never comes.
absl::Status Wait(StageMail* mail) { return mail->Take({}).status(); }

TEST(StageThreadsTest, TheFirstErrorLetsTheOthersEndAndIsReturned) {
  StageThreads threads(3);
  StageMail mail;
  const absl::Status ran = threads.Run(
      [&](uint32_t device) {
        if (device == 0) return Wait(&mail);
        return device == 1 ? absl::DataLossError("example 7")
                           : absl::OkStatus();
      },
      [&] { mail.Cancel(); });
  EXPECT_EQ(ran, absl::DataLossError("example 7"));
  // They are as new.
  mail.Begin();
  EXPECT_TRUE(threads
                  .Run([](uint32_t) { return absl::OkStatus(); },
                       [&] { mail.Cancel(); })
                  .ok());
}

TEST(StageThreadsTest, WhoeverEndsWellDoesNotHideThatAnotherWasCancelled) {
  for (int i = 0; i < 50; ++i) {
    StageThreads threads(3);
    const absl::Status ran = threads.Run(
        [](uint32_t device) {
          return device == 0 ? absl::CancelledError("the step was abandoned")
                             : absl::OkStatus();
        },
        [] {});
    EXPECT_TRUE(absl::IsCancelled(ran)) << ran;
  }
}

TEST(StageMailTest, WhatWasPutIsTakenOnceInAnyOrder) {
  StageMail mail;
  mail.Begin();
  const StageMail::Key first = {false, 0, 1, 0}, second = {false, 0, 1, 1};
  mail.Put(second, Buffer::Copy(std::string("b")));
  mail.Put(first, Buffer::Copy(std::string("a")));
  EXPECT_EQ(FlattenForTest({*mail.Take(first)}), "a");
  EXPECT_EQ(FlattenForTest({*mail.Take(second)}), "b");
  mail.Cancel();
  EXPECT_TRUE(absl::IsCancelled(mail.Take(first).status()));
}

TEST(BorderMemoryTest, APieceIsUsedAgainOnceNobodyHasIt) {
  BorderMemory memory;
  std::byte* first = nullptr;
  std::byte* second = nullptr;
  std::byte* third = nullptr;
  Buffer held = memory.Take(64, &first);
  memory.Take(64, &second);
  EXPECT_NE(first, second);
  held = Buffer();
  const Buffer smaller = memory.Take(32, &third);
  EXPECT_EQ(third, first);
  EXPECT_EQ(smaller.size(), 32u);
}

}  // namespace
}  // namespace paramd
