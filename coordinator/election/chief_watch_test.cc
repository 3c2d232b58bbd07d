#include "coordinator/election/chief_watch.h"

#include <string>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

#include "coordinator/election/testing/fake_etcd.h"

namespace paramd {
namespace {

constexpr char kWatched[] = "/jobs/mnist/chief";

class ChiefWatchTest : public ::testing::Test {
 protected:
  ElectionPlace Place() const {
    ElectionPlace place;
    place.endpoints = {etcd_.endpoint()};
    place.prefix = "/jobs/mnist";
    return place;
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
  const auto watch = ChiefWatch::Start(Place(), "", "listed:1");
  ASSERT_TRUE(watch.ok()) << watch.status();
  EXPECT_EQ((*watch)->address(), "listed:1");
  etcd_.Put(kWatched, "a:1 01 02");
  ExpectAddress(**watch, "a:1");
  etcd_.Delete(kWatched);
  etcd_.Put(kWatched, "b:1 03 02");
  ExpectAddress(**watch, "b:1");
  etcd_.Put(kWatched, "nonsense");
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_EQ((*watch)->address(), "b:1");
}

TEST_F(ChiefWatchTest, AnEtcdThatIsAwayChangesNothing) {
  etcd_.Put(kWatched, "a:1 01 02");
  const auto watch = ChiefWatch::Start(Place(), "", "listed:1");
  ASSERT_TRUE(watch.ok());
  ExpectAddress(**watch, "a:1");
  etcd_.GoAway();
  absl::SleepFor(absl::Milliseconds(500));
  EXPECT_EQ((*watch)->address(), "a:1");
  etcd_.Return();
  etcd_.Put(kWatched, "b:1 03 02");
  ExpectAddress(**watch, "b:1");
}

TEST_F(ChiefWatchTest, ItEndsWhileItWaits) {
  auto watch = ChiefWatch::Start(Place(), "", "listed:1");
  ASSERT_TRUE(watch.ok());
  absl::SleepFor(absl::Milliseconds(100));
  const absl::Time before = absl::Now();
  watch->reset();
  EXPECT_LT(absl::Now() - before, absl::Seconds(5));
}

TEST(ChiefWatchFilesTest, AFileThatIsMissingIsNamed) {
  ElectionPlace place;
  place.endpoints = {"127.0.0.1:1"};
  place.prefix = "/x";
  const auto watch = ChiefWatch::Start(place, "/nowhere", "listed:1");
  EXPECT_TRUE(absl::IsInvalidArgument(watch.status()));
  EXPECT_NE(watch.status().message().find("/nowhere/ca.crt"),
            absl::string_view::npos)
      << watch.status();
}

}  // namespace
}  // namespace paramd
