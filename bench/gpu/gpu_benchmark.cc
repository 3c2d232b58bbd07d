// What a GPU does with the built-in network: matrix products and copies of
// pinned memory beside plain calls of cuBLAS and CUDA, sums over all GPUs if
// there are several, the layers of a transformer block, the loss of a language
// model, an optimizer over blocks that stay there, and whole steps, weights and
// gradients of which cross, with and without overlap and in each format.
// Where no GPU can be used it says why and measures nothing.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "google/protobuf/text_format.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "bench/gpu/cuda_limits.h"
#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "server/core/optimizer.h"
#include "server/core/optimizer_kernels.h"
#include "server/device/cuda_loops.h"
#include "tensor/shape.h"
#include "worker/device/cuda_device.h"
#include "worker/device/device_choice.h"
#include "worker/device/device_link.h"
#include "worker/model/network.h"
#include "worker/model/network_plan.h"

namespace paramd {
namespace {

// Seconds of one of `times` calls.
template <class Function>
double Seconds(int times, Function f) {
  const Time begin = MonotonicNow();
  for (int i = 0; i < times; ++i) f();
  return absl::ToDoubleSeconds(MonotonicNow() - begin) / times;
}

constexpr ComputeFormat kFormats[] = {
    ComputeFormat::kFp32, ComputeFormat::kTf32, ComputeFormat::kBf16,
    ComputeFormat::kFp16};

std::unique_ptr<Device> MakeDevice(
    ComputeFormat format, const AcceleratedDevice::Options& options = {}) {
  auto device = MakeCudaDevice(0, options);
  device->SetComputeFormat(format);
  return device;
}

// Memory of the device with such numbers.
Device::Memory Uploaded(const std::vector<float>& values, Device* device) {
  const uint64_t bytes = values.size() * sizeof(float);
  Device::Memory memory = device->Allocate(bytes);
  CHECK(memory != nullptr, "there is memory on the GPU");
  device->Copy(values.data(), bytes, memory.get());
  device->Finish();
  return memory;
}

std::vector<float> RandomValues(uint64_t count, uint64_t seed) {
  RandomStream random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = random.Uniform() - 0.5f;
  return values;
}

// Beside the limit, if the machine gave something to compare with.
void AddWithLimit(Figure figure, const std::string& limit, Samples values,
                  Report* report) {
  if (!values.empty()) figure.peer = Figure::Peer{limit, std::move(values)};
  report->Add(figure);
}

// As a dense layer has them: of what layers hand on and of a weight of float32,
// what rounds it included; the limit's operands are rounded already.
void Products(ComputeFormat format, Report* report) {
  report->Progress(std::string("gpu: products in ") + NameOf(format));
  const std::unique_ptr<Device> device = MakeDevice(format);
  for (const uint64_t side : {256, 1024, 4096}) {
    const Dims dims = {side, side};
    const auto wide = Uploaded(RandomValues(side * side, 1), device.get());
    const auto b = Uploaded(RandomValues(side * side, 2), device.get());
    const auto a = device->Allocate(side * side * sizeof(float));
    const auto c = device->Allocate(side * side * sizeof(float));
    const Tensor input = {a.get(), device->activations(), dims};
    if (IsHalf(input.dtype)) {
      device->Convert({wide.get(), DType::kFloat32, dims}, input);
    } else {
      device->Copy(wide.get(), side * side * sizeof(float), a.get());
    }
    const auto run = [&](int times) {
      return Seconds(1, [&] {
               for (int i = 0; i < times; ++i) {
                 device->Multiply({.m = side, .n = side, .k = side}, input,
                                  {b.get(), DType::kFloat32, dims},
                                  {c.get(), DType::kFloat32, dims});
               }
               device->Finish();
             }) /
             times;
    };
    run(3);
    CHECK(device->status().ok(), "products are computed");
    Figure figure{std::string("product_") + NameOf(format) + "_" +
                      std::to_string(side) + ".flops",
                  "Tflop/s", {}, {}};
    Samples limit;
    const double size = static_cast<double>(side);
    const double tera_flops = 2e-12 * size * size * size;
    for (int round = 0; round < 5; ++round) {
      figure.values.Add(tera_flops / run(20));
      const double plain = PlainProductSeconds(format, side, 20);
      if (plain > 0) limit.Add(tera_flops / plain);
    }
    AddWithLimit(figure, "plain cuBLAS", limit, report);
  }
}

// The loss of a language model's outputs and its derivative, which reads them
// twice and writes once, beside copies of as many bytes on the device.
void Losses(ComputeFormat format, Report* report) {
  report->Progress(std::string("gpu: losses in ") + NameOf(format));
  constexpr uint64_t kRows = 1024;
  constexpr uint64_t kClasses = 50257;
  const std::unique_ptr<Device> device = MakeDevice(format);
  const DType dtype = device->activations();
  const Dims dims = {kRows, kClasses};
  const uint64_t bytes = SizeOf(dims) * SizeOf(dtype);
  auto outputs = Uploaded(RandomValues(SizeOf(dims), 1), device.get());
  const auto gradient = device->Allocate(bytes);
  if (IsHalf(dtype)) {
    auto halves = device->Allocate(bytes);
    device->Convert({outputs.get(), DType::kFloat32, dims},
                    {halves.get(), dtype, dims});
    device->Finish();
    outputs = std::move(halves);
  }
  // Labels of 0, factors of 0.
  const auto zeros = Uploaded(std::vector<float>(2 * kRows), device.get());
  const auto numbers =
      device->Allocate(kRows * RowLoss::kNumbers * sizeof(double));
  CHECK(device->status().ok(), "there is memory for losses");
  const auto seconds = [&](auto call) {
    return Seconds(1, [&] {
             for (int i = 0; i < 10; ++i) call();
             device->Finish();
           }) /
           10;
  };
  const auto compute = [&] {
    device->Losses({}, {outputs.get(), dtype, dims},
                   {zeros.get(), DType::kInt32, {kRows}},
                   {zeros.get(), DType::kFloat64, {kRows}},
                   {gradient.get(), dtype, dims},
                   {numbers.get(), DType::kFloat64,
                    {kRows, RowLoss::kNumbers}});
  };
  const auto copy = [&] { device->Copy(outputs.get(), bytes, gradient.get()); };
  seconds(compute);
  seconds(copy);
  Figure figure{std::string("loss_") + NameOf(format) + ".rate", "GB/s", {},
                Figure::Peer{"copies on the GPU", {}}};
  const double giga = 1e-9 * static_cast<double>(bytes);
  for (int round = 0; round < 5; ++round) {
    figure.values.Add(3 * giga / seconds(compute));
    figure.peer->values.Add(2 * giga / seconds(copy));
  }
  CHECK(device->status().ok(), "losses are computed");
  report->Add(figure);
}

void Copies(Device* device, Report* report) {
  report->Progress("gpu: copies");
  constexpr uint64_t kBytes = uint64_t{256} << 20;
  DeviceLink& link = *device->link();
  const auto there = device->Allocate(kBytes);
  const auto host = link.AllocateHost(kBytes);
  const auto back = link.AllocateHost(kBytes);
  CHECK(device->status().ok(), "there is memory for copies");
  std::memset(host.get(), 1, kBytes);
  const DeviceLink::Mark mark = link.MakeMark();
  const auto up = [&] {
    link.Upload(host.get(), kBytes, there.get());
    link.MarkUploads(mark);
    link.Wait(mark);
  };
  const auto down = [&] {
    link.Download(there.get(), kBytes, back.get(), mark);
    link.Wait(mark);
  };
  up();
  down();
  Figure upload{"upload_256mib.rate", "GB/s", {}, {}};
  Figure download{"download_256mib.rate", "GB/s", {}, {}};
  Samples plain_up;
  Samples plain_down;
  const auto add_plain = [&](bool is_up, Samples* samples) {
    const double seconds = PlainCopySeconds(kBytes, is_up, 4);
    if (seconds > 0) samples->Add(1e-9 * kBytes / seconds);
  };
  for (int round = 0; round < 5; ++round) {
    upload.values.Add(1e-9 * kBytes / Seconds(4, up));
    download.values.Add(1e-9 * kBytes / Seconds(4, down));
    add_plain(/*is_up=*/true, &plain_up);
    add_plain(/*is_up=*/false, &plain_down);
  }
  AddWithLimit(upload, "cudaMemcpyAsync", plain_up, report);
  AddWithLimit(download, "cudaMemcpyAsync", plain_down, report);
}

// One of several GPUs that sum 64 MiB each, by NCCL, on a thread of its own:
// seconds of a sum.
double SumSeconds(size_t rank, const std::shared_ptr<ReplicaMeeting>& meeting) {
  constexpr int kTimes = 20;
  constexpr uint64_t kValues = uint64_t{16} << 20;
  const auto device = MakeCudaDevice(static_cast<int>(rank));
  DeviceLink& link = *device->link();
  const absl::Status joined = link.Join({meeting, rank});
  CHECK(joined.ok(), "GPUs of one machine sum together");
  const auto memory = device->Allocate(kValues * sizeof(float));
  const DeviceLink::Mark mark = link.MakeMark();
  const auto sum = [&] {
    link.Sum({{static_cast<float*>(memory.get()), kValues}}, mark);
    link.Wait(mark);
  };
  sum();
  const double seconds = Seconds(kTimes, sum);
  CHECK(device->status().ok() && meeting->Meet(absl::OkStatus()).ok(),
        "no GPU is lost");
  return seconds;
}

// Bytes that each GPU has to send, over the time: 2 (n - 1) / n of what is
// summed.
void Sums(size_t gpus, Report* report) {
  report->Progress("gpu: sums");
  Figure figure{"sum_64mib.rate", "GB/s", {}, {}};
  for (int round = 0; round < 5; ++round) {
    const auto meeting = std::make_shared<ReplicaMeeting>(gpus);
    std::vector<double> seconds(gpus);
    std::vector<std::thread> threads;
    for (size_t r = 0; r < gpus; ++r) {
      threads.emplace_back([&, r] { seconds[r] = SumSeconds(r, meeting); });
    }
    for (std::thread& thread : threads) thread.join();
    const double count = static_cast<double>(gpus);
    figure.values.Add(1e-9 * (uint64_t{64} << 20) * 2 * (count - 1) / count /
                      *std::max_element(seconds.begin(), seconds.end()));
  }
  report->Add(figure);
}

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

