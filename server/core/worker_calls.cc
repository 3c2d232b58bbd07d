#include "server/core/worker_calls.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/member_name.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// A pull that is kept for longer is told to people.
constexpr absl::Duration kPullPatience = absl::Seconds(3);

// Who answers a call, and how much of the job it knows.
template <typename Reply>
void Sign(const ShardView& view, Reply* reply) {
  *reply->mutable_server_generation() = view.generation;
  *reply->mutable_configuration() = view.configuration.version();
  reply->set_incarnation(view.options.incarnation);
}

// Of contributions, so far.
uint64_t TakenBlocks(const ShardTurn& turn) {
  return turn.data.step == nullptr ? 0 : turn.data.step->taken_blocks();
}

uint64_t CountApplied(const v1::PushReply& reply) {
  return std::count_if(reply.blocks().begin(), reply.blocks().end(),
                       [](const v1::PushedBlock& block) {
                         return block.result() == v1::PushedBlock::APPLIED;
                       }) +
         std::count(reply.row_results().begin(), reply.row_results().end(),
                    static_cast<int>(v1::PushedBlock::APPLIED));
}

// A worker has one push open, and what it says of earlier ones is believed.
absl::Status CheckAcknowledged(const v1::PushRequest& request) {
  const v1::Header& header = request.header();
  const uint64_t acknowledged = request.acknowledged();
  if (acknowledged == 0 || acknowledged < header.sequence()) {
    return absl::OkStatus();
  }
  const std::string name = WorkerName(header.worker(), header.generation());
  return Refuse(
      v1::Refusal::INVALID, name,
      absl::StrCat("push ", header.sequence(), " of ", name, " says that push ",
                   acknowledged, " was acknowledged before it"));
}

}  // namespace

WorkerCalls::WorkerCalls(const ShardOptions& options, const ShardView& view)
    : view_(view), pulls_(PeerName(PeerId::Ps(options.index))) {}

void WorkerCalls::OnConfiguration(Time now) {
  progress_.SetLiving(view_.sessions);
  push_numbers_.SetLiving(view_.sessions);
  pulls_.Configure(view_.configuration, now);
}

void WorkerCalls::BeginLife() {
  push_numbers_.Begin(view_.generation);
  uint64_t blocks = 0;
  for (const Slice* const slice : view_.data.content->owned()) {
    blocks += slice->block_count();
  }
  progress_.Begin(blocks);
}

void WorkerCalls::OnTold(const v1::ReplicateRequest& told) {
  if (told.has_push()) {
    // A contribution is none before its step is decided.
    progress_.Applied(told.push(), told.push().step() > 0 ? 0 : told.applied());
  }
  if (told.has_state()) progress_.GoOnFrom(told.state());
}

v1::ReplicateRequest::State WorkerCalls::StateToTell() const {
  v1::ReplicateRequest::State state;
  for (const auto& [worker, generation] : view_.sessions) {
    v1::SavedSession* const session = state.add_sessions();
    session->set_worker(worker);
    *session->mutable_generation() = generation;
  }
  const v1::Configuration& configuration = view_.configuration;
  state.set_decay_steps(configuration.decay_steps());
  state.set_learning_rate_scale(configuration.has_learning_rate_scale()
                                    ? configuration.learning_rate_scale()
                                    : 1);
  view_.data.lost.Save(state.mutable_lost());
  state.set_acknowledged_alone(view_.data.acknowledged_alone);
  progress_.Save(&state);
  if (view_.data.step != nullptr) view_.data.step->Save(&state);
  return state;
}

void WorkerCalls::FillRecalled(v1::RecallReply* reply) const {
  if (!view_.IsFilled()) return;
  reply->set_filled(true);
  progress_.Fill(reply);
}

std::string WorkerCalls::overdue(Time now) const {
  return pulls_.overdue(now, kPullPatience);
}

// ---- pull -------------------------------------------------------------------

void WorkerCalls::OnPull(const Message& message, const v1::PullRequest& request,
                         ShardTurn* turn) {
  const Time now = turn->now;
  absl::Status status = CheckReader(message.from, request);
  if (status.ok() && request.has_clock()) {
    pulls_.Hear(request.header(), request.clock(), now);
  }
  if (status.ok() && pulls_.MustWait(request, now)) {
    status = pulls_.Park(message.call, request, now, message.payload);
    if (status.ok()) return;
  }
  if (!status.ok()) return turn->Refuse(message.call, status);
  AnswerPull(message.call, request, message.payload, turn);
}

