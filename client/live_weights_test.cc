#include "client/live_weights.h"

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/mutex.h"
#include "client/testing/scripted_process.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/refusal.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Pair;

v1::Variable MakeVariable(const std::string& name,
                          const std::vector<uint64_t>& shape) {
  v1::Variable variable;
  variable.set_name(name);
  for (const uint64_t size : shape) variable.add_shape(size);
  return variable;
}

// One process that is the chief, and two servers that are shards of one
// process: "w", a 3 x 2, has two rows on the first and one on the second, "b",
// two numbers, is on the second. Element i of a variable is i in `values`.
class LiveWeightsTest : public ::testing::Test {
 protected:
  LiveWeightsTest()
      : process_([this](const ScriptedProcess::Call& call) {
          return Answer(call);
        }) {
    MutexLock lock(&mutex_);
    configuration_.mutable_version()->set_term(1);
    configuration_.mutable_consistency()->set_mode(v1::Consistency::ASYNC);
    for (uint32_t i = 0; i < 2; ++i) {
      v1::ServerMember* const server = configuration_.add_servers();
      server->set_index(i);
      server->set_incarnation(7);
      *server->mutable_generation() = Pair(1, 1);
    }
    v1::Layout& layout = *configuration_.mutable_layout();
    *layout.add_variables() = MakeVariable("w", {3, 2});
    *layout.add_variables() = MakeVariable("b", {2});
    AddSliceLocked(0, 0, 2, 0);
    AddSliceLocked(0, 2, 3, 1);
    AddSliceLocked(1, 0, 2, 1);
  }

