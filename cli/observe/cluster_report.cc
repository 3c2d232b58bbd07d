#include "cli/observe/cluster_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"

#include "cli/terminal/dashboard.h"
#include "cli/terminal/text_layout.h"
#include "proto/message_json.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr char kDash[] = "–";

std::string NameOf(const v1::Task& task) {
  return absl::StrCat(absl::AsciiStrToLower(v1::TaskType_Name(task.type())),
                      "-", task.index());
}

// Whether a member is the process that says `status`, or one of its shards.
bool IsOf(const v1::Task& member, const v1::StatusReply& status) {
  const auto shards = static_cast<uint32_t>(std::max(1, status.shards_size()));
  return member.type() == status.task().type() &&
         member.index() / shards == status.task().index();
}

// Of a process with several shards: of the one that is `task`.
v1::ProcessAnswer AnswerOf(const v1::Task& task, const std::string& address,
                           absl::StatusOr<v1::StatusReply> status) {
  v1::ProcessAnswer answer;
  answer.set_name(NameOf(task));
  answer.set_address(address);
  if (status.ok()) {
    *answer.mutable_status() = *std::move(status);
    v1::StatusReply& said = *answer.mutable_status();
    said.clear_job();
    if (said.shards_size() > 0) {
      const auto shards = static_cast<uint32_t>(said.shards_size());
      *said.mutable_server() =
          said.shards(static_cast<int>(task.index() % shards));
      said.clear_shards();
    }
  } else {
    answer.set_error(std::string(status.status().message()));
  }
  return answer;
}

// What the chief says, which `asked` is or names.
absl::StatusOr<v1::StatusReply> AskChief(const v1::StatusReply& asked,
                                         const AskStatus& ask) {
  if (asked.has_job()) return asked;
  const std::string& address = asked.chief_address();
  if (address.empty()) {
    return absl::NotFoundError(
        absl::StrCat(NameOf(asked.task()), " is not told where its chief is"));
  }
  absl::StatusOr<v1::StatusReply> chief = ask({address})[0];
  if (!chief.ok()) {
    return absl::UnavailableError(
        absl::StrCat("the chief at ", address, ": ", chief.status().message()));
  }
  if (!chief->has_job()) {
    return absl::NotFoundError(absl::StrCat("at ", address, " is ",
                                            NameOf(chief->task()),
                                            ", which is not the chief"));
  }
  return chief;
}

// Asks every member that has not answered yet.
void AskMembers(const std::string& address, const v1::StatusReply& asked,
                const v1::StatusReply& chief, const AskStatus& ask,
                v1::ClusterReport* report) {
  std::vector<std::string> addresses;
  std::vector<int> rows;
  for (const v1::Member& member : report->job().members()) {
    v1::ProcessAnswer* row = report->add_processes();
    if (IsOf(member.task(), asked)) {
      *row = AnswerOf(member.task(), address, asked);
    } else if (IsOf(member.task(), chief)) {
      *row = AnswerOf(member.task(), asked.chief_address(), chief);
    } else if (member.address().empty()) {
      *row = AnswerOf(
          member.task(), "",
          absl::NotFoundError("the chief is not told where it listens"));
    } else {
      *row = AnswerOf(member.task(), member.address(),
                      absl::UnavailableError("not asked"));
      addresses.push_back(member.address());
      rows.push_back(report->processes_size() - 1);
    }
  }
  if (addresses.empty()) return;
  auto answers = ask(addresses);
  for (size_t i = 0; i < rows.size(); ++i) {
    *report->mutable_processes(rows[i]) =
        AnswerOf(report->job().members(rows[i]).task(), addresses[i],
                 std::move(answers[i]));
  }
}

// ---- for people -------------------------------------------------------------

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

