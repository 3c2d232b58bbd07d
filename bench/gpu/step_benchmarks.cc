#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"

#include "bench/gpu/benchmarks.h"
#include "bench/gpu/cuda_limits.h"
#include "compute/device/device_link.h"
#include "compute/model/network.h"
#include "compute/model/network_plan.h"
#include "server/core/optimizer.h"
#include "server/core/optimizer_kernels.h"
#include "server/device/cuda_loops.h"
#include "tensor/shape.h"

namespace paramd {

namespace {

// A network with a few layers of 16 MB, and a batch.
class Steps {
 public:
  explicit Steps(const AcceleratedDevice::Options& options,
                 ComputeFormat format = ComputeFormat::kFp32,
                 uint32_t units = 2048, uint64_t examples = 512)
      : examples_(examples) {
    v1::ModelConfig config;
    CHECK(google::protobuf::TextFormat::ParseFromString(
              R"(layers { flatten {} }
                 layers { dense {} } layers { relu {} }
                 layers { dense {} } layers { relu {} }
                 layers { dense {} } layers { relu {} }
                 layers { dense {} } layers { relu {} }
                 layers { dense { units: 10 } } loss: SOFTMAX_CROSS_ENTROPY)",
              &config),
          "the model of the benchmark is read");
    for (v1::Layer& layer : *config.mutable_layers()) {
      if (layer.has_dense() && layer.dense().units() == 0) {
        layer.mutable_dense()->set_units(units);
      }
    }
    const InputSpec input = LabelledImages({28, 28}, 10);
    network_ = *Network::Create(config, input, [format, options] {
      return MakeDevice(format, options);
    });
    batch_.Reset(input, examples);
    RandomStream random(1);
    for (float& value : batch_.Find("image")->values<float>()) {
      value = random.Uniform();
    }
    for (int32_t& label : batch_.Find("label")->values<int32_t>()) {
      label = static_cast<int32_t>(random.Below(10));
    }
    for (const v1::Variable& variable : network_->variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      values_.emplace_back(size);
      for (float& value : values_.back()) value = random.Uniform() - 0.5f;
      gradients_.emplace_back(size);
    }
    for (const auto& one : values_) weight_views_.emplace_back(one);
    for (auto& one : gradients_) {
      gradient_views_.push_back(absl::MakeSpan(one));
    }
  }

  // All weights have changed, as after a pull.
  void Run() {
    for (std::vector<float>& one : values_) {
      for (size_t i = 0; i < one.size(); i += Exchange::kBlock) one[i] += 1e-6f;
    }
    const auto metrics =
        network_->Step(weight_views_, batch_, {.divisor = 1.0 * examples_},
                       gradient_views_, [](size_t) {});
    CHECK(metrics.ok(), "a step is computed");
  }
  uint64_t replays() const { return network_->link()->counts().replays; }
  // Of the weights that come, and of the gradients that go.
  uint64_t bytes() const {
    uint64_t bytes = 0;
    for (const auto& one : values_) bytes += one.size() * sizeof(float);
    return bytes;
  }

 private:
  const uint64_t examples_;
  Batch batch_;
  std::unique_ptr<Network> network_;
  std::vector<std::vector<float>> values_, gradients_;
  std::vector<absl::Span<const float>> weight_views_;
  std::vector<absl::Span<float>> gradient_views_;
};

// The layers of a transformer block, as GPT-2's small one has it, forward and
// backward, on memory of the device alone.
class BlockPasses {
 public:
  static constexpr uint64_t kExamples = 16;
  static constexpr uint64_t kPlaces = 512;
  static constexpr uint64_t kWidth = 768;

  explicit BlockPasses(ComputeFormat format)
      : device_(MakeDevice(format)), plan_(Plan()) {
    const DType dtype = device_->activations();
    context_.device = device_.get();
    context_.examples = kExamples;
    context_.dtype = dtype;
    context_.training = true;
    for (const v1::Variable& variable : plan_->variables) {
      const Dims dims(variable.shape().begin(), variable.shape().end());
      std::vector<float> initial = RandomValues(SizeOf(dims), weights_.size());
      for (float& one : initial) one *= 0.05f;
      weights_.push_back(
          {Keep(Uploaded(initial, device_.get())), DType::kFloat32, dims});
      gradients_.push_back(
          {New(SizeOf(dims) * sizeof(float)), DType::kFloat32, dims});
    }
    const Dims dims = {kExamples, kPlaces, kWidth};
    const std::vector<float> values = RandomValues(SizeOf(dims), 99);
    const uint64_t bytes = SizeOf(dims) * SizeOf(dtype);
    void* const wide = Keep(Uploaded(values, device_.get()));
    Tensor input = {wide, DType::kFloat32, dims};
    if (IsHalf(dtype)) {
      input = {New(bytes), dtype, dims};
      device_->Convert({wide, DType::kFloat32, dims}, input);
    }
    const Sequence& layers = *plan_->layers;
    pass_.context = &context_;
    pass_.weights = weights_;
    pass_.gradients = gradients_;
    pass_.input = input;
    pass_.output_gradient = input;
    pass_.output = {New(bytes), dtype, dims};
    pass_.input_gradient = {New(bytes), dtype, dims};
    pass_.kept =
        static_cast<std::byte*>(New(layers.KeptBytes(kExamples, dtype)));
    pass_.scratch =
        static_cast<std::byte*>(New(layers.ScratchBytes(kExamples, dtype)));
    device_->Finish();
  }

