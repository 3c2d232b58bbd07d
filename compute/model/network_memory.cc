// What a pass needs of a device's memory, before it takes any.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/process_limits.h"
#include "compute/model/in_batch.h"
#include "compute/model/network.h"

namespace paramd {
namespace {

std::string MebibytesOf(uint64_t bytes) {
  return absl::StrCat((bytes + (1 << 20) - 1) >> 20, " MiB");
}

}  // namespace

uint64_t Network::FurtherBytes() const {
  if (plan_->shared.size() == plan_->variables.size()) return 0;
  uint64_t largest = 0;
  for (const Tensor& gradient : gradients_) {
    largest = std::max(largest, gradient.size() * sizeof(float));
  }
  return largest;
}

uint64_t Network::MissingBytes(uint64_t examples, WeightSpans weights,
                               const Reckoned& pass) const {
  const Sequence& layers = *plan_->layers;
  const uint64_t outputs = examples * layers.output_size();
  const Sequence::Needs needs =
      pass.recomputes
          ? layers.NeedsIfRecomputed(examples, pass.dtype)
          : Sequence::Needs{layers.KeptBytes(examples, pass.dtype),
                            layers.ScratchBytes(examples, pass.dtype)};
  uint64_t missing = 0;
  const auto add = [&](uint64_t bytes, const GrowingMemory& memory) {
    if (bytes > memory.bytes) missing += bytes - memory.bytes;
  };
  add(outputs * SizeOf(pass.dtype), memory_.output);
  add(needs.kept, memory_.kept);
  add(needs.scratch, memory_.scratch);
  if (pass.training) {
    add(outputs * SizeOf(pass.dtype), memory_.output_gradient);
    add(FurtherBytes() * gradients_.size(), memory_.further);
  }
  std::vector<uint64_t> sizes;
  for (const auto& one : weights) sizes.push_back(one.size());
  uint64_t label_bytes = 0;
  uint64_t rows = 0;
  uint64_t of_task = 0;
  uint64_t compared = 0;
  for (const Task& task : plan_->tasks) {
    label_bytes = std::max(
        label_bytes, examples * task.label.size() * SizeOf(task.label.dtype));
    rows = std::max(rows, task.loss->RowsOf(examples));
    of_task = std::max(of_task, examples * task.columns());
    if (task.loss->IsOfBatch()) compared = examples;
  }
  std::vector<uint64_t> input_bytes;
  for (size_t i = 0; i < plan_->inputs.size(); ++i) {
    input_bytes.push_back(examples * plan_->InputBytes(i));
  }
  return missing +
         exchange_.MissingBytes({.input_bytes = std::move(input_bytes),
                                 .offset_bytes = examples * sizeof(uint64_t),
                                 .label_bytes = label_bytes,
                                 .outputs = pass.takes_outputs ? outputs : 0,
                                 .rows = rows,
                                 .soft = teachers_ == nullptr ? 0 : outputs,
                                 .of_task = plan_->IsOfOneTask() ? 0 : of_task,
                                 .compared = compared},
                                sizes, pass.training, pass.dtype);
}

absl::Status Network::CheckMemory(uint64_t examples, WeightSpans weights,
                                  bool training, bool takes_outputs) {
  if (examples <= steps_done_.most()) return absl::OkStatus();
  DeviceLink* const link = device_->link();
  if (link == nullptr) {
    // Other memory grows as the batch does, which is there already.
    return plan_->tasks.front().loss->IsOfBatch()
               ? CheckScoresFit(examples, training, MemoryOfThisProcess())
               : absl::OkStatus();
  }
  const Reckoned pass{.training = training,
                      .dtype = device_->activations(),
                      .takes_outputs = takes_outputs};
  const uint64_t missing = MissingBytes(examples, weights, pass);
  const uint64_t free = missing == 0 ? 0 : link->FreeBytes();
  if (missing <= free) return absl::OkStatus();
  // The most examples, below that, whose memory is there.
  const auto fitting = [&](uint64_t below, const Reckoned& as) {
    uint64_t fits = 0;
    while (fits + 1 < below) {
      const uint64_t middle = fits + (below - fits) / 2;
      (MissingBytes(middle, weights, as) <= free ? fits : below) = middle;
    }
    return fits;
  };
  const uint64_t fits = fitting(examples, pass);
  const auto or_one = [&](const Reckoned& other, absl::string_view with) {
    const uint64_t most = fitting(examples + 1, other);
    return most <= fits ? std::string()
                        : absl::StrCat(", with ", with, " one of ", most);
  };
  Reckoned halves = pass;
  halves.dtype = DType::kBFloat16;
  Reckoned recomputed = pass;
  recomputed.recomputes = true;
  return absl::ResourceExhaustedError(absl::StrCat(
      "a batch of ", examples, " examples needs ", MebibytesOf(missing),
      " more on ", link->name(), ", which has ", MebibytesOf(free), " free; ",
      fits == 0 ? std::string("no batch would fit")
                : absl::StrCat("a batch of ", fits, " would fit"),
      or_one(halves, "compute_format bf16"),
      or_one(recomputed,
             "each residual or parallel layer in a \"recompute\"")));
}

}  // namespace paramd
