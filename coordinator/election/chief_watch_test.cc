#include "coordinator/election/chief_watch.h"

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

#include "coordinator/election/testing/fake_etcd.h"

namespace paramd {
namespace {

constexpr char kWatched[] = "/jobs/mnist/chief";

class ChiefWatchTest : public ::testing::Test {
 protected:
  std::unique_ptr<ChiefRecord> Record() const {
    EtcdPlace place;
    place.endpoints = {etcd_.endpoint()};
    place.prefix = "/jobs/mnist";
    return *OpenChiefRecord(place, "", absl::Seconds(1));
  }
  // Waits for it, 10 s at most.
  static void ExpectAddress(const ChiefWatch& watch,
                            const std::string& wanted) {
    for (int looks = 0; looks < 1000 && watch.address() != wanted; ++looks) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    EXPECT_EQ(watch.address(), wanted);
  }

  FakeEtcd etcd_;
};

TEST_F(ChiefWatchTest, ItIsWhereEtcdSaidLast) {
  const ChiefWatch watch(Record(), "listed:1");
  EXPECT_EQ(watch.address(), "listed:1");
  etcd_.Put(kWatched, "a:1 01 02");
  ExpectAddress(watch, "a:1");
  etcd_.Delete(kWatched);
  etcd_.Put(kWatched, "b:1 03 02");
  ExpectAddress(watch, "b:1");
  etcd_.Put(kWatched, "nonsense");
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_EQ(watch.address(), "b:1");
}

TEST_F(ChiefWatchTest, AnEtcdThatIsAwayChangesNothing) {
  etcd_.Put(kWatched, "a:1 01 02");
  const ChiefWatch watch(Record(), "listed:1");
  ExpectAddress(watch, "a:1");
  etcd_.GoAway();
  absl::SleepFor(absl::Milliseconds(500));
  EXPECT_EQ(watch.address(), "a:1");
  etcd_.Return();
  etcd_.Put(kWatched, "b:1 03 02");
  ExpectAddress(watch, "b:1");
}

TEST_F(ChiefWatchTest, ItEndsWhileItWaits) {
  auto watch = std::make_unique<ChiefWatch>(Record(), "listed:1");
  absl::SleepFor(absl::Milliseconds(100));
  const absl::Time before = absl::Now();
  watch.reset();
  EXPECT_LT(absl::Now() - before, absl::Seconds(5));
}

}  // namespace
}  // namespace paramd
