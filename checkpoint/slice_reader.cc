#include "checkpoint/slice_reader.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/manifest.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

// Rows [begin, end) of a saved slice.
struct Part {
  const SliceIndex::Saved* saved;
  uint64_t begin;
  uint64_t end;
};

absl::Status CheckWant(const v1::ReadSlices::Want& want,
                       const SliceIndex::Entry* entry) {
  if (entry == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the checkpoint has no variable '", want.variable(), "'"));
  }
  const auto& saved_shape = entry->variable->shape();
  if (!std::equal(want.shape().begin(), want.shape().end(), saved_shape.begin(),
                  saved_shape.end())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", want.variable(), "' has the shape ",
        ShapeName(
            {saved_shape.data(), static_cast<size_t>(saved_shape.size())}),
        " in the checkpoint; the job wants ",
        ShapeName(
            {want.shape().data(), static_cast<size_t>(want.shape().size())})));
  }
  if (want.row_begin() >= want.row_end() ||
      want.row_end() > entry->shape.rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rows [", want.row_begin(), ", ", want.row_end(), ") of '",
        want.variable(), "' do not exist; it has ", entry->shape.rows));
  }
  return absl::OkStatus();
}

// The index's entries cover all rows, so the parts cover the wanted ones.
std::vector<Part> PartsOf(const v1::ReadSlices::Want& want,
                          const SliceIndex::Entry& entry) {
  std::vector<Part> parts;
  auto saved = std::partition_point(
      entry.saved.begin(), entry.saved.end(), [&](const auto& candidate) {
        return candidate.slice->row_end() <= want.row_begin();
      });
  for (;
       saved != entry.saved.end() && saved->slice->row_begin() < want.row_end();
       ++saved) {
    parts.push_back({&*saved,
                     std::max(want.row_begin(), saved->slice->row_begin()),
                     std::min(want.row_end(), saved->slice->row_end())});
  }
  return parts;
}

absl::Status ReadTensor(const Part& part, const std::string& tensor,
                        const SliceIndex::Entry& entry, TensorSource* source,
                        BufferChain* payload) {
  const v1::SavedSlice& slice = *part.saved->slice;
  const std::string& file = part.saved->file->name();
  ASSIGN_OR_RETURN(const TensorInfo* info, source->Find(file, tensor));
  RETURN_IF_ERROR(CheckSavedTensor(*info, *entry.variable, slice.row_begin(),
                                   slice.row_end()));
  const uint64_t row_bytes =
      entry.shape.row_elements * ElementBytes(entry.variable->dtype());
  return source->Read(file, tensor,
                      (part.begin - slice.row_begin()) * row_bytes,
                      (part.end - part.begin) * row_bytes, payload);
}

absl::Status ReadSlot(const Part& part, const std::string& slot,
                      const SliceIndex::Entry& entry, TensorSource* source,
                      BufferChain* payload) {
  const auto& tensors = part.saved->slice->slot_tensors();
  const auto tensor = tensors.find(slot);
  if (tensor == tensors.end()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the checkpoint has no slot '", slot, "' of '", entry.variable->name(),
        "': it was saved with another optimizer"));
  }
  return ReadTensor(part, tensor->second, entry, source, payload);
}

}  // namespace

absl::Status ReadSlices(const v1::ReadSlices& request,
                        const v1::Manifest& manifest, TensorSource* source,
                        v1::ReadSlicesResult* result, BufferChain* payload) {
  ASSIGN_OR_RETURN(const SliceIndex index, SliceIndex::Create(manifest));
  *result->mutable_manifest() = manifest;
  for (const v1::ReadSlices::Want& want : request.slices()) {
    const SliceIndex::Entry* const entry = index.Find(want.variable());
    RETURN_IF_ERROR(CheckWant(want, entry));
    const std::vector<Part> parts = PartsOf(want, *entry);
    auto* const got = result->add_slices();
    for (const Part& part : parts) {
      auto* const piece = got->add_pieces();
      piece->set_row_begin(part.begin);
      piece->set_row_end(part.end);
      *piece->mutable_saved() = *part.saved->slice;
      RETURN_IF_ERROR(ReadTensor(part, part.saved->slice->values_tensor(),
                                 *entry, source, payload));
    }
    for (const std::string& slot : request.slots()) {
      for (const Part& part : parts) {
        RETURN_IF_ERROR(ReadSlot(part, slot, *entry, source, payload));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace paramd
