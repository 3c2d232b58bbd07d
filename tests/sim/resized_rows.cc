#include "tests/sim/resized_rows.h"

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "base/status_macros.h"
#include "checkpoint/manifest.h"
#include "checkpoint/read_buffers.h"
#include "checkpoint/read_target.h"
#include "checkpoint/slice_reader.h"
#include "config/optimizer_slots.h"
#include "coordinator/core/push_audit.h"
#include "tensor/buffer.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

template <typename Number>
std::string BytesOfNumbers(const std::vector<Number>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()),
                     numbers.size() * sizeof(Number));
}

uint64_t IntegerAt(const std::string& bytes, uint64_t place) {
  uint64_t integer;
  std::memcpy(&integer, &bytes[place * sizeof(integer)], sizeof(integer));
  return integer;
}

// The keyed variable of a checkpoint as it was written, as if no file had a
// base. Keys and uses, values, and what the optimizer keeps of each value.
class WrittenTable : public TensorSource {
 public:
  explicit WrittenTable(const v1::Variable& variable) : variable_(variable) {}

  absl::Status Load(const SimStorage& storage, const v1::Manifest& manifest) {
    manifest_ = manifest;
    for (v1::ShardFile& file : *manifest_.mutable_files()) {
      file.clear_base();
      for (v1::SavedSlice& slice : *file.mutable_slices()) {
        slice.clear_changed();
        if (slice.variable() == variable_.name()) NoteTensors(slice);
      }
    }
    for (const absl::string_view slot : {kKeySlot, kUsedSlot}) {
      const std::string name(slot);
      ASSIGN_OR_RETURN(
          const std::vector<uint64_t> integers,
          storage.ReadRowNumbers(manifest, variable_.name(), name));
      bytes_[name] = BytesOfNumbers(integers);
    }
    std::vector<std::string> slots = {""};
    for (const std::string& slot : manifest.slots()) {
      if (!SlotNamed(slot).by_row) slots.push_back(slot);
    }
    for (const std::string& slot : slots) {
      ASSIGN_OR_RETURN(const std::vector<float> numbers,
                       storage.ReadVariable(manifest, variable_.name(), slot));
      bytes_[slot] = BytesOfNumbers(numbers);
    }
    return absl::OkStatus();
  }

  const v1::Manifest& manifest() const { return manifest_; }
  // Of all rows, by slot; "" has the values.
  const std::map<std::string, std::string>& bytes() const { return bytes_; }
  uint64_t RowBytes(const std::string& slot) const {
    const uint64_t width = variable_.shape(1);
    return SlotNamed(slot).words(width, width) * sizeof(float);
  }
  // By row: the pushes to its block.
  std::vector<uint64_t> Pushes() const {
    std::vector<uint64_t> pushes(variable_.shape(0));
    for (const v1::ShardFile& file : manifest_.files()) {
      for (const v1::SavedSlice& slice : file.slices()) {
        if (slice.variable() != variable_.name()) continue;
        const std::vector<uint64_t> applied = AppliedOf(slice);
        for (uint64_t row = slice.row_begin(); row < slice.row_end(); ++row) {
          pushes[row] = applied.at((row - slice.row_begin()) /
                                   BucketRows(variable_.shape(1)));
        }
      }
    }
    return pushes;
  }

  absl::StatusOr<const TensorInfo*> Find(const File& file,
                                         const std::string& tensor) override {
    const auto found = tensors_.find(tensor);
    if (found == tensors_.end()) {
      return absl::DataLossError(
          absl::StrCat("'", file.name, "' has no tensor '", tensor, "'"));
    }
    const auto& [slot, rows] = found->second;
    const uint64_t count = rows.end - rows.begin;
    info_ = {tensor,
             std::string(SafetensorsDType(SlotNamed(slot).dtype)),
             {count},
             0,
             count * RowBytes(slot)};
    if (!SlotNamed(slot).by_row) info_.shape.push_back(variable_.shape(1));
    return &info_;
  }
  absl::Status Read(const File&, const std::string& tensor, uint64_t offset,
                    absl::Span<std::byte> out) override {
    const auto& [slot, rows] = tensors_.at(tensor);
    const uint64_t begin = rows.begin * RowBytes(slot) + offset;
    std::memcpy(out.data(), &bytes_.at(slot)[begin], out.size());
    return absl::OkStatus();
  }

