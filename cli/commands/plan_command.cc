#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"

#include "base/print.h"
#include "base/status_macros.h"
#include "cli/commands/chosen_recompute.h"
#include "cli/commands/command.h"
#include "cli/commands/output_file.h"
#include "compute/device/cpu_device.h"
#include "compute/model/network_plan.h"
#include "compute/pipeline/activation_budget.h"
#include "compute/pipeline/measure.h"
#include "compute/pipeline/partition.h"
#include "compute/pipeline/pipeline_model.h"
#include "compute/pipeline/schedule.h"
#include "compute/pipeline/timeline.h"
#include "compute/pipeline/timeline_svg.h"
#include "config/batch_rule.h"
#include "config/optimizer_slots.h"
#include "config/strategy.h"
#include "input/open_pipeline.h"
#include "process/exit_code.h"
#include "process/job_flags.h"
#include "process/terminal/text_layout.h"

namespace paramd {
namespace {

constexpr int kRepetitions = 5;
// More micro-batches for each stage than this shorten the wait by little.
constexpr uint32_t kMostOfAStage = 8;

// A cut that was measured with so many micro-batches.
struct MeasuredPlan {
  uint32_t micro_batches = 1;
  std::vector<LayerTimes> layers;  // For one micro-batch.
  Partition partition;
  PipelinePlan stages;  // Cut so.
  PipelineNeeds needs;
  std::vector<uint64_t> memory_bytes;  // By device.
  Timeline timeline;
  absl::optional<Timeline> measured;  // A batch in these stages, if it ran.
  double batch_s = 0;
  double in_one_piece_s = 0;  // A batch, on one device.
  double equal_counts_s = 0;  // By stages of equally many layers.
};

std::string Milliseconds(double seconds) {
  return absl::StrFormat("%.3f ms", 1e3 * seconds);
}

std::string Kibibytes(uint64_t bytes) {
  return absl::StrCat((bytes + 1023) / 1024, " KiB");
}

// The layers [begin, end) as one.
LayerTimes Sum(absl::Span<const LayerTimes> layers, size_t begin, size_t end) {
  LayerTimes sum;
  for (size_t i = begin; i < end; ++i) {
    sum.forward_s += layers[i].forward_s;
    sum.backward_s += layers[i].backward_s;
    sum.variables_s += layers[i].variables_s;
    sum.kept_bytes += layers[i].kept_bytes;
    sum.deferred_bytes += layers[i].deferred_bytes;
    sum.variable_bytes += layers[i].variable_bytes;
    sum.output_bytes = layers[i].output_bytes;
  }
  return sum;
}

// Without a flush a device waits only where as many batches as are under way
// take longer than the slowest device.
double SecondsOfBatch(const Timeline& timeline, uint32_t concurrent) {
  double seconds = timeline.makespan / concurrent;
  for (const auto& device : timeline.devices) {
    double busy = 0;
    for (const Timeline::Span& span : device) busy += span.end - span.begin;
    seconds = std::max(seconds, busy);
  }
  return seconds;
}

// The end of stage s.
size_t EndOf(const Partition& partition, size_t s, size_t layers) {
  return s + 1 < partition.begins.size() ? partition.begins[s + 1] : layers;
}

Timeline RunStages(const PipelineSchedule& schedule,
                   absl::Span<const LayerTimes> layers,
                   const Partition& partition) {
  std::vector<StageTimes> times;
  for (size_t s = 0; s < partition.begins.size(); ++s) {
    const LayerTimes stage =
        Sum(layers, partition.begins[s], EndOf(partition, s, layers.size()));
    times.push_back({.forward = stage.forward_s,
                     .backward_input = stage.backward_s - stage.variables_s,
                     .backward_weights = stage.variables_s});
  }
  return RunOnClock(schedule, times);
}

// Where there are no servers, slots are beside the weights.
void AddSlots(const v1::JobConfig& job, const NetworkPlan& network,
              std::vector<LayerTimes>* layers) {
  if (UsesServers(job)) return;
  for (size_t i = 0; i < layers->size(); ++i) {
    for (const v1::Variable& variable : network.layers->layer(i).variables()) {
      uint64_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      const uint64_t row =
          variable.shape().empty() ? 1 : size / variable.shape(0);
      for (const Slot& slot : SlotsOf(job.optimizer(), variable)) {
        (*layers)[i].variable_bytes += 4 * slot.words(size, row);
      }
    }
  }
}

// The cut that was asked for, or the best one, of devices with so much memory;
// 0: enough.
absl::Status CutLayers(const v1::JobConfig& job, const PipelinePlan& asked,
                       uint64_t device_bytes, MeasuredPlan* plan) {
  const auto stages = static_cast<uint32_t>(asked.begins.size());
  const uint32_t of_each = stages / asked.devices;
  PartitionOptions options;
  options.stages = stages;
  options.memory_bytes = device_bytes / of_each;
  options.live = [&](uint32_t s) {
    return uint64_t{asked.concurrent} * plan->needs.live[s];
  };
  options.versions = [&](uint32_t) { return asked.concurrent; };
  options.deferred = [&](uint32_t s) { return plan->needs.deferred[s]; };
  if (!job.pipeline().begin_at().empty()) {
    plan->partition.begins = asked.begins;
  } else {
    ASSIGN_OR_RETURN(plan->partition, PartitionLayers(plan->layers, options));
  }
  plan->memory_bytes.assign(asked.devices, 0);
  for (uint32_t s = 0; s < stages; ++s) {
    plan->memory_bytes[s % asked.devices] +=
        StageBytes(plan->layers, plan->partition.begins[s],
                   EndOf(plan->partition, s, plan->layers.size()), s, options);
  }
  for (size_t d = 0; d < plan->memory_bytes.size(); ++d) {
    if (device_bytes == 0 || plan->memory_bytes[d] <= device_bytes) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "cut by pipeline.begin_at, device ", d, " needs ",
        Kibibytes(plan->memory_bytes[d]), "; --device_mib gives it ",
        Kibibytes(device_bytes), ": leave begin_at out, or give more stages"));
  }
  return absl::OkStatus();
}

