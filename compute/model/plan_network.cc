#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "compute/model/layer_builder.h"
#include "compute/model/network_plan.h"
#include "compute/model/quantization_aware.h"
#include "compute/model/slices.h"

namespace paramd {
namespace {

using Layers = google::protobuf::RepeatedPtrField<v1::Layer>;

void AddNamed(
    const google::protobuf::RepeatedPtrField<v1::Layer::Branch>& branches,
    std::vector<std::string>* names);

// Each once, in order.
void AddNamed(const Layers& layers, std::vector<std::string>* names) {
  for (const v1::Layer& layer : layers) {
    AddNamed(layer.residual().layers(), names);
    AddNamed(layer.residual().shortcut(), names);
    AddNamed(layer.recompute().layers(), names);
    AddNamed(layer.parallel().branches(), names);
    AddNamed(layer.mixture().experts(), names);
  }
}

void AddNamed(
    const google::protobuf::RepeatedPtrField<v1::Layer::Branch>& branches,
    std::vector<std::string>* names) {
  for (const v1::Layer::Branch& branch : branches) {
    if (!branch.input().empty() && std::find(names->begin(), names->end(),
                                             branch.input()) == names->end()) {
      names->push_back(branch.input());
    }
    AddNamed(branch.layers(), names);
  }
}

// What layers name, each once, in order.
void AddNamed(const v1::ModelConfig& config, std::vector<std::string>* names) {
  AddNamed(config.layers(), names);
  for (const v1::ModelConfig::Output& output : config.outputs()) {
    AddNamed(output.layers(), names);
  }
}

// Whether a loss, a metric or a slice reads it.
bool IsMeasured(const NetworkPlan& plan, const std::string& feature) {
  const std::vector<std::string> measured = plan.Measured();
  return std::find(measured.begin(), measured.end(), feature) !=
             measured.end() ||
         std::any_of(
             plan.slices.begin(), plan.slices.end(),
             [&](const FeatureSpec& slice) { return slice.name == feature; });
}

// What the first layer reads.
absl::StatusOr<std::string> FirstOf(const v1::ModelConfig& config,
                                    const InputSpec& input,
                                    const NetworkPlan& plan) {
  if (!config.input().empty()) return config.input();
  const FeatureSpec* found = nullptr;
  for (const FeatureSpec& feature : input.features) {
    if (IsMeasured(plan, feature.name)) continue;
    if (found != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the model reads one feature; the input has ", NamesOf(input),
          ": name one of them by \"input\", or one in each branch"));
    }
    found = &feature;
  }
  if (found != nullptr) return found->name;
  return absl::InvalidArgumentError(absl::StrCat(
      "the input has no feature but '", plan.tasks.front().label.name,
      "' that the model could read"));
}

// How the model may read a feature of one number other than by a layer.
absl::string_view ByName(const FeatureSpec& feature) {
  if (feature.ragged || feature.size() != 1) return "";
  if (feature.dtype == DType::kFloat32) {
    return "by \"example_weight\" if it is one, ";
  }
  if (feature.dtype == DType::kInt64) {
    return "give the model a metric of groups if it is one, ";
  }
  return feature.classes > 0 ? "by \"slices\", " : "";
}

