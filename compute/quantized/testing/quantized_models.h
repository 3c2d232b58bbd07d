#ifndef PARAMD_COMPUTE_QUANTIZED_TESTING_QUANTIZED_MODELS_H_
#define PARAMD_COMPUTE_QUANTIZED_TESTING_QUANTIZED_MODELS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "compute/model/network_plan.h"
#include "compute/model/trained_model.h"
#include "compute/quantized/quantize.h"
#include "input/pipeline.h"
#include "proto/paramd/v1/model.pb.h"

namespace paramd {

using ModelWeights = std::vector<std::vector<float>>;

// 64 images of 16 x 16 numbers that are random, or all of them 5.5; of three
// classes.
std::unique_ptr<Pipeline> OpenRandomImages(bool constant = false);

// Of layers in text format; the loss is of classes.
v1::ModelConfig ClassifierOf(absl::string_view layers);

std::vector<absl::Span<const float>> SpansOf(const ModelWeights& weights);

// Random ones, as after training: no variance is 1, no shift 0.
ModelWeights RandomModelWeights(const NetworkPlan& plan, uint64_t seed);

// Of all of the set.
std::vector<float> PredictionsOf(const ModelWeights& weights,
                                 const Pipeline& data, TrainedModel* model);

// How far the two that are farthest apart are.
float Farthest(const std::vector<float>& a, const std::vector<float>& b);

// A quantised checkpoint of the tensors, and what its readers get.
struct WrittenModel {
  ModelWeights weights;
  std::string directory;
};
WrittenModel WriteAndRead(const NetworkPlan& plan, const Quantized& made,
                          const std::string& name);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_QUANTIZED_TESTING_QUANTIZED_MODELS_H_
