#include "worker/stages/remote_stages.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "compute/pipeline/stage_mail.h"
#include "proto/paramd/v1/stage.pb.h"
#include "worker/stages/sent_weights.h"
#include "worker/stages/stage_calls.h"
#include "worker/stages/stage_content.h"
#include "worker/stages/stage_conversation.h"
#include "worker/stages/stage_return.h"

namespace paramd {
namespace {

// One copy of the model, for which each stage process keeps what it computes
// apart from the others.
class Lane : public StageLane {
 public:
  Lane(const RemoteStages::Options& options, uint32_t number,
       const InputSpec& input, StageCalls* calls)
      : options_(options), number_(number), input_(input), calls_(*calls) {
    state_.who.set_worker(options.worker);
    state_.who.set_incarnation(options.incarnation);
    state_.who.set_lane(number);
    state_.calls = calls;
  }
  ~Lane() override { calls_.SetWaiting(number_, ""); }

  std::unique_ptr<ModelStage> MakeStage(
      std::shared_ptr<const NetworkPlan> network,
      const StagePlace& place) override;
  void Begin(const std::atomic<bool>* abandoned) override {
    state_.Begin();
    state_.abandoned = abandoned;
  }
  void Done() override {
    if (!is_waiting_) return;
    is_waiting_ = false;
    calls_.SetWaiting(number_, "");
    Log(LogLevel::kInfo, "all stages answer");
  }
  absl::Status AwaitReturn(const absl::Status& why, uint64_t times,
                           Time since) override;

  const RemoteStages::Options& options() const { return options_; }
  const InputSpec& input() const { return input_; }

 private:
  // Whether the stage that failed answers.
  absl::Status Greet() const;

  const RemoteStages::Options options_;
  const uint32_t number_;
  const InputSpec input_;
  StageCalls& calls_;
  LaneState state_;
  bool is_waiting_ = false;
  // By device.
  std::vector<std::shared_ptr<StageConversation>> conversations_;
};

// A stage whose layers a stage process computes.
class RemoteStage : public ModelStage {
 public:
  RemoteStage(const Lane* lane, std::shared_ptr<StageConversation> conversation,
              std::shared_ptr<const NetworkPlan> network,
              const StagePlace& place)
      : lane_(*lane),
        conversation_(std::move(conversation)),
        network_(std::move(network)),
        place_(place),
        first_use_(network_->layers->first_variable(place.begin)),
        layers_(network_->layers->Range(place.begin, place.end)) {}

  size_t first_use() const override { return first_use_; }
  size_t uses() const override { return layers_->variables().size(); }
  absl::Status Begin(WeightSpans weights, RowNumbers rows,
                     size_t slots) override;
  absl::Status Forward(size_t slot, const Layer::Context& context,
                       absl::Span<const uint64_t> offsets,
                       absl::Span<const ConstTensor> inputs,
                       Buffer input) override;
  absl::StatusOr<Buffer> TakeOutput(size_t slot) override {
    return slots_[slot].output;
  }
  absl::Status PlaceGradients(
      std::vector<absl::Span<float>> gradients) override {
    wanted_ = std::move(gradients);
    sent_.Train();
    return absl::OkStatus();
  }
  absl::Status Backward(size_t slot, Buffer output_gradient,
                        bool adds) override {
    return RunBackward(v1::StageOperation::Backward::WHOLE, slot,
                       output_gradient, adds);
  }
  absl::Status BackwardInput(size_t slot, Buffer output_gradient,
                             bool adds) override {
    return RunBackward(v1::StageOperation::Backward::INPUT, slot,
                       output_gradient, adds);
  }
  absl::Status BackwardVariables(size_t slot, bool adds) override {
    return RunBackward(v1::StageOperation::Backward::VARIABLES, slot, Buffer(),
                       adds);
  }
  absl::StatusOr<Buffer> TakeInputGradient() override {
    return std::move(input_gradient_);
  }
  absl::Status TakeGradients() override;

 private:
  struct Slot {
    uint64_t examples = 0;
    Buffer output;
  };
  struct Border {
    StageArrays arrays;
    Buffer buffer;
    std::vector<absl::Span<std::byte>> memory;
  };