absl::StatusOr<MeasuredPlan> MeasurePlan(
    const v1::JobConfig& job, const std::shared_ptr<const NetworkPlan>& network,
    const Batch& batch, uint32_t micro_batches, uint64_t device_bytes) {
  const uint64_t size = (batch.size() + micro_batches - 1) / micro_batches;
  Batch part;
  part.CopyExamples(batch, 0, size);
  MeasuredPlan plan;
  plan.micro_batches = static_cast<uint32_t>((batch.size() + size - 1) / size);
  ASSIGN_OR_RETURN(plan.layers, MeasureLayers(network, part, kRepetitions, [] {
                     return std::make_unique<CpuDevice>();
                   }));
  ASSIGN_OR_RETURN(const PipelinePlan asked,
                   PlanPipeline(job.pipeline(), *network));
  const auto stages = static_cast<uint32_t>(asked.begins.size());
  AddSlots(job, *network, &plan.layers);
  const PipelineSchedule schedule =
      WithTransfers(asked.schedule(plan.micro_batches));
  ASSIGN_OR_RETURN(plan.needs, CheckSchedule(schedule, plan.micro_batches));
  RETURN_IF_ERROR(CutLayers(job, asked, device_bytes, &plan));
  plan.timeline = RunStages(schedule, plan.layers, plan.partition);
  plan.batch_s = SecondsOfBatch(plan.timeline, asked.concurrent);
  plan.equal_counts_s = SecondsOfBatch(
      RunStages(schedule, plan.layers, EqualCounts(plan.layers, stages)),
      asked.concurrent);
  const LayerTimes whole = Sum(plan.layers, 0, plan.layers.size());
  plan.in_one_piece_s =
      plan.micro_batches * (whole.forward_s + whole.backward_s);
  plan.stages = asked;
  plan.stages.begins = plan.partition.begins;
  plan.stages.micro_batches = plan.micro_batches;
  return plan;
}