  void AddSliceLocked(uint32_t variable, uint64_t begin, uint64_t end,
                      uint32_t server) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    v1::Slice* const slice = configuration_.mutable_layout()->add_slices();
    slice->set_variable(variable);
    slice->set_row_begin(begin);
    slice->set_row_end(end);
    slice->set_server(server);
  }

  LiveWeights Live(absl::Duration timeout = absl::Minutes(1)) const {
    return LiveWeights({.address = process_.address(), .timeout = timeout});
  }
  static std::vector<v1::Variable> Both() {
    return {MakeVariable("w", {3, 2}), MakeVariable("b", {2})};
  }

  absl::StatusOr<std::string> Answer(const ScriptedProcess::Call& call) {
    MutexLock lock(&mutex_);
    if (call.method == "/paramd.v1.Control/Status") return StatusLocked();
    if (call.method == "/paramd.v1.Coordinator/GetConfiguration") {
      v1::GetConfigurationReply reply;
      *reply.mutable_configuration() = configuration_;
      return reply.SerializeAsString();
    }
    v1::PullRequest request;
    EXPECT_TRUE(request.ParseFromString(call.request));
    const auto server = servers_at_.find(call.shard);
    if (server == servers_at_.end()) {
      return Refuse(v1::Refusal::NOT_READY, "ps", "a backup answers nobody");
    }
    return PullLocked(server->second, request);
  }

  // The process has four places. Server 0 is in its second place, server 1 at
  // home; where they are not are their backups. `seen`: the chief's status says
  // so too.
  void Replicate(bool seen = true) {
    MutexLock lock(&mutex_);
    places_ = {2, 1};
    seen_places_ = seen ? places_ : std::vector<uint32_t>{0, 1};
    servers_at_ = {{"2", 0}, {"1", 1}};
    for (const int s : {0, 1}) {
      configuration_.mutable_servers(s)->set_peer(places_[s]);
    }
  }

  std::string StatusLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    v1::StatusReply reply;
    reply.set_incarnation(7);
    reply.mutable_task()->set_type(v1::WORKER);
    for (int i = 0; i < 4 && !places_.empty(); ++i) reply.add_shards();
    if (!is_chief_) return reply.SerializeAsString();
    reply.mutable_job()->set_waiting_for("ps-1");
    for (uint32_t i = 0; i < 2; ++i) {
      v1::Member* const worker = reply.mutable_job()->add_members();
      worker->mutable_task()->set_type(v1::WORKER);
      worker->mutable_task()->set_index(i);
      if (!has_servers_) continue;
      v1::Member* const member = reply.mutable_job()->add_members();
      member->mutable_task()->set_type(v1::PS);
      member->mutable_task()->set_index(i);
      member->set_address(process_.address());
      if (!seen_places_.empty()) member->set_peer(seen_places_[i]);
    }
    // Soon it hears of them.
    seen_places_ = places_;
    return reply.SerializeAsString();
  }

  absl::StatusOr<std::string> PullLocked(uint32_t server,
                                         const v1::PullRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++pulls_;
    if (!refusals_.empty()) {
      absl::Status refusal = refusals_.back();
      refusals_.pop_back();
      return refusal;
    }
    v1::PullReply reply;
    *reply.mutable_server_generation() =
        Pair(1, pulls_ <= other_generation_until_ ? 9 : 1);
    reply.set_incarnation(7);
    reply.set_encoding(v1::FP32);
    reply.set_step(pulls_ <= moves_until_ ? 100 + pulls_ : 200);
    std::string payload;
    for (const v1::PullBlock& block : request.blocks()) {
      const v1::Slice& slice = configuration_.layout().slices(block.slice());
      EXPECT_EQ(slice.server(), server);
      const uint64_t width = slice.variable() == 0 ? 2 : 1;
      v1::PulledBlock* const pulled = reply.add_blocks();
      pulled->set_slice(block.slice());
      pulled->set_block(block.block());
      pulled->mutable_version()->set_life(5);
      pulled->mutable_version()->set_counter(reply.step() + slice.server());
      for (uint64_t i = slice.row_begin() * width; i < slice.row_end() * width;
           ++i) {
        const float value = static_cast<float>(i);
        payload.append(reinterpret_cast<const char*>(&value), sizeof(value));
        pulled->set_elements(pulled->elements() + 1);
      }
    }
    for (int i = 0; i < request.rows().rows_size(); ++i) {
      EXPECT_EQ(request.payload().size(),
                request.rows().rows(i) * sizeof(uint64_t));
      AppendRows(request.payload(), &payload);
      const auto& slices = configuration_.layout().slices();
      reply.mutable_row_versions()->add_lives(5);
      reply.mutable_row_versions()->add_counters(
          reply.step() + slices[request.rows().slices(i)].server());
    }
    if (cut_ && !payload.empty()) payload.pop_back();
    reply.set_payload(payload);
    return reply.SerializeAsString();
  }

  // Of a key k: k and k + 1.
  static void AppendRows(const std::string& keys, std::string* payload) {
    for (size_t at = 0; at < keys.size(); at += sizeof(uint64_t)) {
      uint64_t key = 0;
      std::memcpy(&key, keys.data() + at, sizeof(key));
      const float row[] = {static_cast<float>(key),
                           static_cast<float>(key + 1)};
      payload->append(reinterpret_cast<const char*>(row), sizeof(row));
    }
  }
  v1::Variable AddKeyed() {
    v1::Variable keyed = MakeVariable("t", {8, 2});
    keyed.set_sparse(true);
    keyed.set_keyed(true);
    MutexLock lock(&mutex_);
    *configuration_.mutable_layout()->add_variables() = keyed;
    AddSliceLocked(2, 0, 8, 1);
    return keyed;
  }

  Mutex mutex_;
  v1::Configuration configuration_ ABSL_GUARDED_BY(mutex_);
  bool is_chief_ ABSL_GUARDED_BY(mutex_) = true;
  bool has_servers_ ABSL_GUARDED_BY(mutex_) = true;
  // By the number under which it is called, each server; and with replication
  // where they are, and where the next status says that they are.
  std::map<std::string, uint32_t> servers_at_ ABSL_GUARDED_BY(mutex_) = {
      {"0", 0}, {"1", 1}};
  std::vector<uint32_t> places_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> seen_places_ ABSL_GUARDED_BY(mutex_);
  // What pulls are answered with: fewer bytes, these refusals, the last first,
  // or up to that many pulls another generation and a step that goes on.
  bool cut_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<absl::Status> refusals_ ABSL_GUARDED_BY(mutex_);
  uint64_t other_generation_until_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t moves_until_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t pulls_ ABSL_GUARDED_BY(mutex_) = 0;
  ScriptedProcess process_;  // Last: ends before what it uses.
};

