#include "coordinator/election/chief_election.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/mutex.h"
#include "coordinator/election/testing/fake_etcd.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

constexpr char kKey[] = "/jobs/mnist/chief";

std::string NewDirectory() {
  std::string path = absl::StrCat(::testing::TempDir(), "/election-XXXXXX");
  return mkdtemp(path.data());
}

class ChiefElectionTest : public ::testing::Test {
 protected:
  ChiefElectionTest() {
    place_.endpoints = {etcd_.endpoint()};
    place_.prefix = "/jobs/mnist";
    options_.state_directory = NewDirectory();
    options_.ttl = absl::Seconds(3);  // More than a busy machine lets wait.
    options_.patience = absl::Seconds(20);
  }

  ChiefElection::Options Candidate(const std::string& address,
                                   uint64_t incarnation) {
    ChiefElection::Options options = options_;
    options.address = address;
    options.incarnation = incarnation;
    return options;
  }

  absl::StatusOr<std::unique_ptr<ChiefElection>> Stand(
      const ChiefElection::Options& options) const {
    auto record = OpenChiefRecord(place_, "", absl::Seconds(1));
    if (!record.ok()) return record.status();
    return ChiefElection::Stand(options, *std::move(record));
  }

  // Stands, on a thread of its own.
  class Standing {
   public:
    Standing(const ChiefElectionTest* test,
             const ChiefElection::Options& options)
        : thread_([this, test, options] { result_ = test->Stand(options); }) {}
    ~Standing() {
      if (thread_.joinable()) thread_.join();
    }
    absl::StatusOr<std::unique_ptr<ChiefElection>> Wait() {
      thread_.join();
      return std::move(result_);
    }

   private:
    absl::StatusOr<std::unique_ptr<ChiefElection>> result_ =
        absl::UnknownError("it still stands");
    std::thread thread_;
  };

  std::string Leader() const {
    const auto kv = etcd_.Get(kKey);
    const auto chief =
        kv.has_value() ? ElectedChief::FromText(kv->value()) : absl::nullopt;
    return chief.has_value() ? chief->address : "nobody";
  }
  // Waits until `holds` does, 10 s at most.
  template <typename Holds>
  static bool Eventually(Holds holds) {
    for (int looks = 0; looks < 1000; ++looks) {
      if (holds()) return true;
      absl::SleepFor(absl::Milliseconds(10));
    }
    return false;
  }

  FakeEtcd etcd_;
  EtcdPlace place_;
  ChiefElection::Options options_;
};

TEST_F(ChiefElectionTest, TheFirstIsElectedAndSaysWhereItIs) {
  auto chief = Stand(Candidate("a:1", 7));
  ASSERT_TRUE(chief.ok()) << chief.status();
  EXPECT_EQ(Leader(), "a:1");
  EXPECT_FALSE((*chief)->stood_by());
  EXPECT_EQ((*chief)->token(),
            static_cast<uint64_t>(etcd_.Get(kKey)->create_revision()));
  EXPECT_TRUE((*chief)->Check().ok());
  EXPECT_TRUE((*chief)->Confirm().ok());
}

TEST_F(ChiefElectionTest, WhoeverResignsIsFollowedBeforeItsLeaseIsOver) {
  options_.ttl = absl::Seconds(600);
  auto first = Stand(Candidate("a:1", 7));
  ASSERT_TRUE(first.ok());
  const uint64_t token = (*first)->token();
  Standing second(this, Candidate("b:1", 8));
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_EQ(Leader(), "a:1");
  (*first)->Resign();
  auto chief = second.Wait();
  ASSERT_TRUE(chief.ok()) << chief.status();
  EXPECT_EQ(Leader(), "b:1");
  EXPECT_TRUE((*chief)->stood_by());
  EXPECT_GT((*chief)->token(), token);
}

