#ifndef PARAMD_COMPUTE_MODEL_GRADIENT_BUCKETS_H_
#define PARAMD_COMPUTE_MODEL_GRADIENT_BUCKETS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

#include "compute/device/device_link.h"

namespace paramd {

// Gradients that wait to be summed with those of other replicas, a bucket at a
// time. Not thread-safe.
class GradientBuckets {
 public:
  // A bucket of `bytes` or more is closed. Adding up to `variables` gradients
  // allocates nothing afterwards.
  void SetUp(size_t variables, uint64_t bytes) {
    bytes_ = bytes;
    parts_.reserve(variables);
    variables_.reserve(variables);
    ends_.reserve(variables);
  }

  void Add(size_t variable, const SumPart& part) {
    parts_.push_back(part);
    variables_.push_back(variable);
    filled_ += part.count * sizeof(float);
    if (filled_ >= bytes_) Close();
  }
  // Closes the open bucket, if something is in it.
  void Close() {
    if (parts_.size() > (ends_.empty() ? 0 : ends_.back())) {
      ends_.push_back(parts_.size());
    }
    filled_ = 0;
  }
  // Calls `sum` for each closed bucket, in order, and drops them. REQUIRES:
  // none is open, or none is closed.
  void Take(absl::FunctionRef<void(absl::Span<const SumPart> parts,
                                   absl::Span<const size_t> variables)>
                sum) {
    if (ends_.empty()) return;
    size_t begin = 0;
    for (const size_t end : ends_) {
      sum(absl::MakeConstSpan(parts_).subspan(begin, end - begin),
          absl::MakeConstSpan(variables_).subspan(begin, end - begin));
      begin = end;
    }
    parts_.clear();
    variables_.clear();
    ends_.clear();
  }

 private:
  uint64_t bytes_ = 0;
  std::vector<SumPart> parts_;
  std::vector<size_t> variables_;
  std::vector<size_t> ends_;  // Of closed ones.
  uint64_t filled_ = 0;       // Bytes of the open one.
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_GRADIENT_BUCKETS_H_
