#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "base/clock.h"
#include "base/print.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/inspect.h"
#include "checkpoint/table_report.h"
#include "checkpoint/verify.h"
#include "cli/commands/command.h"
#include "process/exit_code.h"
#include "process/flags.h"
#include "process/terminal/byte_progress.h"
#include "process/terminal/console.h"
#include "process/terminal/dashboard.h"
#include "process/terminal/text_layout.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using nlohmann::json;

// As they were typed.
struct WantedInspection {
  bool values = false;
  std::string table;
  std::string format = "text";
};

absl::Status Check(const WantedInspection& wanted) {
  if (wanted.format != "text" && wanted.format != "json") {
    return absl::InvalidArgumentError(
        absl::StrCat("--format is text or json, not '", wanted.format, "'"));
  }
  if (!wanted.table.empty() && wanted.values) {
    return absl::InvalidArgumentError(
        "--values is of all variables and --table of one; leave one out");
  }
  return absl::OkStatus();
}

std::string Percent(double part, double all) {
  return all == 0 ? "-" : absl::StrFormat("%.1f %%", 100 * part / all);
}

const char* WhenFullName(const v1::Variable& table) {
  return table.when_full() == v1::Variable::IGNORE ? "ignore" : "evict";
}

std::string RoomText(const CheckpointReader& reader,
                     const TableReport& report) {
  const v1::Variable& table = report.variable;
  const uint64_t capacity = table.shape(0);
  std::vector<std::vector<std::string>> rows = {
      {"table", table.name()},
      {"checkpoint", reader.directory()},
      {"step", absl::StrCat(reader.manifest().global_step())},
      {"width", absl::StrCat(table.shape(1))},
      {"capacity", absl::StrCat(WithCommas(capacity), " rows, ",
                                BytesText(capacity * report.row_bytes))},
      {"in use", absl::StrCat(WithCommas(report.rows), " rows, ",
                              BytesText(report.rows * report.row_bytes), ", ",
                              Percent(report.rows, capacity))},
      {"when full", WhenFullName(table)}};
  if (table.expire_after() > 0) {
    rows.push_back({"expire after",
                    absl::StrCat(WithCommas(table.expire_after()), " pushes")});
  }
  if (table.memory_rows() > 0) {
    rows.push_back({"memory rows", WithCommas(table.memory_rows())});
  }
  return Table(rows);
}

std::string BucketsText(const TableReport::Buckets& buckets) {
  std::vector<std::vector<std::string>> rows = {
      {"buckets", WithCommas(buckets.count)},
      {"  rows of each", WithCommas(buckets.rows_of_each)},
      {"  full", absl::StrCat(WithCommas(buckets.full), ", ",
                              Percent(buckets.full, buckets.count))}};
  for (size_t i = 0; i < buckets.by_fill.size(); ++i) {
    if (buckets.by_fill[i] == 0) continue;
    rows.push_back({absl::StrCat("  ", 10 * i, " to ", 10 * (i + 1), " % full"),
                    WithCommas(buckets.by_fill[i])});
  }
  return Table(rows);
}

std::string AgesText(const KeyedAges& ages) {
  static constexpr const char* kLast[] = {"10 pushes", "100", "1,000", "10,000",
                                          "earlier"};
  std::vector<std::vector<std::string>> rows = {
      {"named in the last", "rows", "of all"}};
  for (size_t i = 0; i < ages.rows.size(); ++i) {
    rows.push_back({absl::StrCat("  ", kLast[i]), WithCommas(ages.rows[i]),
                    Percent(ages.rows[i], ages.all())});
  }
  return Table(rows);
}

std::string NormsText(const TableReport::Norms& norms) {
  std::vector<std::vector<std::string>> rows = {{"norms of rows", ""}};
  for (const auto& [share, norm] : norms.quantiles) {
    std::string name = share == 0     ? "  least"
                       : share == 0.5 ? "  median"
                       : share == 1   ? "  largest"
                                    : absl::StrFormat("  %.0f %%", 100 * share);
    rows.push_back({std::move(name), absl::StrFormat("%.4g", norm)});
  }
  rows.push_back(
      {"  all zeros", absl::StrCat(WithCommas(norms.zero), " rows")});
  if (norms.not_finite > 0) {
    rows.push_back(
        {"  not finite", absl::StrCat(WithCommas(norms.not_finite), " rows")});
  }
  return Table(rows);
}

std::string SketchText(const TableReport& report) {
  const TableReport::Sketch& sketch = *report.sketch;
  return absl::StrCat(
      "\n",
      Table({{"counters of new keys", WithCommas(sketch.counters)},
             {"  in use", absl::StrCat(WithCommas(sketch.in_use), ", ",
                                       Percent(sketch.in_use, sketch.counters),
                                       "; at 50 % all are halved")},
             {absl::StrCat("  below ", report.variable.admit_after()),
              absl::StrCat(WithCommas(sketch.waiting),
                           ", of keys that wait for a row; keys share "
                           "counters")}}));
}

