// Integers of 8 bits beside float32: a layer, a convolutional network, a dense
// one, and how much smaller its checkpoint is; and the networks with
// activations of 16 bits.
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"

#include "base/check.h"
#include "base/random.h"
#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "checkpoint/file.h"
#include "checkpoint/quantization.h"
#include "compute/device/cpu_device.h"
#include "compute/model/network.h"
#include "compute/quantized/affine.h"
#include "compute/quantized/integer_kernels.h"
#include "compute/quantized/quantize.h"
#include "compute/quantized/quantized_network.h"
#include "input/pipeline.h"

namespace paramd {
namespace {

constexpr char kMlp[] = R"(
  layers { flatten {} } layers { dense { units: 1024 } } layers { relu {} }
  layers { dense { units: 1024 } } layers { relu {} }
  layers { dense { units: 10 } } loss: SOFTMAX_CROSS_ENTROPY)";

constexpr char kCnn[] = R"(
  layers { conv2d { filters: 32 kernel: 3 stride: 1 groups: 1 bias: true
                    padding: SAME } }
  layers { relu {} } layers { max_pool { size: 2 padding: VALID } }
  layers { conv2d { filters: 64 kernel: 3 stride: 1 groups: 1 bias: true
                    padding: SAME } }
  layers { relu {} }
  layers { conv2d { filters: 64 kernel: 3 stride: 1 groups: 1 bias: true
                    padding: SAME } }
  layers { relu {} } layers { max_pool { size: 2 padding: VALID } }
  layers { flatten {} } layers { dense { units: 128 } } layers { relu {} }
  layers { dense { units: 10 } } loss: SOFTMAX_CROSS_ENTROPY)";

constexpr uint64_t kBatch = 64;

// Images of random numbers.
class RandomImages : public ExampleSource {
 public:
  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return 4 * kBatch; }
  v1::DataSet Describe() const override { return {}; }
  absl::Status Read(uint64_t index, Example* example) const override {
    RandomStream random(index);
    example->values.resize(2);
    example->values[0].Reset(DType::kFloat32, {28, 28});
    for (float& value : example->values[0].values<float>()) {
      value = static_cast<float>(random.Below(256)) / 255;
    }
    example->values[1].Reset(DType::kInt32, {});
    example->values[1].values<int32_t>()[0] = static_cast<int32_t>(index % 10);
    return absl::OkStatus();
  }

 private:
  const InputSpec spec_ = LabelledImages({28, 28}, 10);
};

double CpuSecondsNow() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds of each, `rounds` times in turn, several calls at a time.
void Measure(int rounds, int calls, const std::function<void()>& first,
             const std::function<void()>& second, Samples* of_first,
             Samples* of_second) {
  first();
  second();
  for (int round = 0; round < rounds; ++round) {
    for (const auto& [call, samples] : {std::make_pair(&first, of_first),
                                        std::make_pair(&second, of_second)}) {
      const double begin = CpuSecondsNow();
      for (int i = 0; i < calls; ++i) (*call)();
      samples->Add((CpuSecondsNow() - begin) / calls);
    }
  }
}

// How many times faster integers of so many bits are, in each round.
void AddSpeedup(const std::string& metric, int bits, const Samples& floats,
                const Samples& integers, Report* report) {
  Figure figure{.metric = metric, .unit = "", .values = {}, .peer = {}};
  for (size_t i = 0; i < floats.values().size(); ++i) {
    figure.values.Add(floats.values()[i] / integers.values()[i]);
  }
  figure.peer = Figure::Peer{"registers", {}};
  figure.peer->values.Add(32.0 / bits);
  report->Add(figure);
}

