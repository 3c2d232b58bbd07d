#include "config/custom_model.h"

#include "absl/strings/str_cat.h"

#include "config/strategy.h"
#include "proto/paramd/v1/model.pb.h"

namespace paramd {

void CheckCustomModel(
    const v1::JobConfig& config,
    const std::function<void(const std::string& path,
                             absl::string_view sentence)>& add) {
  const v1::ModelConfig& model = config.model();
  if (!model.custom()) return;
  const struct {
    bool is_set;
    const char* path;
    const char* what;
  } of_files[] = {
      {config.compute_format() > v1::JobConfig::COMPUTE_FORMAT_FP32,
       "compute_format", "what it computes in"},
      {model.kernel_initializer() > v1::ModelConfig::GLOROT_UNIFORM,
       "model.kernel_initializer", "what its weights begin with"},
      {IsPipelined(config), "pipeline", "how it computes"},
      {config.memory().activation_budget_bytes() > 0,
       "memory.activation_budget_bytes", "what it keeps"},
      {!model.slices().empty(), "model.slices", "what it evaluates"},
      {!model.outputs().empty(), "model.outputs", "what it learns"},
      {config.has_distill(), "distill", "what it learns from"},
      {model.has_quantization_aware(), "model.quantization_aware",
       "what it rounds"},
  };
  for (const auto& setting : of_files) {
    if (!setting.is_set) continue;
    add(setting.path,
        absl::StrCat("is for a model in the job file; with model.custom the "
                     "program decides ",
                     setting.what, ", so leave it out"));
  }
}

}  // namespace paramd