// Of those that were measured the fastest; the whole model is as fast as with
// the number of micro-batches that suits it. `runs`: then it is run too.
absl::StatusOr<MeasuredPlan> BestPlan(const v1::JobConfig& job,
                                      uint64_t device_bytes, bool runs) {
  ASSIGN_OR_RETURN(const auto training, OpenTrainingData(job));
  ASSIGN_OR_RETURN(const std::shared_ptr<const NetworkPlan> network,
                   PlanNetwork(job.model(), training->spec()));
  Batch batch;
  const uint64_t size =
      std::min<uint64_t>(job.batch_per_replica(), training->size());
  RETURN_IF_ERROR(
      training->Read({.epoch = 0, .begin = 0, .end = size}, &batch));
  if (batch.size() == 0) {
    return absl::InvalidArgumentError(
        "the first batch of the training data has no example to measure on");
  }
  const uint32_t asked =
      job.pipeline().schedule() == v1::PipelineConfig::SCHEDULE_PIPEDREAM
          ? 1
          : job.pipeline().micro_batches();
  uint32_t count = asked > 0 ? asked : 1;
  const uint32_t most = asked > 0
                            ? asked
                            : static_cast<uint32_t>(std::min<uint64_t>(
                                  batch.size(), uint64_t{kMostOfAStage} *
                                                    job.pipeline().stages()));
  absl::StatusOr<MeasuredPlan> best = absl::InternalError("nothing measured");
  double in_one_piece_s = 0;
  for (; count <= most; count *= 2) {
    auto plan = MeasurePlan(job, network, batch, count, device_bytes);
    // More micro-batches are smaller, and may fit.
    if (absl::IsResourceExhausted(plan.status())) {
      if (!best.ok()) best = plan.status();
      continue;
    }
    if (!plan.ok()) return plan.status();
    in_one_piece_s = in_one_piece_s == 0
                         ? plan->in_one_piece_s
                         : std::min(in_one_piece_s, plan->in_one_piece_s);
    if (!best.ok() || plan->batch_s < best->batch_s) {
      best = *std::move(plan);
    }
  }
  if (!best.ok()) return best;
  best->in_one_piece_s = in_one_piece_s;
  if (!runs) return best;
  ASSIGN_OR_RETURN(best->measured,
                   MeasureStages(network, best->stages, batch,
                                 [] { return std::make_unique<CpuDevice>(); }));
  return best;
}

std::string DescribeStages(const v1::JobConfig& job, const MeasuredPlan& plan) {
  std::vector<std::vector<std::string>> rows = {
      {"stage", "layers", "forward", "backward", "micro-batches kept",
       "activations",
       UsesServers(job) ? "weights, gradients" : "weights, gradients, slots",
       "to the next stage"}};
  const size_t layers = plan.layers.size();
  for (size_t s = 0; s < plan.partition.begins.size(); ++s) {
    const size_t begin = plan.partition.begins[s];
    const size_t end = EndOf(plan.partition, s, layers);
    const LayerTimes stage = Sum(plan.layers, begin, end);
    const uint64_t kept = uint64_t{plan.stages.concurrent} * plan.needs.live[s];
    rows.push_back({absl::StrCat(s),
                    end == begin + 1
                        ? plan.layers[begin].name
                        : absl::StrCat(plan.layers[begin].name, " to ",
                                       plan.layers[end - 1].name),
                    Milliseconds(stage.forward_s),
                    Milliseconds(stage.backward_s), absl::StrCat(kept),
                    Kibibytes(kept * stage.kept_bytes +
                              plan.needs.deferred[s] * stage.deferred_bytes),
                    Kibibytes(plan.stages.concurrent * stage.variable_bytes),
                    end == layers ? "-" : Kibibytes(stage.output_bytes)});
  }
  std::vector<std::string> memory;
  for (const uint64_t bytes : plan.memory_bytes) {
    memory.push_back(Kibibytes(bytes));
  }
  return absl::StrCat(Table(rows),
                      "\nMemory of each device: ", absl::StrJoin(memory, ", "),
                      "\n");
}

