#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/gpu/benchmarks.h"
#include "bench/gpu/cuda_limits.h"
#include "compute/device/device_link.h"

namespace paramd {

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
      return SecondsOn(device.get(), times, [&] {
        device->Multiply({.m = side, .n = side, .k = side}, input,
                         {b.get(), DType::kFloat32, dims},
                         {c.get(), DType::kFloat32, dims});
      });
    };
    run(3);
    CHECK(device->status().ok(), "products are computed");
    Figure figure{std::string("product_") + NameOf(format) + "_" +
                      std::to_string(side) + ".flops",
                  "Tflop/s",
                  {},
                  {}};
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
    return SecondsOn(device.get(), 10, call);
  };
  const auto compute = [&] {
    device->Losses(
        {}, {outputs.get(), dtype, dims}, {zeros.get(), DType::kInt32, {kRows}},
        {zeros.get(), DType::kFloat64, {kRows}}, {gradient.get(), dtype, dims},
        {numbers.get(), DType::kFloat64, {kRows, RowLoss::kNumbers}});
  };
  const auto copy = [&] { device->Copy(outputs.get(), bytes, gradient.get()); };
  seconds(compute);
  seconds(copy);
  Figure figure{std::string("loss_") + NameOf(format) + ".rate",
                "GB/s",
                {},
                Figure::Peer{"copies on the GPU", {}}};
  const double giga = 1e-9 * static_cast<double>(bytes);
  for (int round = 0; round < 5; ++round) {
    figure.values.Add(3 * giga / seconds(compute));
    figure.peer->values.Add(2 * giga / seconds(copy));
  }
  CHECK(device->status().ok(), "losses are computed");
  report->Add(figure);
}

// The gradients of embeddings: the rows of a batch of 8,192 examples with 26
// fields are added to those of a table, beside a copy of them on the device.
void AddedRows(Report* report) {
  report->Progress("gpu: rows");
  constexpr uint64_t kLookups = 8192 * 26;
  constexpr uint64_t kTable = uint64_t{1} << 17;
  constexpr uint64_t kWidth = 16;
  const std::unique_ptr<Device> device = MakeDevice(ComputeFormat::kFp32);
  RandomStream random(1);
  std::vector<int32_t> places(kLookups);
  for (int32_t& place : places) {
    place = static_cast<int32_t>(random.Below(kTable));
  }
  const auto indices = device->Allocate(kLookups * sizeof(int32_t));
  const auto rows = Uploaded(RandomValues(kLookups * kWidth, 1), device.get());
  const auto table = device->Allocate(kTable * kWidth * sizeof(float));
  const auto copied = device->Allocate(kLookups * kWidth * sizeof(float));
  CHECK(device->status().ok(), "there is memory for rows");
  device->Copy(places.data(), kLookups * sizeof(int32_t), indices.get());
  const auto seconds = [&](auto call) {
    return SecondsOn(device.get(), 10, call);
  };
  const auto add = [&] {
    device->ScatterAdd({indices.get(), DType::kInt32, {kLookups}},
                       {rows.get(), DType::kFloat32, {kLookups, kWidth}},
                       {table.get(), DType::kFloat32, {kTable, kWidth}});
  };
  const auto copy = [&] {
    device->Copy(rows.get(), kLookups * kWidth * sizeof(float), copied.get());
  };
  seconds(add);
  seconds(copy);
  Figure figure{"scatter_add_213k.ms",
                "ms",
                {},
                Figure::Peer{"a copy of the rows on the GPU", {}}};
  for (int round = 0; round < 5; ++round) {
    figure.values.Add(1e3 * seconds(add));
    figure.peer->values.Add(1e3 * seconds(copy));
  }
  CHECK(device->status().ok(), "rows are added");
  report->Add(figure);
}

void Copies(Report* report) {
  report->Progress("gpu: copies");
  const std::unique_ptr<Device> device = MakeDevice(ComputeFormat::kFp32);
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

namespace {

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

}  // namespace

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

}  // namespace paramd
