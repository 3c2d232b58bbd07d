#include "worker/input/batch_assembler.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "base/check.h"
#include "worker/input/example_order.h"

namespace paramd {

BatchAssembler::BatchAssembler(const Dataset& dataset,
                               absl::optional<uint64_t> seed)
    : dataset_(dataset), seed_(seed) {
  if (seed_.has_value()) return;
  order_.resize(dataset_.size());
  std::iota(order_.begin(), order_.end(), 0u);
}

absl::Status BatchAssembler::Check(const Portion& range) const {
  if (range.begin < range.end && range.end <= dataset_.size()) {
    return absl::OkStatus();
  }
  return absl::OutOfRangeError(absl::StrCat(
      "portion [", range.begin, ", ", range.end, ") of epoch ", range.epoch,
      " is not a range of the ", dataset_.size(), " examples"));
}

absl::Status BatchAssembler::Assemble(const Portion& range, Batch* batch) {
  CHECK(Check(range).ok(), "a range to assemble is within the data set");
  LoadOrder(range.epoch);
  batch->range = range;
  return dataset_.Read(
      absl::MakeConstSpan(order_).subspan(range.begin, range.size()), batch);
}

void BatchAssembler::LoadOrder(uint64_t epoch) {
  if (!seed_.has_value() || epoch_ == epoch) return;
  order_ = ExampleOrder(*seed_, epoch, dataset_.size());
  epoch_ = epoch;
}

}  // namespace paramd
