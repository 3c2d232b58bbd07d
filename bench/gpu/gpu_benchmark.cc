// What a GPU does with the built-in network: matrix products and copies of
// pinned memory beside plain calls of cuBLAS and CUDA, sums over all GPUs if
// there are several, the layers of a transformer block, the loss of a language
// model, rows of a table, an optimizer over blocks that stay there, and whole
// steps, weights and gradients of which cross, with and without overlap and in
// each format.
// Where no GPU can be used it says why and measures nothing.
#include <cstdio>
#include <memory>
#include <string>

#include "bench/gpu/benchmarks.h"
#include "bench/harness/report.h"
#include "compute/device/cuda_device.h"
#include "compute/device/device_choice.h"

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
  if (report.Wants("copies")) paramd::Copies(&report);
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
  if (report.Wants("rows")) paramd::AddedRows(&report);
  if (report.Wants("formats")) {
    for (const auto format : paramd::kFormats) {
      if (format != paramd::ComputeFormat::kFp32) {
        paramd::Formats(format, &report);
      }
    }
  }
}
