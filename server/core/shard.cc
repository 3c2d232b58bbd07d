#include "server/core/shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/member_name.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

absl::Status Invalid(absl::string_view entity, absl::string_view sentence) {
  return Refuse(v1::Refusal::INVALID, entity, sentence);
}

// Every request to a server has one as its first field.
const v1::Header& HeaderOf(const google::protobuf::Message& request) {
  const auto* field = request.GetDescriptor()->FindFieldByNumber(1);
  if (field == nullptr || field->message_type() != v1::Header::descriptor()) {
    return v1::Header::default_instance();
  }
  return static_cast<const v1::Header&>(
      request.GetReflection()->GetMessage(request, field));
}

}  // namespace

Shard::Shard(const Options& options)
    : options_(options),
      lives_(options.life_seed),
      gate_({.server = Name(),
             .lease = options.lease,
             .park_timeout = options.park_timeout}),
      memory_(options.memory_limit_bytes) {}

void Shard::Start(Time now, Outbox*) { heard_ = now; }

void Shard::Receive(Message message, Time now, Outbox* out) {
  // A server calls nobody, so nobody owes it a reply.
  if (message.is_reply) return;
  if (const absl::Status status = CheckProcess(HeaderOf(*message.head));
      !status.ok()) {
    return RefuseCall(message.call, status, out);
  }
  gate_.Wake(now);
  if (content_ != nullptr) content_->spare().Tick(now);
  const uint64_t refusals = memory_.refusals();
  if (const auto* pull = dynamic_cast<const v1::PullRequest*>(message.head)) {
    ReceivePull(message, *pull, now, out);
  } else if (const auto* push =
                 dynamic_cast<const v1::PushRequest*>(message.head)) {
    ReceivePush(message, *push, now, out);
  } else if (const auto* told =
                 dynamic_cast<const v1::TellClockRequest*>(message.head)) {
    const absl::Status status = TellClock(message, *told, now);
    status.ok()
        ? out->Reply(message.call, std::make_unique<v1::TellClockReply>())
        : RefuseCall(message.call, status, out);
  } else {
    ReceiveControl(message, now, out);
  }
  ContinueSync(now, out);
  ReleasePulls(now, out);
  // What is read of old blocks may go when its readers do.
  if (memory_.refusals() > refusals) out->CancelOldestReply();
}

void Shard::ReceiveControl(const Message& message, Time now, Outbox* out) {
  heard_ = now;
  const auto answer = [&](const absl::Status& status, Outbox::Head reply) {
    if (!status.ok()) return RefuseCall(message.call, status, out);
    out->Reply(message.call, std::move(reply));
  };
  if (const auto* recall =
          dynamic_cast<const v1::RecallRequest*>(message.head)) {
    auto reply = std::make_unique<v1::RecallReply>();
    const absl::Status status = Recall(*recall, reply.get());
    answer(status, std::move(reply));
  } else if (const auto* configure =
                 dynamic_cast<const v1::ConfigureRequest*>(message.head)) {
    auto reply = std::make_unique<v1::ConfigureReply>();
    const absl::Status status = Configure(*configure, now, out, reply.get());
    answer(status, std::move(reply));
  } else if (const auto* seal =
                 dynamic_cast<const v1::SealRequest*>(message.head)) {
    auto reply = std::make_unique<v1::SealReply>();
    const absl::Status status = Seal(*seal, out, reply.get());
    answer(status, std::move(reply));
  } else if (const auto* written =
                 dynamic_cast<const v1::WrittenRequest*>(message.head)) {
    Written(message.call, *written, now, out);
  } else if (const auto* fetch =
                 dynamic_cast<const v1::FetchShardRequest*>(message.head)) {
    auto reply = std::make_unique<v1::FetchShardReply>();
    BufferChain payload;
    const absl::Status status = FetchShard(*fetch, reply.get(), &payload);
    if (!status.ok()) return RefuseCall(message.call, status, out);
    out->Reply(message.call, std::move(reply), std::move(payload));
  } else if (const auto* fill =
                 dynamic_cast<const v1::FillRequest*>(message.head)) {
    auto reply = std::make_unique<v1::FillReply>();
    const absl::Status status =
        Fill(*fill, message.payload, now, reply.get());
    answer(status, std::move(reply));
  } else if (const auto* decide =
                 dynamic_cast<const v1::DecideRequest*>(message.head)) {
    Decide(message.call, *decide, now, out);
  } else if (const auto* finish =
                 dynamic_cast<const v1::FinishRequest*>(message.head)) {
    answer(Finish(*finish, now, out), std::make_unique<v1::FinishReply>());
  } else {
    answer(Invalid("method", "a parameter server does not answer this call"),
           nullptr);
  }
}

