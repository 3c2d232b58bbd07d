#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/crc32c.h"
#include "base/escape.h"
#include "base/print.h"
#include "base/status_macros.h"
#include "checkpoint/verify.h"
#include "cli/commands/chosen_model.h"
#include "cli/commands/command.h"
#include "cli/commands/labels.h"
#include "cli/commands/output_file.h"
#include "input/label_file.h"
#include "input/transform.h"
#include "process/exit_code.h"
#include "process/flags.h"
#include "process/terminal/dashboard.h"
#include "worker/evaluation.h"

namespace paramd {
namespace {

// As they were typed.
struct WantedLabels {
  ChosenModelFlags chosen;
  std::string to;
  std::string threshold = "0";
  int per_class = 0;
  int known = 0;
};

// What a model says of all examples.
struct Predictions {
  uint32_t classes = 0;
  std::vector<float> probabilities;  // Of one example after the other.
  std::vector<GivenLabel> labels;
};

absl::StatusOr<LabelChoice> ChoiceOf(const WantedLabels& wanted) {
  LabelChoice choice;
  if (!absl::SimpleAtod(wanted.threshold, &choice.threshold) ||
      !(choice.threshold >= 0 && choice.threshold <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--threshold is a number from 0 to 1, not '", wanted.threshold, "'"));
  }
  choice.per_class = static_cast<uint32_t>(wanted.per_class);
  choice.known = static_cast<uint32_t>(wanted.known);
  return choice;
}

absl::Status CheckWanted(const WantedLabels& wanted) {
  if (wanted.to.empty()) {
    return absl::InvalidArgumentError(
        "missing --to FILE, where the labels are written");
  }
  if (!wanted.chosen.shard.empty()) {
    return absl::InvalidArgumentError(
        "--shard is not for labels, which are of all examples; leave it out");
  }
  return CheckOutputFile("--to", wanted.to);
}

// Adds what was predicted of some examples.
absl::Status AddPredicted(const Batch& predicted, Predictions* all) {
  if (predicted.columns.size() != 1 ||
      predicted.columns[0].spec().dims.size() != 1) {
    return absl::InvalidArgumentError(
        "the model gives something else than one probability for each class, "
        "which labels are made of");
  }
  const Column& column = predicted.columns[0];
  const uint64_t classes = column.spec().size();
  all->classes = static_cast<uint32_t>(classes);
  const absl::Span<const float> values = column.values<float>();
  all->probabilities.insert(all->probabilities.end(), values.begin(),
                            values.end());
  for (uint64_t at = 0; at < values.size(); at += classes) {
    const float* const row = values.data() + at;
    const float* const largest = std::max_element(row, row + classes);
    all->labels.push_back({.example = static_cast<uint32_t>(all->labels.size()),
                           .label = static_cast<uint32_t>(largest - row),
                           .confidence = *largest});
  }
  return absl::OkStatus();
}

absl::StatusOr<Predictions> PredictAll(const ChosenModel& chosen) {
  Predictions all;
  const auto rows = chosen.rows();
  RETURN_IF_ERROR(PredictOn(
      *chosen.data, chosen.spans(), chosen.model.get(),
      {.threads = chosen.threads, .rows = rows},
      [&](const Batch& predicted) { return AddPredicted(predicted, &all); }));
  if (all.labels.size() == chosen.data->size()) return all;
  return absl::DataLossError(absl::StrCat(
      chosen.data->size() - all.labels.size(), " of ", chosen.data->size(),
      " examples could not be read; labels go by place, so all must be"));
}

// Puts the labels of the first examples, as the data have them, in place of
// what was predicted.
absl::Status TakeKnown(const Pipeline& data, const std::string& label,
                       uint64_t known, Predictions* all) {
  if (known == 0) return absl::OkStatus();
  if (known > data.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("known is ", known, ", and there are ", data.size(),
                     " examples; give at most so many"));
  }
  ASSIGN_OR_RETURN(const size_t feature,
                   FindFeature(data.examples().spec(), label));
  Example example;
  for (uint64_t i = 0; i < known; ++i) {
    RETURN_IF_ERROR(data.ReadExample(0, i, &example));
    const auto number = KnownClass(example.values[feature], all->classes);
    if (!number.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("example ", i, " ", number.status().message()));
    }
    const auto row =
        all->probabilities.begin() + static_cast<ptrdiff_t>(i * all->classes);
    std::fill_n(row, all->classes, 0.0f);
    row[static_cast<ptrdiff_t>(*number)] = 1;
    all->labels[i].label = *number;
    all->labels[i].confidence = 1;
  }
  return absl::OkStatus();
}

absl::Status CheckSome(const LabelChoice& choice, const Predictions& all,
                       const std::vector<GivenLabel>& chosen) {
  if (chosen.size() > choice.known) return absl::OkStatus();
  float surest = 0;
  for (const GivenLabel& one : all.labels) {
    if (one.example >= choice.known) surest = std::max(surest, one.confidence);
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "no example is labelled: the surest prediction is %.3g, and threshold is "
      "%g; lower it",
      surest, choice.threshold));
}

