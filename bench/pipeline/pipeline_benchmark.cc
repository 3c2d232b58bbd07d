// A model in stages: two for real, on two cores, and eight on a clock that is
// fed with what each layer takes. See README.md.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "compute/device/cpu_device.h"
#include "compute/model/network.h"
#include "compute/model/network_plan.h"
#include "compute/model/recompute_plan.h"
#include "compute/pipeline/activation_budget.h"
#include "compute/pipeline/measure.h"
#include "compute/pipeline/partition.h"
#include "compute/pipeline/pipeline_model.h"
#include "compute/pipeline/schedule.h"
#include "compute/pipeline/timeline.h"
#include "input/testing/random_batch.h"

namespace paramd {
namespace {

constexpr uint32_t kMicroBatches = 32;

struct Subject {
  std::string name;
  InputSpec input;
  uint64_t batch;  // A multiple of the micro-batches.
  std::string model;
  bool is_balanced;  // Whether its layers can be cut evenly.
};

constexpr int kBlocks = 16;  // Of the transformer.

std::string TransformerModel(int blocks) {
  std::string model =
      "layers { embedding { width: 64 } } layers { positional_embedding {} } ";
  for (int block = 0; block < blocks; ++block) {
    model += R"(
      layers { residual {
        layers { layer_norm { epsilon: 1e-5 } }
        layers { attention { heads: 4 causal: true } }
        layers { dense { units: 256 } } layers { gelu {} }
        layers { dense { units: 64 } } } } )";
  }
  return model + R"(layers { dense { units: 32 } }
                    loss: SOFTMAX_CROSS_ENTROPY)";
}

std::string CnnModel() {
  std::string model;
  for (const int filters : {16, 32, 32, 64, 64, 64}) {
    absl::StrAppend(&model, "layers { conv2d { filters: ", filters,
                    " kernel: 3 stride: 1 groups: 1 bias: true padding: SAME } "
                    "} layers { relu {} } ");
    if (filters == 32) model += "layers { max_pool { size: 2 stride: 2 } } ";
  }
  return model + R"(layers { flatten {} } layers { dense { units: 64 } }
                    layers { relu {} } layers { dense { units: 10 } }
                    loss: SOFTMAX_CROSS_ENTROPY)";
}

std::vector<Subject> Subjects() {
  const FeatureSpec text{
      .name = "text", .dtype = DType::kInt32, .dims = {32}, .classes = 32};
  FeatureSpec next = text;
  next.name = "label";
  return {{"transformer", InputSpec{{text, next}}, 128,
           TransformerModel(kBlocks), true},
          {"cnn", LabelledImages({28, 28}, 10), 128, CnnModel(), false}};
}

// A model with its weights and gradients.
class Trained {
 public:
  explicit Trained(std::unique_ptr<TrainedModel> model)
      : model_(std::move(model)) {
    RandomStream random(2);
    for (const v1::Variable& variable : model_->variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      std::vector<float>& values = values_.emplace_back(size);
      for (float& value : values) value = 0.1f * (random.Uniform() - 0.5f);
      gradients_.emplace_back(size);
    }
    for (const auto& one : values_) weights_.emplace_back(one);
    for (auto& one : gradients_) spans_.push_back(absl::MakeSpan(one));
  }

  // Seconds of a step on each of the batches.
  double Step(absl::Span<const Batch> batches) {
    const Time begin = MonotonicNow();
    for (const Batch& batch : batches) {
      CHECK(model_
                ->Step(weights_, batch,
                       {.divisor = static_cast<double>(batch.size())}, spans_,
                       [](size_t) {})
                .ok(),
            "a step is computed");
    }
    return absl::ToDoubleSeconds(MonotonicNow() - begin);
  }

 private:
  const std::unique_ptr<TrainedModel> model_;
  std::vector<std::vector<float>> values_, gradients_;
  std::vector<absl::Span<const float>> weights_;
  std::vector<absl::Span<float>> spans_;
};

using NetworkRef = std::shared_ptr<const NetworkPlan>;

void AddRatio(const std::string& metric, double value, Report* report) {
  Figure figure{metric, "", {}, {}};
  figure.values.Add(value);
  report->Add(figure);
}

v1::ModelConfig ConfigOf(const std::string& model) {
  v1::ModelConfig config;
  CHECK(google::protobuf::TextFormat::ParseFromString(model, &config),
        "the models of the benchmark are read");
  return config;
}

std::unique_ptr<NetworkPlan> Planned(const Subject& subject,
                                     const std::string& model) {
  auto planned = PlanNetwork(ConfigOf(model), subject.input);
  CHECK(planned.ok(), "the models of the benchmark fit their input");
  return *std::move(planned);
}

