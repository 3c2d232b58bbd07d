// Training on Fashion-MNIST by whole clusters.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "bench/train/cluster_run.h"

namespace paramd {
namespace {

struct Shape {
  std::string part;  // Of --only.
  std::string name;
  std::string model;
  std::string optimizer;
  int batch;
  int servers;
  int workers;
};

constexpr char kSmall[] =
    R"(["flatten", {"dense": 128}, "relu", {"dense": 10}])";
constexpr char kLarge[] = R"(["flatten", {"dense": 1024}, "relu",
    {"dense": 1024}, "relu", {"dense": 10}])";
constexpr char kSgd[] = R"({"sgd": {}, "learning_rate": 0.1})";
constexpr char kAdam[] = R"({"adam": {}, "learning_rate": 0.001})";

// Its figures have no name of a shape before them.
constexpr char kPlain[] = "small.sgd.2+2";

std::vector<Shape> Shapes() {
  return {
      {"sgd", kPlain, kSmall, kSgd, 64, 2, 2},
      {"adam", "small.adam.2+2", kSmall, kAdam, 64, 2, 2},
      {"shapes", "small.sgd.1+1", kSmall, kSgd, 64, 1, 1},
      {"shapes", "small.sgd.2+4", kSmall, kSgd, 64, 2, 4},
      {"large", "large.sgd.2+2", kLarge, kSgd, 128, 2, 2},
  };
}

// The file of a job; gone with this.
class JobFile {
 public:
  explicit JobFile(const Shape& shape) {
    const int file = mkstemp(path_.data());
    const std::string text =
        absl::StrCat(R"({"name": "bench", "batch_per_replica": )", shape.batch,
                     R"(, "input": {"format": "idx",
            "directory": "/usr/share/datasets/fashion-mnist"},
            "model": {"loss": "softmax_cross_entropy", "layers": )",
                     shape.model, R"(}, "optimizer": )", shape.optimizer, "}");
    if (file < 0 || write(file, text.data(), text.size()) !=
                        static_cast<ssize_t>(text.size())) {
      std::fprintf(stderr, "%s can't be written\n", path_.c_str());
      std::exit(1);
    }
    close(file);
  }
  ~JobFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = std::filesystem::temp_directory_path() / "jobXXXXXX";
};

void Measure(const std::string& paramd, const Shape& shape, Report* report) {
  const JobFile job(shape);
  Samples speed, cpu, memory, after_one, after_five;
  const int rounds = report->quick() ? 1 : 5;
  for (int round = 0; round < rounds; ++round) {
    const auto run = [&](int epochs) {
      report->Progress(absl::StrCat("train: ", shape.name, ", ", epochs,
                                    " epochs, round ", round + 1));
      return RunCluster(paramd, {absl::StrCat("--job=", job.path()),
                                 absl::StrCat("--servers=", shape.servers),
                                 absl::StrCat("--workers=", shape.workers),
                                 absl::StrCat("--seed=", round + 1),
                                 absl::StrCat("--epochs=", epochs)});
    };
    const ClusterRun one = run(1);
    const ClusterRun five = run(5);
    const double steps = static_cast<double>(five.steps - one.steps);
    speed.Add(steps / (five.seconds - one.seconds));
    cpu.Add(1e3 * (five.cpu_seconds - one.cpu_seconds) / steps);
    memory.Add(1e-6 * static_cast<double>(five.server_bytes));
    after_one.Add(one.accuracy);
    after_five.Add(five.accuracy);
  }
  const std::string prefix =
      shape.name == kPlain ? "" : absl::StrCat(shape.name, ".");
  report->Add({prefix + "steps_per_s", "steps/s", speed, {}});
  report->Add({prefix + "cpu_s_per_1000_steps", "CPU-s", cpu, {}});
  report->Add({prefix + "server_memory", "MB", memory, {}});
  report->Add({prefix + "accuracy_1_epoch", "", after_one, {}});
  report->Add({prefix + "accuracy_5_epochs", "", after_five, {}});
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  paramd::Report report("train", argc, argv);
  const std::string paramd = std::filesystem::absolute("cli/paramd");
  if (!std::filesystem::exists(paramd)) {
    std::fprintf(stderr,
                 "there is no %s; start it with\n"
                 "  bazel run //bench/train\n",
                 paramd.c_str());
    return 1;
  }
  for (const paramd::Shape& shape : paramd::Shapes()) {
    const bool wanted =
        report.quick() ? shape.part == "sgd" : report.Wants(shape.part);
    if (wanted) paramd::Measure(paramd, shape, &report);
  }
}
