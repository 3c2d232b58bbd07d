#include "compute/model/recorded_passes.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"

namespace paramd {
namespace {

uint64_t BitsOf(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

void Add(const ConstTensor& tensor, std::vector<uint64_t>* key) {
  key->push_back(reinterpret_cast<uintptr_t>(tensor.data));
  key->push_back(static_cast<uint64_t>(tensor.dtype));
  key->push_back(tensor.data == nullptr ? 0 : tensor.size());
}

}  // namespace

RecordedPasses::RecordedPasses(Device* device)
    : device_(*device), link_(device->link()) {
  if (link_ != nullptr && !link_->records()) link_ = nullptr;
}

absl::Span<const uint64_t> RecordedPasses::OffsetsOf(
    absl::Span<const uint64_t> offsets, const Layer::Context& context) {
  if (link_ == nullptr || !context.draws || !context.training ||
      !offsets.empty()) {
    return offsets;
  }
  offsets_.resize(context.examples);
  std::iota(offsets_.begin(), offsets_.end(), context.first);
  return offsets_;
}

void RecordedPasses::SetKey(const Layer::BackwardPass& pass) {
  const Layer::Context& context = *pass.context;
  key_.clear();
  key_.push_back(context.examples);
  key_.push_back(context.training ? 1 : 0);
  key_.push_back(BitsOf(context.share));
  const bool draws = context.draws && context.training;
  key_.push_back(draws ? context.seed : 0);
  key_.push_back(draws ? context.epoch : 0);
  key_.push_back(reinterpret_cast<uintptr_t>(context.offsets.data()));
  for (const auto& tensor :
       {pass.input, ConstTensor(pass.output), pass.output_gradient}) {
    Add(tensor, &key_);
  }
  for (const ConstTensor& input : context.inputs) Add(input, &key_);
  key_.push_back(reinterpret_cast<uintptr_t>(pass.kept));
  key_.push_back(reinterpret_cast<uintptr_t>(pass.scratch));
  for (const ConstTensor& weights : pass.weights) Add(weights, &key_);
  for (const Tensor& gradient : pass.gradients) Add(gradient, &key_);
}

RecordedPasses::Known* RecordedPasses::Find() {
  Known* oldest = &known_.front();
  for (Known& known : known_) {
    if (known.last_used > 0 && known.key == key_) return &known;
    if (known.last_used < oldest->last_used) oldest = &known;
  }
  oldest->key.assign(key_.begin(), key_.end());
  oldest->last_used = 0;
  oldest->pieces.clear();
  return oldest;
}

bool RecordedPasses::Replay(const Layer::BackwardPass& pass, At at) {
  due_ = nullptr;
  if (link_ == nullptr) return false;
  if (link_->counts().allocations != allocations_) {
    for (Known& known : known_) {
      known.last_used = 0;
      known.pieces.clear();
    }
    allocations_ = link_->counts().allocations;
  }
  SetKey(pass);
  Known* const known = Find();
  const bool came_before = known->last_used > 0;
  known->last_used = ++used_;
  if (known->pieces.empty()) {
    if (came_before &&
        (recorded_ < kAtFirst || replayed_ >= kReplaysEach * recorded_)) {
      due_ = known;
    }
    return false;
  }
  ++replayed_;
  for (const Piece& piece : known->pieces) {
    if (pass.context->IsAbandoned()) break;
    if (piece.calls != nullptr) link_->Replay(*piece.calls);
    if (piece.at != kNone) at(piece.at);
  }
  return true;
}

void RecordedPasses::Record(const Layer::BackwardPass& pass, Walk walk,
                            absl::FunctionRef<bool(size_t variable)> cuts) {
  Known* const known = std::exchange(due_, nullptr);
  if (known == nullptr || link_->counts().allocations != allocations_) return;
  absl::Status status;
  const auto end_piece = [&](size_t at) {
    auto calls = link_->EndRecording();
    status.Update(calls.status());
    if (calls.ok()) known->pieces.push_back({*std::move(calls), at});
  };
  link_->BeginRecording();
  walk([&](size_t variable) {
    if (!cuts(variable)) return;
    end_piece(variable);
    link_->BeginRecording();
  });
  end_piece(kNone);
  ++recorded_;
  if (status.ok() && !pass.context->IsAbandoned()) return;
  known->pieces.clear();
  if (status.ok() || !device_.status().ok()) return;
  link_ = nullptr;
  Log(LogLevel::kWarning,
      absl::StrCat("steps are given to the device call by call: ",
                   status.message()));
}

}  // namespace paramd
