// A training step of the built-in network (forward, loss, backward) on one
// thread, beside PyTorch's for the same shapes, and with its residual layers
// computed again beside without. CPU time, which on one thread is that of an
// idle machine's clock.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"

#include "base/check.h"
#include "base/random.h"
#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "compute/model/network.h"
#include "input/testing/random_batch.h"

namespace paramd {
namespace {

struct Shape {
  std::string name;
  uint64_t batch;
  InputSpec input;
  std::string model;
};

constexpr char kMlp[] = R"(
  layers { flatten {} } layers { dense { units: 512 } } layers { relu {} }
  layers { dense { units: 256 } } layers { relu {} }
  layers { dense { units: 10 } } loss: SOFTMAX_CROSS_ENTROPY)";

constexpr char kCnn[] = R"(
  layers { conv2d { filters: 32 kernel: 3 stride: 1 groups: 1 bias: true } }
  layers { relu {} } layers { max_pool { size: 2 } }
  layers { conv2d { filters: 64 kernel: 3 stride: 1 groups: 1 bias: true } }
  layers { relu {} } layers { max_pool { size: 2 } } layers { flatten {} }
  layers { dense { units: 64 } } layers { relu {} }
  layers { dense { units: 10 } } loss: SOFTMAX_CROSS_ENTROPY)";

constexpr char kNorm[] = "{ batch_norm { momentum: 0.9 epsilon: 1e-5 } }";

std::string Conv(int filters, int kernel, int stride) {
  return absl::StrCat("{ conv2d { filters: ", filters, " kernel: ", kernel,
                      " stride: ", stride, " groups: 1 } }");
}

std::string Block(int filters, int stride) {
  std::string block =
      absl::StrCat("layers { residual { layers ", Conv(filters, 3, stride),
                   " layers ", kNorm, " layers { relu {} } layers ",
                   Conv(filters, 3, 1), " layers ", kNorm);
  if (stride > 1) {
    absl::StrAppend(&block, " shortcut ", Conv(filters, 1, stride),
                    " shortcut ", kNorm);
  }
  return block + " } } layers { relu {} } ";
}

std::string ResidualModel() {
  return absl::StrCat("layers ", Conv(16, 3, 1), " layers ", kNorm,
                      " layers { relu {} } ", Block(16, 1), Block(32, 2),
                      Block(64, 2),
                      "layers { global_average_pool {} } layers { dense { "
                      "units: 10 } } loss: SOFTMAX_CROSS_ENTROPY");
}

std::string GptModel() {
  std::string model =
      "layers { embedding { width: 128 } } layers { positional_embedding {} } ";
  for (int block = 0; block < 2; ++block) {
    model += R"(
      layers { residual {
        layers { layer_norm { epsilon: 1e-5 } }
        layers { attention { heads: 4 causal: true } } } }
      layers { residual {
        layers { layer_norm { epsilon: 1e-5 } }
        layers { dense { units: 512 } } layers { gelu {} }
        layers { dense { units: 128 } } } } )";
  }
  return model + R"(layers { layer_norm { epsilon: 1e-5 } }
                    layers { dense { units: 128 } }
                    loss: SOFTMAX_CROSS_ENTROPY)";
}

std::vector<Shape> Shapes() {
  const InputSpec images = LabelledImages({28, 28}, 10);
  const FeatureSpec text{
      .name = "text", .dtype = DType::kInt32, .dims = {64}, .classes = 128};
  FeatureSpec next = text;
  next.name = "label";
  return {{"mlp", 64, images, kMlp},
          {"cnn", 32, images, kCnn},
          {"residual", 32, images, ResidualModel()},
          {"gpt", 16, InputSpec{{text, next}}, GptModel()}};
}

v1::ModelConfig ConfigOf(const Shape& shape) {
  v1::ModelConfig config;
  CHECK(google::protobuf::TextFormat::ParseFromString(shape.model, &config),
        "the models of the benchmark are read");
  return config;
}

// The same with a recompute around each residual layer, or of the layers in it.
v1::ModelConfig Recomputed(v1::ModelConfig config, bool around) {
  for (v1::Layer& layer : *config.mutable_layers()) {
    if (!layer.has_residual()) continue;
    v1::Layer again;
    if (around) {
      *again.mutable_recompute()->add_layers() = layer;
      layer = again;
      continue;
    }
    auto& layers = *layer.mutable_residual()->mutable_layers();
    *again.mutable_recompute()->mutable_layers() = layers;
    layers.Clear();
    *layers.Add() = again;
  }
  return config;
}

bool HasResidual(const Shape& shape) {
  const v1::ModelConfig config = ConfigOf(shape);
  return std::any_of(config.layers().begin(), config.layers().end(),
                     [](const v1::Layer& one) { return one.has_residual(); });
}

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

