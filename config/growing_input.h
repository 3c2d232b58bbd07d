#ifndef PARAMD_CONFIG_GROWING_INPUT_H_
#define PARAMD_CONFIG_GROWING_INPUT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"

#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// The epochs of a job whose training set grows, if it does not say how many: as
// many as a job may have.
inline constexpr uint32_t kMostEpochs = 1000000;

// Tells `add` what does not go with input.follow, each setting by its path.
// REQUIRES: defaults are filled in.
void CheckGrowingInput(
    const v1::JobConfig& job,
    const std::function<void(const std::string& path,
                             absl::string_view sentence)>& add);

}  // namespace paramd

#endif  // PARAMD_CONFIG_GROWING_INPUT_H_