// Where branches choose features, none is left over by mistake.
absl::Status CheckAllAreRead(const NetworkPlan& plan,
                             const LayerBuilder& builder,
                             const InputSpec& input) {
  const auto is_read = [&](const std::string& name) {
    for (size_t i = 0; i < plan.inputs.size(); ++i) {
      if (plan.inputs[i].feature.name == name) return builder.IsRead(i);
    }
    return IsMeasured(plan, name);
  };
  for (const FeatureSpec& feature : input.features) {
    if (is_read(feature.name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("no layer reads the feature '", feature.name,
                     "': name it as the \"input\" of a branch, ",
                     ByName(feature), "or leave it out of the input"));
  }
  return absl::OkStatus();
}

absl::Status CheckInput(const FeatureSpec& input) {
  if (input.ragged) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the model reads the feature '", input.name,
        "', whose examples have any number of elements; it needs them all of "
        "one length"));
  }
  const bool integers = input.dtype == DType::kInt32 && input.classes > 0;
  const bool keys = input.dtype == DType::kInt64;
  if (input.dtype != DType::kFloat32 && !integers && !keys) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the model reads the feature '", input.name, "' of ",
        NameOf(input.dtype),
        "; it needs float32, int32 below a number that the input states, or "
        "int64 for an embedding with a capacity"));
  }
  if (std::count(input.dims.begin(), input.dims.end(), 0u) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model reads the feature '", input.name,
                     "', which has another length in each batch; it needs one: "
                     "give padded_batch a length, or use pad"));
  }
  uint64_t size = 1;
  for (const uint64_t dimension : input.dims) {
    // BLAS counts in 32 bits.
    if (dimension == 0 ||
        size > std::numeric_limits<int32_t>::max() / dimension) {
      return absl::InvalidArgumentError(absl::StrCat(
          "examples of ", DimsText(input.dims), " values can't be trained on"));
    }
    size *= dimension;
  }
  return absl::OkStatus();
}

// Layers of one name share their variables.
absl::Status ShareVariables(NetworkPlan* plan) {
  plan->variables.clear();
  plan->shared.clear();
  absl::flat_hash_map<std::string, size_t> known;
  for (const v1::Variable& variable : plan->layers->variables()) {
    const auto [found, added] =
        known.emplace(variable.name(), plan->variables.size());
    plan->shared.push_back(found->second);
    if (added) {
      plan->variables.push_back(variable);
      continue;
    }
    const v1::Variable& first = plan->variables[found->second];
    const absl::string_view differs =
        first.sparse() != variable.sparse()               ? "value of sparse"
        : first.keyed() != variable.keyed()               ? "capacity"
        : first.when_full() != variable.when_full()       ? "when_full"
        : first.admit_after() != variable.admit_after()   ? "admit_after"
        : first.expire_after() != variable.expire_after() ? "expire_after"
        : first.memory_rows() != variable.memory_rows()   ? "memory_rows"
        : first.row_format() != variable.row_format()     ? "row_format"
                                                          : "";
    if (!differs.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the shared variable '", variable.name(), "' has one ",
                       differs, " in one layer and another in another"));
    }
    if (std::equal(first.shape().begin(), first.shape().end(),
                   variable.shape().begin(), variable.shape().end())) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("the shared variable '", variable.name(), "' is ",
                     absl::StrJoin(first.shape(), "x"), " in one layer and ",
                     absl::StrJoin(variable.shape(), "x"), " in another"));
  }
  return absl::OkStatus();
}

// What a table is asked for, each once.
std::set<std::tuple<size_t, uint64_t, uint64_t, bool>> AskedOf(
    const NetworkPlan& plan, size_t table) {
  std::set<std::tuple<size_t, uint64_t, uint64_t, bool>> asked;
  for (const NetworkPlan::Lookup& one : plan.lookups) {
    if (one.table != table) continue;
    asked.emplace(one.input, one.first, one.count, one.padding);
  }
  return asked;
}

// Whether two lookups give the layers the same integers: places among the rows
// that are handed in, of tables of which the same rows are.
bool AreTheSame(const NetworkPlan& plan, const NetworkPlan::Lookup& a,
                const NetworkPlan::Lookup& b) {
  if (!a.IsOfSame(b)) return false;
  const bool sparse = plan.variables[a.table].sparse();
  if (sparse != plan.variables[b.table].sparse()) return false;
  return !sparse || a.table == b.table ||
         AskedOf(plan, a.table) == AskedOf(plan, b.table);
}

