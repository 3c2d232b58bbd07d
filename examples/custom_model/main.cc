// Softmax regression on Fashion-MNIST, with a model and an input pipeline of
// its own: custom_model [DIRECTORY]. Needs paramd.h, libparamd.so and zlib;
// with CUDA it computes on a GPU, where there is one.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <zlib.h>

#include "device.h"
#include "kernels.h"
#include "paramd.h"

namespace {

void ExitWith(const std::string& why) {
  std::fprintf(stderr, "custom_model: %s\n", why.c_str());
  std::exit(1);
}

// The bytes of an IDX file after its header.
std::vector<uint8_t> Read(const std::string& path, size_t header) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) ExitWith("can't open " + path);
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> piece(1 << 20);
  int read = 0;
  while ((read = gzread(file, piece.data(), 1 << 20)) > 0) {
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + read);
  }
  gzclose(file);
  if (bytes.size() < header) ExitWith(path + " is too short");
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<long>(header));
  return bytes;
}

Images ReadImages(const std::string& directory, const std::string& split) {
  const std::string path = directory + "/" + split;
  return {Read(path + "-images-idx3-ubyte.gz", 16),
          Read(path + "-labels-idx1-ubyte.gz", 8)};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string directory =
      argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";
  const Images training = ReadImages(directory, "train");
  const Images test = ReadImages(directory, "t10k");
  std::unique_ptr<Device> device = MakeGpu(training, test);
  if (device == nullptr) device = MakeProcessor(training, test);
  std::printf("computes on %s\n", device->name().c_str());
  const uint64_t w_shape[] = {kPixels, kClasses}, b_shape[] = {kClasses};
  const paramd_variable variables[] = {{"w", w_shape, 2, 0, nullptr},
                                       {"b", b_shape, 1, 0, nullptr}};
  paramd_worker_options options = {};
  options.size = sizeof(options);
  options.job = R"({"name": "custom-model", "model": {"custom": true},
                    "log_level": "warning", "batch_per_replica": 32,
                    "optimizer": {"sgd": {}, "learning_rate": 0.05}})";
  options.variables = variables;
  options.variable_count = 2;
  options.training_examples = training.labels.size();
  options.test_examples = test.labels.size();
  paramd_worker* worker = nullptr;
  if (paramd_worker_start(&options, &worker) != PARAMD_OK) {
    ExitWith(paramd_error());
  }
  uint64_t correct = 0, evaluated = 0;  // Of the newest evaluation.
  for (paramd_work work;;) {
    const int code = paramd_worker_next(worker, 60, &work);
    if (code == PARAMD_DEADLINE_EXCEEDED) continue;  // Others are waited for.
    if (code != PARAMD_OK) ExitWith(paramd_error());
    if (work.kind == PARAMD_END) break;
    paramd_result result = {};
    const std::string failure = device->Compute(work, &result);
    if (!failure.empty()) ExitWith(failure);
    if (work.kind == PARAMD_EVALUATE) {
      if (evaluated == test.labels.size()) correct = evaluated = 0;
      correct += result.correct;
      evaluated += result.examples;
    }
    if (paramd_worker_finish(worker, &result) != PARAMD_OK) {
      ExitWith(paramd_error());
    }
  }
  if (paramd_worker_close(worker) != PARAMD_OK) ExitWith(paramd_error());
  std::printf("test accuracy %.4f\n",
              static_cast<double>(correct) / static_cast<double>(evaluated));
  return 0;
}
