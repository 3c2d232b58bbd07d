#include "cli/commands/labels.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "input/transform.h"
#include "proto/data_meaning.h"

namespace paramd {
namespace {

bool IsEarlier(const GivenLabel& one, const GivenLabel& other) {
  return one.example < other.example;
}

bool IsSurer(const GivenLabel& one, const GivenLabel& other) {
  return one.confidence > other.confidence;
}

// Whether it says which number a class has; what stages make of it and how many
// there may be is no matter.
bool NumbersClasses(const v1::DataMeaning::Fact& fact) {
  const std::string& name = fact.name();
  return absl::EndsWith(name, "csv.label") ||
         absl::StrContains(name, "csv.labels.column") ||
         absl::StrContains(name, "class_names") ||
         absl::StrContains(name, "image_folders with the folders");
}

}  // namespace

std::vector<GivenLabel> ChooseLabels(const LabelChoice& choice,
                                     absl::Span<const GivenLabel> labels) {
  std::vector<GivenLabel> chosen;
  std::map<uint32_t, std::vector<GivenLabel>> by_class;
  for (const GivenLabel& one : labels) {
    const bool is_known = one.example < choice.known;
    // One that is not a number is not sure.
    if (!is_known && !(one.confidence >= choice.threshold)) continue;
    if (is_known || choice.per_class == 0) {
      chosen.push_back(one);
    } else {
      by_class[one.label].push_back(one);
    }
  }
  for (auto& [label, of_class] : by_class) {
    std::stable_sort(of_class.begin(), of_class.end(), IsSurer);
    for (uint32_t i = 0; i < choice.per_class; ++i) {
      chosen.push_back(of_class[i % of_class.size()]);
    }
  }
  std::stable_sort(chosen.begin(), chosen.end(), IsEarlier);
  return chosen;
}

absl::Status CheckGivesLabels(const v1::ModelConfig& model) {
  const bool gives = !model.custom() && model.outputs().empty() &&
                     (model.loss() == v1::SOFTMAX_CROSS_ENTROPY ||
                      model.loss() == v1::KL_DIVERGENCE);
  if (gives) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "labels are given by a model of the job file whose one loss is "
      "softmax_cross_entropy or kl_divergence, over classes");
}

absl::StatusOr<uint32_t> KnownClass(const OwnedTensor& label,
                                    uint32_t classes) {
  uint64_t largest = 0;
  for (uint64_t i = 1; i < label.size(); ++i) {
    if (NumberAt(label, i) > NumberAt(label, largest)) largest = i;
  }
  const double number =
      label.size() == 1 ? NumberAt(label, 0) : static_cast<double>(largest);
  if (number >= 0 && number < classes) return static_cast<uint32_t>(number);
  // Who has none may have -1.
  return absl::InvalidArgumentError(
      absl::StrCat("has the label ", number, "; the model has ", classes,
                   " classes: give a smaller known"));
}

absl::Status CheckKnownLabels(const v1::DataMeaning& ours,
                              const v1::DataMeaning& trained,
                              absl::string_view label,
                              const std::string& path) {
  v1::DataMeaning of_label;
  // Of another kind of source nobody knows.
  of_label.set_source(trained.source());
  for (const v1::DataMeaning::Fact& fact : ours.facts()) {
    if (fact.feature() != (label.empty() ? "label" : label)) continue;
    if (NumbersClasses(fact)) *of_label.add_facts() = fact;
  }
  const std::string difference = MeaningDifference(of_label, trained);
  if (difference.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the known labels are not those that checkpoint '", path,
                   "' was trained on: they have ", difference,
                   "; read them as it did, or leave known out"));
}

}  // namespace paramd
