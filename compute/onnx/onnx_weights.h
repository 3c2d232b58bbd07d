#ifndef PARAMD_COMPUTE_ONNX_ONNX_WEIGHTS_H_
#define PARAMD_COMPUTE_ONNX_ONNX_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "compute/model/network_plan.h"
#include "compute/model/trained_model.h"
#include "compute/onnx/onnx_graph.h"
#include "tensor/number_format.h"

namespace paramd {

// [height, width, inputs, outputs] of a convolution as ONNX has it, [outputs,
// inputs, height, width].
template <class T>
std::vector<T> OutputsFirst(absl::Span<const T> kernel, const Dims& dims) {
  const uint64_t window = dims[0] * dims[1];
  std::vector<T> made(kernel.size());
  for (uint64_t place = 0; place < window; ++place) {
    for (uint64_t in = 0; in < dims[2]; ++in) {
      for (uint64_t out = 0; out < dims[3]; ++out) {
        made[(out * dims[2] + in) * window + place] =
            kernel[(place * dims[2] + in) * dims[3] + out];
      }
    }
  }
  return made;
}

// The variables of a network as constants of a graph: each once, when it is
// first asked for. What it is made of outlives it.
class OnnxWeights {
 public:
  // `matrices`: how what has two dimensions or more is stored, whatever is
  // computed with it.
  OnnxWeights(const NetworkPlan& plan, WeightSpans weights,
              NumberFormat matrices, OnnxGraph* graph)
      : plan_(plan), weights_(weights), matrices_(matrices), graph_(*graph) {}

  // The name of float32 values: of the variable that a layer with this first
  // variable has at `which`.
  std::string Of(size_t first_variable, size_t which);
  // As OutputsFirst.
  std::string KernelOf(size_t first_variable);
  Dims DimsOf(size_t first_variable, size_t which) const;

 private:
  std::string Add(const std::string& name, const Dims& dims,
                  absl::Span<const float> values);

  const NetworkPlan& plan_;
  const WeightSpans weights_;
  const NumberFormat matrices_;
  OnnxGraph& graph_;
  std::map<size_t, std::string> made_;  // By variable.
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_ONNX_ONNX_WEIGHTS_H_