std::vector<LayerTimes> Measured(const NetworkRef& network, const Batch& batch,
                                 uint64_t examples, int repetitions) {
  Batch part;
  part.CopyExamples(batch, 0, examples);
  auto times = MeasureLayers(network, part, repetitions,
                             [] { return std::make_unique<CpuDevice>(); });
  CHECK(times.ok(), "the models of the benchmark are computed");
  return *std::move(times);
}

std::vector<StageTimes> StagesOf(absl::Span<const LayerTimes> layers,
                                 uint32_t stages) {
  PartitionOptions options;
  options.stages = stages;
  const auto partition = PartitionLayers(layers, options);
  CHECK(partition.ok(), "the models of the benchmark can be cut");
  std::vector<StageTimes> times(stages);
  for (uint32_t s = 0; s < stages; ++s) {
    const size_t end =
        s + 1 < stages ? partition->begins[s + 1] : layers.size();
    for (size_t i = partition->begins[s]; i < end; ++i) {
      times[s].forward += layers[i].forward_s;
      times[s].backward_input += layers[i].backward_s - layers[i].variables_s;
      times[s].backward_weights += layers[i].variables_s;
    }
  }
  return times;
}

void OnTheClock(const Subject& subject, const NetworkRef& network,
                const Batch& batch, int repetitions, Report* report) {
  const auto micro =
      Measured(network, batch, subject.batch / kMicroBatches, repetitions);
  const auto whole = Measured(network, batch, subject.batch, repetitions);
  const auto eight = StagesOf(micro, 8);
  const Timeline pipelined =
      RunOnClock(OneForwardOneBackward(8, kMicroBatches), eight);
  AddRatio(absl::StrCat(subject.is_balanced ? "balanced" : "unbalanced",
                        "_2_to_8_speedup"),
           RunOnClock(NaiveSchedule(2, 1), StagesOf(whole, 2)).makespan /
               pipelined.makespan,
           report);
  const Samples formula = [] {
    Samples samples;
    samples.Add(7.0 / (kMicroBatches + 7));
    return samples;
  }();
  const auto bubble = [&](const std::string& schedule, double value) {
    Figure figure{absl::StrCat(subject.name, ".bubble_", schedule),
                  "",
                  {},
                  Figure::Peer{"(K-1)/(M+K-1)", formula}};
    figure.values.Add(value);
    report->Add(figure);
  };
  bubble("1f1b", pipelined.bubble());
  bubble("gpipe", RunOnClock(GpipeSchedule(8, kMicroBatches), eight).bubble());
  const double in_halves =
      RunOnClock(ZeroBubbleSchedule(8, kMicroBatches), eight).bubble();
  bubble("zero_bubble", in_halves);
  if (subject.is_balanced) {
    AddRatio("zero_bubble_over_1f1b_bubble", in_halves / pipelined.bubble(),
             report);
  }
}

void ForReal(const Subject& subject, const NetworkRef& network,
             const Batch& batch, int rounds, Report* report) {
  v1::PipelineConfig config;
  config.set_stages(2);
  config.set_micro_batches(kMicroBatches);
  const uint64_t size = subject.batch / kMicroBatches;
  const auto micro = Measured(network, batch, size, rounds);
  PartitionOptions options;
  options.stages = 2;
  const auto partition = PartitionLayers(micro, options);
  CHECK(partition.ok(), "the models of the benchmark can be cut");
  auto plan = PlanPipeline(config, *network);
  CHECK(plan.ok(), "the models of the benchmark can be cut");
  plan->begins = partition->begins;
  Trained cut(std::make_unique<PipelineModel>(
      network, *std::move(plan), std::vector<PipelineModel::MakeDevice>(),
      "cpu"));
  Trained whole(std::make_unique<Network>(
      network, [] { return std::make_unique<CpuDevice>(); }, "cpu"));
  std::vector<Batch> parts(kMicroBatches);
  for (uint32_t m = 0; m < kMicroBatches; ++m) {
    parts[m].CopyExamples(batch, m * size, (m + 1) * size);
  }
  cut.Step({&batch, 1});
  whole.Step(parts);
  Figure figure{
      subject.name + ".two_stages", "ms", {}, Figure::Peer{"one core", {}}};
  for (int round = 0; round < rounds; ++round) {
    figure.values.Add(1e3 * cut.Step({&batch, 1}));
    figure.peer->values.Add(1e3 * whole.Step(parts));
  }
  report->Add(figure);
  if (subject.is_balanced) {
    // Times as many steps in a second.
    AddRatio("two_stages_over_one_core",
             figure.peer->values.Median() / figure.values.Median(), report);
  }
  Figure predicted{subject.name + ".two_stages_predicted",
                   "ms",
                   {},
                   Figure::Peer{"measured", figure.values}};
  predicted.values.Add(1e3 * RunOnClock(OneForwardOneBackward(2, kMicroBatches),
                                        StagesOf(micro, 2))
                                 .makespan);
  report->Add(predicted);
}

