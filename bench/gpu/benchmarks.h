#ifndef PARAMD_BENCH_GPU_BENCHMARKS_H_
#define PARAMD_BENCH_GPU_BENCHMARKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "compute/device/cuda_device.h"

// What gpu_benchmark measures, each on the first GPU unless it says more.
namespace paramd {

// Seconds of one of `times` calls.
template <class Function>
double Seconds(int times, Function f) {
  const Time begin = MonotonicNow();
  for (int i = 0; i < times; ++i) f();
  return absl::ToDoubleSeconds(MonotonicNow() - begin) / times;
}

// The same of what the device is given to compute.
template <class Function>
double SecondsOn(Device* device, int times, Function f) {
  return Seconds(1,
                 [&] {
                   for (int i = 0; i < times; ++i) f();
                   device->Finish();
                 }) /
         times;
}

inline constexpr ComputeFormat kFormats[] = {
    ComputeFormat::kFp32, ComputeFormat::kTf32, ComputeFormat::kBf16,
    ComputeFormat::kFp16};

inline std::unique_ptr<Device> MakeDevice(
    ComputeFormat format, const AcceleratedDevice::Options& options = {}) {
  auto device = MakeCudaDevice(0, options);
  device->SetComputeFormat(format);
  return device;
}

// Memory of the device with such numbers.
inline Device::Memory Uploaded(const std::vector<float>& values,
                               Device* device) {
  const uint64_t bytes = values.size() * sizeof(float);
  Device::Memory memory = device->Allocate(bytes);
  CHECK(memory != nullptr, "there is memory on the GPU");
  device->Copy(values.data(), bytes, memory.get());
  device->Finish();
  return memory;
}

inline std::vector<float> RandomValues(uint64_t count, uint64_t seed) {
  RandomStream random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = random.Uniform() - 0.5f;
  return values;
}

// Beside the limit, if the machine gave something to compare with.
inline void AddWithLimit(Figure figure, const std::string& limit,
                         Samples values, Report* report) {
  if (!values.empty()) figure.peer = Figure::Peer{limit, std::move(values)};
  report->Add(figure);
}

// primitive_benchmarks.cc

void Products(ComputeFormat format, Report* report);
void Losses(ComputeFormat format, Report* report);
void AddedRows(Report* report);
void Copies(Report* report);
void Sums(size_t gpus, Report* report);

// step_benchmarks.cc

void Layers(ComputeFormat format, Report* report);
void Overlap(Report* report);
void Recordings(Report* report);
void Apply(Report* report);
void Formats(ComputeFormat format, Report* report);

}  // namespace paramd

#endif  // PARAMD_BENCH_GPU_BENCHMARKS_H_
