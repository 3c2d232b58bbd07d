#include "coordinator/core/testing/started_coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "proto/refusal.h"

namespace paramd::testing {

Coordinator::Options JobOptions() {
  Coordinator::Options options;
  options.job.set_name("j");
  options.job.set_batch_per_replica(2);
  options.job.set_staleness("async");
  options.job.set_portion_batches(2);
  options.job.set_epochs(2);
  options.job.set_lease_ms(10000);
  options.job.set_heartbeat_ms(1000);
  options.job.set_start_timeout_ms(60000);
  options.job.set_finish_timeout_ms(10000);
  options.job.mutable_checkpoint()->set_keep(3);
  options.job.mutable_optimizer()->mutable_sgd();
  options.job.mutable_optimizer()->set_learning_rate(1);
  options.job_digest = "digest";
  options.run_id = "run";
  for (const char* name : {"a", "b"}) {
    v1::Variable variable;
    variable.set_name(name);
    variable.set_dtype(v1::FLOAT32);
    variable.add_shape(2);
    options.variables.push_back(variable);
  }
  options.servers = 2;
  options.workers = 2;
  options.examples = 8;
  options.nonce_seed = 3;
  return options;
}

StartedCoordinator::StartedCoordinator(const Coordinator::Options& options)
    : variables_(options.variables),
      workers_(options.workers),
      core_(options),
      driver_(&core_) {
  for (uint32_t s = 0; s < options.servers; ++s) {
    servers_.push_back({100 + s});
  }
  driver_.Start();
}

// ---- starting ---------------------------------------------------------------

void StartedCoordinator::ReadLog(const v1::ReadLogResult& log) {
  const auto read = driver_.TakeIo<v1::ReadLog>();
  CHECK(read.has_value(), "the log is read");
  driver_.Complete(read->first, log);
}

v1::LogEntry StartedCoordinator::Append() {
  const auto append = driver_.TakeIo<v1::AppendLog>();
  CHECK(append.has_value(), "an entry is appended");
  driver_.End(append->first, absl::OkStatus());
  return append->second.entry();
}

void StartedCoordinator::FindCheckpoint(v1::FindCheckpointResult found) {
  if (found.has_manifest() && found.manifest().variables().empty()) {
    *found.mutable_manifest()->mutable_variables() = {variables_.begin(),
                                                      variables_.end()};
  }
  const auto find = driver_.TakeIo<v1::FindCheckpoint>();
  CHECK(find.has_value(), "a checkpoint is looked for");
  driver_.Complete(find->first, found);
}

void StartedCoordinator::Run() {
  ReadLog();
  Append();  // The term.
  Serve();
  FindCheckpoint();
  Append();  // The layout.
  Serve();
}

// ---- servers ----------------------------------------------------------------

void StartedCoordinator::Serve() {
  for (;;) {
    if (const auto recall = driver_.TakeSend<v1::RecallRequest>()) {
      v1::RecallReply reply = recalled(recall->to.index);
      reply.set_incarnation(incarnation(recall->to.index));
      if (gone(recall->to.index)) {
        driver_.Fail(*recall, absl::UnavailableError("refused"));
      } else {
        driver_.Reply(*recall, reply);
      }
    } else if (const auto sent = driver_.TakeSend<v1::ConfigureRequest>()) {
      AnswerConfigure(*sent);
    } else {
      return;
    }
  }
}

void StartedCoordinator::AnswerConfigure(const Outbox::SendItem& sent) {
  const auto& request = static_cast<const v1::ConfigureRequest&>(*sent.head);
  const v1::Configuration& told = request.configuration();
  Server& server = servers_[sent.to.index];
  v1::ConfigureReply reply;
  reply.set_incarnation(server.incarnation);
  reply.set_takes_changes(take_changes_);
  reply.set_draining(server.draining);
  *reply.mutable_drained_by() = server.drained_by;
  const auto self =
      std::find_if(told.servers().begin(), told.servers().end(),
                   [&](const auto& m) { return m.index() == sent.to.index; });
  CHECK(self != told.servers().end(), "a server is told of itself");
  if (self->incarnation() == server.incarnation) {
    *reply.mutable_configuration() = told.version();
    reply.set_restored(true);
    server.file.set_server(sent.to.index);
    *server.file.mutable_server_generation() = self->generation();
    *reply.mutable_lost() = server.file.lost();
  }
  server.gone =
      !IsZero(server.drained_by) && !(request.committed() < server.drained_by);
  driver_.Reply(sent, reply);
}

bool StartedCoordinator::Seal(uint32_t server) {
  const auto seal = driver_.TakeSend<v1::SealRequest>(PeerId::Ps(server));
  if (!seal.has_value()) return false;
  const auto& request = static_cast<const v1::SealRequest&>(*seal->head);
  v1::SealReply reply;
  *reply.mutable_snapshot() = request.header().snapshot();
  if (servers_[server].draining && request.stopped()) {
    servers_[server].drained_by = reply.snapshot();
  }
  driver_.Reply(*seal, reply);
  return true;
}

bool StartedCoordinator::Write(uint32_t server) {
  const auto sent = driver_.TakeSend<v1::WrittenRequest>(PeerId::Ps(server));
  if (!sent.has_value()) return false;
  v1::WrittenReply reply;
  *reply.mutable_snapshot() =
      static_cast<const v1::WrittenRequest&>(*sent->head).header().snapshot();
  *reply.mutable_file() = servers_[server].file;
  reply.mutable_file()->set_name(absl::StrCat("file-", server));
  driver_.Reply(*sent, reply);
  return true;
}

// ---- workers ----------------------------------------------------------------

CallId StartedCoordinator::BeginJoin(uint32_t index, uint64_t incarnation,
                                     const std::string& host, uint64_t replaces,
                                     uint64_t left_sessions) {
  v1::JoinRequest request;
  request.mutable_task()->set_type(v1::WORKER);
  request.mutable_task()->set_index(index);
  request.set_incarnation(incarnation);
  request.set_replaces(replaces);
  request.set_left_sessions(left_sessions);
  request.set_host(host);
  request.set_pid(4000 + index);
  request.set_job_digest("digest");
  request.set_joined(beside_the_list_ && index >= workers_);
  return driver_.Begin(PeerId::Worker(index), request);
}

StartedCoordinator::Worker StartedCoordinator::Join(uint32_t index) {
  const CallId call = BeginJoin(index, 200 + index);
  Serve();
  const CoreDriver::Answer answer = driver_.Take(call);
  CHECK(answer.status.ok(), answer.status.ToString());
  const auto& reply = static_cast<const v1::JoinReply&>(*answer.head);
  Worker worker;
  worker.index = index;
  v1::Header* header = worker.beat.mutable_header();
  header->set_worker(index);
  *header->mutable_generation() = reply.generation();
  *header->mutable_configuration() = reply.configuration().version();
  return worker;
}

void StartedCoordinator::Beat(Worker* worker) {
  TakeNews(worker);
  worker->beat.set_number(worker->beat.number() + 1);
  worker->parked = driver_.Begin(PeerId::Worker(worker->index), worker->beat);
}

bool StartedCoordinator::TakeNews(Worker* worker) {
  if (worker->parked == 0 || !driver_.answered(worker->parked)) return false;
  const CoreDriver::Answer answer =
      driver_.Take(std::exchange(worker->parked, 0));
  if (!answer.status.ok()) return true;
  last_reply_ = static_cast<const v1::HeartbeatReply&>(*answer.head);
  v1::HeartbeatRequest& beat = worker->beat;
  if (last_reply_.has_configuration()) {
    *beat.mutable_header()->mutable_configuration() =
        last_reply_.configuration().version();
  }
  beat.set_state(last_reply_.state());
  *beat.mutable_snapshot() = last_reply_.snapshot();
  beat.set_stop(last_reply_.stop());
  beat.set_left_out_step(last_reply_.left_out_step());
  beat.set_evaluate_epoch(last_reply_.evaluate_epoch());
  beat.set_evaluate_final(last_reply_.evaluate_final());
  return true;
}

void StartedCoordinator::CatchUp(Worker* worker) {
  for (int i = 0; i < 10; ++i) {
    if (worker->parked == 0) Beat(worker);
    if (!TakeNews(worker) || worker->beat.state() == v1::FINISHED) return;
  }
  CHECK(false, "the coordinator has news for ever");
}

CoreDriver::Answer StartedCoordinator::TakePortion(Worker* worker,
                                                   uint64_t number,
                                                   uint64_t finished_id) {
  v1::PortionRequest request;
  *request.mutable_header() = worker->beat.header();
  request.set_number(number);
  request.set_finished_id(finished_id);
  return driver_.Call(PeerId::Worker(worker->index), request);
}

v1::PortionReply StartedCoordinator::NextPortion(Worker* worker,
                                                 uint64_t finished_id) {
  const CoreDriver::Answer answer =
      TakePortion(worker, ++worker->portion_number, finished_id);
  CHECK(answer.status.ok(), answer.status.ToString());
  return static_cast<const v1::PortionReply&>(*answer.head);
}

void StartedCoordinator::Cut(Worker* worker, uint64_t sequence) {
  CatchUp(worker);
  CHECK(worker->beat.snapshot().term() != 0,
        "the worker is told of a snapshot");
  worker->beat.mutable_header()->set_sequence(sequence);
  *worker->beat.mutable_cut()->mutable_snapshot() = worker->beat.snapshot();
  worker->beat.mutable_cut()->set_sequence(sequence);
  worker->beat.mutable_cut()->set_acknowledged(true);
  Beat(worker);
}

v1::Configuration StartedCoordinator::configuration() {
  const CoreDriver::Answer answer =
      driver_.Call(PeerId{}, v1::GetConfigurationRequest());
  return static_cast<const v1::GetConfigurationReply&>(*answer.head)
      .configuration();
}

}  // namespace paramd::testing