void PlanLookups(const std::vector<LayerBuilder::Lookup>& lookups,
                 NetworkPlan* plan) {
  size_t sparse = 0;
  for (const v1::Variable& variable : plan->variables) {
    plan->sparse_before.push_back(sparse);
    if (variable.sparse()) ++sparse;
  }
  for (const LayerBuilder::Lookup& one : lookups) {
    const auto table = std::find_if(
        plan->variables.begin(), plan->variables.end(),
        [&](const v1::Variable& v) { return v.name() == one.table; });
    plan->lookups.push_back(
        {.input = one.input,
         .first = one.first,
         .count = one.count,
         .padding = one.padding,
         .table = static_cast<size_t>(table - plan->variables.begin())});
  }
  for (const NetworkPlan::Lookup& one : plan->lookups) {
    uint64_t& looked_up = plan->inputs[one.input].looked_up;
    uint64_t start = looked_up;
    for (size_t i = 0; i < plan->starts.size(); ++i) {
      if (AreTheSame(*plan, one, plan->lookups[i])) start = plan->starts[i];
    }
    if (start == looked_up) looked_up += one.count;
    plan->starts.push_back(start);
  }
}

// Embeddings may have more rows than the training data have integers: for what
// comes later.
uint64_t IntegersBelow(const NetworkPlan& plan, size_t input) {
  const uint64_t stated = plan.inputs[input].bound;
  uint64_t bound = 0;
  for (const NetworkPlan::Lookup& one : plan.lookups) {
    if (one.input != input) continue;
    const uint64_t rows = plan.variables[one.table].shape(0);
    bound = bound == 0 ? rows : std::min(bound, rows);
  }
  return std::max(bound, stated);
}

absl::Status AddInput(const std::string& name, const InputSpec& input,
                      NetworkPlan* plan) {
  const FeatureSpec* const found = input.Find(name);
  if (found == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model reads the feature '", name, "'; the input has ",
                     NamesOf(input)));
  }
  RETURN_IF_ERROR(CheckInput(*found));
  plan->inputs.push_back(
      {.feature = *found,
       .bound = found->dtype == DType::kInt32 ? found->classes : 0});
  return absl::OkStatus();
}

// Fills `inputs`, of which branches name these. `*first` becomes why the first
// layer reads none of them, where branches may be all that read one.
absl::Status ChooseInputs(const v1::ModelConfig& config, const InputSpec& input,
                          std::vector<std::string> names, NetworkPlan* plan,
                          absl::Status* first) {
  const auto first_name = FirstOf(config, input, *plan);
  *first = first_name.status();
  if (names.empty()) RETURN_IF_ERROR(*first);
  if (first_name.ok()) {
    names.erase(std::remove(names.begin(), names.end(), *first_name),
                names.end());
    names.insert(names.begin(), *first_name);
  }
  for (const std::string& name : names) {
    RETURN_IF_ERROR(AddInput(name, input, plan));
  }
  return absl::OkStatus();
}

// A branch that reads a label would have the model copy it. The item of a
// retrieval is read and told from others; an autoencoder says so by "input".
absl::Status CheckBranches(const v1::ModelConfig& config,
                           const std::vector<std::string>& named,
                           const NetworkPlan& plan) {
  if (config.loss() == v1::IN_BATCH_SOFTMAX) return absl::OkStatus();
  for (const Task& task : plan.tasks) {
    const std::string& label = task.label.name;
    if (label == config.input() ||
        std::find(named.begin(), named.end(), label) == named.end()) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "a branch reads the feature '", label, "', which is the label",
        task.name.empty() ? ""
                          : absl::StrCat(" of the output '", task.name, "'"),
        ": the model would learn to copy it; name another feature as the "
        "branch's \"input\" or, of an autoencoder, this one as the model's, "
        "too"));
  }
  return absl::OkStatus();
}

using Outputs = google::protobuf::RepeatedPtrField<v1::ModelConfig::Output>;

