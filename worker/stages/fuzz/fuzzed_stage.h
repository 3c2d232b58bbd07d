#ifndef PARAMD_WORKER_STAGES_FUZZ_FUZZED_STAGE_H_
#define PARAMD_WORKER_STAGES_FUZZ_FUZZED_STAGE_H_

#include <cstdint>
#include <map>
#include <memory>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "input/batch.h"
#include "tensor/outbox.h"
#include "worker/stages/stage_computer.h"
#include "worker/stages/stage_core.h"

namespace paramd::fuzz {

// What its worker may call.
absl::Span<const absl::string_view> StageMethods();
// What every example of the model looks like.
InputSpec StageInput();

// The stages 0 and 2 of four, of a model with a table, batch norm and branches
// that read features; computes for worker 0, whose build is "b". Not
// thread-safe.
class FuzzedStage {
 public:
  FuzzedStage();

  StageCore* core() { return &core_; }
  // Computes an operation that the core has taken, of its lane. False if the
  // work is something else. CHECKs that a refusal says why.
  bool Work(const Outbox::IoItem& item, IoResult* result);

 private:
  StageCore core_;
  std::map<uint32_t, std::unique_ptr<StageComputer>> lanes_;
};

}  // namespace paramd::fuzz

#endif  // PARAMD_WORKER_STAGES_FUZZ_FUZZED_STAGE_H_
