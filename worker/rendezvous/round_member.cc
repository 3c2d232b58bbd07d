#include "worker/rendezvous/round_member.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paramd {
namespace {

std::string PlaceText(const v1::StepPosition& place) {
  return absl::StrCat("at example ", place.begin(), " of epoch ",
                      place.epoch());
}

}  // namespace

absl::Status CheckReply(const v1::BeatReply& reply, uint32_t worker,
                        size_t workers) {
  if (reply.round() == 0) return absl::OkStatus();
  const auto& members = reply.workers();
  const bool is_of_job = absl::c_all_of(
      members, [workers](uint32_t member) { return member < workers; });
  if (is_of_job && absl::c_linear_search(members, worker) &&
      absl::c_linear_search(members, reply.source()) &&
      (reply.links().empty() || reply.links_size() == members.size())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the chief names round ", reply.round(), " of workers ",
      absl::StrJoin(members, ", "), " with the content of ", reply.source(),
      " and ", reply.links_size(), " links, in which worker-", worker, " of ",
      workers, " has no place: give all processes the same TF_CONFIG"));
}

bool RoundMember::Hear(const v1::BeatReply& reply) {
  const bool over = is_in_one() && round_.round() != reply.round();
  if (over) Leave();
  // An answer may have been on its way when the round was given up.
  if (reply.round() > self_.left()) round_ = reply;
  return over;
}

size_t RoundMember::rank() const {
  return std::find(round_.workers().begin(), round_.workers().end(),
                   self_.worker()) -
         round_.workers().begin();
}

void RoundMember::Link(const std::vector<std::string>& links) {
  self_.set_linking(round_.round());
  self_.mutable_links()->Assign(links.begin(), links.end());
}

void RoundMember::Leave() {
  self_.set_left(round_.round());
  self_.clear_linking();
  self_.clear_links();
  round_.Clear();
}

void RoundMember::StandBefore(const v1::StepPosition& step) {
  *self_.mutable_next() = step;
}

void RoundMember::Made(absl::Span<const double> figures) {
  self_.mutable_figures()->Assign(figures.begin(), figures.end());
}

void RoundMember::StandAtTheEnd() {
  self_.clear_next();
  self_.set_ended(true);
}

absl::Status RoundMember::CheckPlace() const {
  const bool none_had_content = !round_.has_next() && !round_.ended();
  const bool is_here = round_.has_next() &&
                       round_.next().epoch() == self_.next().epoch() &&
                       round_.next().begin() == self_.next().begin();
  if (none_had_content || is_here) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("this worker stands ", PlaceText(self_.next()), ", worker-",
                   round_.source(), " ",
                   round_.ended() ? "after the last" : PlaceText(round_.next()),
                   ": it has to start again with what that one has"));
}

RoundMember::Verdict RoundMember::VerdictOf(bool has_sums) const {
  if (CheckPlace().ok()) return Verdict::kMakeAgain;
  return has_sums && round_.figures_size() > 0 ? Verdict::kIsMade
                                               : Verdict::kElsewhere;
}

}  // namespace paramd