// ---- pull and push ---------------------------------------------------------

absl::Status Shard::Pull(const v1::PullRequest& request, v1::PullReply* reply,
                         BufferChain* payload) {
  RETURN_IF_ERROR(CheckRunning());
  RETURN_IF_ERROR(CheckKnown(request.header()));
  RETURN_IF_ERROR(CheckFilled());
  // What a checkpoint held is not known to be right before all servers say so;
  // only who does not belong to this configuration asks already.
  if (configuration_.state() == v1::STARTING) {
    return RefuseForNow(
        v1::Refusal::NOT_READY, Name(), options_.retry_after,
        absl::StrCat(Name(), " is filled; the other servers are not all yet"));
  }
  RETURN_IF_ERROR(content_->Pull(request, reply, payload));
  if (sync_ != nullptr) reply->set_step(sync_->step());
  *reply->mutable_server_generation() = generation_;
  *reply->mutable_configuration() = configuration_.version();
  reply->set_incarnation(options_.incarnation);
  return absl::OkStatus();
}

absl::Status Shard::CheckRunning() const {
  if (!finished_) return absl::OkStatus();
  return Refuse(v1::Refusal::JOB_FINISHED, Name(), "the job has finished");
}

absl::Status Shard::CheckFilled() const {
  if (state_ == State::kFilled) return absl::OkStatus();
  // The coordinator hears the failure itself and finds another checkpoint, or
  // ends the job.
  if (state_ == State::kFailed) {
    return RefuseForNow(v1::Refusal::NOT_READY, Name(), options_.retry_after,
                        failure_.message());
  }
  return RefuseForNow(
      v1::Refusal::NOT_READY, Name(), options_.retry_after,
      state_ == State::kNone
          ? absl::StrCat(Name(), " has not been given a configuration yet")
          : absl::StrCat(Name(), " is still filling its slices"));
}

absl::Status Shard::CheckSession(const Message& message,
                                 const v1::Header& header) const {
  if (message.from.kind == PeerId::Kind::kWorker &&
      message.from.index != header.worker()) {
    return Refuse(
        v1::Refusal::NOT_ALLOWED, PeerName(message.from),
        absl::StrCat(PeerName(message.from), " speaks in the name of worker-",
                     header.worker()));
  }
  const std::string name = WorkerName(header.worker(), header.generation());
  const auto session = sessions_.find(header.worker());
  if (session == sessions_.end() || header.generation() > session->second) {
    return RefuseForNow(
        v1::Refusal::NOT_READY, name, options_.retry_after,
        absl::StrCat("configuration ", VersionName(configuration_.version()),
                     " does not name ", name));
  }
  if (header.generation() < session->second) {
    return Refuse(v1::Refusal::FENCED, name,
                  absl::StrCat(name, " has been followed by generation ",
                               VersionName(session->second)));
  }
  return absl::OkStatus();
}

absl::Status Shard::CheckKnown(const v1::Header& header) const {
  if (header.configuration() > configuration_.version()) {
    return RefuseForNow(
        v1::Refusal::NOT_READY, "coordinator", options_.retry_after,
        absl::StrCat(Name(), " has not heard of configuration ",
                     VersionName(header.configuration()), " yet"));
  }
  if (header.server_generation() > generation_) {
    return RefuseForNow(
        v1::Refusal::NOT_READY, "coordinator", options_.retry_after,
        absl::StrCat(Name(), " is generation ", VersionName(generation_),
                     "; generation ", VersionName(header.server_generation()),
                     " is meant"));
  }
  return absl::OkStatus();
}