TEST_F(ChiefElectionTest, OneWhoseLeaseHasEndedIsTheChiefNoMore) {
  auto first = Stand(Candidate("a:1", 7));
  ASSERT_TRUE(first.ok());
  absl::Status lost;
  Mutex mutex;
  (*first)->Keep([&](const absl::Status& status) {
    const MutexLock lock(&mutex);
    lost = status;
  });
  etcd_.EndAllLeases();
  auto second = Stand(Candidate("b:1", 8));
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(Eventually([&] {
    const MutexLock lock(&mutex);
    return absl::IsUnavailable(lost);
  }));
  EXPECT_TRUE(absl::IsUnavailable((*first)->Check()));
  EXPECT_THAT(std::string((*first)->Check().message()),
              HasSubstr("is not the chief any more"));
  first->reset();  // Resigns from nothing.
  EXPECT_EQ(Leader(), "b:1");
  EXPECT_TRUE((*second)->Confirm().ok());
}

TEST_F(ChiefElectionTest, OneWhoseKeyWasTakenAwayIsTheChiefNoMore) {
  auto first = Stand(Candidate("a:1", 7));
  ASSERT_TRUE(first.ok());
  etcd_.Delete(kKey);
  EXPECT_TRUE(absl::IsUnavailable((*first)->Confirm()));
  EXPECT_TRUE(absl::IsUnavailable((*first)->Check()));
}

TEST_F(ChiefElectionTest, WhileEtcdIsAwayTheChiefStaysAndSaysSo) {
  auto chief = Stand(Candidate("a:1", 7));
  ASSERT_TRUE(chief.ok());
  etcd_.GoAway();
  EXPECT_TRUE(Eventually([&] { return (*chief)->away().has_value(); }));
  EXPECT_THAT((*chief)->away()->why, HasSubstr(etcd_.endpoint()));
  absl::SleepFor(2 * options_.ttl);  // Its lease, as far as it can know.
  EXPECT_TRUE((*chief)->Check().ok());
  EXPECT_FALSE((*chief)->Confirm().ok());
  etcd_.Return();
  EXPECT_TRUE(Eventually([&] { return !(*chief)->away().has_value(); }));
  EXPECT_TRUE((*chief)->Confirm().ok());
}

TEST_F(ChiefElectionTest, AnEtcdThatReturnsWithoutTheLeaseEndsTheChief) {
  auto chief = Stand(Candidate("a:1", 7));
  ASSERT_TRUE(chief.ok());
  etcd_.GoAway();
  EXPECT_TRUE(Eventually([&] { return (*chief)->away().has_value(); }));
  etcd_.LoseAll();
  etcd_.Return();
  EXPECT_TRUE(Eventually([&] { return !(*chief)->Check().ok(); }));
}

TEST_F(ChiefElectionTest, AnEtcdThatIsNotThereIsWaitedForByItsName) {
  etcd_.GoAway();
  options_.patience = absl::Milliseconds(700);
  const auto never = Stand(Candidate("a:1", 7));
  EXPECT_TRUE(absl::IsDeadlineExceeded(never.status()));
  EXPECT_THAT(std::string(never.status().message()),
              HasSubstr(absl::StrCat("etcd at ", etcd_.endpoint(), ": ")));
  options_.patience = absl::Seconds(60);
  Standing late(this, Candidate("a:1", 7));
  absl::SleepFor(absl::Milliseconds(300));
  etcd_.Return();
  EXPECT_TRUE(late.Wait().ok());
}

TEST_F(ChiefElectionTest, AMemberOfEtcdThatIsDownIsPassedOver) {
  place_.endpoints = {"127.0.0.1:1", etcd_.endpoint()};
  EXPECT_TRUE(Stand(Candidate("a:1", 7)).ok());
}

