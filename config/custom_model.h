#ifndef PARAMD_CONFIG_CUSTOM_MODEL_H_
#define PARAMD_CONFIG_CUSTOM_MODEL_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// Adds each setting that is for a model in the job file, where the program
// brings the model (model.custom).
void CheckCustomModel(
    const v1::JobConfig& config,
    const std::function<void(const std::string& path,
                             absl::string_view sentence)>& add);

}  // namespace paramd

#endif  // PARAMD_CONFIG_CUSTOM_MODEL_H_