// ---- recall and configure --------------------------------------------------

absl::Status Shard::Recall(const v1::RecallRequest& request,
                           v1::RecallReply* reply) {
  RETURN_IF_ERROR(CheckRunning());
  RETURN_IF_ERROR(CheckRun(request.run_id(), request.job_digest()));
  RETURN_IF_ERROR(CheckTerm(request.header().term()));
  term_ = request.header().term();
  if (content_ != nullptr) {
    // No snapshot of an earlier coordinator will be sealed.
    v1::Version first;
    first.set_term(term_);
    content_->fork().Hear(first);
  }
  reply->set_incarnation(options_.incarnation);
  *reply->mutable_generation() = generation_;
  if (!IsZero(configuration_.version())) {
    *reply->mutable_configuration() = configuration_;
  }
  FillRecalled(reply);
  return absl::OkStatus();
}

void Shard::FillRecalled(v1::RecallReply* reply) const {
  if (state_ != State::kFilled) return;
  reply->set_filled(true);
  progress_.Fill(reply);
  if (content_->owned().empty()) return;
  v1::SavedSlice slice;
  content_->owned().front()->applied().Save(&slice);
  uint64_t pushes = 0;
  for (const v1::PushRecord& record : slice.records()) {
    const bool is_in = record.sequence() > 0 &&
                       record.missing_blocks().empty() &&
                       !progress_.IsOpen(record);
    pushes += record.earlier() + (is_in ? 1 : 0);
  }
  reply->set_pushes(pushes);
}

// Before it is configured a process is nobody's yet.
absl::Status Shard::CheckProcess(const v1::Header& header) const {
  const uint64_t meant = header.server_incarnation();
  if (meant == 0 || meant == options_.incarnation ||
      IsZero(configuration_.version())) {
    return absl::OkStatus();
  }
  return RefuseForNow(
      v1::Refusal::NOT_READY, "coordinator", options_.retry_after,
      absl::StrCat("a call is for process ",
                   absl::Hex(meant, absl::kZeroPad16), "; this ", Name(),
                   " is process ",
                   absl::Hex(options_.incarnation, absl::kZeroPad16)));
}

absl::Status Shard::CheckTerm(uint64_t term) const {
  if (term >= term_) return absl::OkStatus();
  return Refuse(v1::Refusal::OLD_TERM, absl::StrCat("term ", term),
                absl::StrCat("term ", term, " is over; ", Name(),
                             " has heard of term ", term_));
}

absl::Status Shard::CheckRun(const std::string& run_id,
                             const std::string& job_digest) const {
  if (IsZero(configuration_.version())) return absl::OkStatus();
  if (run_id != configuration_.run_id()) {
    return Refuse(
        v1::Refusal::OTHER_JOB, run_id,
        absl::StrCat(Name(), " belongs to run '", configuration_.run_id(),
                     "', not to '", run_id, "'"));
  }
  if (job_digest != configuration_.job_digest()) {
    return Refuse(
        v1::Refusal::OTHER_JOB, job_digest,
        absl::StrCat(Name(), " has job settings of digest ",
                     configuration_.job_digest(), ", not ", job_digest));
  }
  return absl::OkStatus();
}

