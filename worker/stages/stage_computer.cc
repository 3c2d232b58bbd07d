#include "worker/stages/stage_computer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "compute/model/layer.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr uint32_t kMostSlots = 65536;
// BLAS counts in 32 bits.
constexpr uint64_t kMostExamples = (uint64_t{1} << 31) - 1;

bool IsArray(const ConstTensor& array, DType dtype, const Dims& dims) {
  return array.dtype == dtype && array.dims == dims;
}

std::string TextOf(DType dtype, const Dims& dims) {
  return absl::StrCat(NameOf(dtype), " [", absl::StrJoin(dims, ", "), "]");
}

}  // namespace

absl::Status StageComputer::Wrong(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(name_, " is given ", what));
}

// The process is new to the worker, which has to begin anew.
absl::Status StageComputer::NotHere(absl::string_view what) const {
  return RefuseForNow(v1::Refusal::NOT_READY, name_, absl::Milliseconds(100),
                      absl::StrCat(name_, " ", what));
}

absl::Status StageComputer::Compute(const v1::ComputeStageRequest& request,
                                    const Buffer& content,
                                    v1::ComputeStageReply* reply,
                                    BufferChain* result) {
  const v1::StageOperation& operation = request.operation();
  if (operation.has_begin()) {
    RETURN_IF_ERROR(MakeFor(request.header(), operation.begin()));
  }
  ASSIGN_OR_RETURN(Stage* const stage, Find(operation.stage()));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> bytes,
                   ArrayBytes(operation.arrays()));
  const std::vector<ConstTensor> arrays =
      ArraysIn(operation.arrays(), bytes, content);
  const Work work = {operation, arrays, content, stage, reply, result};
  if (operation.has_begin()) return Begin(work);
  if (!stage->has_begun) {
    return NotHere(absl::StrCat("has not begun a mini-batch of stage ",
                                operation.stage()));
  }
  switch (operation.kind_case()) {
    case v1::StageOperation::kForward:
      return Forward(work);
    case v1::StageOperation::kBackward:
      return Backward(work);
    case v1::StageOperation::kUpdate:
      return Update(work);
    default:
      return Wrong("no operation that it knows");
  }
}

// ---- a mini-batch begins ----------------------------------------------------

absl::Status StageComputer::MakeFor(const v1::StageHeader& header,
                                    const v1::StageOperation::Begin& begin) {
  v1::StageOperation::Begin kind;
  *kind.mutable_features() = begin.features();
  std::string features = kind.SerializeAsString();
  if (incarnation_ == header.incarnation() && features_ == features &&
      device_ == begin.device() && !stages_.empty()) {
    return absl::OkStatus();
  }
  stages_.clear();
  made_ = StagesOfDevice();
  ASSIGN_OR_RETURN(const InputSpec input, ToInput(begin.features()));
  ASSIGN_OR_RETURN(StagesOfDevice made, make_(input, begin.device()));
  for (const auto& [number, stage] : made.stages) {
    if (!stage->is_last()) continue;
    return Wrong(absl::StrCat("stage ", number,
                              ", the last one, which is its worker's own"));
  }
  made_ = std::move(made);
  for (const auto& [number, stage] : made_.stages) {
    stages_[number].stage = stage.get();
  }
  incarnation_ = header.incarnation();
  features_ = std::move(features);
  device_ = begin.device();
  return absl::OkStatus();
}

absl::StatusOr<StageComputer::Stage*> StageComputer::Find(uint32_t number) {
  const auto it = stages_.find(number);
  if (it != stages_.end()) return &it->second;
  if (stages_.empty()) {
    return NotHere("has not begun a mini-batch");
  }
  return Wrong(absl::StrCat(
      "stage ", number, ", and computes ",
      absl::StrJoin(stages_, ", ", [](std::string* out, const auto& one) {
        absl::StrAppend(out, one.first);
      })));
}

absl::Status StageComputer::Begin(const Work& work) {
  const v1::StageOperation::Begin& begin = work.operation.begin();
  Stage* const stage = work.stage;
  if (begin.slots() == 0 || begin.slots() > kMostSlots) {
    return Wrong(
        absl::StrCat(begin.slots(), " slots; expected 1 to ", kMostSlots));
  }
  if (!begin.same_weights()) {
    RETURN_IF_ERROR(TakeWeights(work));
  } else if (stage->dims.size() != stage->stage->uses() ||
             (stage->weights.empty() && stage->stage->uses() > 0)) {
    return NotHere(absl::StrCat("does not have the weights of stage ",
                                work.operation.stage()));
  }
  return BeginStage(stage, begin.slots());
}