  void Run() {
    plan_->layers->Forward(pass_);
    plan_->layers->Backward(pass_);
    device_->Finish();
    CHECK(device_->status().ok(), "the layers are computed");
  }
  // The backward pass has two products for one of the forward pass.
  double flops() const {
    return 3.0 * kExamples * static_cast<double>(plan_->layers->flops());
  }

 private:
  static std::unique_ptr<NetworkPlan> Plan() {
    v1::ModelConfig config;
    CHECK(google::protobuf::TextFormat::ParseFromString(
              R"(layers { residual {
                   layers { layer_norm { epsilon: 1e-5 } }
                   layers { attention { heads: 12 causal: true } } } }
                 layers { residual {
                   layers { layer_norm { epsilon: 1e-5 } }
                   layers { dense { units: 3072 } } layers { gelu {} }
                   layers { dense { units: 768 } } } }
                 loss: SOFTMAX_CROSS_ENTROPY)",
              &config),
          "the model of the benchmark is read");
    const FeatureSpec values{.name = "values", .dims = {kPlaces, kWidth}};
    const FeatureSpec label{.name = "label",
                            .dtype = DType::kInt32,
                            .dims = {kPlaces},
                            .classes = kWidth};
    return *PlanNetwork(config, InputSpec{{values, label}});
  }

  void* Keep(Device::Memory memory) {
    CHECK(memory != nullptr, "there is memory on the GPU");
    memory_.push_back(std::move(memory));
    return memory_.back().get();
  }
  void* New(uint64_t bytes) { return Keep(device_->Allocate(bytes)); }

  const std::unique_ptr<Device> device_;
  const std::unique_ptr<NetworkPlan> plan_;
  std::vector<Device::Memory> memory_;
  Layer::Context context_;
  std::vector<ConstTensor> weights_;
  std::vector<Tensor> gradients_;
  Layer::BackwardPass pass_;
};

}  // namespace

// Beside the time that cuBLAS takes for as many operations of a large product.
// tests/gpu/torch_layer.py measures PyTorch's, of the same shapes.
void Layers(ComputeFormat format, Report* report) {
  report->Progress(std::string("gpu: layers in ") + NameOf(format));
  BlockPasses block(format);
  block.Run();
  Figure figure{
      std::string("gpt_layer_") + NameOf(format) + ".ms", "ms", {}, {}};
  Samples limit;
  constexpr double kSide = 4096;
  for (int round = 0; round < 5; ++round) {
    figure.values.Add(1e3 * Seconds(10, [&] { block.Run(); }));
    const double plain =
        PlainProductSeconds(format, static_cast<uint64_t>(kSide), 10);
    if (plain > 0) {
      limit.Add(1e3 * plain * block.flops() / (2 * kSide * kSide * kSide));
    }
  }
  AddWithLimit(figure, "cuBLAS's flops", limit, report);
}

namespace {

// So many bytes to the GPU and as many back, with nothing beside them.
class Crossing {
 public:
  explicit Crossing(uint64_t bytes)
      : bytes_(bytes),
        device_(MakeDevice(ComputeFormat::kFp32)),
        link_(*device_->link()),
        there_(device_->Allocate(bytes)),
        host_(link_.AllocateHost(bytes)),
        mark_(link_.MakeMark()) {
    CHECK(device_->status().ok(), "there is memory for copies");
    std::memset(host_.get(), 0, bytes);
  }

  void Run() {
    link_.Upload(host_.get(), bytes_, there_.get());
    link_.MarkUploads(mark_);
    link_.Wait(mark_);
    link_.Download(there_.get(), bytes_, host_.get(), mark_);
    link_.Wait(mark_);
  }

 private:
  const uint64_t bytes_;
  const std::unique_ptr<Device> device_;
  DeviceLink& link_;
  const Device::Memory there_;
  const Device::Memory host_;
  const DeviceLink::Mark mark_;
};

}  // namespace

// Also how much of the time in which weights and gradients cross the step no
// longer takes with overlap.
void Overlap(Report* report) {
  report->Progress("gpu: steps");
  Steps with({});
  Steps without({.overlaps = false});
  Crossing crossing(with.bytes());
  with.Run();
  without.Run();
  crossing.Run();
  Figure figure{"mlp_step.ms", "ms", {}, Figure::Peer{"without overlap", {}}};
  Figure hidden{"mlp_step.hidden", "%", {}, {}};
  for (int round = 0; round < 5; ++round) {
    const double overlapped = Seconds(10, [&] { with.Run(); });
    const double apart = Seconds(10, [&] { without.Run(); });
    const double copies = Seconds(10, [&] { crossing.Run(); });
    figure.values.Add(1e3 * overlapped);
    figure.peer->values.Add(1e3 * apart);
    hidden.values.Add(100 * (apart - overlapped) / copies);
  }
  report->Add(figure);
  report->Add(hidden);
}

