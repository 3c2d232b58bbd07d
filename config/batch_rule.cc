#include "config/batch_rule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "config/strategy.h"

namespace paramd {

uint64_t ExamplesPerGradient(const v1::JobConfig& job) {
  return uint64_t{job.batch_per_replica()} *
         std::max<uint64_t>(job.accumulate(), 1) * ReplicasOf(job);
}

uint64_t ExamplesPerPush(const v1::JobConfig& job, bool sync) {
  const uint64_t gradients = sync ? 1 : std::max<uint64_t>(job.push_every(), 1);
  return ExamplesPerGradient(job) * gradients;
}

uint64_t WholeBatch(const v1::JobConfig& job) {
  return job.global_batch() > 0 ? job.global_batch() : job.batch_per_replica();
}

absl::Status DeriveBatch(uint32_t workers, v1::JobConfig* job) {
  const uint64_t global = job->global_batch();
  if (global == 0) return absl::OkStatus();
  const uint64_t parts =
      std::max<uint64_t>(job->accumulate(), 1) * uint64_t{workers};
  if (global % parts != 0) {
    const uint64_t below = global / parts * parts;
    return absl::InvalidArgumentError(absl::StrCat(
        "global_batch: ", global, " examples can't be divided by ", workers,
        ReplicasOf(*job) > 1 ? " replica" : " worker", workers == 1 ? "" : "s",
        job->accumulate() > 1
            ? absl::StrCat(" that accumulate ", job->accumulate(), " batches")
            : "",
        "; give ", below == 0 ? "" : absl::StrCat(below, " or "),
        below + parts));
  }
  if (global == parts && job->model().loss() == v1::IN_BATCH_SOFTMAX) {
    return absl::InvalidArgumentError(absl::StrCat(
        "global_batch: ", global,
        " gives each batch one example, and model.loss in_batch_softmax "
        "compares the examples of a batch; give ",
        2 * parts, " or more"));
  }
  job->set_batch_per_replica(static_cast<uint32_t>(global / parts));
  return absl::OkStatus();
}

}  // namespace paramd
