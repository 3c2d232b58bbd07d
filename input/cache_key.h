#ifndef PARAMD_INPUT_CACHE_KEY_H_
#define PARAMD_INPUT_CACHE_KEY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "input/example_source.h"
#include "proto/paramd/v1/input.pb.h"

namespace paramd {

// What the examples of a cache that stays depend on.
struct CachedInput {
  // With the stages of the source before all others.
  const v1::InputConfig& config;
  bool training = true;
  // Stages that stand before the cache.
  int stages = 0;
  const ExampleSource& source;
  // Where something before the cache is drawn.
  absl::optional<uint64_t> seed = {};
};

// Tells examples that may differ apart: 16 digits of files (path, size and time
// of change of each), of how they are read, of the stages and of the program
// itself. INVALID_ARGUMENT, or the system's code, if a file can't be found.
absl::StatusOr<std::string> CacheKey(const CachedInput& input);

}  // namespace paramd

#endif  // PARAMD_INPUT_CACHE_KEY_H_
