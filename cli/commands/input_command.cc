#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/chrome_trace.h"
#include "base/clock.h"
#include "base/print.h"
#include "base/status_macros.h"
#include "cli/commands/command.h"
#include "cli/commands/output_file.h"
#include "config/batch_rule.h"
#include "config/strategy.h"
#include "input/open_pipeline.h"
#include "process/exit_code.h"
#include "process/job_flags.h"
#include "process/terminal/dashboard.h"
#include "process/terminal/text_layout.h"

namespace paramd {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(5);

struct WantedBench {
  JobFlags job;
  int seconds = 10;
  int steps = 0;  // 0: as many as there is time for.
  std::string trace_path;
};

// What a run of the pipeline came to.
struct Measured {
  uint64_t examples = 0;
  uint64_t skipped = 0;
  uint32_t batch_size = 0;
  bool is_auto = false;
  absl::Duration time;
  Prefetcher::Figures figures;
  std::vector<Pipeline::StageTime> stages;
  std::unique_ptr<Pipeline> pipeline;  // The trace points to its stages' names.
};

// Takes batches and does nothing with them.
absl::StatusOr<Measured> Run(const WantedBench& wanted, v1::JobConfig job,
                             ChromeTrace* trace) {
  RETURN_IF_ERROR(DeriveBatch(ReplicasOf(job), &job));
  if (job.input().train().has_kafka()) {
    return absl::InvalidArgumentError(
        "input bench reads files; the messages of input.train.kafka are read "
        "by a job that runs: bench files of such messages in its place");
  }
  // Of one that grows, what is there now.
  job.mutable_input()->clear_follow();
  ASSIGN_OR_RETURN(auto pipeline, OpenTrainingData(job));
  pipeline->Measure(trace);
  Prefetcher::Options options =
      PrefetchOptions(job.input(), job.batch_per_replica());
  // An epoch is a portion: of a few examples many of them wait.
  options.max_portions =
      std::max<size_t>(options.max_portions,
                       uint64_t{job.batch_per_replica()} *
                               (pipeline->prefetch() + 1) / pipeline->size() +
                           1);
  Prefetcher prefetcher(*pipeline, options);
  const uint64_t most = wanted.steps > 0 ? static_cast<uint64_t>(wanted.steps)
                                         : std::numeric_limits<uint64_t>::max();
  const absl::Duration limit = absl::Seconds(wanted.seconds);
  const uint64_t ahead =
      uint64_t{job.batch_per_replica()} * (prefetcher.figures().depth + 1);
  Measured measured;
  uint64_t epoch = 0;
  const Time begin = MonotonicNow();
  for (uint64_t step = 0; step < most; ++step) {
    while (prefetcher.examples_ahead() < ahead) {
      RETURN_IF_ERROR(prefetcher.Add(
          {.epoch = ++epoch, .begin = 0, .end = pipeline->size()}));
    }
    const Time asked = MonotonicNow();
    ASSIGN_OR_RETURN(Prefetcher::NextBatch next,
                     prefetcher.WaitForNext(kPatience));
    const Time came = MonotonicNow();
    if (trace != nullptr) {
      trace->Add(ChromeTrace::Lane::kCompute, "wait for a batch", asked, came);
    }
    measured.examples += next.batch->size();
    prefetcher.Recycle(std::move(next.batch));
    if (came - begin >= limit) break;
  }
  measured.time = MonotonicNow() - begin;
  measured.figures = prefetcher.figures();
  measured.stages = pipeline->StageTimes();
  measured.skipped = pipeline->skipped();
  measured.batch_size = job.batch_per_replica();
  measured.is_auto = options.threads == 0;
  measured.pipeline = std::move(pipeline);
  return measured;
}

double Share(absl::Duration part, absl::Duration whole) {
  return whole > absl::ZeroDuration() ? absl::FDivDuration(part, whole) : 0;
}

// A row for each stage: what it did and took of all that threads did.
std::string StageTable(const std::vector<Pipeline::StageTime>& stages,
                       absl::Duration all) {
  std::vector<std::vector<std::string>> rows = {
      {"stage", "calls", "µs each", "share"}};
  for (const Pipeline::StageTime& stage : stages) {
    const double calls =
        static_cast<double>(std::max<uint64_t>(1, stage.calls));
    rows.push_back({stage.name, WithCommas(stage.calls),
                    absl::StrFormat(
                        "%.1f", absl::ToDoubleMicroseconds(stage.time) / calls),
                    absl::StrFormat("%.1f%%", 100 * Share(stage.time, all))});
  }
  for (size_t column = 1; column < rows.front().size(); ++column) {
    size_t widest = 0;
    for (const auto& row : rows) {
      widest = std::max(widest, Columns(row[column]));
    }
    for (auto& row : rows) row[column] = AtRight(row[column], widest);
  }
  return Table(rows);
}

std::string Describe(const Measured& measured) {
  const Prefetcher::Figures& figures = measured.figures;
  const double seconds = absl::ToDoubleSeconds(measured.time);
  const double batches = static_cast<double>(figures.batches);
  absl::Duration all;
  const Pipeline::StageTime* slowest = &measured.stages.front();
  for (const Pipeline::StageTime& stage : measured.stages) {
    all += stage.time;
    if (stage.time > slowest->time) slowest = &stage;
  }
  const double idle = Share(figures.idle, figures.idle + figures.busy);
  std::string text = absl::StrFormat(
      "%s examples in %.2f s: %s a second, %.1f batches of %d a second\n\n",
      WithCommas(measured.examples), seconds,
      WithCommas(static_cast<uint64_t>(measured.examples / seconds)),
      batches / seconds, measured.batch_size);
  absl::StrAppend(&text, StageTable(measured.stages, all));
  absl::StrAppendFormat(
      &text,
      "\nthreads: %d%s, idle %.0f%% of the time\n"
      "queue: %.1f of %d batches ready after the one taken; %s of %s takes "
      "waited\n",
      figures.threads, measured.is_auto ? " (auto)" : "", 100 * idle,
      static_cast<double>(figures.batches_ready) / batches - 1,
      figures.depth - 1, WithCommas(figures.waits),
      WithCommas(figures.batches));
  if (measured.skipped > 0) {
    absl::StrAppend(&text, "skipped: ", WithCommas(measured.skipped),
                    " examples that could not be read or mapped\n");
  }
  absl::StrAppendFormat(&text, "%s limits: %.0f%% of what the threads do\n",
                        slowest->name, 100 * Share(slowest->time, all));
  return text;
}

absl::Status WriteTrace(const ChromeTrace& trace, const std::string& path) {
  RETURN_IF_ERROR(WriteOutputFile("--trace", path, trace.ToJson()));
  if (trace.left_out() > 0) {
    Print(absl::StrCat("paramd: the trace has the first ",
                       WithCommas(ChromeTrace::kMost), " events of each kind; ",
                       WithCommas(trace.left_out()), " more happened\n"),
          stderr);
  }
  return absl::OkStatus();
}

absl::Status Bench(const WantedBench& wanted) {
  ASSIGN_OR_RETURN(const LoadedJob job, wanted.job.Load());
  ChromeTrace trace("input bench");
  const bool has_trace = !wanted.trace_path.empty();
  if (has_trace) RETURN_IF_ERROR(CheckOutputFile("--trace", wanted.trace_path));
  ASSIGN_OR_RETURN(const Measured measured,
                   Run(wanted, job.config, has_trace ? &trace : nullptr));
  Print(Describe(measured));
  return has_trace ? WriteTrace(trace, wanted.trace_path) : absl::OkStatus();
}

}  // namespace

int InputBenchCommand(const Invocation& invocation) {
  WantedBench wanted;
  Flags flags("input bench", "--job FILE [flags]",
              "Runs the input of a job alone, as fast as it goes, and shows "
              "what each stage\ntakes, how long its threads are idle, how full "
              "the queue of batches is, and\nwhich stage limits. Measuring "
              "takes some 50 ns for each stage of an example.");
  flags.AddCount("seconds", "How long.", {1, 86400}, &wanted.seconds);
  flags.AddCount("steps", "Batches at most; 0: as many as there is time for.",
                 {0, std::numeric_limits<int>::max()}, &wanted.steps);
  flags.AddText("trace", "FILE",
                "Also write what each thread did when, for "
                "https://ui.perfetto.dev or chrome://tracing.",
                &wanted.trace_path);
  wanted.job.AddTo(&flags);
  if (const auto code = ParseFlags(invocation, &flags)) return *code;
  const absl::Status status = Bench(wanted);
  PrintError(status);
  return status.ok() ? kExitFinished : ExitCodeAtStart(status);
}

}  // namespace paramd
