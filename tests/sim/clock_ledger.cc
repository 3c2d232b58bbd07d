#include "tests/sim/clock_ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

std::string NameOf(uint32_t worker, const v1::Version& generation) {
  return absl::StrCat("worker-", worker, " as generation ",
                      VersionName(generation));
}

}  // namespace

absl::Status ClockLedger::See(PeerId from,
                              const google::protobuf::Message& head,
                              absl::Duration at) {
  if (const auto* told = DynamicCastToGenerated<v1::TellClockRequest>(&head)) {
    return SeeTell(*told, at);
  }
  const auto* configure = DynamicCastToGenerated<v1::ConfigureRequest>(&head);
  if (configure == nullptr || from != PeerId::Coordinator()) {
    return absl::OkStatus();
  }
  return SeeConfiguration(configure->configuration(), at);
}

absl::Status ClockLedger::SeeTell(const v1::TellClockRequest& told,
                                  absl::Duration at) {
  const v1::Header& header = told.header();
  Session& session = sessions_[{header.worker(), header.generation().term(),
                                header.generation().counter()}];
  if (told.clock() < session.clock) {
    return absl::DataLossError(absl::StrCat(
        NameOf(header.worker(), header.generation()), " tells clock ",
        told.clock(), " after ", session.clock));
  }
  session.clock = told.clock();
  session.told.emplace_back(at, told.clock());
  return absl::OkStatus();
}

absl::optional<uint64_t> ClockLedger::LowestBefore(
    const v1::Configuration& configuration, absl::Duration at) const {
  absl::optional<uint64_t> lowest;
  for (const v1::WorkerMember& member : configuration.workers()) {
    const auto known = sessions_.find({member.index(),
                                       member.generation().term(),
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
