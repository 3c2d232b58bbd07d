#include "worker/input/direct_batch_source.h"

#include <utility>

#include "base/status_macros.h"

namespace paramd {

DirectBatchSource::DirectBatchSource(const Dataset& dataset, Options options)
    : options_(std::move(options)),
      assembler_(dataset, options_.seed),
      queue_(options_.batch_size, options_.max_portions) {}

absl::Status DirectBatchSource::Add(const Portion& portion) {
  RETURN_IF_ERROR(assembler_.Check(portion));
  RETURN_IF_ERROR(queue_.Add(portion));
  NotifyIfAwaited();
  return absl::OkStatus();
}

void DirectBatchSource::NoMore() {
  queue_.NoMore();
  NotifyIfAwaited();
}

absl::StatusOr<BatchSource::NextBatch> DirectBatchSource::Next() {
  RETURN_IF_ERROR(status_);
  NextBatch next;
  const absl::optional<Portion> range = queue_.Take();
  if (!range.has_value()) {
    awaited_ = !queue_.ended();
    next.state = awaited_ ? NextBatch::kNotYet : NextBatch::kEnd;
    return next;
  }
  next.state = NextBatch::kBatch;
  next.batch =
      spare_ != nullptr ? std::move(spare_) : std::make_unique<Batch>();
  status_ = assembler_.Assemble(*range, next.batch.get());
  RETURN_IF_ERROR(status_);
  return next;
}

void DirectBatchSource::Recycle(std::unique_ptr<Batch> batch) {
  spare_ = std::move(batch);
}

void DirectBatchSource::NotifyIfAwaited() {
  if (!std::exchange(awaited_, false)) return;
  if (options_.on_ready != nullptr) options_.on_ready();
}

}  // namespace paramd
