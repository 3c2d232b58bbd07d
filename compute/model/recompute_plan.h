#ifndef PARAMD_COMPUTE_MODEL_RECOMPUTE_PLAN_H_
#define PARAMD_COMPUTE_MODEL_RECOMPUTE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "compute/model/sequence.h"

namespace paramd {

// Which layers of a chain are to be computed again, or swapped, so that what is
// kept for the backward pass fits a budget: the problem of Rotor (Beaumont et
// al., hal-02352969, 2019). Rotor's plans hand memory on while the backward
// pass goes; a Sequence keeps what it keeps to the end, and its Recompute
// layers share the memory of the largest. So a plan here is a choice of
// segments of consecutive layers, each to be in a Recompute of its own, or in a
// Swapped, which needs the same memory, if that is faster; the others keep what
// they keep.

// A layer of a chain that is no view. Bytes are those of a batch, as a Sequence
// lays them out.
struct ChainLink {
  std::string name;
  size_t layer = 0;  // Which of the sequence.
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
  uint64_t kept_bytes = 0;  // Beside its output.
  uint64_t scratch_bytes = 0;
  bool reads_output = true;
  uint64_t flops = 0;  // Of the forward pass of one example.
};

// Those of the layers [begin, end) of a sequence.
std::vector<ChainLink> ChainOf(const Sequence& layers, size_t begin, size_t end,
                               uint64_t examples, DType dtype);

// How a chain is run.
struct ChainUse {
  // Batches whose activations are kept at once, as by a stage of a pipeline.
  uint64_t live = 1;
  // Bytes of each that are kept beside those of the links.
  uint64_t border_bytes = 0;
  // While a byte of a batch is written and read, so many operations are
  // computed for each of its examples. 0: nothing is swapped.
  double flops_per_swapped_byte = 0;
};

// Links [begin, end), in one Recompute or Swapped.
struct RecomputedLinks {
  size_t begin = 0;
  size_t end = 0;
  bool is_swapped = false;
};

struct RecomputePlan {
  std::vector<RecomputedLinks> segments;  // In order, none in another.
  // KeptBytes and ScratchBytes of such a Sequence, with what the use adds.
  uint64_t bytes = 0;
  // What more the backward pass computes, for one example.
  uint64_t flops_again = 0;
  // What is written, and read again, of each batch.
  uint64_t swapped_bytes = 0;
};

// What a choice of segments comes to; which are swapped follows from the use.
RecomputePlan PlanOf(absl::Span<const ChainLink> chain, const ChainUse& use,
                     std::vector<RecomputedLinks> segments);

// The plan that needs the fewest bytes.
RecomputePlan SmallestPlan(absl::Span<const ChainLink> chain,
                           const ChainUse& use);

// Of the plans that need at most so many bytes one that computes least again,
// with what is swapped as that many operations; nothing if there is none.
// Exact, but that of plans of the same first layers whose bytes differ by less
// than a thousandth of the budget one stands for all. Dynamic programming over
// prefixes of the chain, each with the plans of which none is better in
// operations, kept and scratch bytes: what the state (layers, memory) of
// Rotor's recurrence is where memory is not handed on.
absl::optional<RecomputePlan> CheapestPlan(absl::Span<const ChainLink> chain,
                                           const ChainUse& use,
                                           uint64_t budget);

// The layers [begin, end) of a sequence.
struct LayerRange {
  size_t begin = 0;
  size_t end = 0;
  bool is_swapped = false;
};

// The same sequence with a Recompute around each of these ranges, as if written
// in the job file, or a Swapped. REQUIRES: they are in order, and none is in
// another.
std::unique_ptr<Sequence> WithRecompute(const Sequence& layers,
                                        absl::Span<const LayerRange> ranges);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_RECOMPUTE_PLAN_H_
