#ifndef PARAMD_CLI_COMMANDS_EVALUATED_PARTS_H_
#define PARAMD_CLI_COMMANDS_EVALUATED_PARTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "compute/model/metrics.h"
#include "proto/paramd/v1/evaluated_part.pb.h"

namespace paramd {

// A part as it was read, and what people call it: its file.
struct NamedPart {
  std::string name;
  v1::EvaluatedPart part;
};

// What `paramd evaluate --shard I/N --json` has written to the file: its key
// "part". INVALID_ARGUMENT, naming the file, if it is none or can't be read.
absl::StatusOr<NamedPart> ReadEvaluatedPart(const std::string& path);

// The metrics of the whole test set, with the bits that it has when it is
// evaluated at once: batches are added in the order of the input. The parts may
// come in any order. INVALID_ARGUMENT, naming the file, if one is missing or
// there twice, is of another checkpoint, job or test set than the first, or
// does not have its batches; or if there is no example.
absl::StatusOr<Metrics> MergeParts(absl::Span<const NamedPart> parts);

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_EVALUATED_PARTS_H_