// Only a session of the configuration has a clock.
absl::Status WorkerCalls::CheckReader(PeerId from,
                                      const v1::PullRequest& request) const {
  if (request.after_step() > 0 && !view_.IsSync()) {
    return view_.NotReady(
        "session",
        absl::StrCat("the job is not in sync mode: there is no step ",
                     request.after_step(), " to read after"));
  }
  if (!pulls_.Watches(request)) return absl::OkStatus();
  RETURN_IF_ERROR(view_.checks.CheckRunning());
  if (from.kind != PeerId::Kind::kWorker) {
    return Refuse(
        v1::Refusal::NOT_ALLOWED, PeerName(from),
        absl::StrCat(PeerName(from), " is no worker: its pulls have no clock"));
  }
  RETURN_IF_ERROR(view_.checks.CheckSession(from, request.header()));
  RETURN_IF_ERROR(view_.checks.CheckKnown(request.header()));
  return view_.checks.CheckFilled();
}

void WorkerCalls::AnswerPull(CallId call, const v1::PullRequest& request,
                             const BufferChain& rows, ShardTurn* turn) {
  auto reply = MakeHead<v1::PullReply>();
  BufferChain payload;
  const absl::Status status = Pull(request, rows, reply.get(), &payload, turn);
  if (!status.ok()) return turn->Refuse(call, status);
  turn->out->Reply(call, std::move(reply), std::move(payload));
}

absl::Status WorkerCalls::Pull(const v1::PullRequest& request,
                               const BufferChain& rows, v1::PullReply* reply,
                               BufferChain* payload, ShardTurn* turn) {
  RETURN_IF_ERROR(view_.checks.CheckRunning());
  RETURN_IF_ERROR(view_.checks.CheckKnown(request.header()));
  RETURN_IF_ERROR(view_.checks.CheckFilled());
  // What a checkpoint held is not known to be right before all servers say so;
  // only who does not belong to this configuration asks already.
  if (view_.configuration.state() == v1::STARTING) {
    return view_.NotReady(view_.Name(),
                          absl::StrCat(view_.Name(),
                                       " is filled; the other "
                                       "servers are not all yet"));
  }
  RETURN_IF_ERROR(
      turn->data.content->pulls().Pull(request, rows, reply, payload));
  if (turn->data.step != nullptr) reply->set_step(turn->data.step->step());
  Sign(view_, reply);
  return absl::OkStatus();
}

void WorkerCalls::Advance(ShardTurn* turn) {
  if (BackupStream* const backup = turn->data.backup.get()) {
    std::vector<BackupStream::Answer> answers = backup->TakeAnswers();
    if (!backup->backup().member()) {
      turn->data.acknowledged_alone += BackupStream::CountPushes(answers);
    }
    AnswerKept(std::move(answers), turn);
  }
  const auto check = [this](const v1::PullRequest& pull) {
    return CheckReader(PeerId::Worker(pull.header().worker()), pull);
  };
  const auto reader_is_refused = [&](const v1::PullRequest& pull) {
    return !check(pull).ok();
  };
  for (const auto& parked : pulls_.TakeFree(reader_is_refused, turn->now)) {
    const absl::Status status = check(parked.request);
    status.ok() ? AnswerPull(parked.call, parked.request, parked.rows, turn)
                : turn->Refuse(parked.call, status);
  }
  for (const PullGate::Parked& parked : pulls_.TakeLate(turn->now)) {
    turn->Refuse(parked.call, pulls_.WhyWait(parked.request, turn->now));
  }
}

// ---- push -------------------------------------------------------------------

void WorkerCalls::OnPush(const Message& message, const v1::PushRequest& request,
                         ShardTurn* turn) {
  auto reply = MakeHead<v1::PushReply>();
  const uint64_t taken_before = TakenBlocks(*turn);
  const absl::Status status = Push(message, request, reply.get(), turn);
  if (status.ok()) {
    pulls_.Hear(request.header(), request.clock(), turn->now);
    const bool lost = HearLoss(request, turn);
    const uint64_t applied = CountApplied(*reply);
    BackupStream* const backup = turn->data.backup.get();
    const bool is_news =
        progress_.Applied(request, applied,
                          backup != nullptr ? backup->backup().since()
                                            : v1::ConfigurationVersion());
    if (backup != nullptr) {
      const uint64_t took = applied + TakenBlocks(*turn) - taken_before;
      // What a step has before slices are cut the backup does not need.
      if (took > 0 && (!view_.IsSync() || backup->has_cut())) {
        backup->TellPush(request, message.payload, static_cast<uint32_t>(took),
                         turn->now);
      }
      if (lost || is_news) backup->TellState(StateToTell(), turn->now);
      // One that is in already may not be there yet.
      backup->Keep({message.from, message.call, std::move(reply), request});
    } else {
      turn->data.acknowledged_alone += turn->data.alone;
      BufferChain payload;
      if (request.has_pull()) {
        PullBehind(message.from, request, reply.get(), &payload, turn);
      }
      turn->out->Reply(message.call, std::move(reply), std::move(payload));
    }
  } else {
    turn->Refuse(message.call, status);
  }
  if (turn->data.content == nullptr) return;
  for (std::string& note : turn->data.content->pushes().TakeNotes()) {
    turn->out->Note(std::move(note));
  }
}