TEST_F(ChiefElectionTest, AnElectionWhoseAnswerIsLostCounts) {
  etcd_.LoseAnswers(1);
  auto chief = Stand(Candidate("a:1", 7));
  ASSERT_TRUE(chief.ok()) << chief.status();
  EXPECT_EQ((*chief)->token(),
            static_cast<uint64_t>(etcd_.Get(kKey)->create_revision()));
  EXPECT_EQ(etcd_.leases(), 1u);
}

TEST_F(ChiefElectionTest, OneThatIsKnownToHaveEndedIsNotWaitedFor) {
  options_.ttl = absl::Seconds(600);
  auto first = Stand(Candidate("a:1", 7));
  ASSERT_TRUE(first.ok());
  ChiefElection::Options again = Candidate("a:1", 8);
  again.replaces = 7;
  auto second = Stand(again);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(absl::IsUnavailable((*first)->Confirm()));
  EXPECT_TRUE((*second)->Confirm().ok());
}

TEST_F(ChiefElectionTest, ACandidateWithAnotherDirectoryIsRefused) {
  auto first = Stand(Candidate("a:1", 7));
  ASSERT_TRUE(first.ok());
  options_.state_directory = NewDirectory();
  const auto second = Stand(Candidate("b:1", 8));
  EXPECT_TRUE(absl::IsInvalidArgument(second.status()));
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("is not the directory of the chief at a:1: all "
                        "candidates need one run_dir on storage that they "
                        "share"));
}

TEST_F(ChiefElectionTest, SomebodyElsesKeyIsLeftAlone) {
  etcd_.Put(kKey, "something");
  const auto chief = Stand(Candidate("a:1", 7));
  EXPECT_TRUE(absl::IsInvalidArgument(chief.status()));
  EXPECT_THAT(std::string(chief.status().message()),
              HasSubstr("is not one of paramd's: choose another prefix"));
  EXPECT_EQ(etcd_.Get(kKey)->value(), "something");
}

// One that anybody gets, whose first renewal ends a second too late, as in a
// process that was paused meanwhile; it has another holder then.
class PausedRecord final : public ChiefRecord {
 public:
  absl::StatusOr<absl::optional<Holder>> Look() override {
    return absl::optional<Holder>();
  }
  absl::Status WaitForChange(absl::Duration) override {
    return absl::OkStatus();
  }
  absl::StatusOr<uint64_t> Take(const std::string&, absl::Duration) override {
    return 1;
  }
  absl::StatusOr<bool> Renew() override {
    if (was_asked_) return false;
    was_asked_ = true;
    absl::SleepFor(absl::Milliseconds(1200));
    return absl::UnavailableError("no answer");
  }
  absl::Status Release() override { return absl::OkStatus(); }
  absl::Status Remove() override { return absl::OkStatus(); }
  void Cancel() override {}
  absl::Duration longest_renewal() const override {
    return absl::Milliseconds(100);
  }
  absl::string_view keeper() const override { return "nobody"; }
  std::string place() const override { return "nowhere"; }
  std::string NotOurs() const override { return ""; }

 private:
  bool was_asked_ = false;
};

TEST_F(ChiefElectionTest, OneThatWasPausedWhileItAskedAsksAgain) {
  options_.ttl = absl::Seconds(600);  // Nobody else asks.
  auto chief = ChiefElection::Stand(Candidate("a:1", 7),
                                    std::make_unique<PausedRecord>());
  ASSERT_TRUE(chief.ok()) << chief.status();
  EXPECT_THAT(std::string((*chief)->Confirm().message()),
              HasSubstr("is not the chief any more"));
  EXPECT_FALSE((*chief)->Check().ok());
}

TEST(RunOfElectionTest, IsTheSameForAllWhoShareADirectory) {
  const std::string directory = NewDirectory();
  const auto run = RunOfElection(directory);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(*RunOfElection(directory), *run);
  EXPECT_NE(*RunOfElection(NewDirectory()), *run);
  EXPECT_FALSE(RunOfElection("/proc/self").ok());
}

}  // namespace
}  // namespace paramd
