#include "worker/ready_gradients.h"

#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/paramd/v1/compute.pb.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Buffer Large() { return Buffer::Allocate(ReadyGradients::kAtOnceBytes); }
Buffer Small() { return Buffer::Allocate(8); }

// What one Take was answered with.
struct Taken {
  int answers = 0;
  std::vector<uint32_t> variables;
  std::vector<size_t> sizes;
  uint64_t left_out = 0;

  Runtime::IoDone Done() {
    return [this](IoResult result) {
      ++answers;
      const auto& head =
          static_cast<const v1::TakeGradientsResult&>(*result.head);
      variables.assign(head.variables().begin(), head.variables().end());
      left_out = head.left_out();
      for (const Buffer& buffer : result.payload) {
        sizes.push_back(buffer.size());
      }
    };
  }
};

TEST(ReadyGradientsTest, WhatIsReadyIsTakenAtOnce) {
  ReadyGradients ready;
  ready.Begin();
  ready.Add(3, Small());
  ready.Add(2, Large());
  Taken taken;
  ready.Take(taken.Done());
  EXPECT_EQ(taken.answers, 1);
  EXPECT_THAT(taken.variables, ElementsAre(3, 2));
  EXPECT_THAT(taken.sizes, ElementsAre(8, ReadyGradients::kAtOnceBytes));
}

TEST(ReadyGradientsTest, EachTakeIsToldWhatTheInputLeftOut) {
  ReadyGradients ready;
  ready.Begin();
  ready.SetLeftOut(3);
  for (int i = 0; i < 2; ++i) {
    ready.Add(2, Large());
    Taken taken;
    ready.Take(taken.Done());
    EXPECT_EQ(taken.left_out, 3u);
  }
  ready.End();
  ready.Begin();
  ready.Add(2, Large());
  Taken taken;
  ready.Take(taken.Done());
  EXPECT_EQ(taken.left_out, 0u);
}

TEST(ReadyGradientsTest, ATakeWaitsUntilThereIsEnough) {
  ReadyGradients ready;
  ready.Begin();
  Taken taken;
  ready.Take(taken.Done());
  ready.Add(3, Small());
  EXPECT_EQ(taken.answers, 0);
  ready.Add(2, Large());
  EXPECT_THAT(taken.variables, ElementsAre(3, 2));
  Taken next;
  ready.Take(next.Done());
  EXPECT_EQ(next.answers, 0);
}

TEST(ReadyGradientsTest, TheEndAnswersWithNothing) {
  ReadyGradients ready;
  ready.Begin();
  Taken taken;
  ready.Take(taken.Done());
  ready.Add(3, Small());
  ready.End();
  EXPECT_EQ(taken.answers, 1);
  EXPECT_THAT(taken.variables, IsEmpty());
  Taken late;
  ready.Take(late.Done());
  EXPECT_EQ(late.answers, 1);
  EXPECT_THAT(late.variables, IsEmpty());
}

TEST(ReadyGradientsTest, NothingOfOneComputationIsTakenInTheNext) {
  ReadyGradients ready;
  ready.Begin();
  ready.Add(3, Large());
  ready.End();
  ready.Begin();
  Taken taken;
  ready.Take(taken.Done());
  ready.Add(2, Large());
  EXPECT_THAT(taken.variables, ElementsAre(2));
}

TEST(ReadyGradientsTest, ASecondTakeAnswersTheFirst) {
  ReadyGradients ready;
  ready.Begin();
  Taken first, second;
  ready.Take(first.Done());
  ready.Take(second.Done());
  EXPECT_EQ(first.answers, 1);
  ready.Add(1, Large());
  EXPECT_THAT(first.variables, IsEmpty());
  EXPECT_THAT(second.variables, ElementsAre(1));
}

TEST(ReadyGradientsTest, EveryGradientIsTakenOnceAcrossThreads) {
  constexpr uint32_t kVariables = 200;
  ReadyGradients ready;
  ready.Begin();
  std::vector<uint32_t> seen;
  std::thread computing([&ready] {
    for (uint32_t v = kVariables; v-- > 0;) ready.Add(v, Large());
  });
  // Answers come on either thread, one after the other.
  while (seen.size() < kVariables) {
    Mutex mutex;
    CondVar changed;
    bool answered = false;
    ready.Take([&](IoResult result) {
      const MutexLock lock(&mutex);
      for (const uint32_t v :
           static_cast<const v1::TakeGradientsResult&>(*result.head)
               .variables()) {
        seen.push_back(v);
      }
      answered = true;
      changed.NotifyAll();
    });
    const MutexLock lock(&mutex);
    while (!answered) changed.Wait(&mutex);
  }
  computing.join();
  ASSERT_EQ(seen.size(), kVariables);
  for (uint32_t i = 0; i < kVariables; ++i) {
    EXPECT_EQ(seen[i], kVariables - 1 - i);
  }
}

}  // namespace
}  // namespace paramd
