#include "process/observe/process_row.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "process/terminal/dashboard.h"
#include "process/terminal/text_layout.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr char kDash[] = "–";

std::string AgoText(const v1::Member& member) {
  if (!member.has_silent_ms()) return kDash;
  return SecondsText(static_cast<double>(member.silent_ms()) / 1000);
}

// Of a worker that waits for input a tenth of the time or more: how long, and
// which stage takes the most. Else empty.
std::string InputText(const v1::InputStats& input) {
  // Before the first batch no time has passed.
  if (input.elapsed_seconds() <= 0 ||
      input.wait_seconds() < 0.1 * input.elapsed_seconds() ||
      input.stages().empty()) {
    return "";
  }
  const auto& slowest = *std::max_element(
      input.stages().begin(), input.stages().end(),
      [](const auto& a, const auto& b) { return a.seconds() < b.seconds(); });
  return absl::StrFormat("%.0f%% waiting for input: %s takes the most",
                         100 * input.wait_seconds() / input.elapsed_seconds(),
                         slowest.name());
}

// With replication: where the server is, if not at home, and whether its backup
// has everything. The name of a process is that of its task.
void AddBackup(const v1::Member& member, const v1::StatusReply& status,
               std::vector<std::string>* figures) {
  const auto places = static_cast<uint32_t>(status.shards_size());
  if (!member.has_peer() || places == 0) return;
  // Unknown of an older chief, which has two places for each server.
  const uint32_t home =
      (member.has_home() ? member.home() : 2 * member.task().index()) / places;
  if (status.task().index() != home) {
    figures->push_back(absl::StrCat("in ps-", status.task().index()));
  }
  if (!member.has_backup_peer()) {
    figures->push_back("on one server");
  } else {
    figures->push_back(
        absl::StrCat("backup ps-", member.backup_peer() / places,
                     member.backup_is_member() ? "" : " is being filled"));
  }
  const uint64_t alone = status.server().acknowledged_alone();
  if (alone > 0) {
    figures->push_back(
        absl::StrCat(WithCommas(alone), " chunks acknowledged on one server"));
  }
}

// What a process does, by its own account, and who is the server's backup by
// the chief's; `member` may be null.
std::string FiguresText(const v1::ProcessAnswer& answer,
                        const v1::Member* member) {
  if (!answer.has_status() && member != nullptr && member->joined()) {
    // By the chief's account.
    return absl::StrCat(WithCommas(member->pushes()), " pushes · ",
                        answer.error());
  }
  if (!answer.has_status()) {
    return absl::StrCat("no answer: ", answer.error());
  }
  const v1::StatusReply& status = answer.status();
  std::vector<std::string> figures;
  if (status.has_server()) {
    const v1::ServerStats& server = status.server();
    figures.push_back(BytesText(server.bytes()));
    figures.push_back(absl::StrCat(WithCommas(server.pulls()), " pulls"));
    figures.push_back(
        absl::StrCat(WithCommas(server.blocks_applied()), " blocks applied"));
    if (server.pushes_lost() > 0) {
      figures.push_back(
          absl::StrCat(WithCommas(server.pushes_lost()), " pushes lost"));
    }
    if (!server.restored()) figures.push_back("not filled yet");
    if (member != nullptr) AddBackup(*member, status, &figures);
  }
  if (status.has_worker()) {
    const v1::WorkerStats& worker = status.worker();
    figures.push_back(absl::StrCat(
        WithCommas(static_cast<uint64_t>(worker.examples_per_second())),
        " ex/s"));
    figures.push_back(absl::StrFormat("loss %.3f", worker.loss()));
    figures.push_back(absl::StrCat(WithCommas(worker.pushes()), " pushes"));
    if (worker.given_up() > 0) {
      figures.push_back(
          absl::StrCat(WithCommas(worker.given_up()), " given up"));
    }
    if (worker.quarantined() > 0) {
      figures.push_back(
          absl::StrCat(WithCommas(worker.quarantined()), " quarantined"));
    }
    if (worker.loss_scale() > 0) {
      figures.push_back(absl::StrFormat("loss scale %g, %s overflows",
                                        worker.loss_scale(),
                                        WithCommas(worker.overflows())));
    }
    if (worker.spoiled_sessions() > 0) {
      figures.push_back(absl::StrCat(WithCommas(worker.spoiled_sessions()),
                                     " sessions spoiled"));
    }
    const std::string input = InputText(worker.input());
    if (!input.empty()) figures.push_back(input);
  }
  return absl::StrJoin(figures, " · ");
}

}  // namespace

ProcessRow RowOf(const v1::ProcessAnswer& answer, const v1::Member* member) {
  const v1::StatusReply& status = answer.status();
  const std::string host = answer.has_status() ? status.host()
                           : member != nullptr ? member->host()
                                               : "";
  const uint32_t pid = answer.has_status() ? status.pid()
                       : member != nullptr ? member->pid()
                                           : 0;
  const v1::Version& generation =
      member != nullptr ? member->generation() : status.generation();
  const bool is_chief = answer.name() == "worker-0";
  const bool is_joined = member != nullptr && member->joined();
  return {absl::StrCat(answer.name(), is_chief    ? " (chief)"
                                      : is_joined ? " (joined)"
                                                  : ""),
          member == nullptr
              ? kDash
              : absl::AsciiStrToLower(v1::Member::State_Name(member->state())),
          member == nullptr ? kDash : AgoText(*member),
          IsZero(generation) ? kDash : VersionName(generation),
          host.empty() ? kDash : absl::StrCat(host, ":", pid),
          answer.address().empty() ? kDash : answer.address(),
          FiguresText(answer, member)};
}

std::string WaitText(const v1::ProcessAnswer& answer, const v1::Wait& wait) {
  // Of a process's own core; the coordinator has a term.
  const bool has_generation =
      wait.who() == answer.name() && !IsZero(answer.status().generation());
  return absl::StrCat(
      wait.who(), has_generation ? " generation " : "",
      has_generation ? VersionName(answer.status().generation()) : "",
      " waits for ", wait.whom(), ", for ",
      SecondsText(static_cast<double>(wait.since_ms()) / 1000));
}

}  // namespace paramd
