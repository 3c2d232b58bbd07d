#include "compute/model/in_batch.h"

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"

#include "compute/device/shapes.h"

namespace paramd {
namespace {

// The first or the second vector of each pair, as a matrix whose rows are two
// vectors apart: all numbers from its first to its last.
template <class SomeTensor, class Byte>
SomeTensor SideOf(SomeTensor pairs, uint64_t side) {
  const uint64_t width = pairs.dims.back();
  pairs.data =
      static_cast<Byte*>(pairs.data) + side * width * SizeOf(pairs.dtype);
  pairs.dims = {pairs.size() - width};
  return pairs;
}

ConstTensor Side(const ConstTensor& pairs, uint64_t side) {
  return SideOf<ConstTensor, const std::byte>(pairs, side);
}

Tensor WritableSide(const Tensor& pairs, uint64_t side) {
  return SideOf<Tensor, std::byte>(pairs, side);
}

Product::Strides RowsOf(const ConstTensor& pairs) {
  return {.row = 2 * pairs.dims.back()};
}

}  // namespace

absl::Status CheckScoresFit(uint64_t examples, bool training, uint64_t memory) {
  const uint64_t of_a_pair = (training ? 2 : 1) * sizeof(float);
  const uint64_t needed = examples * examples * of_a_pair;
  if (memory == 0 || needed <= memory) return absl::OkStatus();
  const auto fitting =
      static_cast<uint64_t>(std::sqrt(static_cast<double>(memory / of_a_pair)));
  return absl::ResourceExhaustedError(absl::StrCat(
      "a batch of ", examples, " examples needs ",
      (needed + (1 << 20) - 1) >> 20,
      " MiB for the scores of in_batch_softmax, each example's with each "
      "item; this process may have ",
      memory >> 20, " MiB in all, in which those of ", fitting, " would fit"));
}

void FillCorrections(absl::Span<const float> probabilities,
                     std::vector<float>* corrections) {
  corrections->resize(probabilities.size());
  for (size_t i = 0; i < probabilities.size(); ++i) {
    (*corrections)[i] = static_cast<float>(-std::log(double{probabilities[i]}));
  }
}

void ScoreBatch(const ConstTensor& outputs, double temperature,
                const ConstTensor& corrections, const Tensor& scores,
                Device* device) {
  const uint64_t examples = outputs.dims[0];
  Product product = {.m = examples, .n = examples, .k = outputs.dims.back()};
  product.transpose_b = true;
  product.scale = 1 / temperature;
  product.a = product.b = RowsOf(outputs);
  device->Multiply(product, Side(outputs, 0), Side(outputs, 1), scores);
  if (corrections.data != nullptr) {
    device->AddRow(scores, corrections, scores);
  }
}

void ScoreBatchBackward(const ConstTensor& outputs, double temperature,
                        const ConstTensor& scores_gradient,
                        const Tensor& outputs_gradient, Device* device) {
  const uint64_t examples = outputs.dims[0];
  Product product = {.m = examples, .n = outputs.dims.back(), .k = examples};
  product.scale = 1 / temperature;
  product.b = product.c = RowsOf(outputs);
  device->Multiply(product, scores_gradient, Side(outputs, 1),
                   WritableSide(outputs_gradient, 0));
  product.transpose_a = true;
  device->Multiply(product, scores_gradient, Side(outputs, 0),
                   WritableSide(outputs_gradient, 1));
}

}  // namespace paramd