absl::Status Shard::Configure(const v1::ConfigureRequest& request, Time now,
                              Outbox* out, v1::ConfigureReply* reply) {
  const v1::Configuration& told = request.configuration();
  const v1::Version& known = configuration_.version();
  const uint64_t term =
      std::max(request.header().term(), told.version().term());
  RETURN_IF_ERROR(CheckRunning());
  RETURN_IF_ERROR(CheckRun(told.run_id(), told.job_digest()));
  RETURN_IF_ERROR(CheckTerm(term));
  if (told.version() < known || IsZero(told.version())) {
    return Refuse(
        v1::Refusal::OLD_TERM, VersionName(told.version()),
        absl::StrCat("configuration ", VersionName(told.version()), " is old; ",
                     Name(), " has ", VersionName(known)));
  }
  reply->set_incarnation(options_.incarnation);
  if (IsOfAnEarlierProcess(told)) {
    // The answer says who is here now.
    return absl::OkStatus();
  }
  if (told.version() > known) {
    RETURN_IF_ERROR(CheckMember(told, out));
    RETURN_IF_ERROR(Accept(told, now, out));
  } else if (told.SerializeAsString() != configuration_.SerializeAsString()) {
    return Invalid(VersionName(known),
                   absl::StrCat("configuration ", VersionName(known),
                                " was told before with other content"));
  }
  term_ = term;
  if (request.has_input_left()) progress_.SetLeft(request.input_left());
  if (content_ != nullptr) {
    content_->fork().Hear(request.header().snapshot());
    content_->fork().End(request.committed());
  }
  ForgetUnseen(request);
  // One snapshot is open at a time: where a later one is, and this one was not
  // committed, it never will be. What is pushed is applied again, or no worker
  // would ever reach the later one's cut.
  if (request.header().snapshot() > drained_by_ &&
      request.committed() < drained_by_) {
    drained_by_.Clear();
  }
  if (state_ == State::kFailed) return failure_;
  reply->set_unseen(handed_ != nullptr);
  if (state_ != State::kNone && handed_ == nullptr) {
    RETURN_IF_ERROR(CheckFilled());
  }
  *reply->mutable_configuration() = configuration_.version();
  reply->set_restored(state_ == State::kFilled);
  reply->set_bytes(content_ == nullptr ? 0 : content_->bytes());
  if (state_ == State::kFilled) content_->Describe(reply);
  reply->set_draining(draining_);
  lost_.Save(reply->mutable_lost());
  *reply->mutable_drained_by() = drained_by_;
  if (!IsZero(drained_by_) && !(request.committed() < drained_by_)) {
    out->Note(absl::StrCat("drained: all of ", Name(), " is in checkpoint ",
                           VersionName(drained_by_)));
    out->Exit(absl::OkStatus());
  }
  return absl::OkStatus();
}

const v1::ServerMember* Shard::FindSelf(
    const v1::Configuration& configuration) const {
  for (const v1::ServerMember& member : configuration.servers()) {
    if (member.index() == options_.index) return &member;
  }
  return nullptr;
}

// Made before this process started, or by a coordinator of a later term that has
// not heard that an earlier one gave it its generation.
bool Shard::IsOfAnEarlierProcess(const v1::Configuration& told) const {
  const v1::ServerMember* const self = FindSelf(told);
  if (self == nullptr || self->incarnation() == options_.incarnation) {
    return false;
  }
  const v1::Version& known = configuration_.version();
  return IsZero(known) || (told.version().term() > known.term() &&
                           !(self->generation() > generation_));
}

absl::Status Shard::CheckMember(const v1::Configuration& configuration,
                                Outbox* out) const {
  const v1::ServerMember* const self = FindSelf(configuration);
  if (self == nullptr) {
    return Invalid(Name(), absl::StrCat("configuration ",
                                        VersionName(configuration.version()),
                                        " does not name ", Name()));
  }
  const std::string generation = VersionName(self->generation());
  if (self->incarnation() == options_.incarnation) {
    if (!(self->generation() < generation_)) return absl::OkStatus();
    return Invalid(Name(), absl::StrCat(Name(), " is generation ",
                                        VersionName(generation_),
                                        " already, not ", generation));
  }
  if (!(self->generation() > generation_)) {
    return Invalid(Name(),
                   absl::StrCat(Name(), " is generation ",
                                VersionName(generation_), "; generation ",
                                generation, " is given to another process"));
  }
  const std::string sentence = absl::StrCat(
      Name(), " generation ", VersionName(generation_),
      " has been replaced by another process, generation ", generation);
  out->Exit(absl::AbortedError(sentence));
  return Refuse(v1::Refusal::FENCED, Name(), sentence);
}

