#ifndef PARAMD_CHECKPOINT_TABLE_REPORT_H_
#define PARAMD_CHECKPOINT_TABLE_REPORT_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/keyed_ages.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// What a checkpoint says of one keyed variable's rows.
struct TableReport {
  // How full the buckets are, each of which takes the keys that belong to it.
  struct Buckets {
    uint64_t count = 0;
    uint64_t rows_of_each = 0;  // The last of a slice may have fewer.
    // In which every row has a key: the next new one evicts, or is ignored.
    uint64_t full = 0;
    // By the share of their rows with a key: below 10 %, 20 %, ..., the rest.
    std::array<uint64_t, 10> by_fill = {};
  };
  // Euclidean norms of the rows that have a key.
  struct Norms {
    struct Quantile {
      double share;
      double norm;  // Within 0.8 %; the least and the largest are exact.
    };
    std::vector<Quantile> quantiles;  // By share, from 0 to 1.
    uint64_t zero = 0;                // All their numbers are.
    uint64_t not_finite = 0;          // Some number; not in the quantiles.
  };
  // The counters by which new keys wait for a row. Keys share them.
  struct Sketch {
    uint64_t counters = 0;
    uint64_t in_use = 0;   // Above 0. Beyond half of them all are halved.
    uint64_t waiting = 0;  // Of those: below admit_after.
  };
  // Gradients that rows have taken since their key has them.
  struct Gradients {
    struct Row {
      int64_t key;
      uint64_t gradients;
    };
    // Of the rows with the most gradients, so many, their share of all.
    struct Share {
      uint64_t rows;
      double share;  // Within 0.8 %.
    };
    double all = 0;
    std::vector<Row> hottest;   // Most first, then by key; 10 at most.
    std::vector<Share> shares;  // 1, 10, 100 rows and so on, then all.
  };

  v1::Variable variable;
  uint64_t rows = 0;       // That have a key; there can be variable.shape(0).
  uint64_t row_bytes = 0;  // With key, use and slots.
  Buckets buckets;
  KeyedAges ages;
  Norms norms;
  absl::optional<Sketch> sketch;        // With admit_after.
  absl::optional<Gradients> gradients;  // Of optimizers that count them.
};

// Reads all of the checkpoint, a bucket at a time, and holds no more than one
// and 2 MiB. `progress`, unless null, is told how many of the `total` bytes
// have been read. INVALID_ARGUMENT naming the keyed variables that there are,
// if `name` is none of them; else fails as CheckpointReader's Read and Finish
// do.
absl::StatusOr<TableReport> ReportTable(
    CheckpointReader* reader, const std::string& name,
    const std::function<void(uint64_t bytes, uint64_t total)>& progress =
        nullptr);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_TABLE_REPORT_H_
