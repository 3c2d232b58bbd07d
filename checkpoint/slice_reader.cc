#include "checkpoint/slice_reader.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/resized_table.h"

namespace paramd {
namespace {

// Whether rows of the variable may be the wanted ones: a keyed one may have had
// another number of them.
bool HasWantedShape(const v1::Variable& variable,
                    const v1::ReadSlices::Want& want) {
  const auto& saved = variable.shape();
  if (want.keyed() && variable.keyed()) {
    return want.shape_size() == 2 && want.shape(1) == saved.Get(1);
  }
  return std::equal(want.shape().begin(), want.shape().end(), saved.begin(),
                    saved.end());
}

absl::Status CheckWant(const v1::ReadSlices::Want& want,
                       const SliceIndex::Entry* entry) {
  if (entry == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the checkpoint has no variable '", want.variable(), "'"));
  }
  if (!HasWantedShape(*entry->variable, want)) {
    const auto& saved_shape = entry->variable->shape();
    return absl::InvalidArgumentError(absl::StrCat(
        "'", want.variable(), "' has the shape ",
        ShapeName(
            {saved_shape.data(), static_cast<size_t>(saved_shape.size())}),
        " in the checkpoint; the job wants ",
        ShapeName(
            {want.shape().data(), static_cast<size_t>(want.shape().size())})));
  }
  if (want.keyed() != entry->variable->keyed()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", want.variable(), "' has ", want.keyed() ? "numbers" : "keys",
        " for its rows in the checkpoint; the job wants ",
        want.keyed() ? "keys" : "numbers"));
  }
  const uint64_t rows = want.keyed() ? want.shape(0) : entry->shape.rows;
  if (want.row_begin() >= want.row_end() || want.row_end() > rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows [", want.row_begin(), ", ", want.row_end(), ") of '",
                     want.variable(), "' do not exist; it has ", rows));
  }
  return absl::OkStatus();
}

// Null if there is none. The slot "" is the values.
template <typename Tensors>
const std::string* TensorOf(const Tensors& tensors, const std::string& slot) {
  if (slot.empty()) return &tensors.values_tensor();
  const auto found = tensors.slot_tensors().find(slot);
  return found == tensors.slot_tensors().end() ? nullptr : &found->second;
}

// Bytes [begin, end) of a tensor that was found.
absl::Status ReadTensor(const TensorSource::File& file,
                        const std::string& tensor, uint64_t begin, uint64_t end,
                        TensorSource* source, ReadTarget* out) {
  while (begin < end) {
    const absl::Span<std::byte> memory = out->Next(end - begin);
    if (memory.empty()) {
      return absl::DataLossError(absl::StrCat("'", file.name, "' has more of '",
                                              tensor, "' than was asked for"));
    }
    RETURN_IF_ERROR(source->Read(file, tensor, begin, memory));
    begin += memory.size();
  }
  return absl::OkStatus();
}

// Bytes [begin, end) of a whole slice's tensor.
absl::Status ReadWhole(const SavedNumbers& numbers, uint64_t begin,
                       uint64_t end, TensorSource* source, ReadTarget* out) {
  if (begin >= end) return absl::OkStatus();
  const v1::SavedSlice& slice = *numbers.saved->slice;
  const std::string& tensor = *TensorOf(slice, numbers.slot);
  const TensorSource::File file = WholeSlicesOf(*numbers.saved->file);
  ASSIGN_OR_RETURN(const TensorInfo* const info, source->Find(file, tensor));
  RETURN_IF_ERROR(CheckSavedTensor(*info, *numbers.entry->variable,
                                   numbers.slot, slice.row_begin(),
                                   slice.row_end()));
  return ReadTensor(file, tensor, begin, end, source, out);
}

