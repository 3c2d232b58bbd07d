#include "process/observe/cluster_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/optional.h"

#include "process/observe/balance_text.h"
#include "process/observe/process_row.h"
#include "process/terminal/dashboard.h"
#include "process/terminal/text_layout.h"
#include "proto/message_json.h"
#include "proto/metric_values.h"
#include "proto/refusal.h"
#include "proto/table_stats.h"

namespace paramd {
namespace {

std::string NameOf(const v1::Task& task) {
  return absl::StrCat(absl::AsciiStrToLower(v1::TaskType_Name(task.type())),
                      "-", task.index());
}

// How many servers, or with replication places of them, a process has.
uint32_t ShardsOf(const v1::StatusReply& status) {
  return static_cast<uint32_t>(std::max(1, status.shards_size()));
}

// By which number a member is called.
uint32_t NumberOf(const v1::Member& member) {
  return member.has_peer() ? member.peer() : member.task().index();
}

// Whether a member is the process that says `status`, or one of its shards.
bool IsOf(const v1::Member& member, const v1::StatusReply& status) {
  return member.task().type() == status.task().type() &&
         NumberOf(member) / ShardsOf(status) == status.task().index();
}

// Of a process with several shards: of the one that is `member`. With
// replication all of them are told too, for others are backups.
v1::ProcessAnswer AnswerOf(const v1::Member& member, const std::string& address,
                           absl::StatusOr<v1::StatusReply> status) {
  v1::ProcessAnswer answer;
  const v1::Task& task = member.task();
  answer.set_name(NameOf(task));
  answer.set_address(address);
  if (status.ok()) {
    *answer.mutable_status() = *std::move(status);
    v1::StatusReply& said = *answer.mutable_status();
    said.clear_job();
    // Of a process that is all of the job: the part of this task.
    if (task.type() == v1::PS) said.clear_worker();
    if (task.type() == v1::WORKER) said.clear_server();
    if (said.shards_size() > 0) {
      *said.mutable_server() =
          said.shards(static_cast<int>(NumberOf(member) % ShardsOf(said)));
      if (!member.has_peer()) said.clear_shards();
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
    if (IsOf(member, asked)) {
      *row = AnswerOf(member, address, asked);
    } else if (IsOf(member, chief)) {
      *row = AnswerOf(member, asked.chief_address(), chief);
    } else if (member.address().empty() && asked.has_job() &&
               asked.address().empty()) {
      // One process is all of the job, and listens nowhere.
      *row = AnswerOf(member, "", asked);
    } else if (member.address().empty()) {
      *row = AnswerOf(
          member, "",
          absl::NotFoundError(member.joined()
                                  ? "the chief is told no address (--listen)"
                                  : "the chief is not told where it listens"));
    } else {
      *row = AnswerOf(member, member.address(),
                      absl::UnavailableError("not asked"));
      addresses.push_back(member.address());
      rows.push_back(report->processes_size() - 1);
    }
  }
  if (addresses.empty()) return;
  auto answers = ask(addresses);
  for (size_t i = 0; i < rows.size(); ++i) {
    *report->mutable_processes(rows[i]) = AnswerOf(
        report->job().members(rows[i]), addresses[i], std::move(answers[i]));
  }
}

// ---- for people -------------------------------------------------------------

// "log_level is debug: set by an operator, uid 0 at …, 2026-11-28 12:40:11"
std::string SettingText(const v1::SettingChange& setting) {
  const v1::Origin& origin = setting.origin();
  return absl::StrCat(
      setting.key(), " is ", setting.value(), ": set by an operator, ",
      origin.who(), " at ", origin.address(), ", ",
      absl::FormatTime(
          "%Y-%m-%d %H:%M:%S",
          absl::FromUnixMillis(static_cast<int64_t>(origin.unix_ms())),
          absl::LocalTimeZone()));
}

// A line for each slice, but only so many.
void AppendSlices(const v1::Evaluation& evaluation, std::string* text) {
  constexpr int kMostSlices = 16;
  const int shown = std::min(evaluation.slices_size(), kMostSlices);
  size_t width = 0;
  for (int i = 0; i < shown; ++i) {
    width = std::max(width, SliceName(evaluation.slices(i)).size());
  }
  for (int i = 0; i < shown; ++i) {
    const v1::EvaluatedSlice& slice = evaluation.slices(i);
    absl::StrAppendFormat(text, "  %-*s  %s (%s examples)\n",
                          static_cast<int>(width), SliceName(slice),
                          TestText(slice, " "), WithCommas(slice.examples()));
  }
  if (shown < evaluation.slices_size()) {
    absl::StrAppendFormat(text,
                          "  and %d slices more: paramd status --format json\n",
                          evaluation.slices_size() - shown);
  }
}

void AppendGrowingInput(const v1::GrowingInput& input, std::string* text) {
  const uint64_t parts =
      input.partitions() > 0 ? input.partitions() : input.files();
  absl::StrAppendFormat(
      text, "input: %s examples in %s %s%s, %s; %s\n",
      WithCommas(input.examples()), WithCommas(parts),
      input.partitions() > 0 ? "partition" : "file", parts == 1 ? "" : "s",
      input.ended() ? "and no more come" : "and more may come",
      input.saved_epochs() == 0
          ? "no checkpoint has a whole epoch of it"
          : absl::StrCat("the newest checkpoint has epochs 1 to ",
                         input.saved_epochs()));
  if (input.gone_messages() > 0) {
    absl::StrAppendFormat(
        text, "deleted by the topic before they were found: %s messages\n",
        WithCommas(input.gone_messages()));
  }
  if (input.held_messages() > 0) {
    absl::StrAppendFormat(text, "held for their clicks: %s messages\n",
                          WithCommas(input.held_messages()));
  }
}

void AppendJob(const v1::JobStats& job, std::string* text) {
  absl::StrAppendFormat(
      text,
      "job %s: %s, epoch %.2f of %d, step %s, %d ps and %d workers%s, "
      "staleness %s\n",
      job.name(), absl::AsciiStrToLower(v1::JobState_Name(job.state())),
      job.epochs_done(), job.epochs(), WithCommas(job.global_step()),
      job.servers(), job.workers(),
      job.joined_workers() == 0
          ? ""
          : absl::StrCat(", ", job.joined_workers(), " of at most ",
                         job.max_joined_workers(), " joined"),
      job.staleness());
  if (job.has_learning_rate_scale()) {
    absl::StrAppend(text, "learning rates are multiplied by ",
                    job.learning_rate_scale(), "\n");
  }
  if (!job.stopping().empty()) absl::StrAppend(text, job.stopping(), "\n");
  if (job.has_scaling()) {
    const std::string& whom = job.scaling().waiting_for();
    absl::StrAppend(text, "being scaled to ", job.scaling().servers(), " ps",
                    whom.empty() ? "" : ": waits for ", whom, "\n");
  }
  absl::StrAppend(text, MovesText(job.balance()), RenderSettings(job));
  if (job.has_growing_input()) {
    AppendGrowingInput(job.growing_input(), text);
  }
  absl::StrAppendFormat(text, "pushes lost: %s, doubled: %s\n",
                        WithCommas(job.pushes_lost()),
                        WithCommas(job.pushes_doubled()));
  if (job.acknowledged_alone() > 0) {
    absl::StrAppendFormat(
        text,
        "acknowledged on one server: %s chunks of the newest checkpoint\n",
        WithCommas(job.acknowledged_alone()));
  }
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
    AppendSlices(evaluation, text);
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

// Those that are too small for their keys.
void AppendTables(const v1::ClusterReport& report, std::string* text) {
  for (const v1::TableStats& table : TablesOf(report)) {
    if (!table.warning().empty()) absl::StrAppend(text, table.warning(), "\n");
  }
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
      absl::StrAppend(text, any ? "" : "\n", WaitText(answer, wait), "\n");
      any = true;
    }
  }
  if (!any) absl::StrAppend(text, "\nnobody waits\n");
}

}  // namespace

google::protobuf::RepeatedPtrField<v1::TableStats> TablesOf(
    const v1::ClusterReport& report) {
  google::protobuf::RepeatedPtrField<v1::TableStats> tables;
  uint64_t servers = 0;
  for (const v1::ProcessAnswer& answer : report.processes()) {
    // A backup has the rows of its server once more.
    const v1::ServerStats& server = answer.status().server();
    if (server.replica() == v1::REPLICA_BACKUP) continue;
    if (server.restored()) ++servers;
    for (const v1::TableStats& part : server.tables()) {
      AddTable(part, &tables);
    }
  }
  std::sort(tables.begin(), tables.end(), [](const auto& a, const auto& b) {
    return a.variable() < b.variable();
  });
  // Of a part of a table nobody knows how large all of it is.
  const bool are_whole = report.has_job() && servers >= report.job().servers();
  for (v1::TableStats& table : tables) {
    if (are_whole) table.set_warning(TableWarning(table));
  }
  return tables;
}

std::string RenderSettings(const v1::JobStats& job) {
  std::string text;
  for (const v1::SettingChange& setting : job.settings()) {
    absl::StrAppend(&text, SettingText(setting), "\n");
  }
  return text;
}

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
    // Which servers its shards are only the chief says.
    v1::Member alone;
    *alone.mutable_task() = asked->task();
    asked->clear_shards();
    *report.add_processes() = AnswerOf(alone, address, *asked);
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
    AppendTables(report, &text);
  } else {
    absl::StrAppend(&text, "the job is not known: ", report.job_error(), "\n");
  }
  std::vector<std::vector<std::string>> rows = {
      {"process", "state", "heard", "generation", "host:pid", "address", ""}};
  for (int i = 0; i < report.processes_size(); ++i) {
    const v1::ProcessAnswer& answer = report.processes(i);
    if (answer.address() == report.asked()) AppendAsked(answer, &text);
    const ProcessRow row =
        RowOf(answer, report.has_job() ? &report.job().members(i) : nullptr);
    rows.push_back({row.name, row.state, row.heard, row.generation, row.host,
                    row.address, row.figures});
  }
  absl::StrAppend(&text, "\n", Table(rows));
  AppendWaits(report, &text);
  return text;
}

absl::StatusOr<std::string> ReportJson(const v1::ClusterReport& report) {
  return MessageJson(report);
}

}  // namespace paramd