TEST_F(LiveWeightsTest, AllVariablesArePulledFromAllServers) {
  const auto variables = Live().Variables();
  ASSERT_TRUE(variables.ok()) << variables.status();
  ASSERT_EQ(variables->size(), 2u);
  EXPECT_EQ((*variables)[0].name(), "w");
  const auto pulled = Live().Pull(*variables);
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_THAT(pulled->values,
              ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5), ElementsAre(0, 1)));
  EXPECT_EQ(pulled->least_step, 200u);
  EXPECT_EQ(pulled->most_step, 201u);
}

TEST_F(LiveWeightsTest, WeightsAreReadInThePlacesWhereServersAre) {
  Replicate();
  const auto pulled = Live().Pull(Both());
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_THAT(pulled->values,
              ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5), ElementsAre(0, 1)));
}

TEST_F(LiveWeightsTest, AServerThatIsTakenOverMeanwhileIsLookedForAgain) {
  Replicate(/*seen=*/false);
  const auto pulled = Live().Pull(Both());
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_THAT(pulled->values,
              ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5), ElementsAre(0, 1)));
}

TEST_F(LiveWeightsTest, OneVariableIsPulledAlone) {
  const auto pulled = Live().Pull({MakeVariable("b", {2})});
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_THAT(pulled->values, ElementsAre(ElementsAre(0, 1)));
  MutexLock lock(&mutex_);
  EXPECT_EQ(pulls_, 1u);
}

TEST_F(LiveWeightsTest, RowsOfAKeyedVariableArePulledByKey) {
  const v1::Variable keyed = AddKeyed();
  const std::vector<std::vector<uint64_t>> keys = {{3, 70, 9000}};
  const auto pulled = Live().Pull({keyed, MakeVariable("b", {2})}, keys);
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_THAT(pulled->values, ElementsAre(ElementsAre(3, 4, 70, 71, 9000, 9001),
                                          ElementsAre(0, 1)));
  const auto without = Live().Pull({keyed});
  EXPECT_TRUE(absl::IsInvalidArgument(without.status())) << without.status();
  EXPECT_EQ(without.status().message(),
            "variable 't' has its rows by key: name the keys whose rows are "
            "wanted");
}

TEST_F(LiveWeightsTest, RowsArePulledByKeyWhateverTheCapacity) {
  v1::Variable keyed = AddKeyed();
  keyed.set_shape(0, 20);
  const std::vector<std::vector<uint64_t>> keys = {{3, 70}};
  const auto pulled = Live().Pull({keyed, MakeVariable("b", {2})}, keys);
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_THAT(pulled->values,
              ElementsAre(ElementsAre(3, 4, 70, 71), ElementsAre(0, 1)));
  keyed.set_shape(1, 3);
  const auto wider = Live().Pull({keyed}, keys);
  EXPECT_TRUE(absl::IsInvalidArgument(wider.status())) << wider.status();
  EXPECT_EQ(wider.status().message(),
            "variable 't' is 20x3 here; in the running job it is 8x2");
}

TEST_F(LiveWeightsTest, WhatTheJobDoesNotHaveIsNamed) {
  const auto unknown = Live().Pull({MakeVariable("v", {2})});
  EXPECT_TRUE(absl::IsNotFound(unknown.status())) << unknown.status();
  EXPECT_THAT(unknown.status().message(), HasSubstr("no variable 'v'"));
  const auto other = Live().Pull({MakeVariable("b", {4})});
  EXPECT_TRUE(absl::IsInvalidArgument(other.status())) << other.status();
  EXPECT_EQ(other.status().message(),
            "variable 'b' is 4 here; in the running job it is 2");
  const auto twice =
      Live().Pull({MakeVariable("b", {2}), MakeVariable("b", {2})});
  EXPECT_TRUE(absl::IsInvalidArgument(twice.status())) << twice.status();
}

TEST_F(LiveWeightsTest, WhatMayPassIsTriedAgain) {
  {
    MutexLock lock(&mutex_);
    refusals_ = {Refuse(v1::Refusal::NOT_READY, "ps-0", "ps-0 is filling")};
  }
  const auto pulled = Live().Pull(Both());
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_EQ(pulled->values[0][5], 5);
}