absl::Status WorkerCalls::Push(const Message& message,
                               const v1::PushRequest& request,
                               v1::PushReply* reply, ShardTurn* turn) {
  const v1::Header& header = request.header();
  RETURN_IF_ERROR(view_.checks.CheckPusher(message.from, header));
  if (turn->data.backup != nullptr && turn->data.backup->full()) {
    return RefuseForNow(
        v1::Refusal::RETRY, view_.Name(), view_.options.retry_after,
        absl::StrCat("the backup of ", view_.Name(), " is ",
                     turn->data.backup->waiting(), " chunks behind"));
  }
  RETURN_IF_ERROR(view_.checks.CheckSnapshot(header.snapshot()));
  RETURN_IF_ERROR(CheckAcknowledged(request));
  RETURN_IF_ERROR(push_numbers_.Hear(header));
  RETURN_IF_ERROR(view_.checks.CheckContributors());
  RETURN_IF_ERROR(CheckStepMayBegin(request));
  RETURN_IF_ERROR(
      view_.IsSync()
          ? turn->data.step->Push(request, message.payload, reply)
          : turn->data.content->pushes().Push(request, message.payload, reply));
  Sign(view_, reply);
  return absl::OkStatus();
}

absl::Status WorkerCalls::CheckStepMayBegin(
    const v1::PushRequest& request) const {
  const BackupStream* const backup = view_.data.backup.get();
  if (!view_.IsSync() || backup == nullptr || backup->has_cut() ||
      !view_.data.step->is_between() ||
      request.step() <= view_.data.step->step()) {
    return absl::OkStatus();
  }
  return RefuseForNow(
      v1::Refusal::RETRY, view_.Name(), view_.options.retry_after,
      absl::StrCat("the backup of ", view_.Name(), " is being filled: step ",
                   view_.data.step->step() + 1, " begins when it is"));
}

void WorkerCalls::Answer(BackupStream::Answer answer, ShardTurn* turn) {
  BufferChain payload;
  if (answer.request.has_pull()) {
    PullBehind(answer.from, answer.request, answer.reply.get(), &payload, turn);
  }
  turn->out->Reply(answer.call, std::move(answer.reply), std::move(payload));
}

void WorkerCalls::AnswerKept(std::vector<BackupStream::Answer> answers,
                             ShardTurn* turn) {
  for (BackupStream::Answer& answer : answers) {
    if (answer.decided != nullptr) {
      turn->out->Reply(answer.call, std::move(answer.decided));
    } else {
      Answer(std::move(answer), turn);
    }
  }
}

// In sync mode a push is not in before its step is decided.
void WorkerCalls::PullBehind(PeerId from, const v1::PushRequest& request,
                             v1::PushReply* reply, BufferChain* payload,
                             ShardTurn* turn) {
  if (view_.IsSync()) return;
  v1::PullRequest pull = request.pull();
  *pull.mutable_header() = request.header();
  for (const v1::PushBlock& pushed : request.blocks()) {
    v1::PullBlock* const block = pull.add_blocks();
    block->set_slice(pushed.slice());
    block->set_block(pushed.block());
  }
  if (!CheckReader(from, pull).ok() || pulls_.MustWait(pull, turn->now)) return;
  if (!Pull(pull, {}, reply->mutable_pulled(), payload, turn).ok()) {
    reply->clear_pulled();
    payload->clear();
  }
}

// In sync mode what is acknowledged is of a step that may not be decided, and a
// session goes on with another life only where that has all of it.
bool WorkerCalls::HearLoss(const v1::PushRequest& request, ShardTurn* turn) {
  if (view_.IsSync()) return false;
  const v1::Header& header = request.header();
  const auto lost = turn->data.lost.Hear(header.worker(), header.generation(),
                                         request.acknowledged());
  if (!lost.has_value()) return false;
  turn->out->Warn(
      absl::StrCat(
          "lost: pushes ", lost->from(), " to ", lost->to(), " of worker-",
          lost->worker(), " generation ", VersionName(lost->generation()),
          ", which an earlier life of ", view_.Name(), " had acknowledged"),
      {{"from", lost->from()}, {"to", lost->to()}, {"worker", lost->worker()}});
  return true;
}

// ---- clocks -----------------------------------------------------------------

void WorkerCalls::OnTellClock(const Message& message,
                              const v1::TellClockRequest& request,
                              ShardTurn* turn) {
  const absl::Status status = CheckClock(message.from, request.header());
  if (!status.ok()) return turn->Refuse(message.call, status);
  pulls_.Tell(request, turn->now);
  turn->out->Reply(message.call, std::make_unique<v1::TellClockReply>());
}

absl::Status WorkerCalls::CheckClock(PeerId from,
                                     const v1::Header& header) const {
  RETURN_IF_ERROR(view_.checks.CheckRunning());
  RETURN_IF_ERROR(view_.checks.CheckSession(from, header));
  return view_.checks.CheckKnown(header);
}

}  // namespace paramd
