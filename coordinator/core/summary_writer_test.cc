#include "coordinator/core/summary_writer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;
using ::paramd::testing::JobOptions;
using ::paramd::testing::PartBench;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A summary every 10 steps. The one of the beginning is due at once.
class SummaryWriterTest : public ::testing::Test {
 protected:
  SummaryWriterTest() { writer_.summaries().Begin(0); }

  void Advance(uint64_t told_step) {
    bench_.Do([&](Turn* turn) {
      writer_.Advance(told_step, /*ending=*/false, turn);
    });
  }
  // The work that the last call began; null: none.
  const v1::WriteSummary* Writing() const {
    return bench_.out.ios.empty() ? nullptr
                                  : DynamicCastToGenerated<v1::WriteSummary>(
                                        bench_.out.ios[0].head.get());
  }
  // Begins one and ends it so.
  void Write(uint64_t told_step, const absl::Status& status) {
    Advance(told_step);
    ASSERT_NE(nullptr, Writing());
    bench_.End(bench_.out.ios[0].io, status, v1::WriteSummary());
  }

  PartBench bench_{JobOptions()};
  SummaryWriter writer_{/*every_steps=*/10};
};

TEST_F(SummaryWriterTest, OneIsWrittenWhenItIsDueAndNoneBeside) {
  Advance(0);
  ASSERT_NE(nullptr, Writing());
  const IoId first = bench_.out.ios[0].io;
  Advance(10);
  EXPECT_EQ(nullptr, Writing()) << "the first is under way";
  bench_.End(first, absl::OkStatus(), v1::WriteSummary());
  Advance(10);
  ASSERT_NE(nullptr, Writing());
  EXPECT_EQ(10u, Writing()->step());
}

TEST_F(SummaryWriterTest, NothingIsWrittenBeforeTheJobRunsOrInItsEnd) {
  bench_.phase = JobPhase::kFilling;
  Advance(0);
  EXPECT_EQ(nullptr, Writing());
  bench_.phase = JobPhase::kTellingEnd;
  Advance(0);
  EXPECT_EQ(nullptr, Writing());
}

TEST_F(SummaryWriterTest, AWorkerThatIsBeingFencedCountsNoMore) {
  bench_.workers[0].last.mutable_stats()->set_examples_per_second(500);
  bench_.workers[1].last.mutable_stats()->set_examples_per_second(300);
  bench_.workers[1].fencing = true;
  Write(0, absl::OkStatus());
  Advance(10);
  bench_.workers[0].last.set_number(1);
  Advance(10);
  ASSERT_NE(nullptr, Writing());
  EXPECT_EQ(1, Writing()->scalars().at("workers"));
  EXPECT_EQ(500, Writing()->scalars().at("examples_per_second"));
}

TEST_F(SummaryWriterTest, ALossIsWrittenWhenAllHaveToldTheirs) {
  bench_.workers[0].last.set_number(4);
  bench_.workers[1].last.set_number(9);
  Write(0, absl::OkStatus());
  Advance(10);
  EXPECT_EQ(nullptr, Writing());
  bench_.workers[0].last.set_number(5);
  Advance(10);
  EXPECT_EQ(nullptr, Writing()) << "worker-1 has not";
  bench_.workers[1].last.set_number(10);
  Advance(12);
  ASSERT_NE(nullptr, Writing());
  EXPECT_EQ(12u, Writing()->step());
  // Who is gone tells nothing more.
  bench_.End(bench_.out.ios[0].io, absl::OkStatus(), v1::WriteSummary());
  Advance(20);
  bench_.workers[0].last.set_number(6);
  bench_.workers.erase(1);
  Advance(20);
  EXPECT_NE(nullptr, Writing());
}

TEST_F(SummaryWriterTest, AFailureIsSaidOnceAndTheNextIsTriedAgain) {
  Write(0, absl::ResourceExhaustedError("the disk is full"));
  ASSERT_THAT(bench_.out.notes, SizeIs(1));
  EXPECT_THAT(bench_.out.notes[0].sentence,
              HasSubstr("no summaries for TensorBoard: the disk is full"));
  Write(10, absl::ResourceExhaustedError("the disk is full"));
  EXPECT_THAT(bench_.out.notes, SizeIs(0));
}

}  // namespace
}  // namespace paramd
