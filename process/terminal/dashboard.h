#ifndef PARAMD_PROCESS_TERMINAL_DASHBOARD_H_
#define PARAMD_PROCESS_TERMINAL_DASHBOARD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// What people see of a running cluster, apart from how it is drawn. Every
// figure was measured by the process that it is about; what nobody has measured
// yet is missing and drawn as a dash.
struct ClusterView {
  struct Server {
    std::string name;
    std::string note;  // "starting", "restarting"; empty: it answers.
    absl::optional<uint64_t> bytes;
    // The largest of the workers' medians.
    absl::optional<double> pull_p50_ms;
  };
  struct Worker {
    std::string name;
    bool is_chief = false;
    std::string note;
    absl::optional<double> examples_per_second;
    absl::optional<double> loss;
  };

  std::string version;
  std::string job_name;
  std::string staleness;
  uint32_t epochs = 0;
  bool grows = false;  // The training set: `epochs` are those found until now.
  double epochs_done = 0;
  absl::optional<absl::Duration> left;  // See RemainingTime.
  std::vector<Server> servers;
  std::vector<Worker> workers;
  uint64_t pushes = 0;
  uint64_t given_up = 0;
  absl::optional<uint64_t> checkpoint_step;
  absl::optional<uint64_t> checkpoint_bytes;
  absl::optional<double> checkpoint_ms;
  // What the newest evaluation came to, "accuracy 0.881"; empty: none.
  std::string test;
  uint32_t test_epoch = 0;
  // Whom the job waits for; empty: nobody.
  std::string waiting_for;
};

// What one process said about itself last, and how it is.
struct ProcessReport {
  absl::optional<v1::StatusReply> status;  // Nullopt: it never answered.
  std::string note;
};

// Of a job that nobody has said anything about yet, by paramd `version`.
ClusterView EmptyView(const v1::JobConfig& job, absl::string_view version);

// Fills in what the processes say into `view`, whose other fields stay: rows
// for each of `servers` and `workers` in order, and the job's figures as worker
// 0, the chief, knows them.
void FillView(const std::vector<ProcessReport>& servers,
              const std::vector<ProcessReport>& workers, ClusterView* view);

// The block that a terminal refreshes in place: of the job, of each server with
// a worker beside it, and of pushes and checkpoints; what does not fit beside
// each other into `width` columns stands under each other. Each line is at most
// that wide and ended by a line break. More than eight processes are summed up.
std::string RenderBlock(const ClusterView& view, int width);

// The same in one line, without a line break.
std::string RenderLine(const ClusterView& view);

// What a run came to.
struct EndView {
  std::string program;  // As it was called: "paramd", "bazel-bin/cli/paramd".
  std::vector<std::string> next;  // Commands to try, without the program.
  std::string test;  // "accuracy: 0.881"; empty: it was not evaluated.
  uint32_t epochs = 0;
  double seconds = 0;
  std::string checkpoint_path;  // Empty: none was written.
  // Of that checkpoint.
  uint64_t pushes_lost = 0;
  uint64_t pushes_doubled = 0;
  // By what the job seems to have learnt nothing.
  std::vector<std::string> warnings;
};

// The result and the commands to try next, ready to be pasted into a shell.
std::string RenderEnd(const EndView& view);

// The metrics of an evaluation, or its loss where the model has none:
// "accuracy 0.881, top_5 0.997", with `between` between name and value.
std::string TestText(const v1::Evaluation& evaluation,
                     absl::string_view between);
// The same of a slice.
std::string TestText(const v1::EvaluatedSlice& slice,
                     absl::string_view between);

// 9240 → "9,240".
std::string WithCommas(uint64_t number);

// In decimal units, two digits at least: "812 B", "1.0 MB".
std::string BytesText(uint64_t bytes);

// `word` so that a shell reads it as one word.
std::string ShellQuoted(absl::string_view word);

}  // namespace paramd

#endif  // PARAMD_PROCESS_TERMINAL_DASHBOARD_H_
