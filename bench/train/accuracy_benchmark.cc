// Steps and seconds to an accuracy: gradients between two pushes, and modes.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "bench/train/cluster_run.h"

namespace paramd {
namespace {

constexpr double kAccuracy = 0.85;
constexpr int kBatch = 64;
constexpr int kExamples = 60000;
constexpr int kMostEpochs = 25;

struct Row {
  std::string name;
  int workers = 4;
  std::string staleness = "async";
  int push_every = 1;
  double rate = 0.05;
};

std::vector<Row> Rows() {
  std::vector<Row> rows = {{.name = "one_worker", .workers = 1}};
  for (const int k : {1, 2, 4, 8}) {
    rows.push_back({.name = absl::StrCat("push_every_", k), .push_every = k});
  }
  rows.push_back({.name = "staleness_2", .staleness = "2"});
  rows.push_back({.name = "sync", .staleness = "sync"});
  rows.push_back({.name = "sync_rate_0.2", .staleness = "sync", .rate = 0.2});
  return rows;
}

struct Figures {
  Samples epochs, steps, seconds, cpu_seconds;
};

void Run(const std::string& paramd, const Row& row, int seed,
         Figures* figures) {
  const auto reached = RunToAccuracy(
      paramd,
      {"--job=config/examples/fashion_mnist_small.json", "--servers=2",
       absl::StrCat("--batch_per_replica=", kBatch),
       absl::StrCat("--epochs=", kMostEpochs), absl::StrCat("--seed=", seed),
       // As between machines.
       "--shared_memory=false", absl::StrCat("--workers=", row.workers),
       absl::StrCat("--staleness=", row.staleness),
       absl::StrCat("--push_every=", row.push_every),
       absl::StrCat("--set=optimizer.learning_rate=", row.rate)},
      kAccuracy);
  if (!reached.has_value()) return;
  const int examples_per_step =
      kBatch * (row.staleness == "sync" ? row.workers : row.push_every);
  const auto epochs = static_cast<double>(reached->epochs);
  figures->epochs.Add(epochs);
  figures->steps.Add(epochs * ((kExamples - 1) / examples_per_step + 1));
  figures->seconds.Add(reached->seconds);
  figures->cpu_seconds.Add(reached->cpu_seconds);
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  paramd::Report report("train_to_accuracy", argc, argv);
  const std::string binary = std::filesystem::absolute("cli/paramd");
  if (!std::filesystem::exists(binary)) {
    std::fprintf(stderr,
                 "there is no %s; start it with\n"
                 "  bazel run //bench/train:accuracy\n",
                 binary.c_str());
    return 1;
  }
  const std::vector<paramd::Row> rows = paramd::Rows();
  std::vector<paramd::Figures> figures(rows.size());
  // Round by round, so that other work on the machine meets all rows alike.
  const int rounds = report.quick() ? 1 : 3;
  for (int round = 1; round <= rounds; ++round) {
    for (size_t r = 0; r < rows.size(); ++r) {
      if (report.quick() && r > 1) continue;
      if (!report.Wants(rows[r].name)) continue;
      report.Progress(absl::StrCat(rows[r].name, ", round ", round));
      paramd::Run(binary, rows[r], round, &figures[r]);
    }
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    const paramd::Figures& found = figures[r];
    if (found.epochs.empty()) continue;  // Left out, or never that accurate.
    report.Add({rows[r].name + ".epochs", "", found.epochs, {}});
    report.Add({rows[r].name + ".steps", "", found.steps, {}});
    report.Add({rows[r].name + ".seconds", "s", found.seconds, {}});
    report.Add({rows[r].name + ".cpu_seconds", "CPU-s", found.cpu_seconds, {}});
  }
}
