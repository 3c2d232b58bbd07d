#include "coordinator/core/live_configuration.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "proto/configuration_changes.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Reflection;
using ::testing::ElementsAre;
using testing::Pair;

constexpr uint32_t kChangedServers = 4;

// Something else than it was, whatever its type is.
void SetAnew(const FieldDescriptor* field, v1::Configuration* in) {
  const Reflection* const reflection = in->GetReflection();
  reflection->ClearField(in, field);
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (field->is_repeated()) {
        reflection->AddMessage(in, field);
      } else {
        reflection->MutableMessage(in, field);
      }
      return;
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection->SetUInt64(in, field, 77);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection->SetDouble(in, field, 0.25);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->SetEnumValue(in, field, 2);
    default:
      ADD_FAILURE() << "no value for " << field->full_name();
  }
}

// A coordinator's configuration that changes, and each of its versions as it
// was told to servers.
class LiveConfigurationTest : public ::testing::Test {
 protected:
  LiveConfigurationTest() : servers_(kChangedServers) {
    live_.Begin(3, "run", "digest");
    live_.mutable_plan()->mutable_layout()->add_slices()->set_row_end(8);
    live_.SetServers(servers_);
    Next();
  }

  void Next() {
    live_.NextVersion();
    told_.push_back(live_.get());
  }
  WorkerRecord NewSession() {
    WorkerRecord worker;
    worker.generation = live_.NewGeneration<v1::SessionId>();
    worker.host = "host";
    return worker;
  }
  v1::ConfigurationVersion version() const { return live_.get().version(); }
  // What somebody has who was told this version, and the newest one since.
  std::string AtServer(uint32_t server, const v1::Configuration& known) const {
    const v1::Configuration told = live_.ForServer(server, known.version());
    EXPECT_GE(told.servers_size(), 1);
    const auto whole = Expand(known, told);
    return whole.ok() ? whole->SerializeAsString()
                      : std::string(whole.status().message());
  }
  std::string AtWorker(uint32_t worker, v1::Configuration known) const {
    const auto own = OnlySessionOf(worker, &known);
    const auto whole = Expand(own, live_.ForWorker(worker, known.version()));
    return whole.ok() ? whole->SerializeAsString()
                      : std::string(whole.status().message());
  }
  static v1::Configuration OnlySessionOf(uint32_t worker,
                                         v1::Configuration* whole) {
    v1::Configuration own = *whole;
    own.clear_workers();
    for (const v1::WorkerMember& member : whole->workers()) {
      if (member.index() == worker) *own.add_workers() = member;
    }
    return own;
  }
  // Whoever has `known` makes the next version of what is told.
  void ExpectToldSince(const v1::Configuration& before,
                       const std::string& what) {
    const v1::Configuration known = before;  // Next() adds to told_.
    Next();
    const std::string whole = live_.get().SerializeAsString();
    EXPECT_EQ(AtServer(1, known), whole) << what;
    EXPECT_EQ(AtWorker(1, known), whole) << what;
  }
  // One of the things that happen to a job.
  void ChangeSomething(RandomStream* random) {
    const auto server = static_cast<uint32_t>(random->Below(kChangedServers));
    const auto worker = static_cast<uint32_t>(random->Below(6));
    switch (random->Below(7)) {
      case 0:
        servers_[server].incarnation = random->Below(100);
        return live_.SetServers(servers_);
      case 1:
        servers_[server].backup = v1::Backup();
        servers_[server].peer = server;
        return live_.SetServer(server, servers_[server]);
      case 2:
        workers_[worker] = NewSession();
        return live_.SetWorkers(workers_);
      case 3:
        workers_.erase(worker);
        return live_.SetWorkers(workers_);
      case 4:
        for (auto& [index, session] : workers_) ++session.start_clock;
        return live_.SetWorkers(workers_);
      case 5:
        live_.Change({v1::Configuration::kLearningRateScaleFieldNumber})
            ->set_learning_rate_scale(random->Uniform());
        return;
      default:
        live_.Change({v1::Configuration::kStateFieldNumber})
            ->set_state(random->Chance(0.5) ? v1::RUNNING : v1::FINISHING);
    }
  }

  LiveConfiguration live_;
  std::vector<ServerRecord> servers_;
  std::map<uint32_t, WorkerRecord> workers_;
  std::vector<v1::Configuration> told_;
};

TEST_F(LiveConfigurationTest, ChangesSinceAnyVersionMakeTheNewestOne) {
  RandomStream random(17);
  for (int version = 0; version < 200; ++version) {
    const uint64_t changes = 1 + random.Below(3);
    for (uint64_t c = 0; c < changes; ++c) ChangeSomething(&random);
    Next();
    const std::string whole = told_.back().SerializeAsString();
    for (size_t b = 0; b < told_.size(); b += 1 + random.Below(9)) {
      const auto server = static_cast<uint32_t>(b % kChangedServers);
      ASSERT_EQ(AtServer(server, told_[b]), whole) << b << " " << version;
      const auto worker = static_cast<uint32_t>(b % 6);
      ASSERT_EQ(AtWorker(worker, told_[b]),
                OnlySessionOf(worker, &told_.back()).SerializeAsString())
          << b << " " << version;
    }
  }
}

