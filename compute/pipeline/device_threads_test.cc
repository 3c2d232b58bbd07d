#include "compute/pipeline/device_threads.h"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "compute/pipeline/stage_mail.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using Done = std::pair<int, size_t>;  // Which work; which operation.

bool Always(uint32_t, size_t) { return true; }

TEST(DeviceThreadsTest, EachDeviceDoesItsListInOrder) {
  DeviceThreads threads(3);
  std::vector<size_t> done[3];
  const auto run = [&](uint32_t device, size_t operation) {
    done[device].push_back(operation);
    return absl::OkStatus();
  };
  EXPECT_TRUE(threads.Run({{2, 0, 3}, Always, run}).ok());
  EXPECT_THAT(done[0], ElementsAre(0, 1));
  EXPECT_THAT(done[1], ElementsAre());
  EXPECT_THAT(done[2], ElementsAre(0, 1, 2));
}

TEST(DeviceThreadsTest, TheFirstErrorEndsAWorkThatOthersWaitIn) {
  DeviceThreads threads(3);
  std::atomic<int> ended{0};
  // Device 0 would wait for the second operation of device 1.
  const auto ready = [&](uint32_t device, size_t) {
    return device != 0 || ended == 2;
  };
  const auto fail = [&](uint32_t device, size_t) {
    return device == 1 ? absl::DataLossError("example 7") : absl::OkStatus();
  };
  EXPECT_EQ(threads.Run({{1, 2, 1}, ready, fail}),
            absl::DataLossError("example 7"));
  // They are as new.
  const auto count = [&](uint32_t device, size_t) {
    if (device == 1) ++ended;
    return absl::OkStatus();
  };
  EXPECT_TRUE(threads.Run({{1, 2, 1}, ready, count}).ok());
}

// The first work waits in its second operation until the second work is done,
// all of which is on the same device.
TEST(DeviceThreadsTest, ADeviceGoesOnWithTheNextWorkWhereTheOldestWaits) {
  DeviceThreads threads(1);
  std::atomic<bool> first_began{false}, second_done{false};
  std::vector<Done> done;  // Of the device's thread.
  std::thread first([&] {
    const auto ready = [&](uint32_t, size_t operation) {
      return operation == 0 || second_done.load();
    };
    const auto run = [&](uint32_t, size_t operation) {
      done.emplace_back(1, operation);
      first_began = true;
      return absl::OkStatus();
    };
    EXPECT_TRUE(threads.Run({{2}, ready, run}).ok());
  });
  while (!first_began) std::this_thread::yield();
  const auto run = [&](uint32_t, size_t operation) {
    done.emplace_back(2, operation);
    second_done = operation == 1;
    return absl::OkStatus();
  };
  EXPECT_TRUE(threads.Run({{2}, Always, run}).ok());
  first.join();
  EXPECT_THAT(done,
              ElementsAre(Done(1, 0), Done(2, 0), Done(2, 1), Done(1, 1)));
}

// Works of random lengths from several threads at the same time, each of which
// waits for what another device does of it: all end, with all of it done.
TEST(DeviceThreadsTest, WorksOfSeveralThreadsAllEnd) {
  constexpr uint32_t kDevices = 3;
  DeviceThreads threads(kDevices);
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&threads, c] {
      for (size_t length = 1; length < 40; ++length) {
        std::atomic<size_t> ended[kDevices] = {};
        // An operation waits for the same one of the device before.
        const auto ready = [&](uint32_t device, size_t operation) {
          return device == 0 || ended[device - 1] > operation;
        };
        const auto run = [&](uint32_t device, size_t) {
          ++ended[device];
          return absl::OkStatus();
        };
        const size_t operations = length + static_cast<size_t>(c);
        ASSERT_TRUE(
            threads.Run({std::vector<size_t>(kDevices, operations), ready, run})
                .ok());
        for (const auto& count : ended) EXPECT_EQ(count, operations);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(StageMailTest, WhatWasPutIsTakenOnceInAnyOrder) {
  StageMail mail;
  mail.Begin();
  const StageMail::Key first = {false, 0, 1, 0}, second = {false, 0, 1, 1};
  mail.Put(second, Buffer::Copy(std::string("b")));
  EXPECT_FALSE(mail.Has(first));
  mail.Put(first, Buffer::Copy(std::string("a")));
  EXPECT_EQ(FlattenForTest({mail.Take(first)}), "a");
  EXPECT_EQ(FlattenForTest({mail.Take(second)}), "b");
  EXPECT_FALSE(mail.Has(first));
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
