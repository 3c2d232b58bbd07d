#include "tests/sim/staged_integers.h"

#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "base/random.h"
#include "proto/refusal.h"
#include "tests/sim/integer_stages.h"

namespace paramd {
namespace {

constexpr uint64_t kBelow = 8191;

int64_t FactorOf(absl::Span<const float> weights) {
  return Residue(static_cast<int64_t>(
      std::accumulate(weights.begin(), weights.end(), 0.0)));
}

Numbers NumbersIn(const ConstTensor& array) {
  const auto values = array.values<int64_t>();
  return {values.begin(), values.end()};
}

void GiveNumbers(const Numbers& numbers, v1::ComputeStageReply* reply,
                 BufferChain* payload) {
  AddArray(DType::kInt64, {numbers.size()}, reply->mutable_arrays());
  payload->push_back(Buffer::Copy(AsBytes(absl::Span<const int64_t>(numbers))));
}

}  // namespace

Numbers StagedBatch::Input(uint32_t micro_batch, uint32_t width) const {
  RandomStream random(StableHash("input", seed + number * 1000 + micro_batch));
  Numbers input(width);
  for (int64_t& one : input) {
    one = static_cast<int64_t>(random.Below(kBelow));
  }
  return input;
}

int64_t StagedBatch::Label(uint32_t micro_batch) const {
  return static_cast<int64_t>(
      RandomStream(StableHash("label", seed + number * 1000 + micro_batch))
          .Below(kBelow));
}

Numbers StageOutput(uint32_t stage, absl::Span<const float> weights,
                    const Numbers& input) {
  const int64_t factor = FactorOf(weights);
  Numbers output;
  for (const int64_t x : input) output.push_back(Residue(factor * x + stage));
  return output;
}

Numbers LossGradient(const Numbers& output, int64_t label) {
  Numbers gradient;
  for (const int64_t y : output) gradient.push_back(Residue(2 * y + label));
  return gradient;
}

Numbers StageInputGradient(absl::Span<const float> weights,
                           const Numbers& gradient) {
  const int64_t factor = FactorOf(weights);
  Numbers input;
  for (const int64_t dy : gradient) input.push_back(Residue(factor * dy));
  return input;
}

void AddStageGradient(const Numbers& input, const Numbers& gradient,
                      std::vector<float>* sums) {
  int64_t sum = 0;
  for (size_t i = 0; i < input.size(); ++i) {
    sum = Residue(sum + input[i] * gradient[i]);
  }
  for (size_t j = 0; j < sums->size(); ++j) {
    const auto before = static_cast<int64_t>((*sums)[j]);
    (*sums)[j] =
        static_cast<float>(Residue(before + static_cast<int64_t>(j + 1) * sum));
  }
}

StagedAnswers AnswersOf(const StagedNet& net, const StagedBatch& batch,
                        const StagedWeights& weights) {
  StagedAnswers answers;
  answers.outputs.resize(net.stages);
  answers.input_gradients.assign(net.stages,
                                 std::vector<Numbers>(batch.micro_batches));
  answers.sums.assign(net.stages, std::vector<float>(net.weights));
  for (uint32_t m = 0; m < batch.micro_batches; ++m) {
    std::vector<Numbers> inputs = {batch.Input(m, net.width)};
    for (uint32_t s = 0; s < net.stages; ++s) {
      inputs.push_back(StageOutput(s, weights[s], inputs.back()));
      answers.outputs[s].push_back(inputs.back());
    }
    Numbers gradient = LossGradient(inputs.back(), batch.Label(m));
    for (uint32_t s = net.stages; s-- > 0;) {
      AddStageGradient(inputs[s], gradient, &answers.sums[s]);
      gradient = StageInputGradient(weights[s], gradient);
      answers.input_gradients[s][m] = gradient;
    }
  }
  return answers;
}

// ---- a lane of a stage process ----------------------------------------------

IoResult StagedComputer::Compute(const v1::ComputeStageRequest& request,
                                 const BufferChain& content,
                                 std::string* wrong) {
  const v1::StageOperation& operation = request.operation();
  std::vector<ConstTensor> arrays;
  if (!content.empty() && content.front().size() > 0) {
    arrays = ArraysIn(operation.arrays(), *ArrayBytes(operation.arrays()),
                      content.front());
  }
  auto reply = std::make_unique<v1::ComputeStageReply>();
  IoResult result;
  std::string why;
  if (operation.has_begin()) {
    if (operation.begin().same_weights() &&
        stages_[operation.stage()].weights.empty()) {
      result.status =
          RefuseForNow(v1::Refusal::NOT_READY, "weights",
                       absl::Milliseconds(100), "there are no weights");
      return result;
    }
    why = Begin(operation, arrays);
  } else if (operation.has_forward()) {
    why = Forward(operation, arrays, reply.get(), &result.payload);
  } else if (operation.has_backward()) {
    why = Backward(operation, arrays, reply.get(), &result.payload);
  } else if (operation.has_update()) {
    const Stage& stage = stages_[operation.stage()];
    AddArray(DType::kFloat32, {stage.sums.size()}, reply->mutable_arrays());
    result.payload.push_back(
        Buffer::Copy(AsBytes(absl::Span<const float>(stage.sums))));
  } else {
    why = "there is no operation";
  }
  if (!why.empty()) {
    why = absl::StrCat("mini-batch ", request.header().mini_batch(),
                       ", operation ", request.header().operation(), ", stage ",
                       operation.stage(), ": ", why);
    if (wrong->empty()) *wrong = why;
    result.status = absl::InternalError(why);
    return result;
  }
  result.head = std::move(reply);
  return result;
}

std::string StagedComputer::Begin(const v1::StageOperation& operation,
                                  absl::Span<const ConstTensor> arrays) {
  Stage& stage = stages_[operation.stage()];
  stage.slots.clear();
  if (operation.begin().same_weights()) return "";
  if (arrays.size() != 1) return "there is no content";
  const auto values = arrays[0].values<float>();
  stage.weights.assign(values.begin(), values.end());
  return "";
}

std::string StagedComputer::Forward(const v1::StageOperation& operation,
                                    absl::Span<const ConstTensor> arrays,
                                    v1::ComputeStageReply* reply,
                                    BufferChain* payload) {
  Stage& stage = stages_[operation.stage()];
  if (arrays.size() != 1) return "there is no content";
  const uint32_t slot = operation.forward().slot();
  if (stage.slots.count(slot) > 0) return "the slot is in use";
  const Numbers input = NumbersIn(arrays[0]);
  GiveNumbers(StageOutput(operation.stage(), stage.weights, input), reply,
              payload);
  stage.slots[slot].input = input;
  return "";
}

std::string StagedComputer::Backward(const v1::StageOperation& operation,
                                     absl::Span<const ConstTensor> arrays,
                                     v1::ComputeStageReply* reply,
                                     BufferChain* payload) {
  using Part = v1::StageOperation::Backward;
  const Part& backward = operation.backward();
  Stage& stage = stages_[operation.stage()];
  const auto slot = stage.slots.find(backward.slot());
  if (slot == stage.slots.end()) return "the slot has nothing";
  if (backward.part() != Part::VARIABLES) {
    if (arrays.size() != 1) return "there is no content";
    slot->second.gradient = NumbersIn(arrays[0]);
    if (operation.stage() > 0) {
      GiveNumbers(StageInputGradient(stage.weights, slot->second.gradient),
                  reply, payload);
    }
  }
  if (backward.part() == Part::INPUT) return "";
  if (!backward.adds()) stage.sums.assign(stage.weights.size(), 0);
  AddStageGradient(slot->second.input, slot->second.gradient, &stage.sums);
  stage.slots.erase(slot);
  return "";
}

}  // namespace paramd
