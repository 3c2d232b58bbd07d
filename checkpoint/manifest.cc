#include "checkpoint/manifest.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "google/protobuf/util/json_util.h"

#include "base/status_macros.h"
#include "proto/refusal.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

// So long a manifest (as protocol buffer; its text is about six times as long)
// nobody reads line by line.
constexpr size_t kLinesBytes = size_t{4} << 20;

absl::Status Damaged(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("the manifest ", why));
}

absl::Span<const uint64_t> ShapeOf(const v1::Variable& variable) {
  return absl::MakeConstSpan(variable.shape().data(), variable.shape().size());
}

uint64_t SliceElements(const v1::SavedSlice& slice, const RowShape& shape) {
  return (slice.row_end() - slice.row_begin()) * shape.row_elements;
}

bool IsByRow(const v1::Variable& variable) {
  return variable.sparse() || variable.keyed();
}

uint64_t BlocksOf(const v1::SavedSlice& slice, const SliceIndex::Entry& entry) {
  return CutOf(*entry.variable, entry.shape)
      .Count(SliceElements(slice, entry.shape));
}

// That the variable can have.
absl::StatusOr<RowShape> RowShapeOf(const v1::Variable& variable) {
  ASSIGN_OR_RETURN(const RowShape shape, ToRowShape(ShapeOf(variable)));
  if (IsByRow(variable)) {
    RETURN_IF_ERROR(CheckSparseShape(ShapeOf(variable)));
  }
  if (variable.keyed()) {
    RETURN_IF_ERROR(CheckKeyedRows(shape.rows, shape.row_elements));
  }
  return shape;
}

absl::Status CheckBase(const v1::Manifest& manifest,
                       const v1::ShardFile& file) {
  const v1::BaseFile& base = file.base();
  if (!file.has_base() ||
      (IsShardFileName(base.name()) && IsShardFileName(base.directory()) &&
       base.snapshot() < manifest.snapshot())) {
    return absl::OkStatus();
  }
  return Damaged(absl::StrCat(
      "has for the base of '", file.name(), "' the file '", base.directory(),
      "/", base.name(), "' of snapshot ", VersionName(base.snapshot()),
      ", which is no earlier checkpoint's"));
}

// Nothing, or what is wrong with the blocks that a slice of a file has instead
// of its base.
std::string WrongInChanged(const v1::Manifest& manifest,
                           const v1::ShardFile& file,
                           const v1::SavedSlice& slice,
                           const SliceIndex::Entry& entry) {
  if (slice.changed_size() > 0 && !file.has_base()) {
    return "with changed blocks; the file has no base";
  }
  const uint64_t blocks = BlocksOf(slice, entry);
  uint64_t after = 0;
  for (const v1::ChangedBlocks& changed : slice.changed()) {
    const uint64_t end = uint64_t{changed.first_block()} + changed.blocks();
    if (changed.first_block() < after || changed.blocks() == 0 ||
        end > blocks) {
      return absl::StrCat("with the changed blocks [", changed.first_block(),
                          ", ", end, "), where blocks [", after, ", ", blocks,
                          ") may follow");
    }
    after = end;
    if (changed.values_tensor().empty()) {
      return "with changed blocks without a tensor of values";
    }
    for (const Slot& slot : SlotsOf(manifest, *entry.variable)) {
      const auto found = changed.slot_tensors().find(std::string(slot.name));
      if (found == changed.slot_tensors().end() || found->second.empty()) {
        return absl::StrCat(
            "with changed blocks without a tensor for the slot '", slot.name,
            "'");
      }
    }
  }
  return "";
}

absl::Status CheckSlice(const v1::Manifest& manifest, const v1::ShardFile& file,
                        const v1::SavedSlice& slice,
                        const SliceIndex::Entry& entry) {
  const RowShape& shape = entry.shape;
  const auto bad = [&](absl::string_view why) {
    return Damaged(absl::StrCat("has a slice of '", slice.variable(), "' in '",
                                file.name(), "' ", why));
  };
  if (slice.row_begin() >= slice.row_end() || slice.row_end() > shape.rows) {
    return bad(absl::StrCat("with rows [", slice.row_begin(), ", ",
                            slice.row_end(), "); the variable has ",
                            shape.rows));
  }
  if (slice.values_tensor().empty()) return bad("without a tensor of values");
  for (const Slot& slot : SlotsOf(manifest, *entry.variable)) {
    const auto found = slice.slot_tensors().find(std::string(slot.name));
    if (found == slice.slot_tensors().end() || found->second.empty()) {
      return bad(
          absl::StrCat("without a tensor for its slot '", slot.name, "'"));
    }
  }
  const uint64_t blocks = BlocksOf(slice, entry);
  uint64_t counted = 0;
  for (const v1::AppliedRun& run : slice.applied()) counted += run.blocks();
  if (counted > blocks) {
    return bad(absl::StrCat("with the pushes of ", counted, " blocks; it has ",
                            blocks));
  }
  const std::string wrong = WrongInChanged(manifest, file, slice, entry);
  return wrong.empty() ? absl::OkStatus() : bad(wrong);
}

