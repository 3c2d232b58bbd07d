// Softmax regression on Fashion-MNIST, with a model and an input pipeline of its
// own: custom_model [DIRECTORY]. Needs paramd.h, libparamd.so and zlib.

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "paramd.h"

namespace {

constexpr int kPixels = 784, kClasses = 10;

void ExitWith(const std::string& why) {
  std::fprintf(stderr, "custom_model: %s\n", why.c_str());
  std::exit(1);
}

// The bytes of an IDX file behind its header.
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

struct Images {
  Images(const std::string& directory, const std::string& split)
      : pixels(Read(directory + "/" + split + "-images-idx3-ubyte.gz", 16)),
        labels(Read(directory + "/" + split + "-labels-idx1-ubyte.gz", 8)) {}
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;
};

// Loss and, for a step, gradients of softmax(x W + b) on these examples.
paramd_result Compute(const Images& images, const paramd_work& work) {
  const float* const w = work.weights[0];
  const float* const b = work.weights[1];
  const bool is_step = work.kind == PARAMD_STEP;
  if (is_step) {
    std::fill_n(work.gradients[0], kPixels * kClasses, 0.0f);
    std::fill_n(work.gradients[1], kClasses, 0.0f);
  }
  paramd_result result = {};
  for (uint64_t i = 0; i < work.index_count; ++i) {
    const uint8_t* const x = &images.pixels[work.indices[i] * kPixels];
    const int label = images.labels[work.indices[i]];
    double scores[kClasses];
    std::copy_n(b, kClasses, scores);
    for (int p = 0; p < kPixels; ++p) {
      if (x[p] == 0) continue;
      for (int c = 0; c < kClasses; ++c) {
        scores[c] += x[p] / 255.0 * w[p * kClasses + c];
      }
    }
    const double* const best = std::max_element(scores, scores + kClasses);
    result.correct += best - scores == label;
    const double most = *best;
    double sum = 0;
    for (const double score : scores) sum += std::exp(score - most);
    result.loss_sum += most + std::log(sum) - scores[label];
    if (!is_step) continue;
    for (int c = 0; c < kClasses; ++c) {
      const float slope = static_cast<float>(
          (std::exp(scores[c] - most) / sum - (c == label)) / work.divisor);
      work.gradients[1][c] += slope;
      for (int p = 0; p < kPixels; ++p) {
        work.gradients[0][p * kClasses + c] += slope * x[p] / 255;
      }
    }
  }
  result.examples = result.labels = work.index_count;
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string directory =
      argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";
  const Images training(directory, "train"), test(directory, "t10k");
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
    const bool is_step = work.kind == PARAMD_STEP;
    const paramd_result result = Compute(is_step ? training : test, work);
    if (!is_step) {
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
