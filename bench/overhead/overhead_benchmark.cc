// What share of a step is communication, by parameter servers and by
// all-reduce.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "bench/overhead/process_cluster.h"

namespace paramd {
namespace {

constexpr uint32_t kServers = 2;

struct Model {
  std::string name;
  std::string layers;
};

// The networks of config/examples/residual.json and of two wide dense layers.
std::vector<Model> Models() {
  return {{"convolutional", R"(
      {"conv2d": {"filters": 32, "bias": false}}, "batch_norm", "relu",
      {"max_pool": 2},
      {"residual": {"layers": [
        {"conv2d": {"filters": 32, "bias": false}}, "batch_norm", "relu",
        {"conv2d": {"filters": 32, "bias": false}}, "batch_norm"
      ]}}, "relu",
      {"residual": {
        "layers": [
          {"conv2d": {"filters": 64, "stride": 2, "bias": false}},
          "batch_norm", "relu",
          {"conv2d": {"filters": 64, "bias": false}}, "batch_norm"
        ],
        "shortcut": [
          {"conv2d": {"filters": 64, "kernel": 1, "stride": 2, "bias": false}},
          "batch_norm"
        ]
      }}, "relu",
      {"residual": {"layers": [
        {"conv2d": {"filters": 64, "bias": false}}, "batch_norm", "relu",
        {"conv2d": {"filters": 64, "bias": false}}, "batch_norm"
      ]}}, "relu",
      "global_average_pool", {"dense": 10})"},
          {"dense", R"(
      "flatten", {"dense": 1024}, "relu", {"dense": 1024}, "relu",
      {"dense": 10})"}};
}

std::string JobOf(const Model& model, const std::string& strategy) {
  return absl::StrCat(R"({
    "name": "overhead", "epochs": 1000000, "evaluate_every_epochs": 0,
    "batch_per_replica": 4, "shared_memory": false,
    "input": {"format": "idx",
              "directory": "/usr/share/datasets/fashion-mnist",
              "train_images": "t10k-images-idx3-ubyte.gz",
              "train_labels": "t10k-labels-idx1-ubyte.gz"},
    "model": {"loss": "softmax_cross_entropy", "layers": [)",
                      model.layers, R"(]},
    "optimizer": {"sgd": {}, "learning_rate": 0.1},
    "checkpoint": {"every_steps": 0}, "summary": {"every_steps": 1000000},
    "staleness": "sync", "strategy": ")",
                      strategy, "\"}");
}

struct Costs {
  Samples milliseconds, megabytes, cpu_milliseconds;
};

class Overhead {
 public:
  Overhead(std::string program, Report* report)
      : program_(std::move(program)), report_(report) {}

  void Measure(const Model& model, int sleep_ms, uint32_t workers) {
    const std::string name =
        absl::StrCat(model.name, ".", sleep_ms, "ms.workers_", workers);
    Costs servers, all_reduce;
    for (int round = 1; round <= (report_->quick() ? 1 : 3); ++round) {
      report_->Progress(absl::StrCat(name, ", round ", round));
      Add(JobOf(model, "parameter_server"), kServers, workers, sleep_ms,
          &servers);
      Add(JobOf(model, "multi_worker_mirrored"), 0, workers, sleep_ms,
          &all_reduce);
    }
    const auto add = [&](const char* what, const char* unit,
                         const Samples& ours, const Samples& theirs) {
      report_->Add({absl::StrCat(name, ".", what), unit, ours,
                    Figure::Peer{"servers", theirs}});
    };
    add("step_ms", "ms", all_reduce.milliseconds, servers.milliseconds);
    add("mb_per_step", "MB", all_reduce.megabytes, servers.megabytes);
    add("cpu_ms_per_step", "ms", all_reduce.cpu_milliseconds,
        servers.cpu_milliseconds);
  }

 private:
  void Add(const std::string& job, uint32_t servers, uint32_t workers,
           int sleep_ms, Costs* costs) {
    ProcessCluster::Options options;
    options.program = program_;
    options.job = job;
    options.servers = servers;
    options.workers = workers;
    options.environment = EnvironmentWith("SLEEP_MS", absl::StrCat(sleep_ms));
    const ProcessCluster::Cost cost = ProcessCluster(options).Measure(
        absl::Seconds(report_->quick() ? 1 : 4));
    costs->milliseconds.Add(1e3 * cost.seconds);
    costs->megabytes.Add(1e-6 * cost.bytes);
    costs->cpu_milliseconds.Add(1e3 * cost.cpu_seconds);
  }

  const std::string program_;
  Report* const report_;
};

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  paramd::Report report("overhead", argc, argv);
  const std::string program =
      std::filesystem::absolute("bench/overhead/sleeping_paramd");
  if (!std::filesystem::exists(program)) {
    std::fprintf(stderr,
                 "there is no %s; start it with\n"
                 "  bazel run //bench/overhead\n",
                 program.c_str());
    return 1;
  }
  if (!paramd::EnterOwnNetwork()) {
    report.Progress("no network of its own: bytes are the whole machine's");
  }
  paramd::Overhead overhead(program, &report);
  for (const paramd::Model& model : paramd::Models()) {
    if (!report.Wants(model.name)) continue;
    for (const int sleep_ms : {10, 100}) {
      for (const uint32_t workers : {1, 2, 4, 8}) {
        if (report.quick() && (sleep_ms != 10 || workers != 4)) continue;
        overhead.Measure(model, sleep_ms, workers);
      }
    }
  }
}