// Bytes [begin, end) of a tensor of changed blocks.
absl::Status ReadChanged(const SavedNumbers& numbers,
                         const v1::ChangedBlocks& changed, uint64_t begin,
                         uint64_t end, TensorSource* source, ReadTarget* out) {
  const v1::SavedSlice& slice = *numbers.saved->slice;
  const std::string* const tensor = TensorOf(changed, numbers.slot);
  const TensorSource::File file = {"", numbers.saved->file->name()};
  if (tensor == nullptr) {
    return absl::DataLossError(absl::StrCat(
        "changed blocks of '", slice.variable(), "' in '", file.name,
        "' have no slot '", numbers.slot, "', which the slice has"));
  }
  ASSIGN_OR_RETURN(const TensorInfo* const info, source->Find(file, *tensor));
  RETURN_IF_ERROR(CheckChangedTensor(*info, *numbers.entry->variable,
                                     numbers.slot, slice, changed));
  return ReadTensor(file, *tensor, begin, end, source, out);
}

// `saved` is, at least in part, out of that file.
void NoteSource(const v1::ShardFile& from, const v1::SavedSlice& saved,
                v1::Manifest* manifest) {
  v1::ShardFile* file = nullptr;
  for (v1::ShardFile& known : *manifest->mutable_files()) {
    if (known.name() == from.name()) file = &known;
  }
  if (file == nullptr) {
    file = manifest->add_files();
    file->set_name(from.name());
    *file->mutable_lost() = from.lost();
  }
  v1::SavedSlice* const slice = file->add_slices();
  slice->set_variable(saved.variable());
  slice->set_row_begin(saved.row_begin());
  slice->set_row_end(saved.row_end());
}

// A slice whose rows lie as they were saved.
absl::Status ReadSlice(const v1::ReadSlices::Want& want,
                       const std::vector<Slot>& slots,
                       const SliceIndex::Entry& entry, TensorSource* source,
                       v1::ReadSlicesResult* result, ReadTarget* out) {
  const std::vector<SavedPart> parts =
      SavedPartsOf(entry, {want.row_begin(), want.row_end()});
  auto* const got = result->add_slices();
  for (const SavedPart& part : parts) {
    auto* const piece = got->add_pieces();
    piece->set_row_begin(part.rows.begin);
    piece->set_row_end(part.rows.end);
    *piece->mutable_saved() = *part.saved->slice;
    NoteSource(*part.saved->file, *part.saved->slice,
               result->mutable_manifest());
    RETURN_IF_ERROR(ReadSavedPart(part, entry, "", source, out));
  }
  for (const Slot& slot : slots) {
    for (const SavedPart& part : parts) {
      RETURN_IF_ERROR(
          ReadSavedPart(part, entry, std::string(slot.name), source, out));
    }
  }
  return absl::OkStatus();
}