absl::Status WriteLabels(const std::string& to, LabelFileHeader header,
                         const Predictions& all,
                         const std::vector<GivenLabel>& chosen) {
  std::string records;
  for (const GivenLabel& one : chosen) {
    AppendLabelRecord(
        one.example, one.label,
        absl::MakeConstSpan(all.probabilities)
            .subspan(uint64_t{one.example} * all.classes, all.classes),
        &records);
  }
  header.records_crc32c = Crc32c(absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(records.data()), records.size()));
  return WriteOutputFile("--to", to,
                         absl::StrCat(EncodeLabelHeader(header), records));
}

std::string Summary(const WantedLabels& wanted, const LabelFileHeader& header,
                    const std::vector<GivenLabel>& chosen) {
  std::vector<uint64_t> of_class(header.classes);
  for (const GivenLabel& one : chosen) ++of_class[one.label];
  std::string text = absl::StrCat(
      EscapeLine(wanted.to), ": ", WithCommas(header.records), " labels of ",
      WithCommas(header.examples), " examples\n  of class");
  constexpr size_t kMostTold = 20;
  for (size_t c = 0; c < std::min(of_class.size(), kMostTold); ++c) {
    absl::StrAppend(&text, c == 0 ? " " : ", ", c, ": ",
                    WithCommas(of_class[c]));
  }
  if (of_class.size() > kMostTold) absl::StrAppend(&text, ", ...");
  return absl::StrCat(text, "\n  model: ", header.model, "\n");
}

absl::Status LabelAsWanted(const WantedLabels& wanted,
                           const ModelFactory& models) {
  ASSIGN_OR_RETURN(const LabelChoice choice, ChoiceOf(wanted));
  RETURN_IF_ERROR(CheckWanted(wanted));
  ASSIGN_OR_RETURN(const LoadedJob job, wanted.chosen.job.Load());
  const v1::ModelConfig& model = job.config.model();
  RETURN_IF_ERROR(CheckGivesLabels(model));
  ASSIGN_OR_RETURN(const ChosenModel chosen,
                   OpenChosenModel(wanted.chosen, models, ModelUse::kLabel));
  LabelFileHeader header;
  header.model = "live";
  // While the checkpoint is there: a run that goes on deletes old ones.
  if (!chosen.live) {
    ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(chosen.from));
    header.model = ModelKey(manifest);
    const v1::DataMeaning& trained = manifest.job().data().meaning();
    header.class_names = ClassNamesKey(trained, model.label());
    if (choice.known > 0) {
      RETURN_IF_ERROR(CheckKnownLabels(chosen.data->meaning(), trained,
                                       model.label(), chosen.from));
    }
  }
  ASSIGN_OR_RETURN(Predictions all, PredictAll(chosen));
  RETURN_IF_ERROR(TakeKnown(*chosen.data,
                            model.label().empty() ? "label" : model.label(),
                            choice.known, &all));
  const std::vector<GivenLabel> labels = ChooseLabels(choice, all.labels);
  RETURN_IF_ERROR(CheckSome(choice, all, labels));
  header.examples = all.labels.size();
  header.records = labels.size();
  header.classes = all.classes;
  header.data = LabelledDataKey(chosen.data->source().DescribeToLabel(),
                                chosen.data->examples());
  RETURN_IF_ERROR(WriteLabels(wanted.to, header, all, labels));
  Print(Summary(wanted, header, labels));
  return absl::OkStatus();
}

}  // namespace

int LabelCommand(const Invocation& invocation) {
  WantedLabels wanted;
  Flags flags(
      "label",
      "--job FILE (--checkpoint PATH|--live ADDRESS) --to FILE [flags]",
      "Writes what the model with a checkpoint's weights, or those that "
      "servers hold now,\nsays of the job's training set, for the stage "
      "'relabel' of the input of another\ntraining: of each example the class "
      "and the probabilities.");
  flags.AddText("to", "FILE", "where it is written", &wanted.to);
  flags.AddText("threshold", "P",
                "leave out examples whose likeliest class has a probability "
                "below this",
                &wanted.threshold);
  flags.AddCount("per_class",
                 "so many examples of each class, the most probable ones, or "
                 "all in turn; 0: as many as there are",
                 {0, 1000000000}, &wanted.per_class);
  flags.AddCount("known",
                 "so many of the first examples keep the labels that they have",
                 {0, 1000000000}, &wanted.known);
  wanted.chosen.AddTo(&flags);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  const absl::Status status = LabelAsWanted(wanted, invocation.models);
  PrintError(status);
  return status.ok() ? kExitFinished : ExitCodeAtStart(status);
}

}  // namespace paramd
