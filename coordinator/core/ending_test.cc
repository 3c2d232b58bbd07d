#include "coordinator/core/ending.h"

#include <memory>

#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::PartBench;

CoordinatorOptions OptionsOf() {
  CoordinatorOptions options = JobOptions();
  options.job.set_drain_timeout_ms(20'000);
  options.job.set_finish_timeout_ms(10'000);
  return options;
}

class EndingTest : public ::testing::Test {
 protected:
  void Fail(const absl::Status& why) {
    bench_.Do([&](Turn* turn) { ending_.OnSaveFailed(why, turn); });
  }
  void Write() {
    bench_.Do([&](Turn* turn) {
      ending_.Write(std::make_unique<v1::WriteResult>(), turn);
    });
  }
  void Advance(bool idle = true) {
    bench_.Do([&](Turn* turn) { ending_.Advance(idle, turn); });
  }
  void BeginTelling() {
    bench_.phase = JobPhase::kTellingEnd;
    bench_.Do([&](Turn* turn) { ending_.BeginTelling(turn); });
  }
  bool Has(JobPhase phase) const {
    const auto* reached = bench_.Raised<Reached>();
    return reached != nullptr && reached->phase == phase;
  }

  PartBench bench_{OptionsOf()};
  Ending ending_;
};

TEST_F(EndingTest, TheLastCheckpointIsTriedForLong) {
  for (int i = 0; i < 3; ++i) {
    Fail(absl::UnavailableError("no space"));
    EXPECT_FALSE(bench_.out.exited);
    EXPECT_FALSE(ending_.MaySave(bench_.now));
    bench_.now = bench_.now + absl::Seconds(2);
    EXPECT_TRUE(ending_.MaySave(bench_.now));
  }
  bench_.now =
      bench_.now + absl::Milliseconds(bench_.options.job.drain_timeout_ms());
  Fail(absl::UnavailableError("no space"));
  ASSERT_TRUE(bench_.out.exited);
  EXPECT_EQ(absl::StatusCode::kUnavailable, bench_.out.exit_status.code());
}

TEST_F(EndingTest, NobodyIsToldBeforeTheLogHasTheEnd) {
  Write();
  EXPECT_TRUE(Has(JobPhase::kWritingResult));
  ASSERT_EQ(1u, bench_.out.ios.size());
  bench_.End(bench_.out.ios[0].io, absl::OkStatus(), v1::WriteResult());
  EXPECT_TRUE(Has(JobPhase::kLoggingEnd));
  EXPECT_NE(v1::FINISHED, bench_.configuration.get().state());
  ASSERT_EQ(1u, bench_.out.ios.size());
  bench_.End(bench_.out.ios[0].io, absl::OkStatus(), v1::AppendLog());
  EXPECT_TRUE(Has(JobPhase::kTellingEnd));
  EXPECT_EQ(v1::FINISHED, bench_.configuration.get().state());
}

TEST_F(EndingTest, AResultThatCanNotBeWrittenEndsTheProcess) {
  Write();
  bench_.End(bench_.out.ios[0].io, absl::UnavailableError("no space"),
             v1::WriteResult());
  EXPECT_TRUE(bench_.out.exited);
}

TEST_F(EndingTest, ItEndsWhenEverybodyHasHeard) {
  bench_.workers[0].heard = bench_.now;
  BeginTelling();
  for (ServerRecord& server : bench_.servers) server.end_told = 2;
  Advance();
  EXPECT_FALSE(ending_.everybody_knows()) << "worker-1 has not asked";
  ending_.OnHeard(1);
  Advance();
  EXPECT_FALSE(ending_.everybody_knows()) << "worker-0 has not said it knows";
  bench_.workers[0].last.set_state(v1::FINISHED);
  Advance(/*idle=*/false);
  EXPECT_TRUE(ending_.everybody_knows());
  EXPECT_FALSE(Has(JobPhase::kDone));
  Advance();
  EXPECT_TRUE(Has(JobPhase::kDone));
}

TEST_F(EndingTest, NobodyIsWaitedForForEver) {
  BeginTelling();
  bench_.now = bench_.now +
               2 * absl::Milliseconds(bench_.options.job.finish_timeout_ms());
  Advance(/*idle=*/false);
  EXPECT_TRUE(ending_.everybody_knows());
  EXPECT_TRUE(Has(JobPhase::kDone));
}

}  // namespace
}  // namespace paramd
