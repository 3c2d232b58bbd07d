#ifndef PARAMD_CONFIG_OPTIMIZER_CHECK_H_
#define PARAMD_CONFIG_OPTIMIZER_CHECK_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

#include "proto/paramd/v1/optimizer.pb.h"

namespace paramd {

// Takes a sentence about the setting at a path, "optimizer.groups[0].beta1".
using AddMistake =
    std::function<void(const std::string& path, absl::string_view sentence)>;

// Adds what settings of the optimizer, each right by itself, say wrongly
// together.
void CheckOptimizer(const v1::OptimizerConfig& config, const AddMistake& add);

}  // namespace paramd

#endif  // PARAMD_CONFIG_OPTIMIZER_CHECK_H_