// What a process does, by its own account.
std::string FiguresText(const v1::ProcessAnswer& answer) {
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

std::vector<std::string> RowOf(const v1::ProcessAnswer& answer,
                               const v1::Member* member) {
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
  return {absl::StrCat(answer.name(), is_chief ? " (chief)" : ""),
          member == nullptr
              ? kDash
              : absl::AsciiStrToLower(v1::Member::State_Name(member->state())),
          member == nullptr ? kDash : AgoText(*member),
          IsZero(generation) ? kDash : VersionName(generation),
          host.empty() ? kDash : absl::StrCat(host, ":", pid),
          answer.address().empty() ? kDash : answer.address(),
          FiguresText(answer)};
}

void AppendJob(const v1::JobStats& job, std::string* text) {
  absl::StrAppendFormat(
      text,
      "job %s: %s, epoch %.2f of %d, step %s, %d ps and %d workers, "
      "staleness %s\n",
      job.name(), absl::AsciiStrToLower(v1::JobState_Name(job.state())),
      job.epochs_done(), job.epochs(), WithCommas(job.global_step()),
      job.servers(), job.workers(), job.staleness());
  if (job.has_learning_rate_scale()) {
    absl::StrAppend(text, "learning rates are multiplied by ",
                    job.learning_rate_scale(), "\n");
  }
  if (job.has_growing_input()) {
    const v1::GrowingInput& input = job.growing_input();
    absl::StrAppendFormat(
        text, "input: %s examples in %s %s, %s; %s\n",
        WithCommas(input.examples()), WithCommas(input.files()),
        input.files() == 1 ? "file" : "files",
        input.ended() ? "and no more come" : "and more may come",
        input.saved_epochs() == 0
            ? "no checkpoint has a whole epoch of it"
            : absl::StrCat("the newest checkpoint has epochs 1 to ",
                           input.saved_epochs()));
  }
  absl::StrAppendFormat(text, "pushes lost: %s, doubled: %s\n",
                        WithCommas(job.pushes_lost()),
                        WithCommas(job.pushes_doubled()));
  if (!job.checkpoint_path().empty()) {
    absl::StrAppendFormat(text, "checkpoint: step %s in %s\n",
                          WithCommas(job.checkpoint_step()),
                          job.checkpoint_path());
  }
  if (!job.checkpoint_failure().empty()) {
    absl::StrAppend(text, "the newest checkpoint failed (",
                    WithCommas(job.checkpoints_failed()),
                    " in all): ", job.checkpoint_failure(), "\n");
  }
  const v1::Evaluation& evaluation = job.evaluation();
  if (evaluation.examples() > 0) {
    absl::StrAppendFormat(text, "test %s after epoch %d\n",
                          TestText(evaluation, ": "), evaluation.epoch());
  }
}

// Where every server has said what it holds.
void AppendBalance(const v1::ClusterReport& report, std::string* text) {
  uint64_t all = 0;
  uint64_t most = 0;
  std::string fullest;
  uint64_t servers = 0;
  for (const v1::ProcessAnswer& answer : report.processes()) {
    const v1::ServerStats& server = answer.status().server();
    if (!answer.status().has_server()) continue;
    if (!server.restored()) return;
    ++servers;
    all += server.bytes();
    if (fullest.empty() || server.bytes() > most) fullest = answer.name();
    most = std::max(most, server.bytes());
  }
  if (servers < 2 || servers < report.job().servers() || all == 0) return;
  absl::StrAppendFormat(
      text, "balance: %s has the most, %s, %.2f times its share\n", fullest,
      BytesText(most),
      static_cast<double>(most) * static_cast<double>(servers) /
          static_cast<double>(all));
}

void AppendAsked(const v1::ProcessAnswer& answer, std::string* text) {
  const v1::StatusReply& status = answer.status();
  absl::StrAppendFormat(
      text,
      "asked %s at %s: paramd %s, up %s, incarnation %016x, "
      "generation %s, configuration %s\n",
      answer.name(), answer.address(), status.build(),
      SecondsText(static_cast<double>(status.uptime_ms()) / 1000),
      status.incarnation(),
      IsZero(status.generation()) ? "none" : VersionName(status.generation()),
      IsZero(status.configuration()) ? "none"
                                     : VersionName(status.configuration()));
}

void AppendWaits(const v1::ClusterReport& report, std::string* text) {
  bool any = false;
  for (const v1::ProcessAnswer& answer : report.processes()) {
    for (const v1::Wait& wait : answer.status().waits()) {
      // Of a process's own core; the coordinator has a term.
      const bool has_generation =
          wait.who() == answer.name() && !IsZero(answer.status().generation());
      absl::StrAppend(
          text, any ? "" : "\n", wait.who(),
          has_generation ? " generation " : "",
          has_generation ? VersionName(answer.status().generation()) : "",
          " waits for ", wait.whom(), ", for ",
          SecondsText(static_cast<double>(wait.since_ms()) / 1000), "\n");
      any = true;
    }
  }
  if (!any) absl::StrAppend(text, "\nnobody waits\n");
}

}  // namespace

absl::StatusOr<v1::ClusterReport> MakeClusterReport(const std::string& address,
                                                    const AskStatus& ask) {
  absl::StatusOr<v1::StatusReply> asked = ask({address})[0];
  if (!asked.ok()) {
    return absl::Status(
        asked.status().code(),
        absl::StrCat(address, " can't be reached: ", asked.status().message()));
  }
  v1::ClusterReport report;
  report.set_asked(address);
  const absl::StatusOr<v1::StatusReply> chief = AskChief(*asked, ask);
  if (!chief.ok()) {
    report.set_job_error(std::string(chief.status().message()));
    *report.add_processes() = AnswerOf(asked->task(), address, *asked);
    return report;
  }
  *report.mutable_job() = chief->job();
  AskMembers(address, *asked, *chief, ask, &report);
  return report;
}

std::string RenderReport(const v1::ClusterReport& report) {
  std::string text;
  if (report.has_job()) {
    AppendJob(report.job(), &text);
    AppendBalance(report, &text);
  } else {
    absl::StrAppend(&text, "the job is not known: ", report.job_error(), "\n");
  }
  std::vector<std::vector<std::string>> rows = {
      {"process", "state", "heard", "generation", "host:pid", "address", ""}};
  for (int i = 0; i < report.processes_size(); ++i) {
    const v1::ProcessAnswer& answer = report.processes(i);
    if (answer.address() == report.asked()) AppendAsked(answer, &text);
    rows.push_back(
        RowOf(answer, report.has_job() ? &report.job().members(i) : nullptr));
  }
  absl::StrAppend(&text, "\n", Table(rows));
  AppendWaits(report, &text);
  return text;
}

absl::StatusOr<std::string> ReportJson(const v1::ClusterReport& report) {
  return MessageJson(report);
}

}  // namespace paramd