absl::Status StageComputer::TakeWeights(const Work& work) {
  const NetworkPlan& network = *made_.network;
  Stage* const stage = work.stage;
  const size_t uses = stage->stage->uses();
  if (work.arrays.size() != uses) {
    return Wrong(absl::StrCat(work.arrays.size(), " weights; stage ",
                              work.operation.stage(), " has ", uses));
  }
  std::vector<Dims> all;
  for (size_t i = 0; i < uses; ++i) {
    const v1::Variable& variable =
        network.variables[network.shared[stage->stage->first_use() + i]];
    Dims dims(variable.shape().begin(), variable.shape().end());
    const ConstTensor& array = work.arrays[i];
    if (variable.sparse() && !array.dims.empty()) dims[0] = array.dims[0];
    if (!IsArray(array, DType::kFloat32, dims)) {
      return Wrong(absl::StrCat(TextOf(array.dtype, array.dims), " for '",
                                variable.name(), "', which is ",
                                TextOf(DType::kFloat32, dims)));
    }
    all.push_back(std::move(dims));
  }
  stage->dims = std::move(all);
  stage->weights = work.content;
  return absl::OkStatus();
}

absl::Status StageComputer::BeginStage(Stage* stage, uint32_t slots) {
  const NetworkPlan& network = *made_.network;
  std::vector<absl::Span<const float>> weights(network.variables.size());
  uint64_t most = 0;
  for (const Dims& dims : stage->dims) {
    most = std::max(most, dims.empty() ? 0 : dims[0]);
  }
  std::vector<absl::Span<const uint64_t>> rows;
  for (const v1::Variable& variable : network.variables) {
    if (variable.sparse()) rows.emplace_back();
  }
  if (!rows.empty()) rows_.resize(std::max<size_t>(rows_.size(), most));
  StageArrays arrays;
  std::vector<uint64_t> bytes;
  for (const Dims& dims : stage->dims) {
    AddArray(DType::kFloat32, dims, &arrays);
    bytes.push_back(SizeOf(dims) * sizeof(float));
  }
  const std::vector<ConstTensor> values =
      ArraysIn(arrays, bytes, stage->weights);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t v = network.shared[stage->stage->first_use() + i];
    weights[v] = values[i].values<float>();
    if (!network.variables[v].sparse()) continue;
    rows[network.sparse_before[v]] = {rows_.data(), values[i].dims[0]};
  }
  stage->slots.assign(slots, Slot());
  stage->has_gradients = false;
  stage->has_sums = false;
  stage->has_begun = false;
  RETURN_IF_ERROR(stage->stage->Begin(weights, rows, slots));
  stage->has_begun = true;
  return absl::OkStatus();
}

// ---- a micro-batch passes ---------------------------------------------------

absl::Status StageComputer::CheckForward(const Work& work) const {
  const v1::StageOperation::Forward& forward = work.operation.forward();
  if (forward.slot() >= work.stage->slots.size() || forward.examples() == 0 ||
      forward.examples() > kMostExamples) {
    return Wrong(absl::StrCat(forward.examples(), " examples for slot ",
                              forward.slot(), " of ",
                              work.stage->slots.size()));
  }
  RETURN_IF_ERROR(CheckArrays(work));
  size_t next = 0;
  if (forward.has_offsets() &&
      !IsArray(work.arrays[next++], DType::kInt64, {forward.examples()})) {
    return Wrong("places of other examples");
  }
  for (size_t i = 0; i < forward.features(); ++i) {
    RETURN_IF_ERROR(CheckInput(work, i, work.arrays[next++]));
  }
  if (work.operation.stage() == 0) return absl::OkStatus();
  const PipelineStage& stage = *work.stage->stage;
  const ConstTensor& border = work.arrays[next];
  const Dims dims = Batched(forward.examples(), stage.input_dims());
  if (IsArray(border, stage.activations(), dims)) return absl::OkStatus();
  return Wrong(absl::StrCat(TextOf(border.dtype, border.dims),
                            " from the stage before, and expects ",
                            TextOf(stage.activations(), dims)));
}

// How many there are, and that what layers read is among them.
absl::Status StageComputer::CheckArrays(const Work& work) const {
  const v1::StageOperation::Forward& forward = work.operation.forward();
  const NetworkPlan& network = *made_.network;
  const bool is_first = work.operation.stage() == 0;
  const size_t features = network.inputs.size();
  const size_t expected =
      (forward.has_offsets() ? 1 : 0) + forward.features() + (is_first ? 0 : 1);
  // Without branches that read features the first layer alone reads one.
  const bool may_have_none = !is_first && !network.branches_read;
  const bool has_features = forward.features() == features ||
                            (forward.features() == 0 && may_have_none);
  if (has_features && work.arrays.size() == expected) return absl::OkStatus();
  return Wrong(absl::StrCat(work.arrays.size(), " arrays, of ",
                            forward.features(), " features; the model has ",
                            features));
}

