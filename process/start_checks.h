#ifndef PARAMD_PROCESS_START_CHECKS_H_
#define PARAMD_PROCESS_START_CHECKS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "config/cluster_spec.h"
#include "process/process.h"
#include "process/run_options.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// What makes a start impossible, beside what LoadConfiguration finds: one list,
// of which `paramd run` asks all before it makes anything, and `paramd config
// check` the same. None of them writes or starts anything that stays.

// A process that is to start. What it refers to outlives it.
struct Start {
  const RunOptions& options;
  const v1::JobConfig& job;
  const ClusterSpec& cluster;
  const ProcessRole& role;
};

// Whether a program that the worker is in computes the model: on one thread, so
// the shares of a step in turn, however many replicas there are.
bool ComputesInProgram(const RunOptions& options);
// Whether the process keeps a copy of the variables for each of its replicas.
// For a program one copy gives the same sums.
bool KeepsCopies(const RunOptions& options, const v1::JobConfig& job);

// One thing that may be wrong, and the sentence about it.
struct StartCheck {
  absl::string_view name;
  absl::Status (*check)(const Start& start);
};
// The same of one that has a model: once that is known.
struct ModelCheck {
  absl::string_view name;
  absl::Status (*check)(const ProcessRole& role, const v1::JobConfig& job,
                        absl::Span<const v1::Variable> variables);
};
absl::Span<const StartCheck> StartChecks();
absl::Span<const ModelCheck> ModelChecks();

// All that is wrong, a line each; the code is that of the first one.
absl::Status CheckStart(const Start& start);
// The first that is wrong: a model that a program makes is its matter.
absl::Status CheckModel(const ProcessRole& role, const v1::JobConfig& job,
                        absl::Span<const v1::Variable> variables);

// What a run does itself, as it begins, and a check in its place: reads what
// the model begins with, and examples, with the model and data made as a worker
// does. Nothing of a task that trains nothing. As WorkerProcess::Check, and:
// DATA_LOSS for an example that can't be read, as where it is trained on.
absl::Status CheckContent(const Start& start, const ModelFactory& models,
                          std::vector<std::string>* unchecked);

// What nobody can know before the start, for people; `unchecked`: what
// CheckContent left.
std::string NotChecked(const Start& start, std::vector<std::string> unchecked);

}  // namespace paramd

#endif  // PARAMD_PROCESS_START_CHECKS_H_