void MeasureLayer(Report* report) {
  constexpr uint64_t kSize = 1024;
  RandomStream random(1);
  std::vector<float> input(kBatch * kSize);
  std::vector<float> kernel(kSize * kSize);
  std::vector<float> output(kBatch * kSize);
  for (float& value : input) value = static_cast<float>(random.Below(100));
  for (float& value : kernel) {
    value = static_cast<float>(random.Below(201)) - 100;
  }
  CpuDevice device;
  IntegerProduct product;
  product.inputs = product.outputs = kSize;
  const QuantizedWeights weights = QuantizeWeights(kernel, kSize, true, 127);
  product.weights = weights.values;
  product.relu = true;
  product.result = IntegerProduct::Result::kIntegers;
  SetScales(1, 0, weights.scales, std::vector<float>(kSize, 1), 1e4f, &product);
  std::vector<uint8_t> integers(input.size());
  std::vector<uint8_t> results(output.size());
  QuantizeValues({1, 0}, input, integers.data());
  IntegerKernels kernels;
  Samples floats;
  Samples ints;
  Measure(
      report->quick() ? 5 : 15, 20,
      [&] {
        device.Multiply({.m = kBatch, .n = kSize, .k = kSize},
                        {input.data(), DType::kFloat32, {kBatch, kSize}},
                        {kernel.data(), DType::kFloat32, {kSize, kSize}},
                        {output.data(), DType::kFloat32, {kBatch, kSize}});
      },
      [&] {
        kernels.Multiply(product, kBatch, integers.data(), results.data());
      },
      &floats, &ints);
  AddSpeedup("int8_layer_speedup", 8, floats, ints, report);
}

std::vector<std::vector<float>> RandomWeights(const NetworkPlan& plan) {
  RandomStream random(2);
  std::vector<std::vector<float>> weights;
  for (const v1::Variable& variable : plan.variables) {
    const Dims dims(variable.shape().begin(), variable.shape().end());
    for (float& value : weights.emplace_back(SizeOf(dims))) {
      value = (static_cast<float>(random.Below(2001)) - 1000) / 2e4f;
    }
  }
  return weights;
}

void MeasureNetwork(const std::string& name, const char* model, int bits,
                    Report* report) {
  v1::ModelConfig config;
  CHECK(google::protobuf::TextFormat::ParseFromString(model, &config),
        "the models of the benchmark are read");
  const auto data =
      *Pipeline::Create(std::make_unique<RandomImages>(), v1::InputConfig(),
                        {.seed = 1, .training = true});
  const auto plan = *PlanNetwork(config, data->spec());
  const auto weights = RandomWeights(*plan);
  const std::vector<absl::Span<const float>> spans(weights.begin(),
                                                   weights.end());
  QuantizeOptions options;
  options.calibration = data.get();
  options.activation_bits = bits;
  const Quantized made = *Quantize(config, data->spec(), spans, options);
  const std::string directory =
      absl::StrCat("/tmp/paramd-bench-smaller-", getpid(), "-", name, bits);
  v1::Manifest manifest;
  for (const v1::Variable& variable : plan->variables) {
    *manifest.add_variables() = variable;
  }
  const uint64_t bytes =
      *WriteQuantized(directory, manifest, made.quantization, made.tensors);
  auto floats = *Network::Create(config, data->spec());
  auto integers = *OpenQuantized(config, data->spec(), directory, spans);
  CHECK(RemoveTree(directory).ok(), "what was written is deleted");
  Batch batch;
  CHECK(data->Read({.epoch = 1, .begin = 0, .end = kBatch}, &batch).ok(),
        "the images are read");
  Batch out;
  Samples of_floats;
  Samples of_integers;
  Measure(
      report->quick() ? 5 : 15, 10,
      [&] { CHECK(floats->Predict(spans, batch, &out).ok(), "it predicts"); },
      [&] { CHECK(integers->Predict(spans, batch, &out).ok(), "it predicts"); },
      &of_floats, &of_integers);
  AddSpeedup(absl::StrCat("int", bits, "_", name, "_speedup"), bits, of_floats,
             of_integers, report);
  if (name != "mlp" || bits != 8) return;
  uint64_t values = 0;
  for (const auto& one : weights) values += one.size();
  Figure ratio{
      .metric = "int8_size_ratio", .unit = "", .values = {}, .peer = {}};
  ratio.values.Add(static_cast<double>(values * sizeof(float)) /
                   static_cast<double>(bytes));
  ratio.peer = Figure::Peer{"bits", {}};
  ratio.peer->values.Add(4);
  report->Add(ratio);
}

int RunBenchmark(int argc, char** argv) {
  Report report("smaller", argc, argv);
  if (report.Wants("layer")) MeasureLayer(&report);
  if (report.Wants("cnn")) MeasureNetwork("cnn", kCnn, 8, &report);
  if (report.Wants("mlp")) MeasureNetwork("mlp", kMlp, 8, &report);
  if (report.Wants("int16")) {
    MeasureNetwork("cnn", kCnn, 16, &report);
    MeasureNetwork("mlp", kMlp, 16, &report);
  }
  return 0;
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) { return paramd::RunBenchmark(argc, argv); }