absl::Status StageComputer::CheckInput(const Work& work, size_t input,
                                       const ConstTensor& array) const {
  const uint64_t examples = work.operation.forward().examples();
  const NetworkPlan::Input& wanted = made_.network->inputs[input];
  const bool is_looked_up = wanted.looked_up > 0;
  const DType dtype = is_looked_up ? DType::kInt32 : wanted.feature.dtype;
  const uint64_t size = is_looked_up ? wanted.looked_up : wanted.feature.size();
  if (array.dtype != dtype || array.size() != examples * size) {
    return Wrong(absl::StrCat(TextOf(array.dtype, array.dims), " for feature '",
                              wanted.feature.name, "' of ", examples,
                              " examples, which are ", NameOf(dtype), " [",
                              examples, ", ", size, "]"));
  }
  return is_looked_up ? CheckRows(work, input, array) : absl::OkStatus();
}

absl::optional<uint64_t> StageComputer::RowsOf(const NetworkPlan& network,
                                               const Stage& stage,
                                               size_t variable) {
  for (size_t i = 0; i < stage.dims.size(); ++i) {
    const size_t v = network.shared[stage.stage->first_use() + i];
    if (v == variable) return stage.dims[i].front();
  }
  return absl::nullopt;
}

absl::Status StageComputer::CheckRows(const Work& work, size_t input,
                                      const ConstTensor& array) const {
  const NetworkPlan& network = *made_.network;
  const uint64_t examples = work.operation.forward().examples();
  const auto integers = array.values<int32_t>();
  for (size_t l = 0; l < network.lookups.size(); ++l) {
    const NetworkPlan::Lookup& lookup = network.lookups[l];
    if (lookup.input != input) continue;
    const auto rows = RowsOf(network, *work.stage, lookup.table);
    if (!rows.has_value()) continue;  // Another stage looks it up.
    for (const int32_t integer : integers.subspan(network.starts[l] * examples,
                                                  lookup.count * examples)) {
      const bool is_row =
          integer >= 0 && static_cast<uint64_t>(integer) < *rows;
      if (is_row || (integer == -1 && lookup.padding)) continue;
      return Wrong(absl::StrCat(
          "the integer ", integer, " of feature '",
          network.inputs[input].feature.name, "' to look up in '",
          network.variables[lookup.table].name(), "', of which it has ", *rows,
          *rows == 1 ? " row" : " rows"));
    }
  }
  return absl::OkStatus();
}

absl::Status StageComputer::Forward(const Work& work) {
  RETURN_IF_ERROR(CheckForward(work));
  const v1::StageOperation::Forward& forward = work.operation.forward();
  const NetworkPlan& network = *made_.network;
  Slot& slot = work.stage->slots[forward.slot()];
  slot = {.is_forward = false,
          .is_training = forward.training(),
          .examples = forward.examples(),
          .content = work.content};
  Layer::Context context;
  context.training = forward.training();
  context.draws = network.draws;
  context.starts = network.starts;
  context.examples = forward.examples();
  context.seed = forward.seed();
  context.epoch = forward.epoch();
  context.first = forward.first();
  context.share = forward.share();
  size_t next = 0;
  absl::Span<const uint64_t> offsets;
  if (forward.has_offsets()) {
    offsets = {static_cast<const uint64_t*>(work.arrays[next++].data),
               forward.examples()};
  }
  const auto inputs =
      absl::MakeConstSpan(work.arrays).subspan(next, forward.features());
  next += forward.features();
  Buffer input;
  if (next < work.arrays.size()) {
    const ConstTensor& border = work.arrays[next];
    const auto* const data = static_cast<const std::byte*>(border.data);
    input = work.content.Part(data - work.content.bytes().data(),
                              border.size() * SizeOf(border.dtype));
  }
  PipelineStage* const stage = work.stage->stage;
  RETURN_IF_ERROR(stage->Forward(forward.slot(), context, offsets, inputs,
                                 std::move(input)));
  ASSIGN_OR_RETURN(Buffer output, stage->TakeOutput(forward.slot()));
  slot.is_forward = true;
  return Give(std::move(output), stage->activations(),
              Batched(forward.examples(), stage->output_dims()), work);
}

absl::Status StageComputer::Give(Buffer border, DType dtype, const Dims& dims,
                                 const Work& work) {
  AddArray(dtype, dims, work.reply->mutable_arrays());
  work.result->push_back(std::move(border));
  return absl::OkStatus();
}

