#include "worker/rendezvous/rendezvous.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"

namespace paramd {
namespace {

// No job makes so many.
constexpr uint64_t kNoRound = uint64_t{1} << 63;

// Further is larger; without content is smallest.
auto Place(const v1::BeatRequest& said) {
  return std::make_tuple(said.has_next() || said.ended(), said.ended(),
                         said.next().epoch(), said.next().begin());
}

uint64_t Milliseconds(absl::Duration duration) {
  return static_cast<uint64_t>(
      std::max<int64_t>(0, absl::ToInt64Milliseconds(duration)));
}

}  // namespace

absl::Status Rendezvous::Check(const v1::BeatRequest& beat) const {
  if (beat.worker() >= workers_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker-", beat.worker(), " is not one of the job's ", workers_.size(),
        " workers: give all processes the same TF_CONFIG"));
  }
  if (beat.incarnation() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker-", beat.worker(), " does not say which process it is"));
  }
  const Worker& worker = workers_[beat.worker()];
  if (beat.incarnation() == worker.before && worker.before != 0) {
    return absl::AlreadyExistsError(
        absl::StrCat("another process is worker-", beat.worker(), " now"));
  }
  // The next round's number follows it.
  for (const uint64_t round : {beat.left(), beat.linking()}) {
    if (round < kNoRound) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("worker-", beat.worker(), " names round ", round,
                     "; there is none of that number"));
  }
  const Worker& chief = workers_[0];
  if (chief.incarnation != 0 &&
      beat.model_crc32c() != chief.said.model_crc32c()) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker-", beat.worker(),
                     " has another model than the chief: its variables, their "
                     "shapes or initializers differ; start all workers with "
                     "the same program"));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::BeatReply> Rendezvous::Beat(const v1::BeatRequest& beat,
                                               Time now) {
  RETURN_IF_ERROR(Check(beat));
  if (since_ == Time::Never()) since_ = now;
  Worker& worker = workers_[beat.worker()];
  if (worker.incarnation != beat.incarnation()) {
    worker.before = worker.incarnation;
    worker.incarnation = beat.incarnation();
  }
  worker.said = beat;
  worker.heard = now;
  newest_ = std::max({newest_, beat.left(), beat.linking()});
  if (finished_) worker.knows_the_end = true;
  Advance(now);
  return Reply(beat.worker(), now);
}

bool Rendezvous::AllKnowTheEnd(Time now) const {
  return absl::c_all_of(workers_, [&](const Worker& worker) {
    return worker.knows_the_end || !IsFresh(worker, now);
  });
}

bool Rendezvous::EverybodyKnowsTheEnd() const {
  return absl::c_all_of(
      workers_, [](const Worker& worker) { return worker.knows_the_end; });
}

bool Rendezvous::IsFresh(const Worker& worker, Time now) const {
  return worker.incarnation != 0 && now - worker.heard <= options_.lost_after;
}

bool Rendezvous::Waits(const Worker& worker, Time now) const {
  return IsFresh(worker, now) && worker.said.waits();
}

Time Rendezvous::Since(const Worker& worker, Time now) const {
  return IsFresh(worker, now) ? since_ : std::max(since_, worker.heard);
}

bool Rendezvous::IsGivenUp(const Worker& worker, Time now) const {
  return !Waits(worker, now) && now - Since(worker, now) >= options_.patience;
}

bool Rendezvous::IsOver(const Round& round, Time now) const {
  for (size_t i = 0; i < round.workers.size(); ++i) {
    const Worker& worker = workers_[round.workers[i]];
    if (!IsFresh(worker, now) || worker.incarnation != round.incarnations[i] ||
        worker.said.left() >= round.number) {
      return true;
    }
  }
  // One that the others went on without is back.
  for (uint32_t w = 0; w < workers_.size(); ++w) {
    if (!absl::c_linear_search(round.workers, w) && IsFresh(workers_[w], now) &&
        workers_[w].said.waits()) {
      return true;
    }
  }
  return false;
}