absl::Status CheckCover(const SliceIndex::Entry& entry) {
  uint64_t covered = 0;
  for (const SliceIndex::Saved& saved : entry.saved) {
    if (saved.slice->row_begin() != covered) {
      return Damaged(absl::StrCat(
          saved.slice->row_begin() > covered ? "misses" : "has twice",
          " rows of '", entry.variable->name(), "' between ",
          std::min(covered, saved.slice->row_begin()), " and ",
          std::max(covered, saved.slice->row_begin())));
    }
    covered = saved.slice->row_end();
  }
  if (covered != entry.shape.rows) {
    return Damaged(absl::StrCat("misses rows [", covered, ", ",
                                entry.shape.rows, ") of '",
                                entry.variable->name(), "'"));
  }
  return absl::OkStatus();
}

// Its values lie in files as BF16.
bool IsNarrow(const v1::Variable& variable) {
  return variable.row_format() == v1::Variable::ROW_FORMAT_BF16;
}

// `what` of the variable, or of its slot, must have that shape.
absl::Status CheckTensorIs(const TensorInfo& tensor,
                           const v1::Variable& variable, absl::string_view slot,
                           const std::vector<uint64_t>& shape,
                           absl::string_view what) {
  const absl::string_view dtype =
      SafetensorsDType(slot.empty() ? variable.dtype() : SlotNamed(slot).dtype);
  if (tensor.dtype == dtype && tensor.shape == shape) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("tensor '", tensor.name, "' is ", tensor.dtype, " ",
                   ShapeName(tensor.shape), "; ", what, " of '",
                   variable.name(), "' are ", dtype, " ", ShapeName(shape)));
}

}  // namespace

absl::StatusOr<std::string> EncodeManifest(const v1::Manifest& manifest) {
  google::protobuf::util::JsonPrintOptions options;
  // Half of what is written in lines is space.
  options.add_whitespace = manifest.ByteSizeLong() < kLinesBytes;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status =
      google::protobuf::util::MessageToJsonString(manifest, &text, options);
  if (!status.ok()) {
    return absl::InternalError(absl::StrCat(
        "the manifest cannot be written as JSON: ", status.ToString()));
  }
  if (text.size() > kMaxManifestBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the manifest has ", text.size(), " bytes; at most ",
                     kMaxManifestBytes, " are allowed"));
  }
  return text;
}

absl::StatusOr<v1::Manifest> ParseManifest(absl::string_view text) {
  if (text.size() > kMaxManifestBytes) {
    return Damaged(absl::StrCat("has ", text.size(), " bytes; at most ",
                                kMaxManifestBytes, " are allowed"));
  }
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  v1::Manifest manifest;
  const auto status = google::protobuf::util::JsonStringToMessage(
      {text.data(), text.size()}, &manifest, options);
  if (!status.ok()) {
    // What the parser says quotes the file, which may be anybody's.
    return Damaged("is not JSON of a manifest");
  }
  if (manifest.format() == 0 || manifest.min_reader() == 0) {
    return Damaged("does not say its format and min_reader");
  }
  if (manifest.min_reader() > kManifestFormat) {
    return absl::FailedPreconditionError(
        absl::StrCat("the manifest has format ", manifest.format(),
                     " and needs a reader of format ", manifest.min_reader(),
                     "; this one reads format ", kManifestFormat));
  }
  return manifest;
}

std::vector<Slot> SlotsOf(const v1::Manifest& manifest,
                          const v1::Variable& variable) {
  const auto own = manifest.variable_slots().find(variable.name());
  if (own != manifest.variable_slots().end()) {
    return SlotsNamed(own->second.names());
  }
  return SlotsOf(manifest.slots(), SlotOwnerOf(variable));
}

uint32_t FormatOf(const v1::Manifest& manifest) {
  if (!manifest.variable_slots().empty()) return 5;
  if (std::any_of(manifest.variables().begin(), manifest.variables().end(),
                  IsNarrow)) {
    return 4;
  }
  return std::any_of(manifest.files().begin(), manifest.files().end(),
                     [](const v1::ShardFile& file) { return file.has_base(); })
             ? 2
             : 1;
}