class Steps {
 public:
  Steps(const Shape& shape, const v1::ModelConfig& config)
      : batch_(RandomBatch(shape.input, {.end = shape.batch}, 1)) {
    auto network = Network::Create(config, shape.input);
    CHECK(network.ok(), "the models of the benchmark fit their input");
    network_ = *std::move(network);
    RandomStream random(2);
    for (const v1::Variable& variable : network_->variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      const v1::Initializer& initializer = variable.initializer();
      std::vector<float>& values = values_.emplace_back(size);
      for (float& value : values) {
        value = initializer.low() +
                random.Uniform() * (initializer.high() - initializer.low());
      }
      gradients_.emplace_back(size);
    }
    for (const auto& one : values_) weight_views_.emplace_back(one);
    for (auto& one : gradients_) {
      gradient_views_.push_back(absl::MakeSpan(one));
    }
  }

  // CPU seconds of one of `times` steps.
  double Run(int times) {
    const double begin = CpuSeconds();
    for (int i = 0; i < times; ++i) {
      const auto metrics =
          network_->Step(weight_views_, batch_,
                         {.divisor = static_cast<double>(batch_.size())},
                         gradient_views_, [](size_t) {});
      CHECK(metrics.ok(), "a step is computed");
    }
    return (CpuSeconds() - begin) / times;
  }

  // What layers keep and what they need meanwhile, in memory that a step has.
  double mebibytes() const {
    const Sequence& layers = *network_->plan()->layers;
    return static_cast<double>(
               layers.KeptBytes(batch_.size(), DType::kFloat32) +
               layers.ScratchBytes(batch_.size(), DType::kFloat32)) /
           (1 << 20);
  }

 private:
  const Batch batch_;
  std::unique_ptr<Network> network_;
  std::vector<std::vector<float>> values_, gradients_;
  std::vector<absl::Span<const float>> weight_views_;
  std::vector<absl::Span<float>> gradient_views_;
};

// CPU seconds of one of `times` steps of PyTorch; empty if there is none.
std::vector<double> TorchSteps(const std::string& name, int times, int rounds) {
  const char* python = std::getenv("PARAMD_PYTHON");
  const std::string command = absl::StrCat(
      python == nullptr ? "python3" : python, " bench/model/torch_steps.py ",
      name, " ", times, " ", rounds, " 2>/dev/null");
  FILE* output = popen(command.c_str(), "r");
  CHECK(output != nullptr, "a shell is started");
  std::vector<double> seconds;
  double one = 0;
  while (std::fscanf(output, "%lf", &one) == 1) seconds.push_back(one);
  if (pclose(output) != 0) seconds.clear();
  return seconds;
}

// With each residual layer computed again, beside without, in turn.
void MeasureRecompute(const Shape& shape, bool around, Report* report) {
  const std::string name =
      shape.name + (around ? ".recompute_around" : ".recompute_within");
  report->Progress("model: " + name);
  const v1::ModelConfig config = ConfigOf(shape);
  Steps with(shape, Recomputed(config, around));
  Steps without(shape, config);
  with.Run(3);
  without.Run(3);
  const int times = std::max(1, static_cast<int>(0.2 / without.Run(2)));
  const Figure::Peer all{"all is kept", {}};
  Figure time{name + ".step_cpu_ms", "CPU-ms", {}, all};
  Figure memory{name + ".memory", "MiB", {}, all};
  for (int round = 0; round < (report->quick() ? 3 : 9); ++round) {
    time.values.Add(1e3 * with.Run(times));
    time.peer->values.Add(1e3 * without.Run(times));
  }
  memory.values.Add(with.mebibytes());
  memory.peer->values.Add(without.mebibytes());
  report->Add(time);
  report->Add(memory);
}

void Measure(const Shape& shape, Report* report) {
  report->Progress("model: " + shape.name);
  const int rounds = report->quick() ? 3 : 9;
  Steps steps(shape, ConfigOf(shape));
  steps.Run(3);
  const int times = std::max(1, static_cast<int>(0.2 / steps.Run(2)));
  const auto torch = TorchSteps(shape.name, times, rounds);
  Figure figure{shape.name + ".step_cpu_ms", "CPU-ms", {}, {}};
  for (int round = 0; round < rounds; ++round) {
    figure.values.Add(1e3 * steps.Run(times));
  }
  if (torch.empty()) {
    report->Progress(
        "model: PyTorch is skipped: PARAMD_PYTHON names no python with torch");
  } else {
    figure.peer = Figure::Peer{"PyTorch", {}};
    for (const double seconds : torch) figure.peer->values.Add(1e3 * seconds);
  }
  report->Add(figure);
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  // A library's threads would help one side and not the other.
  setenv("OMP_NUM_THREADS", "1", 1);
  paramd::Report report("model", argc, argv);
  for (const paramd::Shape& shape : paramd::Shapes()) {
    if (!report.Wants(shape.name)) continue;
    paramd::Measure(shape, &report);
    if (!paramd::HasResidual(shape)) continue;
    for (const bool around : {true, false}) {
      paramd::MeasureRecompute(shape, around, &report);
    }
  }
}
