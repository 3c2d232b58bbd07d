#include "tests/sim/replica_draws.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "base/random.h"

namespace paramd {
namespace {

bool HasReplicaRows(uint64_t seed) { return seed % 5 < 2; }

void DrawReplicaKeys(uint64_t seed, IntegerJob::Options* options) {
  if (!HasReplicaRows(seed)) return;
  RandomStream random(StableHash("replicated keys", seed));
  options->sparse = true;
  options->width = IntegerJob::DrawWidth(seed);
  constexpr IntegerJob::Keys kKinds[] = {
      IntegerJob::Keys::kEvict, IntegerJob::Keys::kFit,
      IntegerJob::Keys::kIgnore, IntegerJob::Keys::kNone};
  options->keys = kKinds[random.Below(4)];
  if (random.Chance(0.3)) {
    options->admit_after = 2 + static_cast<uint32_t>(random.Below(3));
  }
  if (random.Chance(0.3)) options->expire_after = 4 + random.Below(20);
}

}  // namespace

Faults DrawReplicaNetwork(uint64_t seed) {
  RandomStream random(StableHash("network", seed));
  return Faults::Draw(&random);
}

Cut DrawReplicaCut(uint64_t seed) {
  if (HasReplicaRows(seed)) return DrawCut(seed);
  return {.block_elements = 16, .slice_bytes = 128};
}

IntegerJob::Options DrawReplicaJob(uint64_t seed) {
  RandomStream random(StableHash("replicated job", seed));
  IntegerJob::Options options;
  options.examples = 200 + 4 * random.Below(100);
  if (random.Chance(0.2)) options.staleness = "4";
  if (seed % 3 != 1) {
    DrawReplicaKeys(seed, &options);
    return options;
  }
  options.staleness = "sync";
  options.rounded = random.Chance(0.6);
  options.pruned = options.rounded && seed % 2 == 1;
  if (!options.rounded && HasReplicaRows(seed)) {
    options.sparse = true;
    options.width = IntegerJob::DrawWidth(seed);
    options.keys = IntegerJob::Keys::kFit;
  }
  // What a step drops for them is made up for by a factor.
  if (options.rounded && random.Chance(0.3)) options.backup_workers = 1;
  return options;
}

IntegerJob::Options DrawElectionJob(uint64_t seed) {
  RandomStream random(StableHash("job of an election", seed));
  IntegerJob::Options options;
  options.examples = 200 + 4 * random.Below(100);
  if (random.Chance(0.2)) options.staleness = "4";
  DrawReplicaKeys(seed, &options);
  return options;
}

std::vector<OperatorCore::Setting> DrawReplicaSettings(uint64_t seed) {
  RandomStream random(StableHash("replicas' modes", seed));
  static const char* const kModes[] = {"async", "4", "0"};
  std::vector<OperatorCore::Setting> settings;
  absl::Duration at;
  for (uint64_t i = 1 + random.Below(4); i > 0; --i) {
    at += absl::Milliseconds(2000 + random.Below(10000));
    settings.emplace_back(at, kModes[random.Below(3)]);
    if (random.Chance(0.3)) {
      settings.emplace_back(at, OperatorCore::kCheckpoint);
    }
  }
  return settings;
}

bool DrawRebalances(uint64_t seed) {
  return RandomStream(StableHash("rebalances", seed)).Chance(0.6);
}

double DrawBusy(uint64_t seed, uint32_t place) {
  return RandomStream(StableHash(absl::StrCat("busy ", place), seed)).Uniform();
}

std::vector<ScaleOperator::Step> DrawScales(uint64_t seed, uint32_t tasks) {
  RandomStream random(StableHash("scales", seed));
  std::vector<ScaleOperator::Step> steps;
  absl::Duration at = absl::Seconds(1);
  uint32_t now = tasks;
  for (uint64_t i = 2 + random.Below(3); i > 0; --i) {
    // Half of them while the last one is under way.
    at += absl::Milliseconds(random.Chance(0.5) ? random.Below(2000)
                                                : 3000 + random.Below(15000));
    now = now == tasks ? 2 : tasks;
    steps.emplace_back(at, now);
  }
  return steps;
}

}  // namespace paramd
