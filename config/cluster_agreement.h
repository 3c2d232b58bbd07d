#ifndef PARAMD_CONFIG_CLUSTER_AGREEMENT_H_
#define PARAMD_CONFIG_CLUSTER_AGREEMENT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "config/cluster_spec.h"

namespace paramd {

// What two processes of one cluster must be told alike. Each may know less
// than the other, and its own address may be written otherwise for itself
// ("localhost"), so only what both name is compared: the addresses of the ps in
// their order, the number of ps, the chief's address, the stages and of how
// many workers they are, and of workers without ps how many they are. Never a
// worker's address, nor evaluators, nor the process's own entry. Of the job's
// settings, which each process knows in full, all that are job-wide.

// One "name=value" per entry: "ps=2", "ps[0]=a:1", "chief=c:1", "number of
// workers=3". Empty if standalone. `chief_moves`: the chief is elected, so each
// may name another of the candidates, and no chief is said.
std::vector<std::string> EntriesToAgree(const ClusterSpec& cluster,
                                        bool chief_moves = false);

// An entry, or a setting, on which two processes differ.
struct Difference {
  std::string name;  // "ps[1]", "optimizer.learning_rate"
  std::string ours;
  std::string theirs;
};

// The first entry of which both speak and differ, in the order of `ours`;
// nullopt if there is none. An entry without '=' is left out: the peer may be
// anybody.
absl::optional<Difference> FirstDifference(
    const std::vector<std::string>& ours,
    const std::vector<std::string>& theirs);

// The same of the lines of two job_wide_texts, where a setting that only one of
// the two has differs as well: the other's value is empty then.
absl::optional<Difference> FirstDifferentSetting(
    const std::vector<std::string>& ours,
    const std::vector<std::string>& theirs);

}  // namespace paramd

#endif  // PARAMD_CONFIG_CLUSTER_AGREEMENT_H_
