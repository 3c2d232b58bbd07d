#ifndef PARAMD_CONFIG_INITIAL_VALUES_H_
#define PARAMD_CONFIG_INITIAL_VALUES_H_

#include <cstdint>

#include "absl/types/span.h"

#include "base/random.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// What a variable begins with: drawn by a counter-based generator, a function
// of (seed, variable, element) alone, whoever asks. Immutable, hence
// thread-safe.
class InitialValues {
 public:
  InitialValues(const v1::Variable& variable, uint64_t seed);

  // Elements of the variable from `first` on.
  void Fill(uint64_t first, absl::Span<float> out) const;
  // The row that a key of a keyed variable begins with: as if keys numbered
  // rows, counted modulo 2^64.
  void FillRow(uint64_t key, absl::Span<float> out) const {
    Fill(key * out.size(), out);
  }

 private:
  bool zeros_;
  CounterRandom random_;
  float low_;
  float width_;
};

}  // namespace paramd

#endif  // PARAMD_CONFIG_INITIAL_VALUES_H_
