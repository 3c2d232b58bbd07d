#ifndef PARAMD_CONFIG_TF_CONFIG_H_
#define PARAMD_CONFIG_TF_CONFIG_H_

#include "absl/strings/string_view.h"

#include "config/cluster_description.h"
#include "config/mistakes.h"

namespace paramd {

// What is taken from a variable; the rest is given by flags and may be wrong.
struct WantedOfCluster {
  bool cluster = true;
  bool task_type = true;
  bool task_index = true;
};

// Reads the JSON of TF_CONFIG, or of Vertex AI's CLUSTER_SPEC, in every shape
// that its producers write: lists and objects from index to address,
// `sparseCluster`, pools by name ("workerpool0") and as a list
// ("worker_pools"), which are called chief, worker, ps and evaluator here.
// Indices are numbers or strings of digits. Unknown keys beside `cluster` are
// ignored; without one they are mistakes, since a misspelt `cluster` must not
// quietly become a job of one process.
//
// `variable` is its name, for sentences. What is wrong is added to `mistakes`,
// all of it at once, and left out.
ClusterDescription DescribeTfConfig(absl::string_view variable,
                                    absl::string_view text,
                                    const WantedOfCluster& wanted,
                                    Mistakes* mistakes);

// Reads the value of a flag, or of its variable, named `source`: either the
// JSON object that could stand under `cluster`, or jobs between blanks or ';',
// their addresses between commas, with ranges:
// "ps=ps-{0..3}.train:7077 worker=worker-{0..7}.train:7077".
ClusterDescription DescribeClusterFlag(absl::string_view source,
                                       absl::string_view text,
                                       Mistakes* mistakes);

}  // namespace paramd

#endif  // PARAMD_CONFIG_TF_CONFIG_H_