// What to write into the job file.
std::string SettingOf(const v1::JobConfig& job, const MeasuredPlan& plan) {
  std::vector<std::string> names;
  for (size_t s = 1; s < plan.partition.begins.size(); ++s) {
    names.push_back(
        absl::StrCat("\"", plan.layers[plan.partition.begins[s]].name, "\""));
  }
  const v1::PipelineConfig& asked = job.pipeline();
  std::string schedule;
  if (asked.has_schedule()) {
    absl::string_view name =
        v1::PipelineConfig::Schedule_Name(asked.schedule());
    absl::ConsumePrefix(&name, "SCHEDULE_");
    schedule =
        absl::StrCat(", \"schedule\": \"", absl::AsciiStrToLower(name), "\"");
  }
  if (asked.stages_per_device() > 1) {
    absl::StrAppend(&schedule,
                    ", \"stages_per_device\": ", asked.stages_per_device());
  }
  return absl::StrCat("\"pipeline\": {\"stages\": ", asked.stages(), schedule,
                      ", \"micro_batches\": ", plan.micro_batches,
                      ", \"begin_at\": [", absl::StrJoin(names, ", "), "]}");
}

std::string DescribePlan(const v1::JobConfig& job, const MeasuredPlan& plan) {
  const double time = plan.batch_s;
  const auto devices = static_cast<double>(plan.timeline.devices.size());
  std::string text = DescribeStages(job, plan);
  absl::StrAppend(
      &text, "\nOne batch in ", plan.micro_batches,
      " micro-batches, as measured on this processor, one layer at a time:\n");
  text += Table(
      {{"in one piece, on one device", Milliseconds(plan.in_one_piece_s), ""},
       {absl::StrCat("in these stages, on ", plan.timeline.devices.size(),
                     " devices"),
        Milliseconds(time),
        absl::StrFormat("%.2f times as fast; devices wait %.0f %% of the time",
                        plan.in_one_piece_s / time,
                        100 * (1 - plan.timeline.busy / (devices * time)))},
       {"in stages of as many layers each", Milliseconds(plan.equal_counts_s),
        absl::StrFormat("%.2f times as fast",
                        plan.in_one_piece_s / plan.equal_counts_s)},
       {absl::StrCat("by ", plan.timeline.devices.size(),
                     " replicas, without their sum"),
        Milliseconds(plan.in_one_piece_s / devices), ""}});
  if (plan.measured.has_value()) {
    absl::StrAppendFormat(
        &text,
        "\nThe same batch, computed in these stages on this processor, all at "
        "once: %s;\nthey waited %.0f %% of the time\n",
        Milliseconds(plan.measured->makespan), 100 * plan.measured->bubble());
  }
  if (time >= plan.in_one_piece_s) {
    absl::StrAppend(&text,
                    "\nDo not cut this model: in one piece it is faster.\n");
  } else {
    absl::StrAppend(&text,
                    "\nDo not cut a model that fits on a device: replicas of "
                    "it are faster. If it does not fit:\n",
                    SettingOf(job, plan), "\n");
  }
  return text;
}

// What the job's budget for activations comes to; empty without one. `cut`:
// the stages, if they are others than the job says.
absl::StatusOr<std::string> DescribeBudget(
    const v1::JobConfig& job, const absl::optional<PipelinePlan>& cut) {
  ASSIGN_OR_RETURN(const auto training, OpenTrainingData(job));
  ASSIGN_OR_RETURN(const auto network,
                   PlanNetwork(job.model(), training->spec()));
  PipelinePlan stages = cut.value_or(InOnePiece());
  if (!cut.has_value() && IsPipelined(job)) {
    ASSIGN_OR_RETURN(stages, PlanPipeline(job.pipeline(), *network));
  }
  RETURN_IF_ERROR(
      FitActivations(job, CpuDevice().activations(), network.get(), &stages));
  return DescribeChosen(network->chosen);
}

