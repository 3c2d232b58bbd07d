#include "process/trace/trace_collector.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/server_places.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void AddMember(v1::TaskType type, uint32_t index, const std::string& address,
               v1::StatusReply* status) {
  v1::Member* const member = status->mutable_job()->add_members();
  member->mutable_task()->set_type(type);
  member->mutable_task()->set_index(index);
  member->set_address(address);
}

// Two ps of two servers each, and three workers.
v1::StatusReply StatusOfAJob() {
  v1::StatusReply status;
  status.set_address("w0:1");
  for (uint32_t server = 0; server < 4; ++server) {
    AddMember(v1::PS, server, absl::StrCat("p", server / 2, ":1"), &status);
  }
  for (uint32_t worker = 0; worker < 3; ++worker) {
    AddMember(v1::WORKER, worker, absl::StrCat("w", worker, ":1"), &status);
  }
  return status;
}

// Where a server is, and its backup.
struct Places {
  uint32_t peer = 0;
  absl::optional<uint32_t> backup = {};
};

std::string AddressOfPlace(uint32_t place, uint32_t shards) {
  return absl::StrCat("p", place / (2 * shards), ":1");
}

// "ps-1 p1:1"
std::string NameOfPlace(uint32_t place, uint32_t shards) {
  return absl::StrCat("ps-", place / (2 * shards), " ",
                      AddressOfPlace(place, shards));
}

// The chief alone, and servers with places, `shards` of each ps.
v1::StatusReply ReplicatedJob(uint32_t shards,
                              const std::vector<Places>& servers) {
  v1::StatusReply status;
  status.set_address("w0:1");
  status.mutable_job()->set_places_of_a_ps(2 * shards);
  for (uint32_t s = 0; s < servers.size(); ++s) {
    AddMember(v1::PS, s, AddressOfPlace(servers[s].peer, shards), &status);
    v1::Member* const member =
        status.mutable_job()->mutable_members(static_cast<int>(s));
    member->set_peer(servers[s].peer);
    if (!servers[s].backup.has_value()) continue;
    member->set_backup_peer(*servers[s].backup);
    member->set_backup_address(AddressOfPlace(*servers[s].backup, shards));
  }
  AddMember(v1::WORKER, 0, "w0:1", &status);
  return status;
}

std::vector<std::string> TextOf(const std::vector<TraceTarget>& targets) {
  std::vector<std::string> texts;
  for (const TraceTarget& target : targets) {
    texts.push_back(absl::StrCat(target.name, " ", target.address.socket,
                                 target.address.address));
  }
  return texts;
}

std::vector<std::string> SocketsOf(const v1::StatusReply& status) {
  return TextOf(TargetsOf(status, {.socket = "runs/a/worker-0.sock"}));
}

TEST(TraceCollectorTest, EachProcessButTheChiefIsATarget) {
  EXPECT_THAT(
      TextOf(TargetsOf(StatusOfAJob(), {.address = "w0:1"})),
      ElementsAre("worker-1 w1:1", "worker-2 w2:1", "ps-0 p0:1", "ps-1 p1:1"));
}

TEST(TraceCollectorTest, TheirSocketsLieBesideTheChiefs) {
  EXPECT_THAT(
      TextOf(TargetsOf(StatusOfAJob(), {.socket = "runs/a/worker-0.sock"})),
      ElementsAre("worker-1 runs/a/worker-1.sock",
                  "worker-2 runs/a/worker-2.sock", "ps-0 runs/a/ps-0.sock",
                  "ps-1 runs/a/ps-1.sock"));
}

TEST(TraceCollectorTest, APsThatHoldsBackupsAloneIsOneToo) {
  const v1::StatusReply status = ReplicatedJob(1, {{0, 3}, {2}, {1, 4}});
  EXPECT_THAT(TextOf(TargetsOf(status, {.address = "w0:1"})),
              ElementsAre("ps-0 p0:1", "ps-1 p1:1", "ps-2 p2:1"));
}

