// What a GPU does with the built-in network: matrix products, copies of pinned
// memory, sums over all GPUs if there are several, and whole steps, weights and
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
#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "worker/device/cuda_device.h"
#include "worker/device/device_choice.h"
#include "worker/device/device_link.h"
#include "worker/model/network.h"

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

std::unique_ptr<Device> MakeDevice(ComputeFormat format, bool overlaps = true) {
  auto device = MakeCudaDevice(0, overlaps);
  device->SetComputeFormat(format);
  return device;
}

// Of float32 matrices, what rounds them included.
void Products(ComputeFormat format, Report* report) {
  report->Progress(std::string("gpu: products in ") + NameOf(format));
  const std::unique_ptr<Device> device = MakeDevice(format);
  for (const uint64_t side : {256, 1024, 4096}) {
    const uint64_t bytes = side * side * sizeof(float);
    const auto a = device->Allocate(bytes);
    const auto b = device->Allocate(bytes);
    const auto c = device->Allocate(bytes);
    const Dims dims = {side, side};
    const std::vector<float> ones(side * side, 1);
    device->Copy(ones.data(), bytes, a.get());
    device->Copy(ones.data(), bytes, b.get());
    const auto run = [&](int times) {
      return Seconds(1, [&] {
               for (int i = 0; i < times; ++i) {
                 device->Multiply({.m = side, .n = side, .k = side},
                                  {a.get(), DType::kFloat32, dims},
                                  {b.get(), DType::kFloat32, dims},
                                  {c.get(), DType::kFloat32, dims});
               }
               device->Finish();
             }) /
             times;
    };
    run(3);
    Figure figure{std::string("product_") + NameOf(format) + "_" +
                      std::to_string(side) + ".flops",
                  "Tflop/s", {}, {}};
    for (int round = 0; round < 5; ++round) {
      const double size = static_cast<double>(side);
      figure.values.Add(2e-12 * size * size * size / run(20));
    }
    report->Add(figure);
  }
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
  for (int round = 0; round < 5; ++round) {
    upload.values.Add(1e-9 * kBytes / Seconds(4, up));
    download.values.Add(1e-9 * kBytes / Seconds(4, down));
  }
  report->Add(upload);
  report->Add(download);
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
  explicit Steps(bool overlaps,
                 ComputeFormat format = ComputeFormat::kFp32) {
    v1::ModelConfig config;
    CHECK(google::protobuf::TextFormat::ParseFromString(
              R"(layers { flatten {} }
                 layers { dense { units: 2048 } } layers { relu {} }
                 layers { dense { units: 2048 } } layers { relu {} }
                 layers { dense { units: 2048 } } layers { relu {} }
                 layers { dense { units: 2048 } } layers { relu {} }
                 layers { dense { units: 10 } } loss: SOFTMAX_CROSS_ENTROPY)",
              &config),
          "the model of the benchmark is read");
    const InputSpec input = LabelledImages({28, 28}, 10);
    network_ = *Network::Create(config, input, [format, overlaps] {
      return MakeDevice(format, overlaps);
    });
    batch_.Reset(input, 512);
    for (Column& column : batch_.columns) {
      std::memset(column.tensor().data, 0,
                  column.tensor().size() * SizeOf(column.spec().dtype));
    }
    RandomStream random(1);
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
                                        {.divisor = 512}, gradient_views_,
                                        [](size_t) {});
    CHECK(metrics.ok(), "a step is computed");
  }

 private:
  Batch batch_;
  std::unique_ptr<Network> network_;
  std::vector<std::vector<float>> values_, gradients_;
  std::vector<absl::Span<const float>> weight_views_;
  std::vector<absl::Span<float>> gradient_views_;
};

void Overlap(Report* report) {
  report->Progress("gpu: steps");
  Steps with(/*overlaps=*/true);
  Steps without(/*overlaps=*/false);
  with.Run();
  without.Run();
  Figure figure{"mlp_step.ms", "ms", {}, Figure::Peer{"without overlap", {}}};
  for (int round = 0; round < 5; ++round) {
    figure.values.Add(1e3 * Seconds(10, [&] { with.Run(); }));
    figure.peer->values.Add(1e3 * Seconds(10, [&] { without.Run(); }));
  }
  report->Add(figure);
}

void Formats(ComputeFormat format, Report* report) {
  report->Progress(std::string("gpu: steps in ") + NameOf(format));
  Steps rounded(/*overlaps=*/true, format);
  Steps exact(/*overlaps=*/true);
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
    return 0;
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
  if (report.Wants("formats")) {
    for (const auto format : paramd::kFormats) {
      if (format != paramd::ComputeFormat::kFp32) {
        paramd::Formats(format, &report);
      }
    }
  }
}
