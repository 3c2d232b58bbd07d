// Writes the corpus of the target beside it: lives of a coordinator, in short.

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/fuzz/seeds.h"
#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/fuzz/make_events.h"

namespace paramd::testing {
namespace {

using fuzz::AnswerOf;
using fuzz::CallOf;
using fuzz::Done;
using fuzz::DoneOf;
using fuzz::Recorder;
using fuzz::TimePasses;

// A cluster in which everything goes well.
class Cluster {
 public:
  explicit Cluster(const Coordinator::Options& options)
      : coordinator_(options),
        recorder_(&coordinator_,
                  {"Join", "Heartbeat", "Portion", "Set", "Checkpoint",
                   "StopJob", "GetConfiguration", "Drain"}) {}

  std::string bytes() const { return recorder_.bytes(); }

  // Answers what the coordinator asks, until it asks nothing.
  void Serve() {
    for (int i = 0; i < 40 && (EndWork() || AnswerCall()); ++i) {
    }
  }
  void Pass() {
    recorder_.Add(TimePasses());
    Serve();
  }
  void Call(PeerId from, const google::protobuf::Message& request) {
    recorder_.Add(CallOf(from, request));
    Serve();
  }

  void Join(uint32_t index) {
    v1::JoinRequest request;
    request.mutable_task()->set_type(v1::WORKER);
    request.mutable_task()->set_index(index);
    request.set_incarnation(200 + index);
    request.set_host("host");
    request.set_pid(4000 + index);
    request.set_job_digest("digest");
    Call(PeerId::Worker(index), request);
    const auto& joined =
        dynamic_cast<const v1::JoinReply&>(*recorder_.run().last_reply());
    v1::Header& header = headers_[index];
    header.set_worker(index);
    *header.mutable_generation() = joined.generation();
    *header.mutable_configuration() = joined.configuration().version();
  }
  void Beat(uint32_t worker, uint64_t number, bool no_input = false) {
    v1::HeartbeatRequest beat;
    *beat.mutable_header() = headers_[worker];
    beat.mutable_header()->set_sequence(2 * number);
    beat.set_number(number);
    beat.set_clock(2 * number);
    beat.set_no_input(no_input);
    beat.set_state(v1::RUNNING);
    Call(PeerId::Worker(worker), beat);
  }
  void TakePortion(uint32_t worker, uint64_t number) {
    v1::PortionRequest request;
    *request.mutable_header() = headers_[worker];
    request.set_number(number);
    request.set_finished_id(number - 1);
    Call(PeerId::Worker(worker), request);
  }

 private:
  bool EndWork() {
    if (recorder_.run().ios().empty()) return false;
    const auto& work = *recorder_.run().ios()[0].head;
    if (dynamic_cast<const v1::ReadLog*>(&work) != nullptr) {
      recorder_.Add(DoneOf(v1::ReadLogResult()));
    } else if (dynamic_cast<const v1::FindCheckpoint*>(&work) != nullptr) {
      recorder_.Add(DoneOf(v1::FindCheckpointResult()));
    } else if (dynamic_cast<const v1::PrepareCheckpoint*>(&work) != nullptr) {
      v1::PrepareCheckpointResult prepared;
      prepared.set_directory("/checkpoint");
      recorder_.Add(DoneOf(prepared));
    } else if (dynamic_cast<const v1::CommitCheckpoint*>(&work) != nullptr) {
      v1::CommitCheckpointResult committed;
      committed.set_path("/checkpoint");
      recorder_.Add(DoneOf(committed));
    } else {
      recorder_.Add(Done());
    }
    return true;
  }

  bool AnswerCall() {
    if (recorder_.run().sends().empty()) return false;
    const Outbox::SendItem& sent = recorder_.run().sends()[0];
    const uint64_t incarnation = 100 + sent.to.index;
    if (dynamic_cast<const v1::RecallRequest*>(sent.head.get()) != nullptr) {
      v1::RecallReply reply;
      reply.set_incarnation(incarnation);
      recorder_.Add(AnswerOf(reply));
    } else if (const auto* told =
                   dynamic_cast<const v1::ConfigureRequest*>(sent.head.get())) {
      v1::ConfigureReply reply;
      reply.set_incarnation(incarnation);
      *reply.mutable_configuration() = told->configuration().version();
      reply.set_restored(true);
      recorder_.Add(AnswerOf(reply));
    } else if (const auto* seal =
                   dynamic_cast<const v1::SealRequest*>(sent.head.get())) {
      v1::SealReply reply;
      *reply.mutable_snapshot() = seal->header().snapshot();
      recorder_.Add(AnswerOf(reply));
    } else if (const auto* written =
                   dynamic_cast<const v1::WrittenRequest*>(sent.head.get())) {
      v1::WrittenReply reply;
      *reply.mutable_snapshot() = written->header().snapshot();
      reply.mutable_file()->set_name(absl::StrCat("file-", sent.to.index));
      recorder_.Add(AnswerOf(reply));
    } else {
      recorder_.Add(AnswerOf(v1::FinishReply()));
    }
    return true;
  }

  Coordinator coordinator_;
  Recorder recorder_;
  std::map<uint32_t, v1::Header> headers_;  // Of each worker's session.
};

void Start(Cluster* cluster) {
  cluster->Serve();
  for (int i = 0; i < 3; ++i) cluster->Pass();
}

void Train(Cluster* cluster) {
  Start(cluster);
  for (const uint32_t worker : {0, 1}) cluster->Join(worker);
  for (const uint32_t worker : {0, 1}) {
    cluster->TakePortion(worker, 1);
    cluster->Beat(worker, 1);
  }
  cluster->Pass();
  cluster->TakePortion(0, 2);
  cluster->Beat(0, 2);
}

void Operate(Cluster* cluster) {
  Train(cluster);
  v1::SetRequest set;
  set.set_key("learning_rate_scale");
  set.set_value("0.5");
  cluster->Call(PeerId{}, set);
  cluster->Call(PeerId{}, v1::CheckpointRequest());
  cluster->Pass();
  cluster->Call(PeerId{}, v1::GetConfigurationRequest());
  cluster->Call(PeerId{}, v1::StopJobRequest());
  cluster->Pass();
}

void Finish(Cluster* cluster) {
  Train(cluster);
  for (uint64_t number = 3; number < 6; ++number) {
    for (const uint32_t worker : {0, 1}) {
      cluster->TakePortion(worker, number);
      cluster->Beat(worker, number, number == 5);
    }
  }
  for (int i = 0; i < 4; ++i) cluster->Pass();
}

Coordinator::Options Sync() {
  Coordinator::Options options = JobOptions();
  options.job.set_staleness("sync");
  return options;
}

}  // namespace
}  // namespace paramd::testing

int main(int argc, char** argv) {
  using namespace paramd::testing;
  if (argc != 2) return 2;
  std::vector<std::pair<std::string, std::string>> seeds;
  const auto add = [&](const std::string& name,
                       const std::function<void(Cluster*)>& live,
                       const paramd::Coordinator::Options& options) {
    Cluster cluster(options);
    live(&cluster);
    seeds.emplace_back(name, cluster.bytes());
  };
  add("start", Start, JobOptions());
  add("train", Train, JobOptions());
  add("operate", Operate, JobOptions());
  add("finish", Finish, JobOptions());
  add("train_sync", Train, Sync());
  paramd::fuzz::WriteSeeds(argv[1], "coordinator", seeds);
  return 0;
}