TEST(TraceCollectorTest, ADrainedPsIsLeftOutAndTheOtherKeepsItsName) {
  EXPECT_THAT(SocketsOf(ReplicatedJob(1, {{3}, {2}})),
              ElementsAre("ps-1 runs/a/ps-1.sock"));
  // The same with two servers each.
  EXPECT_THAT(SocketsOf(ReplicatedJob(2, {{6}, {7}, {4}, {5}})),
              ElementsAre("ps-1 runs/a/ps-1.sock"));
  EXPECT_THAT(SocketsOf(ReplicatedJob(2, {{0}, {1}, {2}, {3}})),
              ElementsAre("ps-0 runs/a/ps-0.sock"));
}

TEST(TraceCollectorTest, ADeadPsIsLeftOutAndTheOthersKeepTheirNames) {
  const v1::StatusReply status = ReplicatedJob(1, {{3}, {2, 5}, {4}});
  EXPECT_THAT(SocketsOf(status),
              ElementsAre("ps-1 runs/a/ps-1.sock", "ps-2 runs/a/ps-2.sock"));
  EXPECT_THAT(TextOf(TargetsOf(status, {.address = "w0:1"})),
              ElementsAre("ps-1 p1:1", "ps-2 p2:1"));
  // The one in the middle, with two servers each.
  EXPECT_THAT(
      SocketsOf(ReplicatedJob(2, {{0}, {1, 11}, {10}, {3}, {8, 2}, {9}})),
      ElementsAre("ps-0 runs/a/ps-0.sock", "ps-2 runs/a/ps-2.sock"));
}

TEST(TraceCollectorTest, WhereverServersAreTheirPlacesTellWhoseTheyAre) {
  for (const uint32_t shards : {1u, 2u, 3u, 4u, 6u}) {
    for (const uint32_t tasks : {2u, 3u, 4u, 6u, 12u}) {
      const std::vector<ServerPlaces> places = PlacesOf(tasks, shards);
      // Each bit: whether a server of a task with this rest has moved.
      for (uint32_t moved = 0; moved < 8; ++moved) {
        std::vector<Places> now;
        std::set<std::string> expected;
        for (uint32_t server = 0; server < places.size(); ++server) {
          const uint32_t task = server / shards;
          const bool is_away = ((moved >> (task % 3)) & 1) != 0;
          now.push_back({is_away ? places[server].away : places[server].home});
          expected.insert(NameOfPlace(now.back().peer, shards));
        }
        std::set<std::string> names;
        for (const TraceTarget& target :
             TargetsOf(ReplicatedJob(shards, now), {.address = "w0:1"})) {
          names.insert(absl::StrCat(target.name, " ", target.address.address));
        }
        EXPECT_EQ(names, expected) << shards << " " << tasks << " " << moved;
      }
    }
  }
}

TEST(TraceCollectorTest, APsWhoseAddressIsNotKnownIsLeftOut) {
  v1::StatusReply status = StatusOfAJob();
  for (int server = 0; server < 2; ++server) {
    status.mutable_job()->mutable_members(server)->clear_address();
  }
  AddMember(v1::PS, 4, "", &status);
  AddMember(v1::PS, 5, "", &status);
  EXPECT_THAT(SocketsOf(status), ElementsAre("worker-1 runs/a/worker-1.sock",
                                             "worker-2 runs/a/worker-2.sock",
                                             "ps-1 runs/a/ps-1.sock"));
}

TEST(TraceCollectorTest, OfAJobInOneProcessThereIsNobodyElse) {
  v1::StatusReply status = StatusOfAJob();
  status.clear_address();
  EXPECT_THAT(TargetsOf(status, {.socket = "runs/a/worker-0.sock"}), IsEmpty());
}

TEST(TraceCollectorTest, WithoutAChiefThereIsNoTrace) {
  const auto trace = CollectTrace(
      {.socket = absl::StrCat(::testing::TempDir(), "/worker-0.sock")},
      {.duration = absl::Seconds(1), .nonce = 7, .timeout = absl::Seconds(60)});
  EXPECT_TRUE(absl::IsNotFound(trace.status())) << trace.status();
}

}  // namespace
}  // namespace paramd
