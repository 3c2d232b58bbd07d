#include "tests/sim/integer_stages.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/random.h"

namespace paramd {
namespace {

// Sums of some dozens of residues are exact in float.
constexpr int64_t kPrime = 8191;

int64_t SkipFactor(uint32_t from) { return 2 + int64_t{from}; }

Buffer ToBuffer(int64_t number) {
  return Buffer::Copy(
      std::string(reinterpret_cast<const char*>(&number), sizeof(number)));
}

int64_t FromBuffer(const Buffer& buffer) {
  int64_t number = 0;
  std::memcpy(&number, buffer.bytes().data(), sizeof(number));
  return number;
}

// Those that a stage gets outputs of, or of whose it gets gradients.
std::set<uint32_t> SendersOf(const IntegerNet& net, uint32_t stage,
                             bool gradient) {
  std::set<uint32_t> senders;
  if (!gradient && stage > 0) senders.insert(stage - 1);
  if (gradient && stage + 1 < net.stages) senders.insert(stage + 1);
  for (const PipelineSkip& skip : net.skips) {
    if (!gradient && skip.to == stage) senders.insert(skip.from);
    if (gradient && skip.from == stage) senders.insert(skip.to);
  }
  return senders;
}

}  // namespace

int64_t Residue(int64_t number) { return (number % kPrime + kPrime) % kPrime; }

IntegerNet MakeIntegerNet(uint32_t stages, std::vector<PipelineSkip> skips,
                          const std::vector<uint32_t>& tied) {
  IntegerNet net;
  net.stages = stages;
  net.skips = std::move(skips);
  const size_t none = stages + 1;
  size_t shared = none;
  for (uint32_t s = 0; s < stages; ++s) {
    net.first_use.push_back(net.variables.size());
    if (std::count(tied.begin(), tied.end(), s) > 0) {
      if (shared == none) shared = net.variable_count++;
      net.variables.push_back(shared);
    }
    net.variables.push_back(net.variable_count++);
  }
  net.first_use.push_back(net.variables.size());
  return net;
}

int64_t IntegerBatch::Input(uint32_t micro_batch) const {
  return static_cast<int64_t>(
      CounterRandom(seed).Below(kPrime, (number * 64 + micro_batch) * 4 + 1));
}

int64_t IntegerBatch::Label(uint32_t micro_batch) const {
  return static_cast<int64_t>(
      CounterRandom(seed).Below(kPrime, (number * 64 + micro_batch) * 4 + 2));
}

uint32_t IntegerBatch::Examples(uint32_t micro_batch) const {
  if (micro_batch + 1 < micro_batches) return 4;
  return 1 + static_cast<uint32_t>(CounterRandom(seed).Below(
                 4, (number * 64 + micro_batch) * 4 + 3));
}

IntegerShare ShareOf(const IntegerNet& net, const IntegerBatch& batch,
                     uint32_t micro_batch, const IntegerWeights& weights) {
  std::vector<int64_t> x(net.stages), y(net.stages), dy(net.stages, 0);
  IntegerShare share;
  share.gradients.resize(net.variables.size());
  for (uint32_t s = 0; s < net.stages; ++s) {
    x[s] = s == 0 ? batch.Input(micro_batch) : y[s - 1];
    int64_t sum = weights[net.first_use[s + 1] - 1] * x[s] + s + 1;
    if (net.IsTied(s)) sum += weights[net.first_use[s]];
    for (const PipelineSkip& skip : net.skips) {
      if (skip.to == s) sum += (2 + int64_t{skip.from}) * y[skip.from];
    }
    y[s] = Residue(sum);
    share.statistics.push_back(y[s] % 97 * batch.Examples(micro_batch));
  }
  dy.back() = 2 * y.back() + batch.Label(micro_batch);
  for (uint32_t s = net.stages; s-- > 0;) {
    dy[s] = Residue(dy[s]);
    const size_t own = net.first_use[s + 1] - 1;
    share.gradients[own] = Residue(dy[s] * x[s]);
    if (net.IsTied(s)) share.gradients[own - 1] = dy[s];
    if (s > 0) dy[s - 1] += weights[own] * dy[s];
    for (const PipelineSkip& skip : net.skips) {
      if (skip.to == s) dy[skip.from] += (2 + int64_t{skip.from}) * dy[s];
    }
  }
  return share;
}

void IntegerStages::Begin(const ProvenSchedule& scheduled,
                          std::vector<uint32_t> versions,
                          const IntegerBatch& batch,
                          const IntegerWeights& weights,
                          std::vector<absl::Span<float>> wanted) {
  batch_ = batch;
  wanted_ = std::move(wanted);
  // What the sums were stays, as it does in the memory of a device.
  stages_.resize(net_.stages);
  for (uint32_t s = 0; s < net_.stages; ++s) {
    Stage& stage = stages_[s];
    stage.slots.assign(scheduled.slots[s], Slot());
    stage.versions = {
        {0, IntegerWeights(weights.begin() + net_.first_use[s],
                           weights.begin() + net_.first_use[s + 1])}};
    stage.room = versions[s];
    stage.reads.assign(scheduled.schedule.micro_batches, 0);
    stage.done = 0;
    stage.handed = Slot();
    stage.taken.clear();
  }
  for (const auto& list : scheduled.schedule.devices) {
    for (const PipelineOp& op : list) {
      if (op.kind != PipelineOp::Kind::kForward) continue;
      stages_[op.stage].reads[op.micro_batch] = op.version;
    }
  }
}

void IntegerStages::Wrong(const PipelineOp& op, absl::string_view what) {
  if (!wrong_.empty()) return;
  wrong_ = absl::StrCat(TextOf(op), " of batch ", batch_.number, " ", what);
}

IntegerStages::Slot& IntegerStages::SlotOf(const PipelineOp& op, size_t slot) {
  Slot& found = stages_[op.stage].slots[slot];
  if (!found.busy || found.micro_batch != op.micro_batch) {
    Wrong(op, "finds nothing of its micro-batch in the slot");
  }
  return found;
}

const IntegerWeights& IntegerStages::WeightsOf(const PipelineOp& op,
                                               uint32_t version) {
  const auto& versions = stages_[op.stage].versions;
  const auto found = versions.find(version);
  if (found != versions.end()) return found->second;
  Wrong(op, absl::StrCat("reads version ", version, ", which is not kept"));
  return versions.begin()->second;
}

int64_t IntegerStages::SumOf(const PipelineOp& op, const Received& received,
                             bool gradient) {
  const std::set<uint32_t> senders = SendersOf(net_, op.stage, gradient);
  int64_t sum = 0;
  for (const auto& [from, buffer] : received) {
    if (senders.count(from) == 0 || buffer.size() != sizeof(int64_t)) {
      Wrong(op, absl::StrCat("gets something of stage ", from));
      continue;
    }
    const bool skips = !gradient && from + 1 < op.stage;
    sum += (skips ? SkipFactor(from) : 1) * FromBuffer(buffer);
  }
  if (received.size() < senders.size()) Wrong(op, "lacks what others gave");
  return sum;
}

absl::Status IntegerStages::Forward(const PipelineOp& op, size_t number,
                                    Received inputs) {
  Stage& stage = stages_[op.stage];
  Slot& slot = stage.slots[number];
  if (op.micro_batch >= batch_.micro_batches) {
    Wrong(op, absl::StrCat("is of a batch of ", batch_.micro_batches));
  }
  if (slot.busy) {
    Wrong(op, absl::StrCat("is in the slot of micro-batch ", slot.micro_batch));
  }
  slot = Slot();
  slot.busy = true;
  slot.micro_batch = op.micro_batch;
  slot.version = op.version;
  int64_t skipped = SumOf(op, inputs, /*gradient=*/false);
  if (op.stage == 0) {
    slot.input = batch_.Input(op.micro_batch);
  } else if (inputs.count(op.stage - 1) > 0) {
    slot.input = FromBuffer(inputs[op.stage - 1]);
    skipped -= slot.input;
  }
  const IntegerWeights& weights = WeightsOf(op, op.version);
  slot.output = Residue(weights.back() * slot.input +
                        (net_.IsTied(op.stage) ? weights.front() : 0) +
                        skipped + op.stage + 1);
  return absl::OkStatus();
}

absl::StatusOr<Buffer> IntegerStages::TakeOutput(const PipelineOp& op,
                                                 size_t slot) {
  return ToBuffer(SlotOf(op, slot).output);
}

absl::Status IntegerStages::Backward(const PipelineOp& op, size_t number,
                                     Received output_gradients, bool adds) {
  Slot& slot = SlotOf(op, number);
  const int64_t sum = SumOf(op, output_gradients, /*gradient=*/true);
  slot.gradient = Residue(op.stage + 1 == net_.stages
                              ? 2 * slot.output + batch_.Label(op.micro_batch)
                              : sum);
  stages_[op.stage].handed = slot;
  if (op.kind == PipelineOp::Kind::kBackward) AddGradients(op, &slot, adds);
  return absl::OkStatus();
}

absl::Status IntegerStages::BackwardVariables(const PipelineOp& op,
                                              size_t number, bool adds) {
  AddGradients(op, &SlotOf(op, number), adds);
  return absl::OkStatus();
}

void IntegerStages::AddGradients(const PipelineOp& op, Slot* slot, bool adds) {
  Stage& stage = stages_[op.stage];
  Taken& sums = stage.sums;
  if (!adds) {
    sums = Taken();
    sums.sums.resize(net_.first_use[op.stage + 1] - net_.first_use[op.stage]);
  }
  if (op.micro_batch != stage.done) Wrong(op, "is out of order");
  if (sums.sums.empty()) {
    Wrong(op, "is added to no sum");
    return;
  }
  ++stage.done;
  sums.sums.back() += Residue(slot->gradient * slot->input);
  if (net_.IsTied(op.stage)) sums.sums.front() += slot->gradient;
  sums.statistic += slot->output % 97 * batch_.Examples(op.micro_batch);
  ++sums.micro_batches;
  slot->busy = false;
}

absl::StatusOr<Buffer> IntegerStages::TakeInputGradient(const PipelineOp& op,
                                                        size_t /*slot*/) {
  const Slot& handed = stages_[op.stage].handed;
  if (handed.micro_batch != op.micro_batch) {
    Wrong(op, "comes when another micro-batch has come back");
  }
  const int64_t factor = op.peer + 1 == op.stage
                             ? WeightsOf(op, handed.version).back()
                             : SkipFactor(op.peer);
  return ToBuffer(Residue(factor * handed.gradient));
}

absl::Status IntegerStages::Update(const PipelineOp& op) {
  Stage& stage = stages_[op.stage];
  const size_t first = net_.first_use[op.stage];
  stage.taken.push_back(stage.sums);
  if (!wanted_.empty()) {
    for (size_t i = 0; i < stage.sums.sums.size(); ++i) {
      wanted_[first + i].front() = static_cast<float>(stage.sums.sums[i]);
    }
    return absl::OkStatus();
  }
  const auto& [newest, weights] = *stage.versions.rbegin();
  IntegerWeights next = weights;
  for (size_t i = 0; i < next.size(); ++i) {
    next[i] = Residue(next[i] - stage.sums.sums[i]);
  }
  const uint32_t version = newest + 1;
  // What nobody reads any more makes room.
  const std::set<uint32_t> read(stage.reads.begin() + stage.done,
                                stage.reads.end());
  for (auto it = stage.versions.begin(); it != stage.versions.end();) {
    it = read.count(it->first) > 0 ? std::next(it) : stage.versions.erase(it);
  }
  if (stage.versions.size() >= stage.room) {
    Wrong(op, absl::StrCat("needs room for another version than the ",
                           stage.room, " that it has"));
  }
  stage.versions[version] = std::move(next);
  return absl::OkStatus();
}

}  // namespace paramd
