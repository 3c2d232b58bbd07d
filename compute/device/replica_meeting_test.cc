#include "compute/device/replica_meeting.h"

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

// What three say who come with these.
std::vector<absl::Status> Come(ReplicaMeeting* meeting,
                               const std::vector<absl::Status>& with) {
  std::vector<absl::Status> said(with.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < with.size(); ++r) {
    threads.emplace_back([&, r] { said[r] = meeting->Meet(with[r]); });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

TEST(ReplicaMeetingTest, AllGoOnOrNoneDoesAndTheErrorIsItsOwners) {
  ReplicaMeeting meeting(3);
  const absl::Status ok = absl::OkStatus();
  const absl::Status bad = absl::DataLossError("line 3");
  const absl::Status because = absl::CancelledError("line 3");
  for (int again = 0; again < 100; ++again) {
    EXPECT_EQ(Come(&meeting, {ok, ok, ok}),
              (std::vector<absl::Status>{ok, ok, ok}));
    EXPECT_EQ(Come(&meeting, {ok, bad, ok}),
              (std::vector<absl::Status>{because, bad, because}));
  }
}

TEST(ReplicaMeetingTest, AllHaveWhatOneBrings) {
  ReplicaMeeting meeting(3);
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      for (int number = 0; number < 100; ++number) {
        std::shared_ptr<void> shared;
        if (r == 1) shared = std::make_shared<int>(number);
        ASSERT_TRUE(meeting.Meet(absl::OkStatus(), &shared).ok());
        ASSERT_NE(shared, nullptr);
        ASSERT_EQ(*static_cast<int*>(shared.get()), number);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ReplicaMeetingTest, NobodyWaitsBehindAnAbort) {
  ReplicaMeeting meeting(2);
  std::thread waits(
      [&] { EXPECT_TRUE(absl::IsCancelled(meeting.Meet(absl::OkStatus()))); });
  meeting.Abort();
  waits.join();
  EXPECT_TRUE(absl::IsCancelled(meeting.Meet(absl::OkStatus())));
  EXPECT_TRUE(absl::IsInternal(meeting.Meet(absl::InternalError("own"))));
}

}  // namespace
}  // namespace paramd
