#ifndef PARAMD_WORKER_INPUT_EXAMPLE_SOURCE_H_
#define PARAMD_WORKER_INPUT_EXAMPLE_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "proto/paramd/v1/snapshot.pb.h"
#include "worker/input/batch.h"
#include "worker/input/example.h"

namespace paramd {

// Examples numbered from 0, in files or drawn. Access is random: a source that
// is read record by record makes an index when it is opened. To add a format,
// write one of these and a branch in open_pipeline.cc.
//
// A dimension of 0 in its spec may differ from example to example.
//
// Thread-safe: immutable once opened.
class ExampleSource : public ExampleNames {
 public:
  virtual const InputSpec& spec() const = 0;

  // Number of examples; at least 1, below 2^32.
  virtual uint64_t size() const = 0;

  // What tells it from another one: all but the directory and the host.
  virtual v1::DataSet Describe() const = 0;

  // Overwrites `example` with example `index`: as many tensors as features. An
  // error that names the file, the position, what was found and what is needed.
  // REQUIRES: index < size().
  virtual absl::Status Read(uint64_t index, Example* example) const = 0;

  std::string Where(uint64_t index) const override {
    return absl::StrCat("example ", index);
  }

  // Numbers of the first example of each file, ascending, the first of them 0.
  virtual std::vector<uint64_t> FileStarts() const { return {0}; }
};

}  // namespace paramd

#endif  // PARAMD_WORKER_INPUT_EXAMPLE_SOURCE_H_
