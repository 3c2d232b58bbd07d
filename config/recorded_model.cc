#include "config/recorded_model.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "config/cluster_agreement.h"
#include "config/json_value.h"
#include "config/mistakes.h"
#include "config/setting_changes.h"
#include "config/setting_reader.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {
namespace {

using Kind = JsonValue::Kind;

// The member of that name, a new one of that kind if there is none. Null: there
// is one of another kind.
JsonValue* MemberOf(JsonValue* object, absl::string_view name, Kind kind) {
  std::vector<JsonMember>& members = object->members;
  const auto found = std::find_if(
      members.begin(), members.end(),
      [&](const JsonMember& member) { return member.name == name; });
  if (found != members.end()) {
    return found->value.kind == kind ? &found->value : nullptr;
  }
  members.push_back({std::string(name), JsonValue()});
  members.back().value.kind = kind;
  return &members.back().value;
}

// What `step`, "layers[2]" or "dense", leads to in an object. Null if that
// can't be: elements of a list come in order.
JsonValue* Enter(JsonValue* object, absl::string_view step) {
  const size_t open = step.find('[');
  if (open == absl::string_view::npos) {
    return MemberOf(object, step, Kind::kObject);
  }
  JsonValue* const list = MemberOf(object, step.substr(0, open), Kind::kArray);
  size_t index = 0;
  if (list == nullptr || !absl::EndsWith(step, "]") ||
      !absl::SimpleAtoi(step.substr(open + 1, step.size() - open - 2),
                        &index) ||
      index > list->elements.size()) {
    return nullptr;
  }
  if (index == list->elements.size()) {
    list->elements.emplace_back().kind = Kind::kObject;
  }
  return &list->elements[index];
}

// Adds "a.b[1].c=7". False if the line is no setting.
bool AddSetting(absl::string_view line, JsonValue* root) {
  const size_t equals = line.find('=');
  if (equals == absl::string_view::npos) return false;
  Mistakes mistakes;
  absl::optional<JsonValue> value =
      ParseJson(line.substr(equals + 1), {"", false}, {}, &mistakes);
  const std::vector<absl::string_view> steps =
      absl::StrSplit(line.substr(0, equals), '.');
  if (!value.has_value() || steps.size() > size_t{JsonLimits().most_depth}) {
    return false;
  }
  JsonValue* at = root;
  for (const absl::string_view step : steps) {
    at = Enter(at, step);
    if (at == nullptr || at->kind != Kind::kObject) return false;
  }
  *at = *std::move(value);
  return true;
}

using Layers = google::protobuf::RepeatedPtrField<v1::Layer>;
using Counts = std::map<std::string, int>;  // Of layers, by kind.

Layers ThatCompute(const Layers& layers, Counts* counts);

template <typename Branches>
void KeepThatCompute(Branches* branches, Counts* counts) {
  for (v1::Layer::Branch& branch : *branches) {
    *branch.mutable_layers() = ThatCompute(branch.layers(), counts);
  }
}

// Says what its variables are called, where it is left to its kind and number:
// "dense_2".
void SayName(v1::Layer* layer, Counts* counts) {
  const auto& reflection = *layer->GetReflection();
  const auto* const kind = reflection.GetOneofFieldDescriptor(
      *layer, v1::Layer::descriptor()->FindOneofByName("kind"));
  if (kind == nullptr) return;
  const int count = ++(*counts)[kind->name()];
  google::protobuf::Message* const inside =
      reflection.MutableMessage(layer, kind);
  const auto* const name = inside->GetDescriptor()->FindFieldByName("name");
  if (name == nullptr ||
      !inside->GetReflection()->GetString(*inside, name).empty()) {
    return;
  }
  inside->GetReflection()->SetString(inside, name,
                                     absl::StrCat(kind->name(), "_", count));
}

// 0 stands for the size.
void SayStride(v1::Layer::Pool* pool) {
  if (pool->stride() == 0) pool->set_stride(pool->size());
}

// Only what says how an output follows from inputs and variables.
void KeepMeaning(v1::Layer* layer, Counts* counts) {
  switch (layer->kind_case()) {
    case v1::Layer::kResidual: {
      v1::Layer::Residual* const residual = layer->mutable_residual();
      *residual->mutable_layers() = ThatCompute(residual->layers(), counts);
      *residual->mutable_shortcut() = ThatCompute(residual->shortcut(), counts);
      residual->clear_drop_rate();
      return;
    }
    case v1::Layer::kParallel:
      return KeepThatCompute(layer->mutable_parallel()->mutable_branches(),
                             counts);
    case v1::Layer::kMixture:
      return KeepThatCompute(layer->mutable_mixture()->mutable_experts(),
                             counts);
    case v1::Layer::kBatchNorm:
      return layer->mutable_batch_norm()->clear_momentum();
    case v1::Layer::kMaxPool:
      return SayStride(layer->mutable_max_pool());
    case v1::Layer::kAveragePool:
      return SayStride(layer->mutable_average_pool());
    case v1::Layer::kEmbedding: {
      v1::Layer::Embedding kept;  // The table's shape is its variable's.
      kept.set_name(layer->embedding().name());
      kept.set_padding(layer->embedding().padding());
      *layer->mutable_embedding() = std::move(kept);
      return;
    }
    default:
      return;
  }
}

void AddThatCompute(const Layers& layers, Counts* counts, Layers* kept) {
  for (const v1::Layer& layer : layers) {
    if (layer.has_flatten() || layer.has_dropout()) continue;
    if (layer.has_recompute()) {
      AddThatCompute(layer.recompute().layers(), counts, kept);
      continue;
    }
    v1::Layer* const one = kept->Add();
    *one = layer;
    SayName(one, counts);
    KeepMeaning(one, counts);
  }
}

Layers ThatCompute(const Layers& layers, Counts* counts) {
  Layers kept;
  AddThatCompute(layers, counts, &kept);
  return kept;
}

// What of a model says what it computes, "model.layers[1].dense.units=7".
std::vector<std::string> ComputingLines(const v1::ModelConfig& model) {
  v1::JobConfig job;
  Counts counts;
  v1::ModelConfig* const kept = job.mutable_model();
  *kept->mutable_layers() = ThatCompute(model.layers(), &counts);
  for (const v1::ModelConfig::Output& output : model.outputs()) {
    v1::ModelConfig::Output* const one = kept->add_outputs();
    one->set_name(output.name());
    *one->mutable_layers() = ThatCompute(output.layers(), &counts);
  }
  if (model.has_quantization_aware()) {
    kept->mutable_quantization_aware()->set_weight_bits(
        model.quantization_aware().weight_bits());
  }
  return RecordedSettings(job);
}

}  // namespace

