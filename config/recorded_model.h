#ifndef PARAMD_CONFIG_RECORDED_MODEL_H_
#define PARAMD_CONFIG_RECORDED_MODEL_H_

#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_ptr_field.h"

#include "proto/paramd/v1/model.pb.h"

namespace paramd {

// The model among the settings that a run was recorded with (RecordedSettings),
// with defaults for what they lack. INVALID_ARGUMENT, a sentence, if they are
// not those of a model that this version knows.
absl::StatusOr<v1::ModelConfig> RecordedModel(
    const google::protobuf::RepeatedPtrField<std::string>& settings);

// In what a model computes something else than the one that was recorded, from
// variables of the same names and shapes: "model.layers[1].gelu is {}, was not
// there". Empty: in nothing. Layers are counted without those that change no
// prediction, flatten, dropout and recompute. Losses and metrics do not count,
// which say how outputs are measured, nor does what training alone does.
std::string ModelDifference(const v1::ModelConfig& model,
                            const v1::ModelConfig& recorded);

}  // namespace paramd

#endif  // PARAMD_CONFIG_RECORDED_MODEL_H_
