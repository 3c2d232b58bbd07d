#include "process/terminal/dashboard.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "process/terminal/text_layout.h"
#include "proto/metric_values.h"

namespace paramd {
namespace {

constexpr size_t kMostRows = 8;  // Processes shown one by one.
// Columns of what stands on the left, where there is room.
constexpr size_t kHeaderWidth = 62;
constexpr size_t kLeftWidth = 38;
constexpr size_t kBarCells = 7;
constexpr char kDash[] = "–";

// `line` cut to `width` columns, and ended.
std::string Line(absl::string_view line, int width) {
  size_t end = 0;
  int columns = 0;
  while (end < line.size()) {
    if ((line[end] & 0xC0) != 0x80 && ++columns > width) break;
    ++end;
  }
  absl::string_view cut = line.substr(0, end);
  while (!cut.empty() && cut.back() == ' ') cut.remove_suffix(1);
  return absl::StrCat(cut, "\n");
}

std::string MetricsText(
    const std::vector<std::pair<std::string, double>>& metrics, double loss,
    absl::string_view between) {
  if (metrics.empty()) {
    return absl::StrCat("loss", between, absl::StrFormat("%.4g", loss));
  }
  std::string text;
  for (const auto& [name, value] : metrics) {
    const bool is_open =
        name == "perplexity" || name == "mse" || name == "calibration";
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, between,
                    is_open ? absl::StrFormat("%.4g", value)
                            : absl::StrFormat("%.3f", value));
  }
  return text;
}

// What stands on the left of a line, and what on the right.
using TwoTexts = std::pair<std::string, std::string>;

// `pairs` after `indent`, the right of each from `column` on, or from further
// to the left where `width` asks for it; under each other, the left ones first,
// where one of them does not fit.
std::string Beside(const std::vector<TwoTexts>& pairs, absl::string_view indent,
                   size_t column, int width) {
  size_t left = 0, right = 0;
  for (const TwoTexts& pair : pairs) {
    left = std::max(left, Columns(pair.first));
    right = std::max(right, Columns(pair.second));
  }
  const size_t all = static_cast<size_t>(std::max(width, 0));
  std::string text;
  if (indent.size() + left + 2 + right <= all) {
    column = std::max(left + 2, std::min(column, all - indent.size() - right));
    for (const TwoTexts& pair : pairs) {
      const std::string left_part = Padded(pair.first, column);
      absl::StrAppend(
          &text, Line(absl::StrCat(indent, left_part, pair.second), width));
    }
    return text;
  }
  for (const auto side : {&TwoTexts::first, &TwoTexts::second}) {
    for (const TwoTexts& pair : pairs) {
      if ((pair.*side).empty()) continue;
      absl::StrAppend(&text, Line(absl::StrCat(indent, pair.*side), width));
    }
  }
  return text;
}

double Fraction(const ClusterView& view) {
  if (view.epochs == 0) return 0;
  return std::clamp(view.epochs_done / view.epochs, 0.0, 1.0);
}

uint32_t CurrentEpoch(const ClusterView& view) {
  return std::min(view.epochs,
                  static_cast<uint32_t>(std::max(view.epochs_done, 0.0)) + 1);
}

// ", 2m10s left" if that is known.
std::string LeftText(const ClusterView& view) {
  if (!view.left.has_value()) return "";
  return absl::StrCat(
      ", ", absl::FormatDuration(absl::Trunc(*view.left, absl::Seconds(1))),
      " left");
}

std::string Bar(double fraction) {
  std::string bar;
  for (size_t cell = 0; cell < kBarCells; ++cell) {
    bar.append(fraction * kBarCells >= cell + 0.5 ? "▇" : "▁");
  }
  return bar;
}

std::string RateText(absl::optional<double> rate) {
  if (!rate.has_value()) return kDash;
  return WithCommas(static_cast<uint64_t>(std::llround(*rate)));
}

std::string LossText(absl::optional<double> loss) {
  return loss.has_value() ? absl::StrFormat("%.3f", *loss) : kDash;
}

std::string MsText(absl::optional<double> ms) {
  if (!ms.has_value()) return kDash;
  const int digits = *ms < 0.1 ? 2 : *ms < 10 ? 1 : 0;
  return absl::StrFormat("%.*f ms", digits, *ms);
}

TwoTexts Header(const ClusterView& view) {
  const size_t workers = view.workers.size();
  return {
      absl::StrCat("paramd ", view.version, "  ", view.job_name, "  ",
                   view.servers.size(), " ps · ", workers,
                   workers == 1 ? " worker · " : " workers · ", view.staleness),
      absl::StrCat(
          absl::StrFormat("epoch %d/%d  %s %.0f %%", CurrentEpoch(view),
                          view.epochs, Bar(Fraction(view)),
                          std::floor(100 * Fraction(view))),
          LeftText(view))};
}

std::string ServerText(const ClusterView::Server& server) {
  const std::string name = Padded(server.name, 8);
  if (!server.note.empty()) return absl::StrCat(name, "  ", server.note);
  return absl::StrCat(
      name, AtRight(server.bytes ? BytesText(*server.bytes) : kDash, 8),
      "  p50 pull ", MsText(server.pull_p50_ms));
}

std::string WorkerText(const ClusterView::Worker& worker) {
  const std::string name =
      Padded(absl::StrCat(worker.name, worker.is_chief ? " (chief)" : ""), 17);
  if (!worker.note.empty()) return absl::StrCat(name, "  ", worker.note);
  return absl::StrCat(name, AtRight(RateText(worker.examples_per_second), 7),
                      " ex/s   loss ", LossText(worker.loss));
}

// One figure of several rows.
struct Sum {
  double total = 0;
  double largest = 0;
  int count = 0;

