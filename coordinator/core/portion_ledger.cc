#include "coordinator/core/portion_ledger.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "config/batch_rule.h"
#include "proto/refusal.h"

namespace paramd {

namespace {

Epochs EpochsOf(const CoordinatorOptions& options) {
  const uint32_t epochs = options.job.epochs();
  return options.job.input().has_follow() ? Epochs::Growing(epochs)
                                          : Epochs(options.examples, epochs);
}

// Soon after new files were found, and not so often that it costs anything.
constexpr uint32_t kShortestRetryMs = 50;
constexpr uint32_t kLongestRetryMs = 1000;

}  // namespace

PortionLedger::PortionLedger(const CoordinatorOptions& options)
    : retry_ms_(std::clamp(options.job.input().follow().poll_ms() / 4,
                           kShortestRetryMs, kLongestRetryMs)),
      portions_(EpochsOf(options),
                ExamplesPerPush(options.job, /*sync=*/false) *
                    options.job.portion_batches()),
      growing_(options, &portions_) {}

// ---- beginning --------------------------------------------------------------

void PortionLedger::GoOnFrom(uint64_t pushes, const v1::SavedInput& left) {
  pushes_before_ = pushes;
  portions_.Restart(left);
}

void PortionLedger::TakeOver(uint64_t pushes, const v1::SavedInput& left,
                             std::set<uint32_t> holders) {
  GoOnFrom(pushes, left);
  holders_.Await(left, std::move(holders));
}

// With the next one it tells. Until then it has no configuration of this term,
// and servers take nothing of it.
bool PortionLedger::AskWhatItHolds(const Message& message,
                                   const v1::HeartbeatRequest& request,
                                   Turn* turn) {
  const uint32_t index = request.header().worker();
  if (!holders_.IsAwaited(index)) return false;
  const v1::Configuration& configuration = turn->job.configuration;
  const uint64_t term = configuration.version().term();
  if (request.has_held() && request.held().term() == term) {
    holders_.Told(index, request.held());
    answers_[index].number = request.held().answered();
    const std::string generation = VersionName(request.header().generation());
    turn->out->Note(
        absl::StrCat("worker-", index, " goes on as generation ", generation),
        {{"worker", index}, {"generation", generation}});
    return false;
  }
  auto reply = std::make_unique<v1::HeartbeatReply>();
  reply->set_term(term);
  reply->set_tell_held(true);
  reply->set_state(configuration.state());
  turn->out->Reply(message.call, std::move(reply));
  return true;
}

// ---- portions ---------------------------------------------------------------

bool PortionLedger::OnTake(const Message& message,
                           const v1::PortionRequest& request,
                           const Snapshot* told, Turn* turn) {
  const v1::Header& header = request.header();
  const uint32_t index = header.worker();
  Answer& answer = answers_[index];
  if (request.number() < answer.number) {
    turn->out->Refuse(
        message.call,
        Refuse(v1::Refusal::SUPERSEDED, "portion",
               "a later portion request of this session is known"));
    return false;
  }
  // A worker numbers its next one when it has the answer.
  if (request.number() > answer.number + 1) {
    turn->out->Refuse(
        message.call,
        Refuse(v1::Refusal::INVALID, "portion",
               absl::StrCat("portion request ", request.number(), " of worker-",
                            index, " does not follow ", answer.number)));
    return false;
  }
  // What it has used after its cut could not be told from what it had used
  // before.
  if (told != nullptr && header.snapshot() == told->number && !told->has_cut) {
    turn->out->Refuse(
        message.call,
        RefuseForNow(
            v1::Refusal::RETRY, "portion", turn->job.heartbeat(),
            absl::StrCat("the cut of worker-", index, " for snapshot ",
                         VersionName(told->number), " is not known yet")));
    return false;
  }
  if (request.number() > answer.number) {
    answer.number = request.number();
    turn->Raise(
        InputUsed{index, portions_.Finish(index, request.finished_id())});
    answer.reply = Next(index);
  }
  auto reply = std::make_unique<v1::PortionReply>(answer.reply);
  reply->set_term(turn->job.configuration.version().term());
  turn->out->Reply(message.call, std::move(reply));
  return true;
}

v1::PortionReply PortionLedger::Next(uint32_t index) {
  v1::PortionReply reply;
  const Epochs& epochs = portions_.epochs();
  if (auto portion = portions_.Take(index)) {
    const v1::EpochFiles* const files = epochs.FilesOf(portion->epoch());
    if (files != nullptr) *reply.mutable_files() = *files;
    *reply.mutable_portion() = *std::move(portion);
  } else {
    step_times_.Rest(index);
    if (!epochs.complete()) reply.set_retry_ms(retry_ms_);
  }
  reply.set_no_more(portions_.finished());
  return reply;
}

std::vector<v1::Portion> PortionLedger::OnWorkerGone(
    uint32_t index, const WorkerRecord& worker) {
  pushes_before_ += worker.acknowledged;
  step_times_.Rest(index);
  answers_.erase(index);
  const v1::WorkerCut* const cut =
      worker.last.leaving() ? &worker.last.cut() : nullptr;
  holders_.Gone(index, cut);
  return portions_.Return(index, cut);
}

void PortionLedger::OnSessionsEnded() {
  step_times_.RestAll();
  answers_.clear();
}

// ---- pushes -----------------------------------------------------------------

uint64_t PortionLedger::Pushes(const JobView& job) const {
  uint64_t pushes = pushes_before_;
  for (const auto& [index, worker] : job.workers) pushes += worker.acknowledged;
  return pushes;
}

uint64_t PortionLedger::PushesAt(const Cuts& cuts, const JobView& job) const {
  uint64_t pushes = pushes_before_;
  for (const auto& [index, cut] : cuts) {
    if (job.workers.contains(index)) pushes += cut.sequence();
  }
  return pushes;
}

uint64_t PortionLedger::PushesTold(const JobView& job) const {
  uint64_t pushes = pushes_before_;
  for (const auto& [index, worker] : job.workers) {
    pushes += worker.last.number() > 0 ? worker.last.stats().pushes()
                                       : worker.acknowledged;
  }
  return pushes;
}

}  // namespace paramd
