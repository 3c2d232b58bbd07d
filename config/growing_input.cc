#include "config/growing_input.h"

#include "absl/strings/str_cat.h"

#include "config/strategy.h"

namespace paramd {

void CheckGrowingInput(
    const v1::JobConfig& job,
    const std::function<void(const std::string& path,
                             absl::string_view sentence)>& add) {
  const v1::InputConfig& input = job.input();
  if (!input.has_follow()) return;
  const v1::InputSource& train = input.train();
  if (!train.has_csv() && !train.has_libsvm() && !train.has_tfrecord() &&
      !train.has_records()) {
    add("input.follow",
        "needs input.train to name files by a pattern, as csv, libsvm, "
        "tfrecord or records");
  }
  if (train.has_csv() && train.csv().columns().empty() &&
      train.csv().features().empty()) {
    add("input.train.csv.columns",
        "is missing; with input.follow there may be no file yet that has them");
  }
  if (train.has_libsvm() && train.libsvm().columns() == 0) {
    add("input.train.libsvm.columns",
        "is missing; with input.follow nobody knows yet what the largest index "
        "will be");
  }
  if (!input.has_test()) {
    add("input.test",
        "is missing; with input.follow name files to evaluate on, which stay");
  }
  if (!UsesServers(job)) {
    add("strategy",
        absl::StrCat("\"", StrategyName(job.strategy()),
                     "\" does not go with input.follow: its steps are planned "
                     "over input that is all there; choose "
                     "\"parameter_server\""));
  } else if (job.staleness() == "sync") {
    add("staleness",
        "\"sync\" does not go with input.follow: its steps are planned over "
        "input that is all there; choose \"async\" or a number");
  }
  if (job.optimizer().schedule() != v1::OptimizerConfig::CONSTANT &&
      job.optimizer().decay_steps() == 0) {
    add("optimizer.decay_steps",
        "is missing; with input.follow nobody knows how many steps there will "
        "be");
  }
}

}  // namespace paramd