absl::Status StageComputer::CheckBackward(const Work& work) const {
  using Part = v1::StageOperation::Backward;
  const v1::StageOperation::Backward& backward = work.operation.backward();
  const bool is_second = backward.part() == Part::VARIABLES;
  const PipelineStage& stage = *work.stage->stage;
  if (backward.slot() >= work.stage->slots.size()) {
    return Wrong(absl::StrCat("slot ", backward.slot(), " of ",
                              work.stage->slots.size()));
  }
  const Slot& slot = work.stage->slots[backward.slot()];
  if (is_second ? !slot.is_half_back : !slot.is_forward) {
    return Wrong(absl::StrCat("a backward pass of slot ", backward.slot(),
                              ", which is not at that"));
  }
  if (!slot.is_training) {
    return Wrong(absl::StrCat("a backward pass of slot ", backward.slot(),
                              ", whose forward pass was an evaluation's"));
  }
  if (backward.adds() != work.stage->has_sums) {
    return Wrong(backward.adds()
                     ? "gradients to add to sums, and there are none"
                     : "gradients to begin sums with, and there are some");
  }
  if (work.arrays.size() != (is_second ? 0u : 1u)) {
    return Wrong(
        absl::StrCat(work.arrays.size(), " arrays with a backward pass"));
  }
  const Dims border = Batched(slot.examples, stage.output_dims());
  if (is_second || IsArray(work.arrays[0], stage.activations(), border)) {
    return absl::OkStatus();
  }
  return Wrong(absl::StrCat(TextOf(work.arrays[0].dtype, work.arrays[0].dims),
                            " from the next stage, and expects ",
                            TextOf(stage.activations(), border)));
}

absl::Status StageComputer::PlaceGradients(Stage* stage) {
  if (stage->has_gradients) return absl::OkStatus();
  stage->gradients.clear();
  std::vector<absl::Span<float>> to;
  for (const Dims& dims : stage->dims) {
    std::byte* data = nullptr;
    const uint64_t size = SizeOf(dims);
    stage->gradients.push_back(gradients_.Take(size * sizeof(float), &data));
    to.emplace_back(reinterpret_cast<float*>(data), size);
  }
  RETURN_IF_ERROR(stage->stage->PlaceGradients(std::move(to)));
  stage->has_gradients = true;
  return absl::OkStatus();
}

absl::Status StageComputer::Backward(const Work& work) {
  using Part = v1::StageOperation::Backward;
  RETURN_IF_ERROR(CheckBackward(work));
  const v1::StageOperation::Backward& backward = work.operation.backward();
  RETURN_IF_ERROR(PlaceGradients(work.stage));
  PipelineStage* const stage = work.stage->stage;
  Slot& slot = work.stage->slots[backward.slot()];
  if (backward.part() == Part::VARIABLES) {
    slot.is_half_back = false;
    work.stage->has_sums = true;
    RETURN_IF_ERROR(stage->BackwardVariables(backward.slot(), backward.adds()));
    slot.content = Buffer();  // Tables were looked up by what lies in it.
    return absl::OkStatus();
  }
  slot.is_forward = false;
  if (backward.part() == Part::WHOLE) {
    work.stage->has_sums = true;
    RETURN_IF_ERROR(
        stage->Backward(backward.slot(), work.content, backward.adds()));
    slot.content = Buffer();
  } else {
    RETURN_IF_ERROR(
        stage->BackwardInput(backward.slot(), work.content, backward.adds()));
    slot.is_half_back = true;
  }
  if (work.operation.stage() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(Buffer gradient, stage->TakeInputGradient());
  return Give(std::move(gradient), stage->activations(),
              Batched(slot.examples, stage->input_dims()), work);
}

absl::Status StageComputer::Update(const Work& work) {
  Stage* const stage = work.stage;
  if (!stage->has_sums || !work.arrays.empty()) {
    return absl::InvalidArgumentError(
        "a stage is asked for gradients before it has any");
  }
  RETURN_IF_ERROR(stage->stage->TakeGradients());
  for (size_t i = 0; i < stage->dims.size(); ++i) {
    AddArray(DType::kFloat32, stage->dims[i], work.reply->mutable_arrays());
    Buffer gradient = std::move(stage->gradients[i]);
    if (!gradient.empty()) work.result->push_back(std::move(gradient));
  }
  // The next mini-batch brings others, into this memory.
  stage->has_begun = false;
  stage->has_gradients = false;
  stage->has_sums = false;
  stage->weights = Buffer();
  stage->dims.clear();
  return absl::OkStatus();
}

}  // namespace paramd
