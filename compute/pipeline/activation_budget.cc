#include "compute/pipeline/activation_budget.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "compute/model/recompute_plan.h"

namespace paramd {
namespace {

// A stage of a model: all of the layers, if it is not cut.
struct Part {
  size_t stage = 0;
  bool is_whole = true;
  std::vector<ChainLink> chain;
  ChainUse use;
  uint64_t examples = 0;
  uint64_t budget = 0;
};

absl::Status WhyNothingSuffices(const Part& part) {
  std::string largest;
  uint64_t alone = 0;
  for (const ChainLink& link : part.chain) {
    // No plan has less for it: its output, what else it keeps, two gradients.
    const uint64_t bytes =
        PlanOf({&link, 1}, {.border_bytes = link.output_bytes}, {}).bytes;
    if (bytes <= alone) continue;
    alone = bytes;
    largest = link.name;
  }
  const uint64_t least = SmallestPlan(part.chain, part.use).bytes;
  const uint64_t without = PlanOf(part.chain, part.use, {}).bytes;
  return absl::InvalidArgumentError(absl::StrCat(
      "memory.activation_budget_bytes ", part.is_whole ? "is " : "leaves ",
      part.budget,
      part.is_whole
          ? std::string()
          : absl::StrCat(" to stage ", part.stage, ", which keeps ",
                         part.use.live,
                         part.use.live == 1 ? " micro-batch" : " micro-batches",
                         " at once"),
      "; activations of ", part.examples, " examples need ", least,
      " at least, and ", without,
      " if no layer is computed again; the largest layer, '", largest,
      "', needs ", alone,
      alone > part.budget ? " alone, more than there is" : " alone",
      part.is_whole ? ": give a smaller batch_per_replica"
                    : ": give more pipeline.micro_batches or a smaller "
                      "batch_per_replica"));
}

ChosenRecompute ChosenFor(const Part& part, const RecomputePlan& plan) {
  ChosenRecompute chosen;
  for (const RecomputedLinks& links : plan.segments) {
    chosen.ranges.emplace_back(part.chain[links.begin].name,
                               part.chain[links.end - 1].name);
  }
  chosen.live = part.use.live;
  chosen.examples = part.examples;
  chosen.budget_bytes = part.budget;
  chosen.bytes = plan.bytes;
  chosen.bytes_without = PlanOf(part.chain, part.use, {}).bytes;
  for (const ChainLink& link : part.chain) chosen.flops += link.flops;
  chosen.flops_again = plan.flops_again;
  return chosen;
}

// Micro-batches that each stage keeps at once.
std::vector<uint32_t> LiveOf(const PipelinePlan& pipeline,
                             uint32_t micro_batches) {
  if (pipeline.schedule == nullptr) return {1};
  const auto needs = CheckSchedule(pipeline.schedule(micro_batches));
  CHECK(needs.ok(), "a schedule is sound");
  std::vector<uint32_t> live = needs->live;
  for (uint32_t& of_stage : live) of_stage *= pipeline.concurrent;
  return live;
}

// A layer of the new sequence begins where that one of the old began.
size_t MovedTo(size_t begin, absl::Span<const LayerRange> ranges) {
  size_t moved = begin;
  for (const LayerRange& range : ranges) {
    if (range.end <= begin) moved -= range.end - range.begin - 1;
  }
  return moved;
}

}  // namespace

PipelinePlan InOnePiece() {
  PipelinePlan plan;
  plan.begins = {0};
  return plan;
}

absl::Status FitActivations(const v1::JobConfig& job, DType dtype,
                            NetworkPlan* network, PipelinePlan* pipeline) {
  const uint64_t budget = job.memory().activation_budget_bytes();
  if (budget == 0) return absl::OkStatus();
  const Sequence& layers = *network->layers;
  const uint64_t batch = std::max<uint64_t>(job.batch_per_replica(), 1);
  const auto batch_over = [batch](uint64_t n) { return (batch + n - 1) / n; };
  const uint64_t examples = batch_over(pipeline->micro_batches);
  const std::vector<uint32_t> live =
      LiveOf(*pipeline, static_cast<uint32_t>(batch_over(examples)));
  const size_t stages = pipeline->begins.size();
  std::vector<LayerRange> ranges;
  for (size_t s = 0; s < stages; ++s) {
    const size_t begin = pipeline->begins[s];
    const size_t end = s + 1 < stages ? pipeline->begins[s + 1] : layers.size();
    // As PipelineStage::KeptBytes has it; the input is the batch's.
    const uint64_t border = layers.layer(end - 1).output_size() +
                            (s == 0 ? 0 : layers.layer(begin).input_size());
    const Part part = {
        .stage = s,
        .is_whole = stages == 1,
        .chain = ChainOf(layers, begin, end, examples, dtype),
        .use = {.live = live[s],
                .border_bytes = examples * border * SizeOf(dtype)},
        .examples = examples,
        .budget = budget / (stages / pipeline->devices)};
    const auto plan = CheapestPlan(part.chain, part.use, part.budget);
    if (!plan.has_value()) return WhyNothingSuffices(part);
    network->chosen.push_back(ChosenFor(part, *plan));
    for (const RecomputedLinks& links : plan->segments) {
      ranges.push_back(
          {part.chain[links.begin].layer, part.chain[links.end - 1].layer + 1});
    }
  }
  if (ranges.empty()) return absl::OkStatus();
  const uint64_t before = network->cost().activation_bytes;
  network->layers = WithRecompute(layers, ranges);
  const uint64_t after = network->cost().activation_bytes;
  network->saved_bytes = before > after ? before - after : 0;
  for (size_t& begin : pipeline->begins) begin = MovedTo(begin, ranges);
  return absl::OkStatus();
}

}  // namespace paramd
