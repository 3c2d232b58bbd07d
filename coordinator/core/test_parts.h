#ifndef PARAMD_COORDINATOR_CORE_TEST_PARTS_H_
#define PARAMD_COORDINATOR_CORE_TEST_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/types/optional.h"

#include "proto/paramd/v1/storage.pb.h"
#include "proto/paramd/v1/test_part.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// One evaluation by several workers: the batches of the test set, cut into
// parts that are leased to them, and what was counted on each batch.
//
// Invariant: a batch is counted once; a part is leased to one session at most.
//
// Not thread-safe: a part of the coordinator's core.
class TestParts {
 public:
  using Sessions = std::map<uint32_t, v1::SessionId>;  // By worker.

  // The `evaluation`-th of a term, of so many batches by so many workers.
  TestParts(uint64_t term, uint64_t evaluation, uint64_t batches,
            uint32_t workers);

  uint64_t evaluation() const { return evaluation_; }

  // These sessions take part: what others hold is free again, and each of these
  // that holds none gets the first one that is free.
  void Lease(const Sessions& able);
  // What is left of the worker's part; nothing: it holds none.
  absl::optional<v1::TestPart> Of(uint32_t worker) const;
  // What the worker has counted. False, and no change, if that is not of what
  // is left of its part: it comes late, or again.
  bool Take(uint32_t worker, const v1::TestedBatches& tested);

  bool complete() const;
  // Of all batches, in the order of the input. REQUIRES: complete(); called
  // once.
  v1::MergeBatches TakeAll();

 private:
  struct Part {
    uint64_t begin = 0;  // What comes before it is counted.
    uint64_t end = 0;
    v1::SessionId generation;  // Whose it is, if it is leased.
  };

  const Part* Held(uint32_t worker) const;

  const uint64_t term_;
  const uint64_t evaluation_;
  std::vector<Part> parts_;
  std::map<uint32_t, size_t> held_;        // By worker, which of them.
  std::set<size_t> free_;                  // Of which something is left.
  std::vector<v1::BatchMetrics> batches_;  // By number.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_TEST_PARTS_H_
