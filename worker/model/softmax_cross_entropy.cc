#include "worker/model/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace paramd {

BatchResult& BatchResult::operator+=(const BatchResult& other) {
  loss_sum += other.loss_sum;
  correct += other.correct;
  examples += other.examples;
  return *this;
}

double BatchResult::mean_loss() const {
  return examples == 0 ? 0 : loss_sum / static_cast<double>(examples);
}

double BatchResult::accuracy() const {
  return examples == 0
             ? 0
             : static_cast<double>(correct) / static_cast<double>(examples);
}

BatchResult SoftmaxCrossEntropy(ConstMatrix outputs,
                                absl::Span<const uint32_t> labels, float scale,
                                Matrix gradient) {
  CHECK(labels.size() == outputs.rows, "there is one label per row");
  const size_t columns = outputs.columns;
  BatchResult result;
  result.examples = labels.size();
  for (size_t i = 0; i < outputs.rows; ++i) {
    CHECK(labels[i] < columns, "a label is below the number of outputs");
    const float* row = outputs.data + i * columns;
    const size_t largest =
        static_cast<size_t>(std::max_element(row, row + columns) - row);
    float sum = 0;
    for (size_t j = 0; j < columns; ++j) sum += std::exp(row[j] - row[largest]);
    result.loss_sum +=
        std::log(double{sum}) + double{row[largest]} - double{row[labels[i]]};
    if (largest == labels[i]) ++result.correct;
    if (gradient.data == nullptr) continue;
    float* out = gradient.data + i * columns;
    for (size_t j = 0; j < columns; ++j) {
      out[j] = std::exp(row[j] - row[largest]) / sum * scale;
    }
    out[labels[i]] -= scale;
  }
  return result;
}

}  // namespace paramd
