#include "input/test_input.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"

#include "input/describe_meaning.h"

namespace paramd {
namespace {

using Names = google::protobuf::RepeatedPtrField<std::string>;

bool IsAmong(absl::Span<const std::string> names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <typename Some, typename List>
bool AllAreAmong(const List& names, const Some& some) {
  const absl::flat_hash_set<absl::string_view> known(names.begin(),
                                                     names.end());
  return std::all_of(some.begin(), some.end(), [&](const std::string& name) {
    return known.contains(name);
  });
}

void Set(const std::vector<std::string>& names, Names* out) {
  out->Clear();
  for (const std::string& name : names) *out->Add() = name;
}

// `one` is a csv, or one of its features. What is said of each column by its
// place keeps them in theirs.
template <typename Columns>
void ReadColumnsByName(const std::vector<std::string>& training, Columns* one) {
  if (one->missing_size() > 1) return;
  Names* const columns = one->mutable_columns();
  if (columns->empty() ||
      (AllAreAmong(training, *columns) && AllAreAmong(*columns, training))) {
    Set(training, columns);
  }
}

template <typename List>
void EraseNamed(absl::Span<const std::string> names, List* list) {
  list->erase(std::remove_if(
                  list->begin(), list->end(),
                  [&](const auto& one) { return IsAmong(names, one.name()); }),
              list->end());
}

using Sources = google::protobuf::RepeatedPtrField<v1::InputSource>;
using Stages = google::protobuf::RepeatedPtrField<v1::InputStage>;

// Those that it puts together.
std::vector<Sources*> SourcesIn(v1::InputSource* source) {
  if (source->has_sample_from()) {
    return {source->mutable_sample_from()->mutable_sources()};
  }
  if (source->has_zip()) return {source->mutable_zip()->mutable_sources()};
  return {};
}

void KeepFiltered(const Stages& stages, std::vector<std::string>* left_out) {
  for (const v1::InputStage& stage : stages) {
    if (!stage.has_filter() || !IsOn(stage, /*training=*/false)) continue;
    left_out->erase(std::remove(left_out->begin(), left_out->end(),
                                stage.filter().feature()),
                    left_out->end());
  }
}

void KeepFilteredIn(v1::InputSource source,
                    std::vector<std::string>* left_out) {
  KeepFiltered(source.stages(), left_out);
  for (const Sources* const sources : SourcesIn(&source)) {
    for (const v1::InputSource& one : *sources) KeepFilteredIn(one, left_out);
  }
}

// They keep their places, which what is drawn in others depends on.
void LeaveToTraining(absl::Span<const std::string> names, Stages* stages) {
  for (v1::InputStage& stage : *stages) {
    if (!stage.has_filter() && IsAmong(names, FeatureOf(stage))) {
      stage.set_on(v1::InputStage::ON_TRAINING);
    }
  }
}

}  // namespace

v1::InputSource ReadByName(v1::InputSource test, const SourceNames& training) {
  if (test.has_sample_from()) {
    for (auto& source : *test.mutable_sample_from()->mutable_sources()) {
      source = ReadByName(std::move(source), training);
    }
  }
  if (test.has_zip()) {
    auto* const sources = test.mutable_zip()->mutable_sources();
    for (size_t i = 0; i < training.parts.size(); ++i) {
      const int p = static_cast<int>(i);
      if (p == sources->size()) break;
      *sources->Mutable(p) =
          ReadByName(std::move(*sources->Mutable(p)), training.parts[i]);
    }
  }
  if (!test.has_csv()) return test;
  v1::InputSource::Csv* const csv = test.mutable_csv();
  // As many features as the job names, or the one of csv itself.
  const size_t features = static_cast<size_t>(csv->features_size());
  if (features == 0 && training.columns.size() == 1) {
    ReadColumnsByName(training.columns[0], csv);
  }
  for (size_t f = 0; f < std::min(features, training.columns.size()); ++f) {
    ReadColumnsByName(training.columns[f],
                      csv->mutable_features(static_cast<int>(f)));
  }
  const Names& classes = csv->class_names();
  if (!classes.empty() && AllAreAmong(training.classes, classes)) {
    Set(training.classes, csv->mutable_class_names());
  }
  return test;
}

std::vector<std::string> LeftOut(const v1::InputConfig& config,
                                 absl::Span<const std::string> unread) {
  std::vector<std::string> left_out(unread.begin(), unread.end());
  KeepFiltered(config.stages(), &left_out);
  KeepFilteredIn(config.has_test() ? config.test() : config.train(), &left_out);
  return left_out;
}

v1::InputSource WithoutFeatures(v1::InputSource source,
                                absl::Span<const std::string> names) {
  if (source.has_csv()) {
    v1::InputSource::Csv* const csv = source.mutable_csv();
    if (IsAmong(names, "label")) {
      csv->clear_label();
      csv->clear_classes();
      csv->clear_class_names();
    }
    if (IsAmong(names, "group")) csv->clear_group();
    if (IsAmong(names, "weight")) csv->clear_weight();
    auto* const labels = csv->mutable_labels();
    labels->erase(std::remove_if(labels->begin(), labels->end(),
                                 [&](const v1::InputSource::Csv::Label& label) {
                                   return IsAmong(names, label.name().empty()
                                                             ? label.column()
                                                             : label.name());
                                 }),
                  labels->end());
    EraseNamed(names, csv->mutable_features());
  }
  if (source.has_npy()) {
    EraseNamed(names, source.mutable_npy()->mutable_arrays());
  }
  if (source.has_tfrecord()) {
    EraseNamed(names, source.mutable_tfrecord()->mutable_features());
  }
  for (Sources* const sources : SourcesIn(&source)) {
    for (v1::InputSource& one : *sources) {
      one = WithoutFeatures(std::move(one), names);
      LeaveToTraining(names, one.mutable_stages());
    }
  }
  return source;
}

v1::InputConfig WithoutStagesOf(v1::InputConfig config,
                                absl::Span<const std::string> names) {
  LeaveToTraining(names, config.mutable_stages());
  return config;
}

}  // namespace paramd