std::string GradientsText(const TableReport::Gradients& gradients) {
  std::vector<std::vector<std::string>> shares = {
      {"rows with the most gradients", "of all gradients"}};
  for (const auto& [rows, share] : gradients.shares) {
    shares.push_back({absl::StrCat("  ", WithCommas(rows)),
                      absl::StrFormat("%.1f %%", 100 * share)});
  }
  std::vector<std::vector<std::string>> hottest = {
      {"hottest keys", "gradients", "of all"}};
  for (const auto& [key, count] : gradients.hottest) {
    hottest.push_back({absl::StrCat("  ", key), WithCommas(count),
                       Percent(static_cast<double>(count), gradients.all)});
  }
  return absl::StrCat("\n", Table(shares), "\n", Table(hottest));
}

constexpr char kNoGradients[] =
    "\nWhich keys are hottest isn't known: this table's optimizer counts no "
    "gradients by\nrow (adam, adamw and lamb do).\n";
constexpr char kNotSaved[] =
    "\nA checkpoint counts no lookups and no keys that were evicted or "
    "ignored: of a running\njob `paramd status --format json` does.\n";

std::string Text(const CheckpointReader& reader, const TableReport& report) {
  return absl::StrCat(
      RoomText(reader, report), "\n", BucketsText(report.buckets), "\n",
      AgesText(report.ages), "\n", NormsText(report.norms),
      report.sketch.has_value() ? SketchText(report) : "",
      report.gradients.has_value() ? GradientsText(*report.gradients)
                                   : kNoGradients,
      kNotSaved);
}

json JsonOf(const TableReport::Gradients& gradients) {
  json hottest = json::array(), shares = json::array();
  for (const auto& [key, count] : gradients.hottest) {
    hottest.push_back({{"key", key}, {"gradients", count}});
  }
  for (const auto& [rows, share] : gradients.shares) {
    shares.push_back({{"rows", rows}, {"share", share}});
  }
  return {{"all", gradients.all}, {"hottest", hottest}, {"by_rank", shares}};
}

std::string Json(const CheckpointReader& reader, const TableReport& report) {
  const v1::Variable& table = report.variable;
  json quantiles = json::array();
  for (const auto& [share, norm] : report.norms.quantiles) {
    quantiles.push_back({{"share", share}, {"norm", norm}});
  }
  json all = {{"path", reader.directory()},
              {"snapshot", VersionName(reader.manifest().snapshot())},
              {"step", reader.manifest().global_step()},
              {"table", table.name()},
              {"width", table.shape(1)},
              {"capacity", table.shape(0)},
              {"rows", report.rows},
              {"row_bytes", report.row_bytes},
              {"when_full", WhenFullName(table)},
              {"admit_after", table.admit_after()},
              {"expire_after", table.expire_after()},
              {"memory_rows", table.memory_rows()},
              {"buckets",
               {{"count", report.buckets.count},
                {"rows_of_each", report.buckets.rows_of_each},
                {"full", report.buckets.full},
                {"by_tenth_of_fill", report.buckets.by_fill}}},
              {"ages",
               {{"below_10", report.ages.rows[0]},
                {"below_100", report.ages.rows[1]},
                {"below_1000", report.ages.rows[2]},
                {"below_10000", report.ages.rows[3]},
                {"older", report.ages.rows[4]}}},
              {"norms",
               {{"quantiles", quantiles},
                {"zero", report.norms.zero},
                {"not_finite", report.norms.not_finite}}}};
  if (report.sketch.has_value()) {
    all["sketch"] = {{"counters", report.sketch->counters},
                     {"in_use", report.sketch->in_use},
                     {"below_admit_after", report.sketch->waiting}};
  }
  if (report.gradients.has_value()) {
    all["gradients"] = JsonOf(*report.gradients);
  }
  return absl::StrCat(
      all.dump(2, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace),
      "\n");
}

absl::StatusOr<std::string> Inspect(const std::string& path,
                                    const WantedInspection& wanted) {
  RETURN_IF_ERROR(Check(wanted));
  if (wanted.table.empty()) return InspectCheckpoint(path, wanted.values);
  Console console(stdout, stderr, StdoutIsTerminal());
  ByteProgress progress(&console, MonotonicNow);
  ASSIGN_OR_RETURN(const auto paths, CheckpointsAt(path));
  ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(paths.front()));
  progress.Begin("reading");
  ASSIGN_OR_RETURN(const TableReport report,
                   ReportTable(reader.get(), wanted.table,
                               [&](uint64_t bytes, uint64_t total) {
                                 progress.Update(bytes, total);
                               }));
  return wanted.format == "json" ? Json(*reader, report)
                                 : Text(*reader, report);
}

}  // namespace

int CheckpointInspectCommand(const Invocation& invocation) {
  WantedInspection wanted;
  Flags flags("checkpoint inspect", "PATH [--values | --table NAME]",
              "Shows what a checkpoint contains: the newest of a run's, or "
              "one.");
  flags.AddSwitch("values",
                  "the range and mean of each variable's values too; reads "
                  "them all",
                  &wanted.values);
  flags.AddText("table", "NAME",
                "only this table of rows by key: how full it is, ages and "
                "norms of rows, hottest keys; reads all",
                &wanted.table);
  flags.AddText("format", "text|json", "how --table is written",
                &wanted.format);
  flags.OnlyWith("format", "--table NAME",
                 [&] { return !wanted.table.empty(); });
  flags.AllowArguments(1, 1, "PATH, the directory of a run or a checkpoint");
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  const auto text = Inspect(flags.arguments()[0], wanted);
  PrintError(text.status());
  if (!text.ok()) return ExitCodeAtStart(text.status());
  Print(*text);
  return kExitFinished;
}

}  // namespace paramd
