#include "checkpoint/checkpoint_weights.h"

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "checkpoint/keyed_rows_reader.h"
#include "checkpoint/restore_reader.h"
#include "checkpoint/verify.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/buffer.h"

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

// With as many rows as it has there: of another capacity they lie in other
// buckets.
v1::Variable AsSaved(const v1::Variable& variable,
                     const v1::Manifest& manifest) {
  v1::Variable saved = variable;
  for (const v1::Variable& there : manifest.variables()) {
    if (there.name() == variable.name() && there.keyed() &&
        there.shape_size() == 2) {
      saved.set_shape(0, there.shape(0));
    }
  }
  return saved;
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
  absl::optional<v1::Manifest> manifest;
  for (size_t v = 0; v < variables.size(); ++v) {
    if (!variables[v].keyed()) {
      whole.push_back(&variables[v]);
      into.push_back(&weights[v]);
      continue;
    }
    CHECK(keyed < keys.size(), "each keyed variable has keys, or none");
    if (!manifest.has_value()) {
      // Whatever is wrong with it, the reader says.
      manifest = ReadManifest(path).value_or(v1::Manifest());
    }
    ASSIGN_OR_RETURN(weights[v], ReadKeyedRows(&reader, path,
                                               AsSaved(variables[v], *manifest),
                                               seed, keys[keyed++]));
  }
  RETURN_IF_ERROR(ReadWhole(&reader, path, whole, into));
  return weights;
}

}  // namespace paramd