void Rendezvous::Advance(Time now) {
  if (round_.has_value() && IsOver(*round_, now)) {
    round_.reset();
    since_ = now;
  }
  if (round_.has_value()) return;
  std::vector<uint32_t> waiting;
  bool may_come = false;
  for (uint32_t w = 0; w < workers_.size(); ++w) {
    const bool waits = Waits(workers_[w], now);
    if (waits) waiting.push_back(w);
    may_come |= !waits && !IsGivenUp(workers_[w], now);
  }
  // The chief's clock and files are needed.
  if (may_come || waiting.size() < needed() || waiting.front() != 0) return;
  Form(waiting);
  since_ = now;
}

void Rendezvous::Form(const std::vector<uint32_t>& workers) {
  Round round;
  round.number = ++newest_;
  round.workers = workers;
  uint32_t source = workers.front();
  const v1::BeatRequest* figures = nullptr;
  for (const uint32_t w : workers) {
    round.incarnations.push_back(workers_[w].incarnation);
    if (Place(workers_[w].said) > Place(workers_[source].said)) source = w;
  }
  const v1::BeatRequest& furthest = workers_[source].said;
  for (const uint32_t w : workers) {
    if (Place(workers_[w].said) == Place(furthest) &&
        workers_[w].said.figures_size() > 0) {
      figures = &workers_[w].said;
    }
  }
  v1::BeatReply& reply = round.reply;
  reply.set_round(round.number);
  reply.mutable_workers()->Add(workers.begin(), workers.end());
  reply.set_source(source);
  if (furthest.has_next()) *reply.mutable_next() = furthest.next();
  reply.set_ended(furthest.ended());
  if (figures != nullptr) *reply.mutable_figures() = figures->figures();
  round_ = std::move(round);
}

v1::BeatReply Rendezvous::Reply(uint32_t worker, Time now) const {
  v1::BeatReply reply;
  if (round_.has_value() && absl::c_linear_search(round_->workers, worker)) {
    reply = round_->reply;
    AddLinks(now, &reply);
  } else if (!round_.has_value()) {
    for (uint32_t w = 0; w < workers_.size(); ++w) {
      if (w == worker || Waits(workers_[w], now)) continue;
      AddMissing(w, IsFresh(workers_[w], now) ? "computes" : "", now, &reply);
    }
    reply.set_gave_up(WhyGivenUp(now));
  }
  reply.set_finished(finished_);
  return reply;
}

// All of them, or who is missing.
void Rendezvous::AddLinks(Time now, v1::BeatReply* reply) const {
  for (const uint32_t w : round_->workers) {
    const v1::BeatRequest& said = workers_[w].said;
    if (said.linking() == round_->number) {
      *reply->add_links()->mutable_links() = said.links();
    } else if (!said.ended()) {
      AddMissing(w, said.has_next() ? "comes" : "reads its content", now,
                 reply);
    }
  }
  if (reply->links_size() < static_cast<int>(round_->workers.size())) {
    reply->clear_links();
  }
}

void Rendezvous::AddMissing(uint32_t worker, absl::string_view doing, Time now,
                            v1::BeatReply* reply) const {
  v1::BeatReply::Missing* const missing = reply->add_missing();
  missing->set_worker(worker);
  missing->set_doing(std::string(doing));
  missing->set_since_ms(Milliseconds(now - Since(workers_[worker], now)));
}

std::string Rendezvous::WhyGivenUp(Time now) const {
  std::vector<std::string> names;
  for (uint32_t w = 0; w < workers_.size(); ++w) {
    if (IsGivenUp(workers_[w], now))
      names.push_back(absl::StrCat("worker-", w));
  }
  const bool chief_is = IsGivenUp(workers_[0], now);
  if (!chief_is && workers_.size() - names.size() >= needed()) return "";
  return absl::StrCat(absl::StrJoin(names, ", "), " did not come within ",
                      absl::FormatDuration(options_.patience),
                      " (all_reduce.rejoin_timeout_ms), and ",
                      workers_.size() - names.size(), " of ", workers_.size(),
                      " workers may not go on ",
                      chief_is ? "without the chief"
                               : absl::StrCat("(all_reduce.fewest_workers is ",
                                              options_.fewest, ")"));
}

}  // namespace paramd
