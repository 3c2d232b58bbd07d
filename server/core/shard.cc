#include "server/core/shard.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/configuration_changes.h"
#include "proto/job_end.h"
#include "proto/refusal.h"
#include "proto/running_setting.h"
#include "server/core/describe_slices.h"

namespace paramd {
namespace {

// Every request to a server has one as its first field.
const v1::Header& HeaderOf(const google::protobuf::Message& request) {
  const auto* field = request.GetDescriptor()->FindFieldByNumber(1);
  if (field == nullptr || field->message_type() != v1::Header::descriptor()) {
    return v1::Header::default_instance();
  }
  return static_cast<const v1::Header&>(
      request.GetReflection()->GetMessage(request, field));
}

template <typename Request>
const Request* As(const Message& message) {
  return dynamic_cast<const Request*>(message.head);
}

}  // namespace

Shard::Shard(const Options& options)
    : options_(options),
      data_(options.memory_limit_bytes),
      gate_(view()),
      watched_(view()),
      departure_(view(), watched_),
      restorer_(options.life_seed, view()),
      replication_(view()),
      snapshots_(view()),
      steps_(view()),
      calls_(options, view()),
      view_{options_,
            data_,
            gate_.term(),
            gate_.generation(),
            gate_.configuration(),
            gate_.sessions(),
            restorer_.state(),
            restorer_.failure(),
            replication_.serving(),
            snapshots_.drained_by(),
            departure_.draining(),
            departure_.finished(),
            departure_.end(),
            gate_} {}

// ---- one event --------------------------------------------------------------

void Shard::Start(Time now, Outbox*) { departure_.Hear(now); }

void Shard::Receive(Message message, Time now, Outbox* out) {
  ShardTurn turn = Begin(now, out);
  if (message.is_reply) {
    // It calls nobody but its backup.
    calls_.Wake(now);
    Replication::OnReply(message, &turn);
    replication_.Wake(now);
    replication_.Advance(&turn);
    calls_.Advance(&turn);
    return watched_.Advance(&turn);
  }
  if (const absl::Status status = gate_.CheckProcess(HeaderOf(*message.head));
      !status.ok()) {
    return turn.Refuse(message.call, status);
  }
  calls_.Wake(now);
  replication_.Wake(now);
  if (data_.content != nullptr) data_.content->spare().Tick(now);
  const uint64_t refusals = data_.memory.refusals();
  Route(message, &turn);
  steps_.Advance(&turn);
  replication_.Advance(&turn);
  calls_.Advance(&turn);
  watched_.Advance(&turn);
  // What is read of old blocks may go when its readers do.
  if (data_.memory.refusals() > refusals) out->CancelOldestReply();
}

void Shard::Route(const Message& message, ShardTurn* turn) {
  if (const auto* pull = As<v1::PullRequest>(message)) {
    calls_.OnPull(message, *pull, turn);
  } else if (const auto* push = As<v1::PushRequest>(message)) {
    calls_.OnPush(message, *push, turn);
  } else if (const auto* clock = As<v1::TellClockRequest>(message)) {
    calls_.OnTellClock(message, *clock, turn);
  } else if (const auto* told = As<v1::ReplicateRequest>(message)) {
    replication_.OnReplicate(
        message, *told,
        [this](const v1::ReplicateRequest& done) {
          calls_.OnTold(done);
          departure_.HearServer(done);
        },
        turn);
  } else {
    departure_.Hear(turn->now);
    RouteControl(message, turn);
  }
}

void Shard::RouteControl(const Message& message, ShardTurn* turn) {
  BufferChain payload;
  // Has the reply filled, and sends it or the refusal.
  const auto answer = [&](auto reply, const auto& fill) {
    const absl::Status status = fill(reply.get());
    status.ok()
        ? turn->out->Reply(message.call, std::move(reply), std::move(payload))
        : turn->Refuse(message.call, status);
  };
  if (const auto* recall = As<v1::RecallRequest>(message)) {
    answer(std::make_unique<v1::RecallReply>(),
           [&](auto* reply) { return Recall(*recall, reply, turn); });
  } else if (const auto* told = As<v1::ConfigureRequest>(message)) {
    answer(std::make_unique<v1::ConfigureReply>(),
           [&](auto* reply) { return Configure(*told, reply, turn); });
  } else if (const auto* seal = As<v1::SealRequest>(message)) {
    answer(std::make_unique<v1::SealReply>(),
           [&](auto* reply) { return Seal(*seal, reply, turn); });
  } else if (const auto* written = As<v1::WrittenRequest>(message)) {
    snapshots_.OnWritten(message.call, *written, turn);
  } else if (const auto* fetch = As<v1::FetchShardRequest>(message)) {
    answer(std::make_unique<v1::FetchShardReply>(), [&](auto* reply) {
      return snapshots_.OnFetch(*fetch, reply, &payload);
    });
  } else if (const auto* fill = As<v1::FillRequest>(message)) {
    answer(std::make_unique<v1::FillReply>(), [&](auto* reply) {
      return restorer_.OnFill(*fill, message.payload, reply, turn);
    });
  } else if (const auto* decide = As<v1::DecideRequest>(message)) {
    steps_.OnDecide(message.call, *decide, turn);
  } else if (const auto* watch = As<v1::WatchRequest>(message)) {
    Watch(message.call, *watch, turn);
  } else if (const auto* finish = As<v1::FinishRequest>(message)) {
    answer(std::make_unique<v1::FinishReply>(),
           [&](auto*) { return Finish(*finish, turn); });
  } else {
    turn->Refuse(message.call,
                 Refuse(v1::Refusal::INVALID, "method",
                        "a parameter server does not answer this call"));
  }
}

void Shard::Completed(IoResult result, Time now, Outbox* out) {
  ShardTurn turn = Begin(now, out);
  if (snapshots_.Wants(result.io)) {
    snapshots_.OnWriteEnded(std::move(result), &turn);
  } else if (restorer_.Wants(result.io)) {
    restorer_.OnRead(result, &turn);
  }
  // Anything else is of a snapshot or a restore that was given up.
}

void Shard::Tick(Time now, Outbox* out) {
  ShardTurn turn = Begin(now, out);
  calls_.Wake(now);
  replication_.Wake(now);
  if (data_.content != nullptr) data_.content->spare().Tick(now);
  const uint64_t refusals = data_.memory.refusals();
  if (restorer_.Advance(&turn)) BeginServing(&turn);
  steps_.Advance(&turn);
  if (data_.memory.refusals() > refusals) out->CancelOldestReply();
  if (departure_.GivesUp(&turn)) return;
  snapshots_.AnswerLate(&turn);
  replication_.Advance(&turn);
  calls_.Advance(&turn);
  departure_.Advance(&turn);
  watched_.Advance(&turn);
}

Time Shard::next_tick() const {
  const Time next =
      std::min({restorer_.next_tick(), departure_.next_tick(),
                steps_.next_tick(), snapshots_.next_tick(), calls_.next_tick(),
                replication_.next_tick(), watched_.next_tick()});
  return data_.content == nullptr
             ? next
             : std::min(next, data_.content->spare().next_tick());
}

void Shard::Drain(Time now, Outbox* out) {
  ShardTurn turn = Begin(now, out);
  departure_.Drain(&turn);
  replication_.Advance(&turn);
  watched_.Advance(&turn);
}

// ---- recall and configure ---------------------------------------------------

absl::Status Shard::Recall(const v1::RecallRequest& request,
                           v1::RecallReply* reply, ShardTurn* turn) {
  const uint64_t term = request.header().term();
  RETURN_IF_ERROR(gate_.CheckRunning());
  RETURN_IF_ERROR(gate_.CheckRun(request.run_id(), request.job_digest()));
  RETURN_IF_ERROR(gate_.CheckTerm(term));
  gate_.HearTerm(term);
  snapshots_.OnRecall(term, turn);
  reply->set_incarnation(options_.incarnation);
  reply->set_build(options_.build);
  *reply->mutable_generation() = gate_.generation();
  if (!IsZero(gate_.configuration().version())) {
    *reply->mutable_configuration() = gate_.configuration();
  }
  calls_.FillRecalled(reply);
  return absl::OkStatus();
}

absl::Status Shard::Configure(const v1::ConfigureRequest& request,
                              v1::ConfigureReply* reply, ShardTurn* turn) {
  const v1::Configuration& told = request.configuration();
  RETURN_IF_ERROR(gate_.CheckConfigurer(request));
  reply->set_incarnation(options_.incarnation);
  reply->set_takes_changes(true);
  if (gate_.IsOfAnEarlierProcess(told)) {
    // The answer says who is here now.
    return absl::OkStatus();
  }
  if (told.version() > gate_.configuration().version()) {
    // What follows and what is kept is the whole.
    ASSIGN_OR_RETURN(const v1::Configuration whole,
                     Expand(gate_.configuration(), told));
    RETURN_IF_ERROR(gate_.CheckMember(whole, turn));
    RETURN_IF_ERROR(view_.IsBackupIn(whole) ? AcceptAsBackup(whole, turn)
                                            : Accept(whole, turn));
  } else {
    RETURN_IF_ERROR(gate_.CheckRepeated(told));
  }
  gate_.HearTerm(std::max(request.header().term(), told.version().term()));
  if (request.has_input_left()) calls_.OnInputLeft(request.input_left());
  snapshots_.OnConfigure(request, turn);
  *reply->mutable_configuration() = told.version();
  if (options_.processor_time != nullptr) {
    reply->set_processor_us(static_cast<uint64_t>(
        absl::ToInt64Microseconds(options_.processor_time())));
  }
  RETURN_IF_ERROR(restorer_.AnswerConfigure(reply));
  data_.lost.Save(reply->mutable_lost());
  replication_.AnswerConfigure(reply);
  snapshots_.AnswerConfigure(request, reply, turn);
  return absl::OkStatus();
}

absl::Status Shard::Accept(const v1::Configuration& told, ShardTurn* turn) {
  const v1::ServerMember& self = *view_.FindSelf(told);
  if (data_.step != nullptr && data_.step->applying()) {
    return RefuseForNow(v1::Refusal::RETRY, view_.Name(), options_.retry_after,
                        absl::StrCat(view_.Name(), " is applying a step"));
  }
  const bool is_new =
      !told.layout().slices().empty() &&
      (data_.content == nullptr || self.generation() > gate_.generation() ||
       view_.fill_state == FillState::kBackup);
  if (is_new && !IsZero(self.took_over())) return TakeOver(told, turn);
  if (is_new) {
    RETURN_IF_ERROR(MakeContent(told));
  } else if (data_.content != nullptr) {
    RETURN_IF_ERROR(gate_.CheckLayout(told));
  }
  if (!is_new) RETURN_IF_ERROR(ConfigureSteps(told, turn));
  gate_.Accept(told);
  HearLogLevel(told, turn);
  calls_.OnConfiguration(turn->now);
  if (data_.content != nullptr) FollowSettings(told);
  if (is_new) {
    BeginLife(turn);
  } else if (view_.IsFilled()) {
    gate_.FenceSessions(data_.content.get());
  }
  FollowBackup(turn);
  return absl::OkStatus();
}

void Shard::FollowSettings(const v1::Configuration& told) {
  data_.content->SetDecaySteps(told.decay_steps());
  data_.content->SetRateScale(
      told.has_learning_rate_scale() ? told.learning_rate_scale() : 1);
}

void Shard::FollowBackup(ShardTurn* turn) {
  if (!options_.peer.has_value()) return;  // There is no other place.
  calls_.AnswerKept(replication_.OnConfiguration(calls_.StateToTell(), turn),
                    turn);
}

// What the server does comes by itself, in its order: sessions that end and
// settings too.
absl::Status Shard::AcceptAsBackup(const v1::Configuration& told,
                                   ShardTurn* turn) {
  const bool begins =
      view_.FindSelf(told)->backup().since() != replication_.intake().since();
  if (begins) {
    RETURN_IF_ERROR(MakeContent(told));
    EndSteps(view_.NotReady(view_.Name(),
                            absl::StrCat(view_.Name(), " is in another place")),
             turn);
    snapshots_.Drop();
    snapshots_.AnswerParked(turn);
    restorer_.BecomeBackup();
  }
  gate_.Accept(told);
  calls_.OnConfiguration(turn->now);
  if (!begins) return absl::OkStatus();
  data_.lost.Begin(options_.index, gate_.generation());
  calls_.BeginLife();
  replication_.BeginAsBackup(turn);
  return absl::OkStatus();
}

absl::Status Shard::TakeOver(const v1::Configuration& told, ShardTurn* turn) {
  if (!replication_.MayTakeOver(*view_.FindSelf(told))) {
    return Invalid(view_.Name(),
                   absl::StrCat("configuration ", VersionName(told.version()),
                                " has this place take over ", view_.Name(),
                                ", of which it does not hold everything"));
  }
  RETURN_IF_ERROR(gate_.CheckLayout(told));
  ShardContent* const content = data_.content.get();
  gate_.Accept(told);
  data_.lost.TakeOver(options_.index, gate_.generation(), content->owned(),
                      replication_.intake().lost());
  restorer_.TakeOver(content);
  calls_.OnConfiguration(turn->now);
  calls_.TakeOver();
  FollowSettings(told);
  // The job has changed its mode since.
  if (IsZero(told.contributors().version())) {
    EndSteps(view_.NotReady("coordinator", "nobody contributes any more"),
             turn);
  }
  const absl::Status steps = ConfigureSteps(told, turn);
  gate_.FenceSessions(content);
  replication_.TakeOver(turn);
  FollowBackup(turn);
  turn->out->Note(absl::StrCat("this place takes ", view_.Name(),
                               " over: ", content->owned().size(), " slices, ",
                               content->bytes(), " bytes"));
  return steps;
}

absl::Status Shard::MakeContent(const v1::Configuration& told) {
  ShardContent::Options options;
  options.server = options_.index;
  options.max_reply_bytes = options_.max_reply_bytes;
  options.spike_factor = ServerSettingsIn(told).spike_factor;
  options.memory = &data_.memory;
  options.disk = options_.disk.get();
  options.retry_after = options_.retry_after;
  options.kernels = options_.kernels;
  ASSIGN_OR_RETURN(data_.content, ShardContent::Create(told, options));
  return absl::OkStatus();
}

// The step refers to the earlier content; who waits for a snapshot of that
// hears that it was given up.
void Shard::BeginLife(ShardTurn* turn) {
  EndSteps(view_.NotReady(view_.Name(),
                          absl::StrCat(view_.Name(), " takes other content")),
           turn);
  snapshots_.Drop();
  data_.lost.Begin(options_.index, gate_.generation());
  calls_.BeginLife();
  snapshots_.AnswerParked(turn);
  restorer_.Begin(turn);
}

void Shard::BeginServing(ShardTurn* turn) {
  gate_.FenceSessions(data_.content.get());
  const absl::Status begun = ConfigureSteps(gate_.configuration(), turn);
  if (!begun.ok()) restorer_.Fail(begun);
}

// Whoever runs this core makes it so.
void Shard::HearLogLevel(const v1::Configuration& told, ShardTurn* turn) {
  v1::SettingChange change;
  change.set_key("log_level");
  change.set_value(RunningSetting(told, change.key()));
  if (change.value() == log_level_) return;
  log_level_ = change.value();
  turn->StartIo(std::make_unique<v1::SettingChange>(change), {});
}

absl::Status Shard::ConfigureSteps(const v1::Configuration& told,
                                   ShardTurn* turn) {
  RETURN_IF_ERROR(steps_.Configure(told, turn));
  calls_.Follow(data_.step.get());
  return absl::OkStatus();
}

void Shard::EndSteps(const absl::Status& why, ShardTurn* turn) {
  steps_.End(why, turn);
  calls_.Follow(nullptr);
}

// ---- seal and finish --------------------------------------------------------

absl::Status Shard::Seal(const v1::SealRequest& request, v1::SealReply* reply,
                         ShardTurn* turn) {
  RETURN_IF_ERROR(snapshots_.OnSeal(request, reply, turn));
  CountTables(data_.content->owned(), reply->mutable_tables());
  gate_.HearTerm(
      std::max(request.header().term(), request.header().snapshot().term()));
  return absl::OkStatus();
}

absl::Status Shard::Finish(const v1::FinishRequest& request, ShardTurn* turn) {
  RETURN_IF_ERROR(gate_.CheckTerm(request.header().term()));
  gate_.HearTerm(request.header().term());
  departure_.OnFinish(request, turn);
  EndSteps(RefuseFinished(view_.Name(), departure_.end()), turn);
  return absl::OkStatus();
}

// ---- how this place leaves --------------------------------------------------

void Shard::Watch(CallId call, const v1::WatchRequest& request,
                  ShardTurn* turn) {
  const absl::Status status = watched_.Check(request);
  if (!status.ok()) return turn->Refuse(call, status);
  watched_.Keep(call, request, turn);
  if (request.leave()) departure_.DrainAsTold(turn);
  replication_.StopFor(request.hand_over(), turn);
  if (request.spare()) Forget(request.header(), turn);
  if (request.may_leave()) departure_.LetGo(turn);
}

// A call that is late may come behind a configuration that needs this place.
void Shard::Forget(const v1::Header& header, ShardTurn* turn) {
  const bool is_late = gate_.configuration().version() > header.configuration();
  if (is_late || view_.fill_state == FillState::kNone) return;
  EndSteps(view_.NotReady("coordinator",
                          absl::StrCat(view_.Name(), " is in other places")),
           turn);
  snapshots_.Drop();
  snapshots_.AnswerParked(turn);
  replication_.Forget(turn);
  restorer_.Forget();
  calls_.BeginLife();
  data_.content.reset();
  turn->out->Note(absl::StrCat("this place forgets ", view_.Name(),
                               ", which is in other places"));
}

// ---- for people -------------------------------------------------------------

std::string Shard::overdue(Time now) const {
  for (const std::string& awaited :
       {departure_.WaitsToBeSaved(), calls_.overdue(now)}) {
    if (!awaited.empty()) return awaited;
  }
  return departure_.WaitsToBeCalled(now);
}

void Shard::FillStatus(v1::StatusReply* status) const {
  status->mutable_task()->set_type(v1::PS);
  status->mutable_task()->set_index(options_.index);
  status->set_incarnation(options_.incarnation);
  replication_.FillStatus(status->mutable_server());
  *status->mutable_generation() = Unnamed(gate_.generation());
  *status->mutable_configuration() = gate_.configuration().version();
  v1::ServerStats* const stats = status->mutable_server();
  stats->set_restored(view_.IsFilled());
  stats->set_memory_bytes(data_.memory.used());
  stats->set_memory_limit_bytes(data_.memory.limit());
  stats->set_memory_refusals(data_.memory.refusals());
  if (data_.content == nullptr) return;
  const ShardContent& content = *data_.content;
  const ContentPushes::Counts& counts = content.pushes().counts();
  stats->set_spare_bytes(content.spare().bytes());
  stats->set_bytes(content.bytes());
  stats->set_pushes_lost(data_.lost.total());
  stats->set_pulls(content.pulls().count());
  stats->set_blocks_applied(counts.blocks_applied);
  stats->set_blocks_repeated(counts.blocks_repeated);
  stats->set_blocks_refused(counts.blocks_refused);
  stats->set_blocks_quarantined(counts.blocks_quarantined);
  stats->set_frozen_bytes(content.fork().bytes());
  content.pushes().staleness().Fill(stats->mutable_staleness());
  if (view_.IsFilled()) {
    DescribeTables(content.owned(), stats->mutable_tables());
    DescribeHottest(content.owned(), stats->mutable_hottest_slices());
  }
  calls_.FillStatus(stats);
  if (data_.step == nullptr) return;
  stats->set_step(data_.step->step());
  stats->set_parked_bytes(data_.step->parked_bytes());
}

}  // namespace paramd