// Batches of few micro-batches, in which stages wait much: by steps that
// overlap and by one after the other.
void WithoutFlush(const Subject& subject, const NetworkRef& network,
                  const Batch& batch, int rounds, Report* report) {
  v1::PipelineConfig config;
  config.set_stages(2);
  config.set_micro_batches(2);
  auto plan = PlanPipeline(config, *network);
  CHECK(plan.ok(), "the models of the benchmark can be cut");
  auto model = std::make_unique<PipelineModel>(
      network, *std::move(plan), std::vector<PipelineModel::MakeDevice>(),
      "cpu");
  Trained beside(model->CloneForConcurrentSteps());
  Trained flushed(std::move(model));
  constexpr int kSteps = 4;  // Of each.
  const std::vector<Batch> batches(kSteps, batch);
  const auto overlapping = [&] {
    const Time begin = MonotonicNow();
    std::thread other([&] { beside.Step(batches); });
    flushed.Step(batches);
    other.join();
    return absl::ToDoubleSeconds(MonotonicNow() - begin) / (2 * kSteps);
  };
  overlapping();
  Figure figure{subject.name + ".two_stages_without_flush",
                "ms",
                {},
                Figure::Peer{"with a flush", {}}};
  for (int round = 0; round < rounds; ++round) {
    figure.values.Add(1e3 * overlapping());
    figure.peer->values.Add(1e3 * flushed.Step(batches) / kSteps);
  }
  report->Add(figure);
}

// Few micro-batches, so that stages wait much: with backward passes in halves
// and without.
void ZeroBubble(const Subject& subject, const NetworkRef& network,
                const Batch& batch, int rounds, Report* report) {
  const auto trained = [&](v1::PipelineConfig::Schedule schedule) {
    v1::PipelineConfig config;
    config.set_stages(2);
    config.set_micro_batches(4);
    config.set_schedule(schedule);
    auto plan = PlanPipeline(config, *network);
    CHECK(plan.ok(), "the models of the benchmark can be cut");
    return Trained(std::make_unique<PipelineModel>(
        network, *std::move(plan), std::vector<PipelineModel::MakeDevice>(),
        "cpu"));
  };
  Trained halves = trained(v1::PipelineConfig::SCHEDULE_ZERO_BUBBLE);
  Trained whole = trained(v1::PipelineConfig::SCHEDULE_1F1B);
  halves.Step({&batch, 1});
  whole.Step({&batch, 1});
  Figure figure{subject.name + ".two_stages_zero_bubble",
                "ms",
                {},
                Figure::Peer{"1f1b", {}}};
  for (int round = 0; round < rounds; ++round) {
    figure.values.Add(1e3 * halves.Step({&batch, 1}));
    figure.peer->values.Add(1e3 * whole.Step({&batch, 1}));
  }
  report->Add(figure);
}

// The network with that budget for the activations of a step.
std::unique_ptr<NetworkPlan> Fitted(const Subject& subject, uint64_t budget,
                                    const std::string& swap_directory = "",
                                    double swap_cost = 0) {
  v1::JobConfig job;
  job.set_batch_per_replica(static_cast<uint32_t>(subject.batch));
  job.mutable_memory()->set_activation_budget_bytes(budget);
  job.mutable_memory()->set_swap_directory(swap_directory);
  auto fitted = Planned(subject, subject.model);
  PipelinePlan whole = InOnePiece();
  const absl::Status status =
      FitActivations(job, DType::kFloat32, fitted.get(), &whole, swap_cost);
  CHECK(status.ok(), std::string(status.message()).c_str());
  return fitted;
}

// Times of a step of two networks that are the same model.
void Compare(const NetworkRef& network, const NetworkRef& other,
             const Batch& batch, int rounds, Figure figure, Report* report) {
  const auto make_device = [] { return std::make_unique<CpuDevice>(); };
  Trained one(std::make_unique<Network>(network, make_device, "cpu"));
  Trained two(std::make_unique<Network>(other, make_device, "cpu"));
  one.Step({&batch, 1});
  two.Step({&batch, 1});
  for (int round = 0; round < rounds; ++round) {
    figure.values.Add(1e3 * one.Step({&batch, 1}));
    figure.peer->values.Add(1e3 * two.Step({&batch, 1}));
  }
  report->Add(figure);
}