// One that is added to Configuration too.
TEST_F(LiveConfigurationTest, EachFieldIsToldWhollyOrInAWayOfItsOwn) {
  const auto* const all = v1::Configuration::descriptor();
  std::vector<std::string> in_ways_of_their_own;
  for (int f = 0; f < all->field_count(); ++f) {
    const FieldDescriptor* const field = all->field(f);
    if (!IsWhollyTold(field->number())) {
      in_ways_of_their_own.push_back(field->name());
      continue;
    }
    SetAnew(field, live_.Change({field->number()}));
    ExpectToldSince(told_.back(), field->name());
    v1::Configuration* const changed = live_.Change({field->number()});
    changed->GetReflection()->ClearField(changed, field);
    ExpectToldSince(told_.back(), field->name());
  }
  EXPECT_THAT(
      in_ways_of_their_own,
      ElementsAre("version", "run_id", "job_digest", "servers", "workers",
                  "changes_since", "changed", "workers_left"));
}

TEST_F(LiveConfigurationTest, WhateverChangesOfASessionIsTold) {
  using Change = void (*)(WorkerRecord*);
  const std::vector<Change> changes = {
      [](WorkerRecord* w) { w->generation = Pair(3, 99); },
      [](WorkerRecord* w) { ++w->incarnation; },
      [](WorkerRecord* w) { ++w->start_clock; },
      [](WorkerRecord* w) { w->host = "another"; },
      [](WorkerRecord* w) { ++w->pid; },
      [](WorkerRecord* w) { ++w->left_sessions; },
  };
  EXPECT_EQ(v1::WorkerMember::descriptor()->field_count(),
            static_cast<int>(changes.size()) + 1)
      << "each is here, but for the index";
  workers_[2] = NewSession();
  live_.SetWorkers(workers_);
  Next();
  for (size_t c = 0; c < changes.size(); ++c) {
    const v1::Configuration before = told_.back();
    changes[c](&workers_[2]);
    live_.SetWorkers(workers_);
    Next();
    EXPECT_EQ(live_.get().workers_size(), 1);
    EXPECT_NE(before.workers(0).SerializeAsString(),
              live_.get().workers(0).SerializeAsString())
        << c;
    EXPECT_EQ(AtServer(0, before), live_.get().SerializeAsString()) << c;
  }
}

TEST_F(LiveConfigurationTest, OnlyWhatHasChangedIsTold) {
  workers_[2] = NewSession();
  workers_[5] = NewSession();
  live_.SetWorkers(workers_);
  Next();
  const v1::ConfigurationVersion before = version();
  servers_[1].incarnation = 77;
  live_.SetServers(servers_);
  workers_.erase(2);
  live_.SetWorkers(workers_);
  live_.ChangeState(v1::RUNNING);
  const v1::Configuration told = live_.ForServer(3, before);
  EXPECT_EQ(told.changes_since(), before);
  EXPECT_FALSE(told.has_layout());
  ASSERT_EQ(told.servers_size(), 2);
  EXPECT_EQ(told.servers(0).index(), 1u);
  EXPECT_EQ(told.servers(1).index(), 3u) << "each is told of itself";
  EXPECT_EQ(told.workers_size(), 0);
  EXPECT_THAT(told.workers_left(), ElementsAre(2));
  EXPECT_THAT(told.changed(), ElementsAre(11)) << "the state";
  EXPECT_EQ(live_.ForServer(1, before).servers_size(), 1);
  const v1::Configuration at_worker = live_.ForWorker(5, before);
  EXPECT_EQ(at_worker.servers_size(), 1);
  EXPECT_EQ(at_worker.workers_left_size(), 0);
}

TEST_F(LiveConfigurationTest, OneServerIsSetWithoutALookAtTheOthers) {
  const v1::ConfigurationVersion before = version();
  servers_[1].incarnation = 77;
  servers_[2].incarnation = 78;
  live_.SetServer(2, servers_[2]);
  Next();
  EXPECT_EQ(live_.get().servers(1).incarnation(), 0u);
  EXPECT_EQ(live_.get().servers(2).incarnation(), 78u);
  EXPECT_EQ(live_.ForServer(2, before).servers_size(), 1);
  EXPECT_TRUE(live_.HasOnlyNewsOfOthers(1, before));
}

TEST_F(LiveConfigurationTest, WhoHasNothingOfThisTermIsToldTheWhole) {
  const std::string whole = live_.get().SerializeAsString();
  for (const Pair& known : {Pair(0, 0), Pair(2, 1), Pair(3, 0), Pair(3, 9)}) {
    EXPECT_EQ(live_.ForServer(0, known).SerializeAsString(), whole);
    EXPECT_EQ(live_.ForWorker(0, known).SerializeAsString(), whole);
  }
}

TEST_F(LiveConfigurationTest, APlanIsToldWhole) {
  const v1::ConfigurationVersion before = version();
  live_.mutable_plan()->clear_layout();
  Next();
  EXPECT_EQ(live_.ForServer(0, before).SerializeAsString(),
            live_.get().SerializeAsString());
}

TEST_F(LiveConfigurationTest, WhatConcernsOthersAloneIsKnown) {
  const v1::ConfigurationVersion before = version();
  servers_[1].incarnation = 77;
  live_.SetServers(servers_);
  workers_[2] = NewSession();
  live_.SetWorkers(workers_);
  Next();
  EXPECT_TRUE(live_.HasOnlyNewsOfOthers(0, before));
  EXPECT_FALSE(live_.HasOnlyNewsOfOthers(1, before));
  live_.ChangeState(v1::RUNNING);
  EXPECT_FALSE(live_.HasOnlyNewsOfOthers(0, before));
}

}  // namespace
}  // namespace paramd