TEST_F(LiveWeightsTest, WhatHasNotPassedInTimeIsSaid) {
  {
    MutexLock lock(&mutex_);
    refusals_.assign(100,
                     Refuse(v1::Refusal::NOT_READY, "ps-0", "ps-0 is filling"));
  }
  EXPECT_EQ(Live(absl::Milliseconds(300)).Pull(Both()).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(LiveWeightsTest, TheEndOfTheJobIsSaidAtOnce) {
  {
    MutexLock lock(&mutex_);
    refusals_ = {Refuse(v1::Refusal::JOB_FINISHED, "ps-0", "it is over")};
  }
  const auto pulled = Live().Pull(Both());
  EXPECT_TRUE(absl::IsCancelled(pulled.status())) << pulled.status();
  EXPECT_THAT(pulled.status().message(), HasSubstr("the job has ended"));
}

TEST_F(LiveWeightsTest, WhatAnotherLifeOfAServerHoldsIsNotMixedIn) {
  {
    MutexLock lock(&mutex_);
    other_generation_until_ = 1;
  }
  const auto pulled = Live().Pull(Both());
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_THAT(pulled->values[0], ElementsAre(0, 1, 2, 3, 4, 5));
  {
    MutexLock lock(&mutex_);
    other_generation_until_ = 1000;
  }
  const auto never = Live(absl::Milliseconds(300)).Pull(Both());
  EXPECT_TRUE(absl::IsUnavailable(never.status())) << never.status();
  EXPECT_THAT(never.status().message(),
              HasSubstr("was restored while its weights were pulled"));
}

TEST_F(LiveWeightsTest, InSyncModeItAsksAgainUntilAllIsOfOneStep) {
  {
    MutexLock lock(&mutex_);
    configuration_.mutable_consistency()->set_mode(v1::Consistency::SYNC);
    moves_until_ = 5;
  }
  const auto pulled = Live().Pull(Both());
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  MutexLock lock(&mutex_);
  EXPECT_EQ(pulls_, 8u) << "two servers, at steps 101 to 105, then 200";
}

TEST_F(LiveWeightsTest, AJobWhoseStepsAreFasterIsPulledAllTheSame) {
  {
    MutexLock lock(&mutex_);
    configuration_.mutable_consistency()->set_mode(v1::Consistency::SYNC);
    moves_until_ = 1000;
  }
  const auto pulled = Live().Pull(Both());
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_LT(pulled->least_step, pulled->most_step);
}

TEST_F(LiveWeightsTest, AnAnswerThatLacksBytesIsRefused) {
  {
    MutexLock lock(&mutex_);
    cut_ = true;
  }
  const auto pulled = Live().Pull(Both());
  EXPECT_EQ(pulled.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(pulled.status().message(), HasSubstr("answered a pull"));
}

TEST_F(LiveWeightsTest, BeforeTheVariablesArePlacedTheChiefSaysWhy) {
  {
    MutexLock lock(&mutex_);
    configuration_.clear_servers();
  }
  const auto pulled = Live(absl::Milliseconds(300)).Pull(Both());
  EXPECT_TRUE(absl::IsUnavailable(pulled.status()));
  EXPECT_EQ(pulled.status().message(),
            "the chief has not placed the variables yet: it waits for ps-1");
}

TEST_F(LiveWeightsTest, AJobWithoutServersIsRefusedAtOnce) {
  {
    MutexLock lock(&mutex_);
    has_servers_ = false;
  }
  const auto pulled = Live().Pull(Both());
  EXPECT_TRUE(absl::IsFailedPrecondition(pulled.status())) << pulled.status();
  EXPECT_THAT(pulled.status().message(), HasSubstr("the job has no servers"));
}

TEST_F(LiveWeightsTest, AProcessWithoutAChiefIsNamed) {
  {
    MutexLock lock(&mutex_);
    is_chief_ = false;
  }
  const auto pulled = Live().Pull(Both());
  EXPECT_TRUE(absl::IsNotFound(pulled.status())) << pulled.status();
  EXPECT_THAT(pulled.status().message(),
              HasSubstr("is not told where its chief is"));
}

TEST_F(LiveWeightsTest, WhereNobodyListensItFailsAtOnce) {
  LiveWeights nobody({.address = "127.77.77.77:1", .timeout = absl::Hours(1)});
  EXPECT_EQ(nobody.Variables().status(),
            absl::UnavailableError("the process at '127.77.77.77:1' can't be "
                                   "reached: refused"));
}

}  // namespace
}  // namespace paramd
