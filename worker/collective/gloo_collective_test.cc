#include "worker/collective/gloo_collective.h"

#include <csignal>
#include <functional>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using Members = std::vector<std::unique_ptr<LinkedCollective>>;

Members Make(size_t size) {
  Members members;
  for (size_t r = 0; r < size; ++r) {
    members.push_back(*MakeGlooCollective("127.0.0.1", r, size));
  }
  return members;
}

void OnThreads(size_t count, const std::function<void(size_t)>& f) {
  std::vector<std::thread> threads;
  for (size_t r = 0; r < count; ++r) threads.emplace_back(f, r);
  for (std::thread& thread : threads) thread.join();
}

Members Connected(size_t size) {
  Members members = Make(size);
  std::vector<std::vector<std::string>> links;
  for (const auto& member : members) links.push_back(member->links());
  OnThreads(size,
            [&](size_t r) { EXPECT_TRUE(members[r]->Connect(links).ok()); });
  return members;
}

// Numbers whose sum depends on the order of adding.
std::vector<float> Values(size_t rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((rank + 1) * (i + 3)) * 1e7f / 3 -
                static_cast<float>(rank * rank) * 1.7f;
  }
  return values;
}

TEST(GlooCollectiveTest, AnyNumberOfMembersAddsInOrder) {
  for (const size_t size : {1, 2, 3, 5}) {
    for (const size_t count : {1, 2, 7, 100003}) {
      Members members = Connected(size);
      std::vector<std::vector<float>> values(size);
      OnThreads(size, [&](size_t r) {
        values[r] = Values(r, count);
        EXPECT_TRUE(members[r]->Sum(absl::MakeSpan(values[r])).ok());
      });
      std::vector<float> expected = Values(0, count);
      for (size_t r = 1; r < size; ++r) {
        const std::vector<float> term = Values(r, count);
        for (size_t i = 0; i < count; ++i) expected[i] += term[i];
      }
      for (size_t r = 0; r < size; ++r) {
        EXPECT_TRUE(values[r] == expected) << size << " members, rank " << r;
      }
    }
  }
}

TEST(GlooCollectiveTest, ALostMembersConnectionEndsNoProcess) {
  std::signal(SIGPIPE, SIG_DFL);
  Make(1);
  EXPECT_EQ(std::signal(SIGPIPE, SIG_IGN), SIG_IGN);
}

TEST(GlooCollectiveTest, GathersByRankAndGoesOn) {
  Members members = Connected(3);
  OnThreads(3, [&](size_t r) {
    for (double turn = 0; turn < 10; ++turn) {
      const double own[] = {static_cast<double>(r) + turn, -1};
      std::vector<double> all(6);
      EXPECT_TRUE(members[r]->Gather(own, absl::MakeSpan(all)).ok());
      EXPECT_THAT(all, ElementsAre(turn, -1, 1 + turn, -1, 2 + turn, -1));
    }
  });
}

TEST(GlooCollectiveTest, WhoeverWaitsForALostMemberIsTold) {
  Members members = Connected(3);
  OnThreads(3, [&](size_t r) {
    if (r == 2) {
      members[r].reset();
      return;
    }
    std::vector<float> values(1000);
    EXPECT_EQ(members[r]->Sum(absl::MakeSpan(values)).code(),
              absl::StatusCode::kUnavailable);
    // And so it stays.
    EXPECT_EQ(members[r]->Sum(absl::MakeSpan(values)).code(),
              absl::StatusCode::kUnavailable);
  });
}

TEST(GlooCollectiveTest, AbortEndsAWaitOfItsOwn) {
  Members members = Connected(2);
  std::thread waiting([&] {
    std::vector<float> values(1000);
    EXPECT_EQ(members[0]->Sum(absl::MakeSpan(values)).code(),
              absl::StatusCode::kUnavailable);
  });
  members[0]->Abort();
  members[0]->Abort();
  waiting.join();
}

TEST(GlooCollectiveTest, AbortEndsTheWaitForAConnection) {
  Members members = Make(2);
  const std::vector<std::vector<std::string>> links = {members[0]->links(),
                                                       members[1]->links()};
  std::thread waiting([&] {
    EXPECT_EQ(members[0]->Connect(links).code(),
              absl::StatusCode::kUnavailable);
  });
  members[0]->Abort();
  waiting.join();
}

TEST(GlooCollectiveTest, AHostThatIsNoneIsNamed) {
  const auto made = MakeGlooCollective("nowhere.invalid", 0, 2);
  // Unless no name server is there.
  EXPECT_TRUE(absl::IsInvalidArgument(made.status()) ||
              absl::IsUnavailable(made.status()))
      << made.status();
  EXPECT_THAT(std::string(made.status().message()),
              ::testing::HasSubstr("nowhere.invalid"));
}

}  // namespace
}  // namespace paramd
