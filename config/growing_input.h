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

// A topic that is trained on grows without input.follow: its messages are then
// looked for each minute. A message has no header. REQUIRES: defaults are not
// filled in.
void FollowTopic(v1::InputConfig* input);

// Tells `add` what does not go with input.follow or a topic of Kafka, each
// setting by its path.
// REQUIRES: defaults are filled in.
void CheckGrowingInput(
    const v1::JobConfig& job,
    const std::function<void(const std::string& path,
                             absl::string_view sentence)>& add);

}  // namespace paramd

#endif  // PARAMD_CONFIG_GROWING_INPUT_H_