absl::Status Shard::Accept(const v1::Configuration& configuration, Time now,
                           Outbox* out) {
  const v1::ServerMember& self = *FindSelf(configuration);
  const v1::Layout& layout = configuration.layout();
  if (sync_ != nullptr && sync_->applying()) {
    return RefuseForNow(v1::Refusal::RETRY, Name(), options_.retry_after,
                        absl::StrCat(Name(), " is applying a step"));
  }
  const bool fill = !layout.slices().empty() &&
                    (content_ == nullptr || self.generation() > generation_);
  if (fill) {
    ASSIGN_OR_RETURN(content_, ShardContent::Create(
                                   configuration,
                                   {.server = options_.index,
                                    .max_reply_bytes = options_.max_reply_bytes,
                                    .spike_factor = options_.spike_factor,
                                    .memory = &memory_,
                                    .retry_after = options_.retry_after,
                                    .kernels = options_.kernels}));
  } else if (content_ != nullptr &&
             layout.SerializeAsString() !=
                 configuration_.layout().SerializeAsString()) {
    return Invalid("layout", absl::StrCat("configuration ",
                                          VersionName(configuration.version()),
                                          " changes the layout of ", Name(),
                                          " under its generation"));
  }
  if (!fill) RETURN_IF_ERROR(ConfigureSync(configuration, out));
  configuration_ = configuration;
  generation_ = self.generation();
  sessions_.clear();
  for (const v1::WorkerMember& worker : configuration.workers()) {
    sessions_[worker.index()] = worker.generation();
  }
  progress_.SetLiving(sessions_);
  push_numbers_.SetLiving(sessions_);
  gate_.Configure(configuration, now);
  if (content_ != nullptr) {
    content_->SetDecaySteps(configuration.decay_steps());
  }
  if (fill) {
    BeginFilling(self, now, out);
  } else {
    FenceSessions();
  }
  return absl::OkStatus();
}

void Shard::FenceSessions() {
  if (state_ != State::kFilled) return;
  for (Slice* const slice : content_->owned()) {
    for (const auto& [worker, generation] : sessions_) {
      slice->applied().Fence(worker, generation);
    }
  }
}

// ---- for people -------------------------------------------------------------

void Shard::FillStatus(v1::StatusReply* status) const {
  status->mutable_task()->set_type(v1::PS);
  status->mutable_task()->set_index(options_.index);
  status->set_incarnation(options_.incarnation);
  *status->mutable_generation() = generation_;
  *status->mutable_configuration() = configuration_.version();
  v1::ServerStats* const stats = status->mutable_server();
  stats->set_restored(state_ == State::kFilled);
  stats->set_memory_bytes(memory_.used());
  stats->set_memory_limit_bytes(memory_.limit());
  stats->set_memory_refusals(memory_.refusals());
  if (content_ == nullptr) return;
  stats->set_spare_bytes(content_->spare().bytes());
  const ShardContent::Counts& counts = content_->counts();
  stats->set_bytes(content_->bytes());
  stats->set_pushes_lost(lost_.total());
  stats->set_pulls(counts.pulls);
  stats->set_blocks_applied(counts.blocks_applied);
  stats->set_blocks_repeated(counts.blocks_repeated);
  stats->set_blocks_refused(counts.blocks_refused);
  stats->set_blocks_quarantined(counts.blocks_quarantined);
  stats->set_frozen_bytes(content_->fork().bytes());
  content_->staleness().Fill(stats->mutable_staleness());
  gate_.FillStatus(stats);
  if (sync_ == nullptr) return;
  stats->set_step(sync_->step());
  stats->set_parked_bytes(sync_->parked_bytes());
}

void Shard::RefuseCall(CallId call, const absl::Status& status,
                       Outbox* out) const {
  v1::Refusal refusal = RefusalOf(status);
  refusal.set_term(term_);
  *refusal.mutable_version() = configuration_.version();
  out->Refuse(call, Refuse(refusal, status.message()));
}

std::string Shard::Name() const { return PeerName(PeerId::Ps(options_.index)); }

}  // namespace paramd