absl::StatusOr<v1::ModelConfig> RecordedModel(
    const google::protobuf::RepeatedPtrField<std::string>& settings) {
  JsonValue root;
  root.kind = Kind::kObject;
  for (const std::string& line : settings) {
    if (!absl::StartsWith(line, "model.")) continue;
    if (!AddSetting(line, &root)) {
      return absl::InvalidArgumentError(
          absl::StrCat("its record has no setting in '", Excerpt(line), "'"));
    }
  }
  Origins origins;
  Mistakes mistakes;
  v1::JobConfig job;
  SettingReader reader(&origins, &mistakes);
  reader.ReadMessage(root, {"its record", false}, "", &job);
  if (!mistakes.empty()) return mistakes.ToStatus();
  // The rest of the job, which is missing, is no matter.
  Mistakes missing;
  SettingReader(&origins, &missing).FillDefaults(&job);
  if (missing.HasUnder("model")) {
    return absl::InvalidArgumentError("its record says no model");
  }
  return job.model();
}

std::string ModelDifference(const v1::ModelConfig& model,
                            const v1::ModelConfig& recorded) {
  // A program's model is not in its job.
  if (model.custom() || recorded.custom()) return "";
  const auto difference =
      FirstDifferentSetting(ComputingLines(model), ComputingLines(recorded));
  if (difference.has_value()) return ChangesText({*difference});
  // Without a name it is the first feature.
  if (model.input().empty() || recorded.input().empty() ||
      model.input() == recorded.input()) {
    return "";
  }
  return ChangesText({{"model.input", model.input(), recorded.input()}});
}

}  // namespace paramd