  bool is_first() const { return place_.begin == 0; }
  v1::StageOperation Operation() const {
    v1::StageOperation operation;
    operation.set_stage(place_.stage);
    return operation;
  }
  // Of `examples`, what is handed over the border.
  Border BorderOf(uint64_t examples, const Dims& dims, BorderMemory* memory);
  absl::Status RunBackward(v1::StageOperation::Backward::Part part, size_t slot,
                           const Buffer& output_gradient, bool adds);

  const Lane& lane_;
  const std::shared_ptr<StageConversation> conversation_;
  const std::shared_ptr<const NetworkPlan> network_;
  const StagePlace place_;
  const size_t first_use_;
  const std::unique_ptr<Sequence> layers_;
  std::vector<Dims> dims_;  // By use, of this mini-batch.
  std::vector<absl::Span<float>> wanted_;
  SentWeights sent_;
  std::vector<Slot> slots_;
  Buffer input_gradient_;
  BorderMemory outputs_;
  BorderMemory input_gradients_;
};

absl::Status RemoteStage::Begin(WeightSpans weights, RowNumbers rows,
                                size_t slots) {
  slots_.assign(slots, Slot());
  wanted_.clear();
  dims_.clear();
  std::vector<absl::Span<const float>> used;
  for (size_t i = 0; i < uses(); ++i) {
    const size_t v = network_->shared[first_use_ + i];
    const v1::Variable& variable = network_->variables[v];
    Dims& dims =
        dims_.emplace_back(variable.shape().begin(), variable.shape().end());
    if (variable.sparse() && !rows.empty()) {
      dims[0] = rows[network_->sparse_before[v]].size();
    }
    CHECK(weights[v].size() == SizeOf(dims),
          "weights have the size of their variable");
    used.push_back(weights[v]);
  }
  v1::StageOperation operation = Operation();
  v1::StageOperation::Begin* const begin = operation.mutable_begin();
  begin->set_build(lane_.options().build);
  ToProto(lane_.input(), begin->mutable_features());
  begin->set_device(place_.device);
  begin->set_slots(static_cast<uint32_t>(slots));
  begin->set_same_weights(sent_.Begin(used));
  StageContent content;
  for (size_t i = 0; i < used.size() && !begin->same_weights(); ++i) {
    content.Add(DType::kFloat32, dims_[i], AsBytes(used[i]));
  }
  const absl::Status begun =
      conversation_->Run(std::move(operation), content, {}, {});
  sent_.Begun(begun.ok(), used);
  return begun;
}

RemoteStage::Border RemoteStage::BorderOf(uint64_t examples, const Dims& dims,
                                          BorderMemory* memory) {
  Border border;
  const Dims batched = Batched(examples, dims);
  AddArray(place_.activations, batched, &border.arrays);
  const uint64_t bytes = SizeOf(batched) * SizeOf(place_.activations);
  std::byte* data = nullptr;
  border.buffer = memory->Take(bytes, &data);
  border.memory.emplace_back(data, bytes);
  return border;
}

absl::Status RemoteStage::Forward(size_t slot, const Layer::Context& context,
                                  absl::Span<const uint64_t> offsets,
                                  absl::Span<const ConstTensor> inputs,
                                  Buffer input) {
  v1::StageOperation operation = Operation();
  v1::StageOperation::Forward* const forward = operation.mutable_forward();
  forward->set_slot(static_cast<uint32_t>(slot));
  forward->set_examples(context.examples);
  forward->set_training(context.training);
  forward->set_seed(context.seed);
  forward->set_epoch(context.epoch);
  forward->set_first(context.first);
  forward->set_share(context.share);
  forward->set_has_offsets(!offsets.empty());
  StageContent content;
  if (!offsets.empty()) {
    content.Add(DType::kInt64, {offsets.size()}, AsBytes(offsets));
  }
  if (is_first() || lane_.options().names_features) {
    forward->set_features(static_cast<uint32_t>(inputs.size()));
    for (const ConstTensor& one : inputs) {
      content.Add(one.dtype, one.dims,
                  {static_cast<const std::byte*>(one.data),
                   one.size() * SizeOf(one.dtype)});
    }
  }
  if (!is_first()) {
    content.Add(place_.activations,
                Batched(context.examples, layers_->input_dims()),
                input.bytes());
  }
  slots_[slot] = {context.examples, Buffer()};
  Border border = BorderOf(context.examples, layers_->output_dims(), &outputs_);
  RETURN_IF_ERROR(conversation_->Run(std::move(operation), content,
                                     border.arrays, border.memory));
  slots_[slot].output = std::move(border.buffer);
  return absl::OkStatus();
}

absl::Status RemoteStage::RunBackward(v1::StageOperation::Backward::Part part,
                                      size_t slot,
                                      const Buffer& output_gradient,
                                      bool adds) {
  using Part = v1::StageOperation::Backward;
  const uint64_t examples = slots_[slot].examples;
  slots_[slot].output = Buffer();
  v1::StageOperation operation = Operation();
  v1::StageOperation::Backward* const backward = operation.mutable_backward();
  backward->set_slot(static_cast<uint32_t>(slot));
  backward->set_part(part);
  backward->set_adds(adds);
  StageContent content;
  Border border;
  if (part != Part::VARIABLES) {
    content.Add(place_.activations, Batched(examples, layers_->output_dims()),
                output_gradient.bytes());
    if (!is_first()) {
      border = BorderOf(examples, layers_->input_dims(), &input_gradients_);
    }
  }
  RETURN_IF_ERROR(conversation_->Run(std::move(operation), content,
                                     border.arrays, border.memory));
  if (part != Part::VARIABLES) input_gradient_ = std::move(border.buffer);
  return absl::OkStatus();
}

absl::Status RemoteStage::TakeGradients() {
  if (uses() == 0) return absl::OkStatus();
  v1::StageOperation operation = Operation();
  operation.mutable_update();
  StageArrays sums;
  std::vector<absl::Span<std::byte>> to;
  for (size_t i = 0; i < uses(); ++i) {
    AddArray(DType::kFloat32, dims_[i], &sums);
    to.push_back(AsWritableBytes(wanted_[i]));
  }
  return conversation_->Run(std::move(operation), StageContent(), sums, to);
}

std::unique_ptr<ModelStage> Lane::MakeStage(
    std::shared_ptr<const NetworkPlan> network, const StagePlace& place) {
  if (conversations_.size() <= place.device) {
    conversations_.resize(place.device + 1);
  }
  std::shared_ptr<StageConversation>& conversation =
      conversations_[place.device];
  if (conversation == nullptr) {
    conversation = std::make_shared<StageConversation>(
        &state_, PeerId::Stage(options_.first + place.device));
  }
  return std::make_unique<RemoteStage>(this, conversation, std::move(network),
                                       place);
}

absl::Status Lane::Greet() const {
  bool is_sent = false;
  return calls_.CallEach(
      [&]() -> absl::optional<StageCalls::Request> {
        if (std::exchange(is_sent, true)) return absl::nullopt;
        auto greet = std::make_unique<v1::GreetStageRequest>();
        *greet->mutable_header() = state_.Header();
        return StageCalls::Request{
            PeerId::Stage(state_.failed), std::move(greet), {}, kStageDeadline};
      },
      [](size_t, const StageCalls::Answer& answer) { return answer.status; });
}

// The others are not given weights until it is back.
absl::Status Lane::AwaitReturn(const absl::Status& why, uint64_t times,
                               Time since) {
  if (!state_.has_failed) return why;  // What the worker computes itself.
  RETURN_IF_ERROR(CheckMayComeBack(why));
  if (!is_waiting_) {
    Log(LogLevel::kWarning,
        "a stage is not there: the batch is computed from its beginning when "
        "it is",
        {{"why", why.message()}});
  }
  is_waiting_ = true;
  calls_.SetWaiting(number_, std::string(why.message()));
  const Time lost = MonotonicNow();
  while (!state_.IsAbandoned()) {
    const absl::Status answers = Greet();
    const Time now = MonotonicNow();
    const ReturnVerdict verdict = JudgeReturn(
        {why, times, now - lost, now - since}, answers, options_.patience);
    RETURN_IF_ERROR(verdict.end);
    if (!calls_.Pause(verdict.pause)) {
      return absl::CancelledError("the worker is ending");
    }
    if (!verdict.begins) continue;
    calls_.SetWaiting(
        number_, absl::StrCat("a batch to be computed again: ", why.message()));
    return absl::OkStatus();
  }
  calls_.SetWaiting(number_, "");
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<StageLane> RemoteStages::OpenLane() {
  return std::make_unique<Lane>(options_, lanes_++, input_, &calls_);
}

}  // namespace paramd