absl::StatusOr<SliceIndex> SliceIndex::Create(const v1::Manifest& manifest) {
  SliceIndex index;
  index.entries_.reserve(manifest.variables_size());
  for (const v1::Variable& variable : manifest.variables()) {
    const auto shape = RowShapeOf(variable);
    if (variable.name().empty() || !shape.ok() ||
        variable.dtype() != v1::FLOAT32) {
      return Damaged(absl::StrCat("has the variable '", variable.name(),
                                  "' without a name, dtype or possible shape"));
    }
    if (!index.by_name_.emplace(variable.name(), index.entries_.size())
             .second) {
      return Damaged(
          absl::StrCat("has the variable '", variable.name(), "' twice"));
    }
    index.entries_.push_back({&variable, *shape, {}});
  }
  absl::flat_hash_set<absl::string_view> files;
  for (const v1::ShardFile& file : manifest.files()) {
    if (!IsShardFileName(file.name()) || !files.insert(file.name()).second) {
      return Damaged(absl::StrCat("has the file '", file.name(),
                                  "', which is no plain name or stands twice"));
    }
    RETURN_IF_ERROR(CheckBase(manifest, file));
    for (const v1::SavedSlice& slice : file.slices()) {
      const auto found = index.by_name_.find(slice.variable());
      if (found == index.by_name_.end()) {
        return Damaged(absl::StrCat("has a slice of the unknown variable '",
                                    slice.variable(), "' in '", file.name(),
                                    "'"));
      }
      Entry& entry = index.entries_[found->second];
      RETURN_IF_ERROR(CheckSlice(manifest, file, slice, entry));
      entry.saved.push_back({&slice, &file});
    }
  }
  for (Entry& entry : index.entries_) {
    std::sort(entry.saved.begin(), entry.saved.end(),
              [](const Saved& a, const Saved& b) {
                return a.slice->row_begin() < b.slice->row_begin();
              });
    RETURN_IF_ERROR(CheckCover(entry));
  }
  return index;
}

const SliceIndex::Entry* SliceIndex::Find(absl::string_view variable) const {
  const auto found = by_name_.find(variable);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

std::vector<uint64_t> AppliedOf(const v1::SavedSlice& slice) {
  std::vector<uint64_t> applied;
  for (const v1::AppliedRun& run : slice.applied()) {
    applied.insert(applied.end(), run.blocks(), run.applied());
  }
  return applied;
}

BlockCut CutOf(const v1::Variable& variable, const RowShape& shape) {
  return BlockCut::Of(IsByRow(variable), shape.row_elements);
}

uint64_t BytesBeside(uint64_t elements, absl::string_view slot,
                     const SliceIndex::Entry& entry) {
  if (slot.empty()) return elements * ElementBytes(entry.variable->dtype());
  return SlotNamed(slot).words(elements, entry.shape.row_elements) *
         sizeof(float);
}

uint64_t RowBytes(const v1::Manifest& manifest,
                  const SliceIndex::Entry& entry) {
  const uint64_t elements = entry.shape.row_elements;
  uint64_t bytes = elements * ElementBytes(IsNarrow(*entry.variable)
                                               ? v1::BFLOAT16
                                               : entry.variable->dtype());
  for (const Slot& slot : SlotsOf(manifest, *entry.variable)) {
    bytes += BytesBeside(elements, slot.name, entry);
  }
  return bytes;
}

absl::Status CheckSavedTensor(const TensorInfo& tensor,
                              const v1::Variable& variable,
                              absl::string_view slot, uint64_t begin,
                              uint64_t end) {
  std::vector<uint64_t> shape(variable.shape().begin(), variable.shape().end());
  if (!shape.empty()) shape[0] = end - begin;
  if (SlotNamed(slot).by_row) shape.resize(1);
  return CheckTensorIs(tensor, variable, slot, shape,
                       absl::StrCat("rows [", begin, ", ", end, ")"));
}

absl::Status CheckChangedTensor(const TensorInfo& tensor,
                                const v1::Variable& variable,
                                absl::string_view slot,
                                const v1::SavedSlice& slice,
                                const v1::ChangedBlocks& changed) {
  ASSIGN_OR_RETURN(const RowShape shape, ToRowShape(ShapeOf(variable)));
  const ElementRange elements =
      ElementsOf(changed, CutOf(variable, shape), SliceElements(slice, shape));
  const uint64_t count = elements.end - elements.begin;
  return CheckTensorIs(
      tensor, variable, slot,
      {SlotNamed(slot).by_row ? count / shape.row_elements : count},
      absl::StrCat("blocks [", changed.first_block(), ", ",
                   uint64_t{changed.first_block()} + changed.blocks(),
                   ") of rows [", slice.row_begin(), ", ", slice.row_end(),
                   ")"));
}

ElementRange ElementsOf(const v1::ChangedBlocks& changed, const BlockCut& cut,
                        uint64_t slice_elements) {
  const uint64_t first = changed.first_block();
  return {cut.Begin(first),
          std::min(cut.Begin(first + changed.blocks()), slice_elements)};
}

bool IsShardFileName(absl::string_view name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' &&
         name != kManifestFile && name != kManifestSumFile &&
         name.find('/') == absl::string_view::npos &&
         name.find('\0') == absl::string_view::npos;
}

absl::string_view SafetensorsDType(v1::DType dtype) {
  if (dtype == v1::INT64) return "I64";
  if (dtype == v1::BFLOAT16) return "BF16";
  return dtype == v1::FLOAT32 ? "F32" : "";
}

uint64_t ElementBytes(v1::DType dtype) {
  if (dtype == v1::INT64) return 8;
  if (dtype == v1::BFLOAT16) return 2;
  return dtype == v1::FLOAT32 ? 4 : 0;
}

}  // namespace paramd