// A step that is too small for a GPU: what it takes is the host's calls.
void Recordings(Report* report) {
  report->Progress("gpu: small steps");
  const auto make = [](bool records) {
    Steps steps({.records = records}, ComputeFormat::kFp32, /*units=*/128,
                /*examples=*/64);
    for (int i = 0; i < 5; ++i) steps.Run();
    return steps;
  };
  Steps with = make(true);
  Steps without = make(false);
  CHECK(with.replays() > 0 && without.replays() == 0,
        "a step that came twice is recorded");
  Figure figure{
      "small_mlp_step.ms", "ms", {}, Figure::Peer{"each call anew", {}}};
  for (int round = 0; round < 5; ++round) {
    figure.values.Add(1e3 * Seconds(200, [&] { with.Run(); }));
    figure.peer->values.Add(1e3 * Seconds(200, [&] { without.Run(); }));
  }
  report->Add(figure);
}

namespace {

// Blocks that Adam is applied to, on the GPU or, without `loops`, by the
// processor's fastest loops.
class AppliedBlocks {
 public:
  AppliedBlocks(size_t count, LoopDevice* loops)
      : optimizer_(*Optimizer::Create(Config(), 0)) {
    kernels_.device = loops;
    optimizer_.UseKernels(kernels_);
    for (size_t b = 0; b < count; ++b) {
      Block block;
      for (Buffer* const one : {&block.values, &block.gradient, &block.slots}) {
        const size_t bytes =
            (one == &block.slots ? 2 : 1) * kMaxBlockElements * sizeof(float);
        *one =
            loops == nullptr ? Buffer::Allocate(bytes) : loops->Allocate(bytes);
        CHECK(!one->empty(), "there is memory for blocks");
        std::memset(one->mutable_bytes().data(), 0, bytes);
      }
      blocks_.push_back(std::move(block));
    }
  }

  // As a step does: looks whether each gradient is finite, and applies it.
  void Run() {
    for (Block& block : blocks_) {
      const BufferChain gradient = {block.gradient};
      ChainReader reader(gradient);
      ChainReader again = reader;
      CHECK(optimizer_.ReadFinite(&reader, kMaxBlockElements),
            "zeros are finite");
      const auto floats = [](Buffer* buffer) {
        return reinterpret_cast<float*>(buffer->mutable_bytes().data());
      };
      optimizer_.Apply(&again, applied_,
                       {.elements = kMaxBlockElements,
                        .values = floats(&block.values),
                        .slots = floats(&block.slots),
                        .new_values = floats(&block.values),
                        .new_slots = floats(&block.slots)});
    }
    ++applied_;
  }

 private:
  struct Block {
    Buffer values;
    Buffer slots;
    Buffer gradient;
  };

  static v1::OptimizerConfig Config() {
    v1::OptimizerConfig config;
    config.mutable_adam();
    config.set_learning_rate(0.001);
    return config;
  }

  OptimizerKernels kernels_ = MachineKernels();
  Optimizer optimizer_;
  std::vector<Block> blocks_;
  uint64_t applied_ = 0;
};

}  // namespace

// 25 million parameters.
void Apply(Report* report) {
  report->Progress("gpu: apply");
  constexpr size_t kBlocks = 96;
  const uint64_t weights = kBlocks * kMaxBlockElements * sizeof(float);
  const auto loops = MakeCudaLoops("cuda:0", {.weight_bytes = weights,
                                              .lasting_bytes = 4 * weights,
                                              .most_bytes = 4 * weights});
  if (!loops.ok()) {
    std::fprintf(stderr, "gpu: apply is not measured: %s\n",
                 std::string(loops.status().message()).c_str());
    return;
  }
  AppliedBlocks there(kBlocks, loops->get());
  AppliedBlocks here(kBlocks, nullptr);
  there.Run();
  here.Run();
  Figure figure{"apply_adam_25m.ms",
                "ms",
                {},
                Figure::Peer{"the processor, one thread", {}}};
  for (int round = 0; round < 5; ++round) {
    figure.values.Add(1e3 * Seconds(5, [&] { there.Run(); }));
    figure.peer->values.Add(1e3 * Seconds(2, [&] { here.Run(); }));
  }
  report->Add(figure);
}

void Formats(ComputeFormat format, Report* report) {
  report->Progress(std::string("gpu: steps in ") + NameOf(format));
  Steps rounded({}, format);
  Steps exact({});
  rounded.Run();
  exact.Run();
  Figure figure{std::string("mlp_step_") + NameOf(format) + ".ms",
                "ms",
                {},
                Figure::Peer{"in fp32", {}}};
  for (int round = 0; round < 5; ++round) {
    figure.values.Add(1e3 * Seconds(10, [&] { rounded.Run(); }));
    figure.peer->values.Add(1e3 * Seconds(10, [&] { exact.Run(); }));
  }
  report->Add(figure);
}

}  // namespace paramd