// What an output's loss says, as a model that has it alone says it.
v1::ModelConfig LossConfigOf(const v1::ModelConfig& config,
                             const v1::ModelConfig::Output& output) {
  v1::ModelConfig alone;
  alone.set_loss(output.loss());
  alone.set_label(output.label());
  alone.set_label_smoothing(output.label_smoothing());
  *alone.mutable_class_weights() = output.class_weights();
  if (output.has_ignore_label()) alone.set_ignore_label(output.ignore_label());
  *alone.mutable_metrics() = output.metrics();
  alone.set_top_k(output.top_k());
  alone.set_group(output.group());
  alone.set_example_weight(output.example_weight().empty()
                               ? config.example_weight()
                               : output.example_weight());
  return alone;
}

// Of a named task, with its name.
absl::Status Of(const Task& task, const absl::Status& status) {
  if (status.ok() || task.name.empty()) return status;
  return absl::Status(status.code(), absl::StrCat("the output '", task.name,
                                                  "': ", status.message()));
}

// What each task's loss says. Adds the tasks.
absl::StatusOr<std::vector<v1::ModelConfig>> TasksOf(
    const v1::ModelConfig& config, NetworkPlan* plan) {
  std::vector<v1::ModelConfig> said;
  if (config.outputs().empty()) said.push_back(config);
  for (const v1::ModelConfig::Output& output : config.outputs()) {
    for (const Task& task : plan->tasks) {
      if (task.name != output.name()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "two outputs of the model are called '", output.name(), "'"));
    }
    Task& task = plan->tasks.emplace_back();
    task.name = output.name();
    if (output.has_weight()) task.factor = output.weight();
    if (output.label().empty()) {
      return Of(task, absl::InvalidArgumentError("it has no label"));
    }
    said.push_back(LossConfigOf(config, output));
  }
  if (config.outputs().empty()) plan->tasks.emplace_back();
  for (size_t t = 0; t < said.size(); ++t) {
    if (said[t].loss() == v1::IN_BATCH_SOFTMAX &&
        !plan->tasks[t].name.empty()) {
      return Of(plan->tasks[t],
                absl::InvalidArgumentError(
                    "the loss in_batch_softmax is of a model with one loss: "
                    "give it as the model's, without outputs"));
    }
    if (!LossName(said[t].loss()).empty()) continue;
    return plan->tasks[t].name.empty()
               ? absl::InvalidArgumentError("the model has no known loss")
               : Of(plan->tasks[t],
                    absl::InvalidArgumentError("it has no known loss"));
  }
  return said;
}

absl::Status PlanSlices(const v1::ModelConfig& config, const InputSpec& input,
                        NetworkPlan* plan) {
  if (!config.slices().empty() && config.loss() == v1::IN_BATCH_SOFTMAX) {
    return absl::InvalidArgumentError(
        "the loss in_batch_softmax compares an example with all of its batch, "
        "which a slice does not have; leave model.slices out");
  }
  std::vector<std::string> labels;
  for (const Task& task : plan->tasks) labels.push_back(task.label.name);
  ASSIGN_OR_RETURN(plan->slices, FindSlices(config, input, labels));
  return absl::OkStatus();
}

// The layers of outputs side by side.
v1::Layer BranchesOf(const Outputs& outputs) {
  v1::Layer layer;
  for (const v1::ModelConfig::Output& output : outputs) {
    *layer.mutable_parallel()->add_branches()->mutable_layers() =
        output.layers();
  }
  return layer;
}

// What a task's last layer gives, and its name.
std::pair<Dims, std::string> EndOf(const NetworkPlan& plan, size_t task,
                                   const LayerBuilder& built) {
  if (plan.IsOfOneTask()) return {built.dims(), built.last()};
  const Layer& last = plan.layers->layer(plan.layers->size() - 1);
  const Sequence& branch =
      static_cast<const Parallel&>(last).branch_layers(task);
  return {branch.output_dims(), branch.layer(branch.size() - 1).name()};
}

std::vector<LayerBuilder::Input> InputsOf(const NetworkPlan& plan) {
  std::vector<LayerBuilder::Input> inputs;
  for (const NetworkPlan::Input& one : plan.inputs) {
    const bool has_keys = one.feature.dtype == DType::kInt64;
    inputs.push_back({.name = one.feature.name,
                      .dims = one.feature.dims,
                      .bound = has_keys ? LayerBuilder::kAnyKey : one.bound});
  }
  return inputs;
}

}  // namespace

