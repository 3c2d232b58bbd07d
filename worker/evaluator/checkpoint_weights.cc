#include "worker/evaluator/checkpoint_weights.h"

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "checkpoint/restore_reader.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/buffer.h"
#include "worker/evaluator/keyed_rows_reader.h"

namespace paramd {

namespace {

// All of these variables, whole: the reader's last slices.
absl::Status ReadWhole(RestoreReader* reader, const std::string& path,
                       absl::Span<const v1::Variable* const> variables,
                       absl::Span<std::vector<float>* const> weights) {
  v1::ReadSlices request;
  request.set_path(path);
  request.mutable_check()->set_alone(true);
  request.set_last(true);
  for (size_t i = 0; i < variables.size(); ++i) {
    const v1::Variable& variable = *variables[i];
    v1::ReadSlices::Want* const want = request.add_slices();
    want->set_variable(variable.name());
    *want->mutable_shape() = variable.shape();
    want->set_row_end(variable.shape_size() == 0 ? 1 : variable.shape(0));
    uint64_t elements = 1;
    for (const uint64_t dimension : variable.shape()) elements *= dimension;
    weights[i]->resize(elements);
  }
  v1::ReadSlicesResult result;
  BufferChain payload;
  RETURN_IF_ERROR(reader->Read(request, &result, &payload));
  ChainReader payload_reader(payload);
  for (std::vector<float>* const values : weights) {
    if (!payload_reader.Read(AsWritableBytes(absl::MakeSpan(*values)))) {
      return absl::DataLossError(
          absl::StrCat("'", path, "' has fewer numbers than the model"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::vector<float>>> ReadWeights(
    const std::string& path, const std::vector<v1::Variable>& variables,
    uint64_t seed, absl::Span<const std::vector<uint64_t>> keys) {
  std::vector<std::vector<float>> weights(variables.size());
  RestoreReader reader;
  std::vector<const v1::Variable*> whole;
  std::vector<std::vector<float>*> into;
  size_t keyed = 0;
  for (size_t v = 0; v < variables.size(); ++v) {
    if (!variables[v].keyed()) {
      whole.push_back(&variables[v]);
      into.push_back(&weights[v]);
      continue;
    }
    CHECK(keyed < keys.size(), "each keyed variable has keys, or none");
    ASSIGN_OR_RETURN(weights[v], ReadKeyedRows(&reader, path, variables[v],
                                               seed, keys[keyed++]));
  }
  RETURN_IF_ERROR(ReadWhole(&reader, path, whole, into));
  return weights;
}

}  // namespace paramd