// One of a keyed variable that had another number of rows: one piece, as if it
// had been saved so.
absl::Status ReadResized(const v1::ReadSlices::Want& want,
                         const std::vector<Slot>& slots,
                         const SliceIndex::Entry& entry, TensorSource* source,
                         v1::ReadSlicesResult* result, ReadTarget* out) {
  ASSIGN_OR_RETURN(ResizedTable table, ResizedTable::Open(want, entry, source));
  auto* const piece = result->add_slices()->add_pieces();
  piece->set_row_begin(want.row_begin());
  piece->set_row_end(want.row_end());
  *piece->mutable_saved() = table.counts();
  for (const SavedPart& part : table.sources()) {
    NoteSource(*part.saved->file, table.counts(), result->mutable_manifest());
  }
  RETURN_IF_ERROR(table.Read("", out));
  for (const Slot& slot : slots) {
    RETURN_IF_ERROR(table.Read(std::string(slot.name), out));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Slot> SlotsOf(const v1::ReadSlices& request,
                          const v1::ReadSlices::Want& want) {
  if (want.own_slots_size() > 0) return SlotsNamed(want.own_slots());
  return SlotsOf(request.slots(), {.trained = !want.values_only(),
                                   .sparse = want.sparse(),
                                   .keyed = want.keyed(),
                                   .sketched = want.sketched()});
}

TensorSource::File WholeSlicesOf(const v1::ShardFile& saved) {
  if (!saved.has_base()) return {"", saved.name()};
  return {saved.base().directory(), saved.base().name()};
}

// The index's entries cover all rows, so the parts cover the wanted ones.
std::vector<SavedPart> SavedPartsOf(const SliceIndex::Entry& entry,
                                    RowRange rows) {
  std::vector<SavedPart> parts;
  auto saved = std::partition_point(
      entry.saved.begin(), entry.saved.end(), [&](const auto& candidate) {
        return candidate.slice->row_end() <= rows.begin;
      });
  for (; saved != entry.saved.end() && saved->slice->row_begin() < rows.end;
       ++saved) {
    parts.push_back({&*saved,
                     {std::max(rows.begin, saved->slice->row_begin()),
                      std::min(rows.end, saved->slice->row_end())}});
  }
  return parts;
}

absl::Status ReadSavedPart(const SavedPart& part,
                           const SliceIndex::Entry& entry,
                           const std::string& slot, TensorSource* source,
                           ReadTarget* out) {
  const uint64_t row_bytes = BytesBeside(entry.shape.row_elements, slot, entry);
  const uint64_t first = part.saved->slice->row_begin();
  return ReadSaved({&entry, part.saved, slot},
                   (part.rows.begin - first) * row_bytes,
                   (part.rows.end - first) * row_bytes, source, out);
}

absl::Status ReadSaved(const SavedNumbers& numbers, uint64_t begin,
                       uint64_t end, TensorSource* source, ReadTarget* out) {
  const v1::SavedSlice& slice = *numbers.saved->slice;
  const SliceIndex::Entry& entry = *numbers.entry;
  if (TensorOf(slice, numbers.slot) == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the checkpoint has no slot '", numbers.slot, "' of '",
        slice.variable(), "': it was saved with another optimizer"));
  }
  const uint64_t elements =
      (slice.row_end() - slice.row_begin()) * entry.shape.row_elements;
  const BlockCut cut = CutOf(*entry.variable, entry.shape);
  for (const v1::ChangedBlocks& changed : slice.changed()) {
    const ElementRange range = ElementsOf(changed, cut, elements);
    const uint64_t first = BytesBeside(range.begin, numbers.slot, entry);
    const uint64_t last =
        std::min(end, BytesBeside(range.end, numbers.slot, entry));
    if (last <= begin) continue;
    if (first >= end) break;
    RETURN_IF_ERROR(ReadWhole(numbers, begin, first, source, out));
    begin = std::max(begin, first);
    RETURN_IF_ERROR(ReadChanged(numbers, changed, begin - first, last - first,
                                source, out));
    begin = last;
  }
  return ReadWhole(numbers, begin, end, source, out);
}

absl::Status ReadSlices(const v1::ReadSlices& request, const SliceIndex& index,
                        TensorSource* source, v1::ReadSlicesResult* result,
                        ReadTarget* out) {
  for (const v1::ReadSlices::Want& want : request.slices()) {
    const SliceIndex::Entry* const entry = index.Find(want.variable());
    RETURN_IF_ERROR(CheckWant(want, entry));
    const std::vector<Slot> slots = SlotsOf(request, want);
    const bool is_resized = want.keyed() && want.shape(0) != entry->shape.rows;
    RETURN_IF_ERROR(is_resized
                        ? ReadResized(want, slots, *entry, source, result, out)
                        : ReadSlice(want, slots, *entry, source, result, out));
  }
  return absl::OkStatus();
}

absl::Status ReadSlices(const v1::ReadSlices& request,
                        const v1::Manifest& manifest, TensorSource* source,
                        v1::ReadSlicesResult* result, ReadTarget* out) {
  ASSIGN_OR_RETURN(const SliceIndex index, SliceIndex::Create(manifest));
  const absl::Status read = ReadSlices(request, index, source, result, out);
  *result->mutable_manifest() = manifest;
  return read;
}

}  // namespace paramd
