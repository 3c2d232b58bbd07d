#include "coordinator/core/test_parts.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

v1::SessionId SessionNumber(uint64_t counter) {
  return MakeNumber<v1::SessionId>(1, counter);
}

// What its first `count` batches come to: each says which it is.
v1::TestedBatches Counted(const v1::TestPart& part, uint64_t count) {
  v1::TestedBatches tested;
  *tested.mutable_part() = part;
  for (uint64_t i = 0; i < count; ++i) {
    tested.add_batches()->set_examples(part.begin() + i);
  }
  return tested;
}

v1::TestedBatches Counted(const v1::TestPart& part) {
  return Counted(part, part.end() - part.begin());
}

void ExpectAllInOrder(uint64_t batches, TestParts* parts) {
  ASSERT_TRUE(parts->complete());
  const v1::MergeBatches all = parts->TakeAll();
  ASSERT_EQ(static_cast<uint64_t>(all.batches_size()), batches);
  for (uint64_t i = 0; i < batches; ++i) {
    EXPECT_EQ(all.batches(static_cast<int>(i)).examples(), i);
  }
}

TEST(TestPartsTest, WorkersShareAllBatchesWhateverTheirNumber) {
  for (const uint64_t batches : {0u, 1u, 2u, 9u, 24u, 1001u}) {
    for (const uint32_t workers : {1u, 2u, 3u, 7u}) {
      TestParts parts(1, 1, batches, workers);
      TestParts::Sessions able;
      for (uint32_t w = 0; w < workers; ++w) able[w] = SessionNumber(w + 1);
      // The one with the highest number is the quickest.
      while (!parts.complete()) {
        parts.Lease(able);
        for (uint32_t w = workers; w-- > 0;) {
          const auto part = parts.Of(w);
          if (!part.has_value()) continue;
          EXPECT_TRUE(parts.Take(w, Counted(*part)));
        }
      }
      ExpectAllInOrder(batches, &parts);
    }
  }
}

TEST(TestPartsTest, APartIsOneWorkers) {
  TestParts parts(1, 1, 100, 2);
  parts.Lease({{0, SessionNumber(1)}, {1, SessionNumber(2)}});
  ASSERT_TRUE(parts.Of(0).has_value() && parts.Of(1).has_value());
  EXPECT_EQ(parts.Of(0)->begin(), 0u);
  EXPECT_EQ(parts.Of(0)->end(), parts.Of(1)->begin());
  EXPECT_FALSE(parts.Of(2).has_value());
  EXPECT_FALSE(parts.Take(1, Counted(*parts.Of(0))));
}

TEST(TestPartsTest, WhatIsLeftOfAPartGoesToAnotherWorkerWhenItsOwnIsGone) {
  TestParts parts(1, 1, 80, 2);
  parts.Lease({{0, SessionNumber(1)}, {1, SessionNumber(2)}});
  const v1::TestPart lost = *parts.Of(1);
  EXPECT_TRUE(parts.Take(1, Counted(lost, 3)));
  EXPECT_EQ(parts.Of(1)->begin(), lost.begin() + 3);
  const v1::TestPart left = *parts.Of(1);
  parts.Lease({{0, SessionNumber(1)}});
  EXPECT_FALSE(parts.Of(1).has_value());
  EXPECT_FALSE(parts.Take(1, Counted(left))) << "it was given up";
  EXPECT_TRUE(parts.Take(0, Counted(*parts.Of(0))));
  parts.Lease({{0, SessionNumber(1)}});
  EXPECT_EQ(parts.Of(0)->begin(), lost.begin() + 3);
  EXPECT_EQ(parts.Of(0)->end(), lost.end());
}

TEST(TestPartsTest, TheNextProcessOfAWorkerHasAPartOfItsOwn) {
  TestParts parts(1, 1, 80, 1);
  parts.Lease({{0, SessionNumber(1)}});
  EXPECT_TRUE(parts.Take(0, Counted(*parts.Of(0), 2)));
  parts.Lease({{0, SessionNumber(5)}});
  ASSERT_TRUE(parts.Of(0).has_value());
  EXPECT_EQ(parts.Of(0)->begin(), 2u);
}

TEST(TestPartsTest, WhatComesAgainOrLateChangesNothing) {
  TestParts parts(2, 3, 8, 1);
  parts.Lease({{0, SessionNumber(1)}});
  const v1::TestedBatches first = Counted(*parts.Of(0), 1);
  EXPECT_TRUE(parts.Take(0, first));
  EXPECT_FALSE(parts.Take(0, first));
  v1::TestedBatches other = Counted(*parts.Of(0), 1);
  other.mutable_part()->set_evaluation(2);
  EXPECT_FALSE(parts.Take(0, other)) << "of an evaluation before";
  other = Counted(*parts.Of(0), 1);
  other.mutable_part()->set_term(1);
  EXPECT_FALSE(parts.Take(0, other)) << "of another coordinator";
  EXPECT_FALSE(parts.Take(0, Counted(*parts.Of(0), 0)));
  EXPECT_FALSE(parts.Take(0, Counted(*parts.Of(0), 100))) << "too many";
  EXPECT_EQ(parts.Of(0)->begin(), 1u);
}

}  // namespace
}  // namespace paramd