  void Add(absl::optional<double> value) {
    if (!value.has_value()) return;
    total += *value;
    largest = std::max(largest, *value);
    ++count;
  }
  absl::optional<double> Total() const {
    return count > 0 ? absl::optional<double>(total) : absl::nullopt;
  }
  absl::optional<double> Mean() const {
    return count > 0 ? absl::optional<double>(total / count) : absl::nullopt;
  }
  absl::optional<double> Largest() const {
    return count > 0 ? absl::optional<double>(largest) : absl::nullopt;
  }
};

struct Summary {
  int servers_up = 0;
  int workers_up = 0;
  Sum bytes, pull_ms, rate, loss;
};

Summary SumUp(const ClusterView& view) {
  Summary sum;
  for (const ClusterView::Server& server : view.servers) {
    sum.servers_up += server.note.empty();
    sum.bytes.Add(server.bytes);
    sum.pull_ms.Add(server.pull_p50_ms);
  }
  for (const ClusterView::Worker& worker : view.workers) {
    sum.workers_up += worker.note.empty();
    sum.rate.Add(worker.examples_per_second);
    sum.loss.Add(worker.loss);
  }
  return sum;
}

TwoTexts SummaryTexts(const ClusterView& view) {
  const Summary sum = SumUp(view);
  return {absl::StrCat(sum.servers_up, " of ", view.servers.size(), " ps  ",
                       sum.bytes.Total()
                           ? BytesText(static_cast<uint64_t>(sum.bytes.total))
                           : kDash,
                       "  p50 pull ", MsText(sum.pull_ms.Largest())),
          absl::StrCat(sum.workers_up, " of ", view.workers.size(),
                       " workers  ", RateText(sum.rate.Total()),
                       " ex/s   loss ", LossText(sum.loss.Mean()))};
}

// Of each server and the worker beside it, or of all together.
std::vector<TwoTexts> ProcessTexts(const ClusterView& view) {
  if (view.servers.size() + view.workers.size() > kMostRows) {
    return {SummaryTexts(view)};
  }
  std::vector<TwoTexts> texts(
      std::max(view.servers.size(), view.workers.size()));
  for (size_t i = 0; i < view.servers.size(); ++i) {
    texts[i].first = ServerText(view.servers[i]);
  }
  for (size_t i = 0; i < view.workers.size(); ++i) {
    texts[i].second = WorkerText(view.workers[i]);
  }
  return texts;
}

std::string PushText(const ClusterView& view) {
  return absl::StrCat("pushes ", WithCommas(view.pushes), " applied · ",
                      WithCommas(view.given_up), " given up");
}

std::string CheckpointText(const ClusterView& view) {
  if (!view.checkpoint_step.has_value()) return "no checkpoint yet";
  std::string text = absl::StrCat("checkpoint at step ", *view.checkpoint_step);
  if (view.checkpoint_bytes.has_value()) {
    absl::StrAppend(&text, "  ", BytesText(*view.checkpoint_bytes));
  }
  if (view.checkpoint_ms.has_value()) {
    absl::StrAppendFormat(&text, "  %.0f ms", *view.checkpoint_ms);
  }
  return text;
}

}  // namespace

ClusterView EmptyView(const v1::JobConfig& job, absl::string_view version) {
  ClusterView view;
  view.version = std::string(version);
  view.job_name = job.name();
  view.staleness = job.staleness();
  view.grows = job.input().has_follow();
  view.epochs = view.grows ? 0 : job.epochs();
  return view;
}

