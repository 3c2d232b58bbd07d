#include "tests/sim/clock_ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

std::string NameOf(uint32_t worker, const v1::SessionId& generation) {
  return absl::StrCat("worker-", worker, " as generation ",
                      VersionName(generation));
}

}  // namespace

absl::Status ClockLedger::See(PeerId from,
                              const google::protobuf::Message& head,
                              absl::Duration at) {
  if (const auto* told = DynamicCastToGenerated<v1::TellClockRequest>(&head)) {
    RETURN_IF_ERROR(CheckNow(told->header(), told->clock()));
    return SeeTell(*told, at);
  }
  if (const auto* beat = DynamicCastToGenerated<v1::HeartbeatRequest>(&head)) {
    return CheckNow(beat->header(), beat->clock());
  }
  if (const auto* push = DynamicCastToGenerated<v1::PushRequest>(&head)) {
    const uint64_t number = push->header().sequence();
    uint64_t& sent =
        made_[IdOf(push->header().worker(), push->header().generation())].sent;
    sent = std::max(sent, number);
    return CheckMade(push->header(), push->clock(), number - 1, number - 1);
  }
  if (const auto* pull = DynamicCastToGenerated<v1::PullRequest>(&head)) {
    // Without one it is of an evaluation.
    if (!pull->has_clock()) return absl::OkStatus();
    const uint64_t sent =
        made_[IdOf(pull->header().worker(), pull->header().generation())].sent;
    return CheckMade(pull->header(), pull->clock(),
                     std::max<uint64_t>(sent, 1) - 1, sent);
  }
  const auto* configure = DynamicCastToGenerated<v1::ConfigureRequest>(&head);
  if (configure == nullptr || from != PeerId::Coordinator()) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(SeeConfiguration(configure->configuration(), at));
  Told(configure->configuration());
  return absl::OkStatus();
}

ClockLedger::Id ClockLedger::IdOf(uint32_t worker,
                                  const v1::SessionId& generation) {
  return {worker, generation.term(), generation.counter()};
}

void ClockLedger::Told(const v1::Configuration& configuration) {
  const Number version = {configuration.version().term(),
                          configuration.version().counter()};
  for (const v1::WorkerMember& member : configuration.workers()) {
    made_[IdOf(member.index(), member.generation())].start[version] =
        member.start_clock();
  }
}

absl::Status ClockLedger::CheckNow(const v1::Header& header,
                                   uint64_t clock) const {
  const auto known = made_.find(IdOf(header.worker(), header.generation()));
  if (known == made_.end()) return absl::OkStatus();
  const Made& session = known->second;
  const uint64_t pushes = header.sequence();
  if (pushes > session.sent || pushes + 1 < session.sent) {
    return absl::DataLossError(absl::StrCat(
        NameOf(header.worker(), header.generation()), " holds ", pushes,
        " pushes acknowledged, and has sent ", session.sent));
  }
  // That of the newest configuration up to the one named which lists it.
  auto start = session.start.upper_bound(
      {header.configuration().term(), header.configuration().counter()});
  if (start == session.start.begin()) return absl::OkStatus();
  --start;
  if (clock == start->second + pushes) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(NameOf(header.worker(), header.generation()),
                   " tells clock ", clock, "; it began at ", start->second,
                   " and holds ", pushes, " pushes acknowledged"));
}

absl::Status ClockLedger::CheckMade(const v1::Header& header, uint64_t clock,
                                    uint64_t pushes, uint64_t most) const {
  const auto known = made_.find(IdOf(header.worker(), header.generation()));
  if (known == made_.end() || known->second.start.empty()) {
    return absl::OkStatus();
  }
  const auto& starts = known->second.start;
  const bool is_one =
      std::any_of(starts.begin(), starts.end(), [&](const auto& start) {
        return start.second + pushes <= clock && clock <= start.second + most;
      });
  if (is_one) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      NameOf(header.worker(), header.generation()), " is at clock ", clock,
      "; it began at ", starts.rbegin()->second, " and has made ", pushes,
      " to ", most, " pushes"));
}

absl::Status ClockLedger::SeeTell(const v1::TellClockRequest& told,
                                  absl::Duration at) {
  const v1::Header& header = told.header();
  Session& session = sessions_[{header.worker(), header.generation().term(),
                                header.generation().counter()}];
  if (told.clock() < session.clock) {
    return absl::DataLossError(
        absl::StrCat(NameOf(header.worker(), header.generation()),
                     " tells clock ", told.clock(), " after ", session.clock));
  }
  session.clock = told.clock();
  session.told.emplace_back(at, told.clock());
  return absl::OkStatus();
}

absl::optional<uint64_t> ClockLedger::LowestBefore(
    const v1::Configuration& configuration, absl::Duration at) const {
  absl::optional<uint64_t> lowest;
  for (const v1::WorkerMember& member : configuration.workers()) {
    const auto known =
        sessions_.find({member.index(), member.generation().term(),
                        member.generation().counter()});
    if (known == sessions_.end()) continue;  // It is new too.
    const auto& told = known->second.told;
    if (told.empty() || told.front().first > at - memory_) {
      return absl::nullopt;
    }
    uint64_t clock = 0;
    for (const auto& [when, value] : told) {
      if (when <= at - memory_) clock = value;
    }
    lowest = std::min(lowest.value_or(clock), clock);
  }
  return lowest;
}

absl::Status ClockLedger::SeeConfiguration(
    const v1::Configuration& configuration, absl::Duration at) {
  for (const v1::WorkerMember& member : configuration.workers()) {
    const Id id = {member.index(), member.generation().term(),
                   member.generation().counter()};
    if (sessions_.count(id) != 0) continue;
    const auto lowest = LowestBefore(configuration, at);
    sessions_[id];
    if (lowest.has_value() && member.start_clock() < *lowest) {
      return absl::DataLossError(absl::StrCat(
          NameOf(member.index(), member.generation()), " begins at clock ",
          member.start_clock(), "; the others were at ", *lowest, " ",
          absl::FormatDuration(memory_), " before"));
    }
  }
  return absl::OkStatus();
}

}  // namespace paramd