std::vector<std::string> FeaturesNamedBy(const v1::ModelConfig& config) {
  std::vector<std::string> names;
  if (!config.input().empty()) names.push_back(config.input());
  AddNamed(config, &names);
  return names;
}

std::vector<std::string> OnlySlicedBy(const v1::ModelConfig& config,
                                      const v1::ModelConfig* other) {
  std::vector<std::string> read = FeaturesNamedBy(config);
  if (other != nullptr) {
    const std::vector<std::string> named = FeaturesNamedBy(*other);
    read.insert(read.end(), named.begin(), named.end());
  }
  std::vector<std::string> names;
  for (const std::string& slice : config.slices()) {
    const bool is_read =
        std::find(read.begin(), read.end(), slice) != read.end();
    if (!is_read) names.push_back(slice);
  }
  return names;
}

absl::StatusOr<std::unique_ptr<NetworkPlan>> PlanNetwork(
    const v1::ModelConfig& config, const InputSpec& input) {
  if (config.layers().empty()) {
    return absl::InvalidArgumentError("the model has no layers");
  }
  auto plan = std::make_unique<NetworkPlan>();
  ASSIGN_OR_RETURN(const std::vector<v1::ModelConfig> tasks,
                   TasksOf(config, plan.get()));
  for (size_t t = 0; t < tasks.size(); ++t) {
    Task& task = plan->tasks[t];
    RETURN_IF_ERROR(Of(task, FindFeatures(tasks[t], input, &task)));
  }
  RETURN_IF_ERROR(PlanSlices(config, input, plan.get()));
  Layers layers = config.layers();
  if (!plan->IsOfOneTask()) *layers.Add() = BranchesOf(config.outputs());
  absl::Status first;
  std::vector<std::string> named;
  AddNamed(config, &named);
  RETURN_IF_ERROR(CheckBranches(config, named, *plan));
  RETURN_IF_ERROR(ChooseInputs(config, input, named, plan.get(), &first));
  plan->branches_read = !named.empty();
  LayerBuilder builder(InputsOf(*plan), std::move(first),
                       config.kernel_initializer());
  ASSIGN_OR_RETURN(plan->layers, builder.Build(layers));
  if (!named.empty()) {
    RETURN_IF_ERROR(CheckAllAreRead(*plan, builder, input));
  }
  if (plan->layers->flops() == 0 && plan->layers->variables().empty()) {
    return absl::InvalidArgumentError(
        "the model computes nothing; give it at least one dense layer");
  }
  uint64_t first_column = 0;
  for (size_t t = 0; t < tasks.size(); ++t) {
    Task& task = plan->tasks[t];
    const auto [dims, last] = EndOf(*plan, t, builder);
    RETURN_IF_ERROR(Of(task, MakeLoss(tasks[t], dims, last, &task)));
    task.first = first_column;
    first_column += task.columns();
  }
  RETURN_IF_ERROR(CheckSliceNumbers(plan->slices, 1 + plan->metrics().size()));
  uint64_t scores = 0;
  for (const Task& task : plan->tasks) {
    if (task.loss->NeedsScores()) scores += task.columns();
  }
  RETURN_IF_ERROR(CheckSliceScores(plan->slices, scores));
  RETURN_IF_ERROR(ShareVariables(plan.get()));
  if (config.has_quantization_aware()) {
    RETURN_IF_ERROR(
        MakeQuantizationAware(config.quantization_aware(), plan.get()));
    RETURN_IF_ERROR(ShareVariables(plan.get()));
  }
  PlanLookups(builder.needs().lookups, plan.get());
  for (size_t i = 0; i < plan->inputs.size(); ++i) {
    uint64_t& bound = plan->inputs[i].bound;
    if (bound > 0) bound = IntegersBelow(*plan, i);
  }
  plan->draws = builder.needs().draws;
  return plan;
}

}  // namespace paramd