  // All weights have changed, as behind a pull.
  void Run() {
    for (std::vector<float>& one : values_) {
      for (size_t i = 0; i < one.size(); i += Exchange::kBlock) one[i] += 1e-6f;
    }
    const auto metrics = network_->Step(weight_views_, batch_,
                                        {.divisor = 1.0 * examples_},
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
  Figure figure{"small_mlp_step.ms", "ms", {},
                Figure::Peer{"each call anew", {}}};
  for (int round = 0; round < 5; ++round) {
    figure.values.Add(1e3 * Seconds(200, [&] { with.Run(); }));
    figure.peer->values.Add(1e3 * Seconds(200, [&] { without.Run(); }));
  }
  report->Add(figure);
}

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
            (one == &block.slots ? 2 : 1) * kBlockElements * sizeof(float);
        *one = loops == nullptr ? Buffer::Allocate(bytes)
                                : loops->Allocate(bytes);
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
      CHECK(optimizer_.ReadFinite(&reader, kBlockElements), "zeros are finite");
      const auto floats = [](Buffer* buffer) {
        return reinterpret_cast<float*>(buffer->mutable_bytes().data());
      };
      optimizer_.Apply(&again, applied_,
                       {.elements = kBlockElements,
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

// 25 million parameters.
void Apply(Report* report) {
  report->Progress("gpu: apply");
  constexpr size_t kBlocks = 96;
  const uint64_t weights = kBlocks * kBlockElements * sizeof(float);
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
  Figure figure{"apply_adam_25m.ms", "ms", {},
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
  Figure figure{std::string("mlp_step_") + NameOf(format) + ".ms", "ms", {},
                Figure::Peer{"in fp32", {}}};
  for (int round = 0; round < 5; ++round) {
    figure.values.Add(1e3 * Seconds(10, [&] { rounded.Run(); }));
    figure.peer->values.Add(1e3 * Seconds(10, [&] { exact.Run(); }));
  }
  report->Add(figure);
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  paramd::Report report("gpu", argc, argv);
  const auto probe = paramd::ProbeCuda();
  const auto chosen = paramd::ChooseDevice(
      "cuda:0", probe, [](absl::string_view) { return true; });
  if (!chosen.ok()) {
    std::fprintf(stderr, "gpu: nothing is measured: %s\n",
                 std::string(chosen.status().message()).c_str());
    return 3;
  }
  std::fprintf(stderr, "gpu: %s\n", Describe(probe).c_str());
  const auto device = paramd::MakeCudaDevice(0);
  if (!device->status().ok()) {
    std::fprintf(stderr, "gpu: %s\n", device->status().ToString().c_str());
    return 1;
  }
  if (report.Wants("products")) {
    for (const auto format : paramd::kFormats) {
      paramd::Products(format, &report);
    }
  }
  if (report.Wants("copies")) paramd::Copies(device.get(), &report);
  if (report.Wants("sums") && probe.gpus.size() > 1) {
    paramd::Sums(probe.gpus.size(), &report);
  }
  if (report.Wants("overlap")) paramd::Overlap(&report);
  if (report.Wants("recordings")) paramd::Recordings(&report);
  if (report.Wants("apply")) paramd::Apply(&report);
  if (report.Wants("layers")) {
    for (const auto format : paramd::kFormats) paramd::Layers(format, &report);
  }
  if (report.Wants("losses")) {
    for (const auto format : paramd::kFormats) {
      if (format != paramd::ComputeFormat::kTf32) {
        paramd::Losses(format, &report);
      }
    }
  }
  if (report.Wants("formats")) {
    for (const auto format : paramd::kFormats) {
      if (format != paramd::ComputeFormat::kFp32) {
        paramd::Formats(format, &report);
      }
    }
  }
}
