#ifndef PARAMD_INPUT_OWN_MAP_H_
#define PARAMD_INPUT_OWN_MAP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "base/random.h"
#include "input/batch.h"
#include "input/example.h"
#include "input/transform.h"
#include "proto/paramd/v1/input.pb.h"

namespace paramd {

// A map of one feature that a program brings: the stage {"map": {"name": ...}}
// of its jobs.
//
//   paramd::AddMap("log1p", {.spec = [](const auto& in) { return in; },
//                            .change = Log1p});
//   return paramd::Main(argc, argv, MakeModel);
struct OwnMap {
  // What comes out of a feature: its type, dims (0: differs from example to
  // example) and classes; its name stays. INVALID_ARGUMENT, a sentence about
  // what is needed, if this one does not suit.
  std::function<absl::StatusOr<FeatureSpec>(const FeatureSpec& in)> spec;
  // Makes `out` of `in`, of one example. What it gives depends on `in`, and on
  // the numbers that it draws, alone: so every worker, and every run, has the
  // same. An error ends the job, or the example is skipped (on_error). Called
  // on several threads at a time.
  std::function<absl::Status(const OwnedTensor& in, RandomStream random,
                             OwnedTensor* out)>
      change;
  // Whether it draws: then a filter can't count what comes out.
  bool draws = false;
  // To be raised by who changes what comes out: data that another version has
  // made are data of another meaning.
  uint32_t version = 1;
};

// Adds a map, for the whole process. REQUIRES: no other one has this name; all
// are added before any input is opened.
void AddMap(std::string name, OwnMap map);

// Null: there is none of this name.
const OwnMap* FindMap(absl::string_view name);

// INVALID_ARGUMENT, with those that there are, if no such map was added, or one
// that does not suit the feature.
absl::StatusOr<std::unique_ptr<Transform>> MakeOwnMap(
    const v1::InputStage::Map& config, const TransformContext& context);

}  // namespace paramd

#endif  // PARAMD_INPUT_OWN_MAP_H_
