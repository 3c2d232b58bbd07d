#include "worker/evaluator/checkpoint_weights.h"

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "base/status_macros.h"
#include "checkpoint/shard_file.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/buffer.h"

namespace paramd {

absl::StatusOr<std::vector<std::vector<float>>> ReadWeights(
    const std::string& path, const std::vector<v1::Variable>& variables) {
  v1::ReadSlices request;
  request.set_path(path);
  std::vector<std::vector<float>> weights;
  for (const v1::Variable& variable : variables) {
    v1::ReadSlices::Want* const want = request.add_slices();
    want->set_variable(variable.name());
    *want->mutable_shape() = variable.shape();
    want->set_keyed(variable.keyed());
    want->set_row_end(variable.shape_size() == 0 ? 1 : variable.shape(0));
    uint64_t elements = 1;
    for (const uint64_t dimension : variable.shape()) elements *= dimension;
    weights.emplace_back(elements);
  }
  v1::ReadSlicesResult result;
  BufferChain payload;
  RETURN_IF_ERROR(ReadSlicesFromCheckpoint(request, &result, &payload));
  ChainReader reader(payload);
  for (std::vector<float>& values : weights) {
    if (!reader.Read(AsWritableBytes(absl::MakeSpan(values)))) {
      return absl::DataLossError(
          absl::StrCat("'", path, "' has fewer numbers than the model"));
    }
  }
  return weights;
}

}  // namespace paramd