// What a step keeps if nothing is computed again, and at least.
struct ActivationBytes {
  uint64_t without = 0;
  uint64_t least = 0;
};

ActivationBytes ActivationsOf(const Subject& subject,
                              const NetworkPlan& network) {
  const auto chain = ChainOf(*network.layers, 0, network.layers->size(),
                             subject.batch, DType::kFloat32);
  const ChainUse use = {.border_bytes = chain.back().output_bytes};
  return {PlanOf(chain, use, {}).bytes, SmallestPlan(chain, use).bytes};
}

// The least memory for activations that a budget may ask for, beside that
// without one, and what a step then takes.
void WithTightestBudget(const Subject& subject, const NetworkRef& network,
                        const Batch& batch, int rounds, Report* report) {
  const ActivationBytes bytes = ActivationsOf(subject, *network);
  AddRatio(
      subject.is_balanced ? "activation_memory_ratio"
                          : subject.name + ".activation_memory_ratio",
      static_cast<double>(bytes.without) / static_cast<double>(bytes.least),
      report);
  Compare(Fitted(subject, bytes.least), network, batch, rounds,
          {subject.name + ".tightest_budget",
           "ms",
           {},
           Figure::Peer{"without a budget", {}}},
          report);
}

// A model whose activations are twice the budget, swapped to a disk, beside one
// whose layers are computed again.
void WithSwap(const Subject& subject, const NetworkRef& network,
              const Batch& batch, int rounds, Report* report) {
  const ActivationBytes bytes = ActivationsOf(subject, *network);
  if (bytes.least > bytes.without / 2) return;  // No budget makes it half.
  // As if the disk took no time: all is swapped that would be computed again.
  constexpr double kNoTime = 1e-9;
  const NetworkRef swapped =
      Fitted(subject, bytes.without / 2, "/var/tmp", kNoTime);
  Compare(swapped, Fitted(subject, bytes.without / 2), batch, rounds,
          {subject.name + ".swap_of_twice_the_budget",
           "ms",
           {},
           Figure::Peer{"computed again", {}}},
          report);
}

// How many times as many parameters the largest transformer of such blocks has
// that a device can train by computing layers again, where one of kBlocks
// blocks fits it just so without. Its memory is for activations, weights,
// gradients.
void LargestModel(const Subject& subject, Report* report) {
  const auto parameters_of = [&](int blocks) {
    return Planned(subject, TransformerModel(blocks))->cost().parameters;
  };
  const auto needs = [&](int blocks, bool computes_again) {
    const auto network = Planned(subject, TransformerModel(blocks));
    const ActivationBytes bytes = ActivationsOf(subject, *network);
    return (computes_again ? bytes.least : bytes.without) +
           2 * sizeof(float) * network->cost().parameters;
  };
  const uint64_t device = needs(kBlocks, /*computes_again=*/false);
  int fits = kBlocks;
  int too_many = 2 * kBlocks;
  while (needs(too_many, /*computes_again=*/true) <= device) {
    fits = too_many;
    too_many *= 2;
  }
  while (fits + 1 < too_many) {
    const int middle = (fits + too_many) / 2;
    (needs(middle, /*computes_again=*/true) <= device ? fits : too_many) =
        middle;
  }
  AddRatio("largest_model_one_device_ratio",
           static_cast<double>(parameters_of(fits)) /
               static_cast<double>(parameters_of(kBlocks)),
           report);
}

void MeasureSubject(const Subject& subject, Report* report) {
  report->Progress("pipeline: " + subject.name);
  const NetworkRef network = Planned(subject, subject.model);
  const Batch batch = RandomBatch(subject.input, {.end = subject.batch}, 1);
  const int rounds = report->quick() ? 3 : 9;
  ForReal(subject, network, batch, rounds, report);
  WithoutFlush(subject, network, batch, rounds, report);
  ZeroBubble(subject, network, batch, rounds, report);
  OnTheClock(subject, network, batch, rounds, report);
  WithTightestBudget(subject, network, batch, rounds, report);
  WithSwap(subject, network, batch, rounds, report);
  if (subject.is_balanced) LargestModel(subject, report);
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  // A stage is a thread; a library's own would help only one side.
  setenv("OMP_NUM_THREADS", "1", 1);
  paramd::Report report("pipeline", argc, argv);
  for (const paramd::Subject& subject : paramd::Subjects()) {
    if (report.Wants(subject.name)) {
      paramd::MeasureSubject(subject, &report);
    }
  }
}
