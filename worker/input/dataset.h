#ifndef PARAMD_WORKER_INPUT_DATASET_H_
#define PARAMD_WORKER_INPUT_DATASET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/snapshot.pb.h"
#include "worker/input/batch.h"

namespace paramd {

// Labelled examples, numbered from 0, all of one shape. Immutable, hence
// thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const InputSpec& spec() const = 0;

  // Number of examples; at least 1, below 2^32.
  virtual uint64_t size() const = 0;

  // What tells it from another one: all but the directory and the host.
  virtual v1::DataSet Describe() const = 0;

  // Overwrites the batch's examples and labels with those of `indices`, in that
  // order; its memory is reused. An error if the examples can't be read; the
  // batch is then unspecified. REQUIRES: indices are below size().
  virtual absl::Status Read(absl::Span<const uint32_t> indices,
                            Batch* batch) const = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_INPUT_DATASET_H_
