#include "client/core/sparse_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

absl::Span<const uint64_t> AsNumbers(const Buffer& buffer) {
  return {reinterpret_cast<const uint64_t*>(buffer.bytes().data()),
          buffer.size() / sizeof(uint64_t)};
}

// `rows` 0: any number is one.
absl::Status CheckNumbers(absl::Span<const uint64_t> numbers, uint64_t rows,
                          absl::string_view variable) {
  for (size_t i = 1; i < numbers.size(); ++i) {
    if (numbers[i] > numbers[i - 1]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("row ", numbers[i], " of '", variable,
                     "' comes behind row ", numbers[i - 1]));
  }
  if (numbers.empty() || rows == 0 || numbers.back() < rows) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no row ", numbers.back(), " of '", variable, "', which has ",
      rows));
}

}  // namespace

absl::StatusOr<SparseRows> SparseRows::Create(const Placement& placement,
                                              std::vector<Buffer> numbers) {
  CHECK(numbers.size() == placement.sparse().size(),
        "each sparse variable has rows, or none");
  SparseRows made;
  made.place_.resize(placement.elements().size());
  made.variables_ = placement.sparse();
  made.numbers_ = std::move(numbers);
  for (size_t s = 0; s < made.numbers_.size(); ++s) {
    const size_t v = placement.sparse()[s];
    const uint64_t width = placement.row_elements()[v];
    const auto rows = AsNumbers(made.numbers_[s]);
    RETURN_IF_ERROR(CheckNumbers(
        rows, placement.is_keyed(v) ? 0 : placement.elements()[v] / width,
        placement.names()[v]));
    made.place_[v] = s;
    const size_t bytes = rows.size() * width * sizeof(float);
    made.values_.push_back(Buffer::Allocate(bytes));
    if (bytes > 0) {
      std::memset(made.values_.back().mutable_bytes().data(), 0, bytes);
    }
  }
  for (uint32_t s = 0; s < placement.slices().size(); ++s) {
    const PlacedSlice& slice = placement.slices()[s];
    if (!slice.sparse) continue;
    const auto rows = AsNumbers(made.numbers_[made.place_[slice.variable]]);
    const uint64_t all =
        placement.elements()[slice.variable] / slice.row_elements;
    // A row that is in the same block, and ascends as numbers do.
    const auto row_of = [&](uint64_t number) {
      return slice.keyed ? BucketBegin(number, all, slice.row_elements)
                         : number;
    };
    const auto first_from = [&](auto from, uint64_t row) {
      return std::partition_point(
          from, rows.end(),
          [&](uint64_t number) { return row_of(number) < row; });
    };
    auto at = first_from(rows.begin(), slice.rows.begin);
    while (at != rows.end() && row_of(*at) < slice.rows.end) {
      const uint64_t block =
          (row_of(*at) - slice.rows.begin) / slice.block_rows();
      const uint64_t last =
          std::min(slice.rows.end,
                   slice.rows.begin + (block + 1) * slice.block_rows());
      const auto end = first_from(at, last);
      made.runs_.push_back(
          {{s, static_cast<uint32_t>(block)},
           {static_cast<size_t>(at - rows.begin()),
            static_cast<size_t>(end - rows.begin())}});
      at = end;
    }
  }
  made.versions_.resize(made.runs_.size());
  return made;
}

BufferChain SparseRows::HandOut(BufferChain dense) const {
  for (size_t s = 0; s < values_.size(); ++s) dense[variables_[s]] = values_[s];
  dense.insert(dense.end(), numbers_.begin(), numbers_.end());
  return dense;
}

absl::Span<const uint64_t> SparseRows::NumbersOf(uint32_t variable) const {
  return AsNumbers(numbers_[place_[variable]]);
}

Buffer SparseRows::NumbersIn(const PlacedSlice& slice, const BlockId& id,
                             const RowSpan& rows) const {
  const auto numbers =
      NumbersOf(slice.variable).subspan(rows.begin, rows.size());
  if (slice.keyed) return Buffer::Copy(AsBytes(numbers));
  const uint64_t first = slice.rows.begin + id.block * slice.block_rows();
  Buffer inside = Buffer::Allocate(numbers.size() * sizeof(uint32_t));
  auto* const out =
      reinterpret_cast<uint32_t*>(inside.mutable_bytes().data());
  for (size_t i = 0; i < numbers.size(); ++i) {
    out[i] = static_cast<uint32_t>(numbers[i] - first);
  }
  return inside;
}

void SparseRows::Set(const PlacedSlice& slice, const RowSpan& rows,
                     const NumberReader& values) {
  auto* const out = reinterpret_cast<float*>(
      values_[place_[slice.variable]].mutable_bytes().data());
  values.ReadTo(out + rows.begin * slice.row_elements,
                rows.size() * slice.row_elements);
}

size_t SparseRows::RunOf(const BlockId& id) const {
  const auto found = std::lower_bound(
      runs_.begin(), runs_.end(), id, [](const Run& run, const BlockId& id) {
        return std::make_pair(run.id.slice, run.id.block) <
               std::make_pair(id.slice, id.block);
      });
  const bool is_there = found != runs_.end() && found->id.slice == id.slice &&
                        found->id.block == id.block;
  return is_there ? found - runs_.begin() : runs_.size();
}

v1::BlockVersion SparseRows::version(const BlockId& id) const {
  const size_t run = RunOf(id);
  return run < runs_.size() ? versions_[run] : v1::BlockVersion();
}

void SparseRows::set_version(const BlockId& id,
                             const v1::BlockVersion& version) {
  const size_t run = RunOf(id);
  if (run < runs_.size()) versions_[run] = version;
}

}  // namespace paramd