 private:
  void NoteTensors(const v1::SavedSlice& slice) {
    const RowRange rows = {slice.row_begin(), slice.row_end()};
    tensors_[slice.values_tensor()] = {"", rows};
    for (const auto& [slot, tensor] : slice.slot_tensors()) {
      tensors_[tensor] = {slot, rows};
    }
  }

  const v1::Variable& variable_;
  v1::Manifest manifest_;
  std::map<std::string, std::string> bytes_;
  std::map<std::string, std::pair<std::string, RowRange>> tensors_;
  TensorInfo info_;
};

// What is read of it for so many rows.
struct RowsRead {
  v1::SavedSlice saved;
  std::map<std::string, std::string> bytes;  // By slot.
};

absl::StatusOr<RowsRead> ReadAll(const v1::Variable& variable, uint64_t rows,
                                 WrittenTable* table) {
  v1::ReadSlices request;
  v1::ReadSlices::Want* const want = request.add_slices();
  want->set_variable(variable.name());
  *want->mutable_shape() = variable.shape();
  want->set_shape(0, rows);
  want->set_row_end(rows);
  want->set_sparse(true);
  want->set_keyed(true);
  for (const auto& [slot, bytes] : table->bytes()) {
    if (!slot.empty()) request.add_slots(slot);
  }
  ASSIGN_OR_RETURN(const SliceIndex index,
                   SliceIndex::Create(table->manifest()));
  v1::ReadSlicesResult result;
  ReadBuffers buffers;
  BufferChain chain;
  ChainTarget target(&buffers, &chain);
  RETURN_IF_ERROR(ReadSlices(request, index, table, &result, &target));
  RowsRead read;
  read.saved = result.slices(0).pieces(0).saved();
  ChainReader reader(chain);
  // "" comes first in either order.
  for (const auto& [slot, bytes] : table->bytes()) {
    read.bytes[slot] =
        FlattenForTest(reader.Take(rows * table->RowBytes(slot)));
  }
  return read;
}

absl::Status Differs(const v1::Variable& variable, uint64_t key,
                     absl::string_view what) {
  return absl::DataLossError(absl::StrCat("key ", key, " of '", variable.name(),
                                          "' has another ", what,
                                          " in a table of twice the capacity"));
}

}  // namespace

absl::Status CheckResized(const SimStorage& storage, const IntegerJob& job,
                          const v1::Manifest& manifest) {
  const v1::Variable& variable = job.variables().back();
  if (!variable.keyed()) return absl::OkStatus();
  WrittenTable table(variable);
  RETURN_IF_ERROR(table.Load(storage, manifest));
  const uint64_t rows = RowsForKeys(2 * variable.shape(0), variable.shape(1));
  ASSIGN_OR_RETURN(const RowsRead read, ReadAll(variable, rows, &table));
  const std::string& keys = table.bytes().at("key");
  const std::string& used = table.bytes().at("used");
  const std::vector<uint64_t> pushes = table.Pushes();
  std::map<uint64_t, uint64_t> left;  // Rows as they were written, by key.
  for (uint64_t row = 0; row < pushes.size(); ++row) {
    if (IntegerAt(used, row) != 0) left[IntegerAt(keys, row)] = row;
  }
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t last = IntegerAt(read.bytes.at("used"), row);
    if (last == 0) continue;
    const uint64_t key = IntegerAt(read.bytes.at("key"), row);
    const auto written = left.find(key);
    if (written == left.end()) return Differs(variable, key, "number of rows");
    const uint64_t there = written->second;
    left.erase(written);
    if (read.saved.applied(0).applied() - last !=
        pushes[there] - IntegerAt(used, there)) {
      return Differs(variable, key, "age");
    }
    for (const auto& [slot, bytes] : table.bytes()) {
      if (slot == kUsedSlot) continue;
      const uint64_t size = table.RowBytes(slot);
      if (read.bytes.at(slot).compare(row * size, size, bytes, there * size,
                                      size) != 0) {
        return Differs(variable, key, slot.empty() ? "value" : slot);
      }
    }
  }
  if (!left.empty()) return Differs(variable, left.begin()->first, "place");
  v1::Manifest resized;
  *resized.add_files()->add_slices() = read.saved;
  const PushAudit audit(resized, /*sync=*/false);
  return audit.sentence().empty() ? absl::OkStatus()
                                  : absl::DataLossError(audit.sentence());
}

}  // namespace paramd
