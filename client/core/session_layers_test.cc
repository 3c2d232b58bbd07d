// Pushes that leave layer by layer, and those that are of some variables.
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/core/session.h"
#include "client/core/testing/configurations.h"
#include "client/core/testing/session_test_base.h"
#include "client/core/untouched.h"

namespace paramd {
namespace {

using testing::kOp;
using testing::MakeConfiguration;
using testing::SessionTestBase;

// Variables 0 and 1, of one block each, on ps-0, and variable 2 on ps-1.
class SessionLayersTest : public SessionTestBase {
 protected:
  void SetUp() override {
    Use(MakeConfiguration({{"first", {kMaxBlockElements}, 0},
                           {"second", {kMaxBlockElements}, 0},
                           {"last", {3}, 1}},
                          2));
  }
  // The gradients of these variables; those of the others are empty.
  std::vector<Buffer> Of(const std::vector<size_t>& variables) const {
    const auto& elements = session_->placement().elements();
    std::vector<Buffer> gradients(elements.size());
    for (const size_t v : variables) {
      gradients[v] = testing::Floats(std::vector<float>(elements[v], 1.0f + v));
    }
    return gradients;
  }
  void Begin(const std::vector<size_t>& variables) {
    Session::PushInfo info;
    info.sequence = 4;
    session_->StartPush(kOp, info, Of(variables), now_, &out_);
  }
  void Add(const std::vector<size_t>& variables) {
    session_->AddGradients(kOp, Of(variables), now_, &out_);
  }
  // The slice of each chunk sent since the last call, each answered for.
  std::vector<uint32_t> SentSlices() {
    std::vector<uint32_t> slices;
    for (const auto& sent : Sent()) {
      slices.push_back(HeadOf<v1::PushRequest>(sent).blocks(0).slice());
      Answer(sent, PushReplyTo(sent));
    }
    return slices;
  }
};

TEST_F(SessionLayersTest, WhatIsReadyLeavesBeforeTheRestIsThere) {
  Begin({2});
  EXPECT_THAT(SentSlices(), ::testing::ElementsAre(2));
  EXPECT_TRUE(IsOpen());
  Add({1});
  EXPECT_THAT(SentSlices(), ::testing::ElementsAre(1));
  EXPECT_TRUE(IsOpen());
  Add({0, 1, 2});  // What it has already is not sent again.
  EXPECT_THAT(SentSlices(), ::testing::ElementsAre(0));
  EXPECT_TRUE(End().ok());
}

TEST_F(SessionLayersTest, ItsNumbersAreThoseOfTheVariable) {
  Begin({});
  Add({1});
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_THAT(testing::Numbers(sent[0].payload), ::testing::Each(2.0f));
}

TEST_F(SessionLayersTest, WhatIsStillComputedIsNoServersFault) {
  Begin({2});
  EXPECT_EQ(SentSlices().size(), 1u);
  EXPECT_EQ(session_->next_tick(), Time::Never());
  EXPECT_EQ(session_->waiting_for(), "");
  // Longer than a push is waited for; its time begins with the last gradient.
  TickAt(now_ + absl::Hours(1));
  EXPECT_TRUE(IsOpen());
  Add({0, 1});
  EXPECT_EQ(Sent().size(), 2u);
  EXPECT_EQ(session_->waiting_for(),
            "ps-0 generation 1.1 to answer a push of worker-3 generation 1.9");
  TickAt(now_ + absl::Minutes(4));
  EXPECT_TRUE(IsOpen());
  TickAt(now_ + absl::Minutes(2));
  EXPECT_EQ(End().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(SessionLayersTest, GradientsOfAPushThatHasEndedChangeNothing) {
  Begin({2});
  session_->Cancel(kOp);
  EXPECT_EQ(Sent().size(), 1u);
  Add({0, 1});
  EXPECT_TRUE(Sent().empty());
}

// ---- variables that a push leaves as they are ------------------------------

class SessionUntouchedTest : public SessionLayersTest {
 protected:
  void Begin(std::vector<Buffer> gradients, uint64_t step) {
    Session::PushInfo info;
    info.sequence = 4;
    info.step = step;
    info.examples = step > 0 ? 8 : 0;
    session_->StartPush(kOp, info, std::move(gradients), now_, &out_);
  }
};

TEST_F(SessionUntouchedTest, TheyAreInChunksOfTheirOwnWithoutNumbers) {
  for (const uint64_t step : {0, 7}) {
    std::vector<Buffer> gradients = Of({1});
    gradients[0] = gradients[2] = UntouchedGradient();
    Begin(gradients, step);
    std::vector<std::pair<uint32_t, bool>> seen;
    for (const auto& sent : Sent()) {
      const auto& push = HeadOf<v1::PushRequest>(sent);
      ASSERT_EQ(push.blocks_size(), 1);
      const bool empty = push.empty();
      seen.emplace_back(push.blocks(0).slice(), empty);
      EXPECT_EQ(push.blocks(0).elements(), empty ? 0u : kMaxBlockElements);
      EXPECT_EQ(ChainSize(sent.payload), empty ? 0u : 4 * kMaxBlockElements);
      EXPECT_EQ(push.examples(), step > 0 ? 8u : 0u);
      Answer(sent, PushReplyTo(sent));
    }
    EXPECT_THAT(seen, ::testing::UnorderedElementsAre(std::pair(0u, true),
                                                      std::pair(1u, false),
                                                      std::pair(2u, true)));
    EXPECT_TRUE(End().ok());
  }
}

TEST_F(SessionUntouchedTest, TheyLeaveWithTheFirstOfThoseThatAreComputed) {
  std::vector<Buffer> gradients = Of({});
  gradients[2] = UntouchedGradient();
  Begin(gradients, /*step=*/0);
  EXPECT_THAT(SentSlices(), ::testing::ElementsAre(2));
  Add({0, 1});
  EXPECT_THAT(SentSlices(), ::testing::ElementsAre(0, 1));
  EXPECT_TRUE(End().ok());
}

}  // namespace
}  // namespace paramd