void FillView(const std::vector<ProcessReport>& servers,
              const std::vector<ProcessReport>& workers, ClusterView* view) {
  view->servers.clear();
  view->workers.clear();
  for (size_t i = 0; i < servers.size(); ++i) {
    ClusterView::Server row;
    row.name = absl::StrCat("ps-", i);
    row.note = servers[i].note;
    const auto& status = servers[i].status;
    if (status.has_value() && status->server().restored()) {
      row.bytes = status->server().bytes();
    }
    for (const ProcessReport& worker : workers) {
      if (!worker.status.has_value()) continue;
      const v1::WorkerStats& stats = worker.status->worker();
      if (static_cast<int>(i) < stats.pull_p50_ms_size() &&
          stats.pull_p50_ms(i) > row.pull_p50_ms.value_or(0)) {
        row.pull_p50_ms = stats.pull_p50_ms(i);
      }
    }
    view->servers.push_back(std::move(row));
  }
  for (size_t i = 0; i < workers.size(); ++i) {
    ClusterView::Worker row;
    row.name = absl::StrCat("worker-", i);
    row.is_chief = i == 0;
    row.note = workers[i].note;
    const auto& status = workers[i].status;
    if (status.has_value() && status->worker().epoch() > 0) {
      // One that does not answer trains nothing that anybody knows of.
      row.examples_per_second =
          row.note.empty() ? status->worker().examples_per_second() : 0;
      row.loss = status->worker().loss();
    }
    view->workers.push_back(std::move(row));
  }
  if (workers.empty() || !workers[0].status.has_value()) return;
  const v1::JobStats& job = workers[0].status->job();
  // It may have changed since the job file was read.
  if (!job.staleness().empty()) view->staleness = job.staleness();
  view->epochs_done = job.epochs_done();
  view->grows |= job.has_growing_input();
  if (view->grows) view->epochs = job.epochs();
  // A worker that was replaced takes none of its pushes along.
  view->pushes = job.global_step();
  view->given_up = job.given_up();
  if (job.checkpoint_bytes() > 0) {
    view->checkpoint_step = job.checkpoint_step();
    view->checkpoint_bytes = job.checkpoint_bytes();
    view->checkpoint_ms = job.checkpoint_ms();
  }
  if (job.evaluation().examples() > 0) {
    view->test = TestText(job.evaluation(), " ");
    view->test_epoch = job.evaluation().epoch();
  }
  view->waiting_for = job.waiting_for();
}

std::string RenderBlock(const ClusterView& view, int width) {
  std::string block =
      absl::StrCat(Beside({Header(view)}, "", kHeaderWidth, width),
                   Beside(ProcessTexts(view), "  ", kLeftWidth, width),
                   Beside({{PushText(view), CheckpointText(view)}}, "  ",
                          kLeftWidth, width));
  if (!view.waiting_for.empty()) {
    absl::StrAppend(
        &block, Line(absl::StrCat("  waiting for ", view.waiting_for), width));
  }
  return block;
}

std::string TestText(const v1::Evaluation& evaluation,
                     absl::string_view between) {
  return MetricsText(MetricValues(evaluation), evaluation.loss(), between);
}

std::string TestText(const v1::EvaluatedSlice& slice,
                     absl::string_view between) {
  return MetricsText(MetricValues(slice), slice.loss(), between);
}

std::string RenderLine(const ClusterView& view) {
  const Summary sum = SumUp(view);
  std::string line = absl::StrFormat(
      "epoch %d/%d  %.0f %% of %s%s  %s ex/s  loss %s  %s  %s",
      CurrentEpoch(view), view.epochs, std::floor(100 * Fraction(view)),
      view.grows ? "the files found" : "the job", LeftText(view),
      RateText(sum.rate.Total()), LossText(sum.loss.Mean()), PushText(view),
      CheckpointText(view));
  if (!view.test.empty()) {
    absl::StrAppendFormat(&line, "  test %s after epoch %d", view.test,
                          view.test_epoch);
  }
  if (!view.waiting_for.empty()) {
    absl::StrAppend(&line, "  waiting for ", view.waiting_for);
  }
  return line;
}

std::string RenderEnd(const EndView& view) {
  std::string text;
  if (!view.test.empty()) {
    text =
        absl::StrFormat("test %s   (%d epoch%s, %s)\n", view.test, view.epochs,
                        view.epochs == 1 ? "" : "s", SecondsText(view.seconds));
  }
  if (!view.checkpoint_path.empty()) {
    absl::StrAppend(&text, "checkpoint:    ", view.checkpoint_path,
                    "   (opens in safetensors)\n",
                    "pushes:        ", WithCommas(view.pushes_lost), " lost, ",
                    WithCommas(view.pushes_doubled), " doubled\n");
  }
  for (const std::string& warning : view.warnings) {
    absl::StrAppend(&text, "warning:       ", warning, "\n");
  }
  absl::StrAppend(&text, "\nTry next\n");
  for (const std::string& command : view.next) {
    absl::StrAppend(&text, "  ", ShellQuoted(view.program), " ", command, "\n");
  }
  return text;
}

std::string WithCommas(uint64_t number) {
  std::string text = absl::StrCat(number);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(at, 1, ',');
  }
  return text;
}

std::string BytesText(uint64_t bytes) {
  if (bytes < 1000) return absl::StrCat(bytes, " B");
  double amount = static_cast<double>(bytes);
  const char* unit = "kB";
  amount /= 1000;
  for (const char* larger : {"MB", "GB", "TB"}) {
    // What would be printed as 1000 of a unit is 1.0 of the next.
    if (amount < 999.5) break;
    amount /= 1000;
    unit = larger;
  }
  return absl::StrFormat("%.*f %s", amount < 99.95 ? 1 : 0, amount, unit);
}

std::string ShellQuoted(absl::string_view word) {
  const bool plain =
      !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               (c >= '0' && c <= '9') ||
               absl::string_view("_-./=,:+@%").find(c) !=
                   absl::string_view::npos;
      });
  if (plain) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted.append("'\\''");
    } else {
      quoted.push_back(c);
    }
  }
  return quoted + "'";
}

}  // namespace paramd
