#ifndef PARAMD_CLI_COMMANDS_LABELS_H_
#define PARAMD_CLI_COMMANDS_LABELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "input/example.h"
#include "proto/paramd/v1/model.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// Which of the labels that a model gives are kept.
struct LabelChoice {
  double threshold = 0;    // The least confidence.
  uint32_t per_class = 0;  // 0: as many as there are.
  uint32_t known = 0;      // The first examples, of which all are kept.
};

// What a model says of an example.
struct GivenLabel {
  uint32_t example = 0;  // Its place.
  uint32_t label = 0;
  float confidence = 0;  // The probability of the label.
};

// Of the labels, in the order of examples: the known ones and those with the
// least confidence or more. With `per_class`, of each class so many of these
// others: the most confident, of equal ones the first; of a class with fewer
// all of them, in turn until there are so many, the most confident first; none
// of a class without any. Ordered by example, equal ones next to each other.
std::vector<GivenLabel> ChooseLabels(const LabelChoice& choice,
                                     absl::Span<const GivenLabel> labels);

// INVALID_ARGUMENT if a model's predictions are not the probabilities of
// classes that a label is made of.
absl::Status CheckGivesLabels(const v1::ModelConfig& model);

// The class that an example has: one number, or a vector of one for each class.
// INVALID_ARGUMENT, "has the label -1; ...", if it is none of so many.
absl::StatusOr<uint32_t> KnownClass(const OwnedTensor& label, uint32_t classes);

// INVALID_ARGUMENT, naming what differs, if known labels, of data that mean
// `ours`, stand in another column than those that the checkpoint at `path` was
// trained on, which meant `trained`, or name the classes otherwise: a class
// would have two numbers. `label`: that of the model, "" stands for "label".
absl::Status CheckKnownLabels(const v1::DataMeaning& ours,
                              const v1::DataMeaning& trained,
                              absl::string_view label, const std::string& path);

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_LABELS_H_