// `svg`: where the timeline is drawn, `run_svg`: that of a batch which is then
// run; empty: nowhere. `device_mib`: the memory of each device; 0: enough.
absl::StatusOr<std::string> PlanOf(const JobFlags& flags,
                                   const std::string& svg,
                                   const std::string& run_svg, int device_mib) {
  ASSIGN_OR_RETURN(LoadedJob job, flags.Load());
  const bool is_cut = job.config.pipeline().stages() > 1;
  if (!is_cut && job.config.memory().activation_budget_bytes() == 0) {
    return absl::InvalidArgumentError(
        "a plan is for two stages or more, or for a budget: give --set "
        "pipeline.stages=N or --set memory.activation_budget_bytes=N");
  }
  if (job.config.model().custom()) {
    return absl::InvalidArgumentError(
        "the job's model is custom: only a model in the job file is cut");
  }
  RETURN_IF_ERROR(DeriveBatch(ReplicasOf(job.config), &job.config));
  if (!is_cut) {
    if (device_mib > 0) {
      return absl::InvalidArgumentError(
          "--device_mib limits what stages need: give --set "
          "pipeline.stages=N");
    }
    if (svg.empty() && run_svg.empty()) {
      return DescribeBudget(job.config, absl::nullopt);
    }
    return absl::InvalidArgumentError(
        absl::StrCat(svg.empty() ? "--run_svg" : "--svg",
                     " draws what stages do: give --set pipeline.stages=N"));
  }
  // One batch by itself would be another schedule.
  if (!run_svg.empty() && ConcurrentSteps(job.config.pipeline()) > 1) {
    return absl::InvalidArgumentError(
        "--run_svg draws one batch, but with this pipeline.schedule several "
        "are under way: leave it out, or choose a schedule with a flush");
  }
  ASSIGN_OR_RETURN(const MeasuredPlan plan,
                   BestPlan(job.config, static_cast<uint64_t>(device_mib) << 20,
                            /*runs=*/!run_svg.empty()));
  ASSIGN_OR_RETURN(const std::string budget,
                   DescribeBudget(job.config, plan.stages));
  if (!svg.empty()) {
    RETURN_IF_ERROR(WriteOutputFile("--svg", svg, TimelineSvg(plan.timeline)));
  }
  if (plan.measured.has_value()) {
    RETURN_IF_ERROR(
        WriteOutputFile("--run_svg", run_svg, TimelineSvg(*plan.measured)));
  }
  return DescribePlan(job.config, plan) + budget;
}

}  // namespace

int PlanCommand(const Invocation& invocation) {
  JobFlags job;
  Flags flags(
      "plan", "--job FILE --set pipeline.stages=N [flags]",
      "Cuts the job's model into pipeline.stages stages so that the slowest is "
      "as fast\nas can be, and says what that comes to: what each stage takes "
      "and keeps, how long\na batch takes by pipeline.schedule, how much of "
      "it devices wait, and what the\nalternatives take. Each layer is "
      "measured "
      "on a batch of the training data, on this\nprocessor; the number of "
      "micro-batches is the fastest unless\npipeline.micro_batches gives it. "
      "Ends with the setting for the job file.\n\nWith "
      "memory.activation_budget_bytes it also says which layers that has "
      "computed\nagain, in those stages or in one piece.");
  std::string svg, run_svg;
  int device_mib = 0;
  job.AddTo(&flags);
  flags.AddText("svg", "FILE",
                "draws when each device computes which micro-batch of a batch",
                &svg);
  flags.AddText("run_svg", "FILE",
                "has the stages compute a batch, all at the same time, and "
                "draws what that took in the same way",
                &run_svg);
  flags.AddCount("device_mib",
                 "MiB that each device has for weights, gradients, slots and "
                 "activations: the model is cut so that each stage fits; 0: "
                 "enough",
                 {0, 1 << 30}, &device_mib);
  if (const auto code = ParseFlags(invocation, &flags)) return *code;
  const absl::StatusOr<std::string> plan =
      PlanOf(job, svg, run_svg, device_mib);
  PrintError(plan.status());
  if (!plan.ok()) return kExitBadConfiguration;
  Print(*plan);
  return kExitFinished;
}

}  // namespace paramd
