#include "coordinator/core/evaluations.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "proto/metric_values.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

using ::google::protobuf::DynamicCastToGenerated;

void Evaluations::AdvanceShared(uint32_t epoch, Turn* turn) {
  if (!AreShared(turn->job) || newest_.final() || merging_) return;
  if (!parts_.has_value()) {
    parts_.emplace(turn->job.configuration.version().term(), ++shared_,
                   turn->job.options.test_batches, turn->job.options.workers);
  }
  if (parts_->complete()) return Merge(epoch, turn);
  parts_->Lease(WhoTakesPart(turn));
}

// What a worker has read may be of this machine alone.
TestParts::Sessions Evaluations::WhoTakesPart(Turn* turn) {
  TestParts::Sessions able;
  for (const auto& [index, worker] : turn->job.workers) {
    if (!turn->job.IsLive(worker, turn->now) || worker.last.leaving()) continue;
    const uint64_t test_set = worker.last.test_set();
    if (test_set == turn->job.options.test_set) {
      able[index] = worker.generation;
    } else if (test_set != 0 && others_.insert(index).second) {
      turn->out->Warn(absl::StrCat(
          turn->job.NameOfWorker(index),
          " takes no part in the final evaluation: it has read another test "
          "set than the chief"));
    }
  }
  return able;
}

absl::optional<v1::TestPart> Evaluations::PartOf(uint32_t worker) const {
  return parts_.has_value() ? parts_->Of(worker) : absl::nullopt;
}

void Evaluations::OnTested(uint32_t worker, const v1::TestedBatches& tested) {
  if (parts_.has_value()) parts_->Take(worker, tested);
}

absl::optional<uint32_t> Evaluations::awaited(const JobView& job) const {
  for (const auto& [index, worker] : job.workers) {
    if (PartOf(index).has_value()) return index;
  }
  return absl::nullopt;
}

void Evaluations::Merge(uint32_t epoch, Turn* turn) {
  merging_ = true;
  auto merge = std::make_unique<v1::MergeBatches>(parts_->TakeAll());
  merge->set_epoch(epoch);
  turn->StartIo(std::move(merge), [this, merged = shared_](
                                      const IoResult& result, Turn* later) {
    merging_ = false;
    // Else it was of weights that are lost.
    const bool counts = parts_.has_value() && parts_->evaluation() == merged;
    if (counts) OnMerged(result, later);
  });
}

void Evaluations::OnMerged(const IoResult& result, Turn* turn) {
  const auto* merged =
      DynamicCastToGenerated<v1::EvaluateWeightsResult>(result.head.get());
  if (!result.status.ok() || merged == nullptr) {
    turn->out->Exit(result.status.ok()
                        ? absl::InternalError("no evaluation came")
                        : result.status);
    return;
  }
  parts_.reset();
  newest_ = merged->evaluation();
  epochs_ = newest_.epoch();
  std::vector<LogField> said = {{"epoch", newest_.epoch()}};
  for (const auto& [name, value] : MetricValues(newest_)) {
    said.emplace_back(name, value);
  }
  said.emplace_back("loss", newest_.loss());
  turn->out->Note(absl::StrCat("evaluation after epoch ", newest_.epoch(), ": ",
                               EvaluationText(newest_)),
                  std::move(said));
  turn->Raise(Evaluated{});
}

}  // namespace paramd
