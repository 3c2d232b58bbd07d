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
                     "' comes after row ", numbers[i - 1]));
  }
  if (numbers.empty() || rows == 0 || numbers.back() < rows)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("there is no row ", numbers.back(), " of '", variable,
                   "', which has ", rows));
}

}  // namespace

std::vector<RowGroup> GroupRows(const Placement& placement,
                                absl::Span<const BlockId> blocks,
                                absl::Span<const RowSpan> rows) {
  std::vector<RowGroup> groups;
  for (size_t b = 0; b < blocks.size(); ++b) {
    if (rows[b].size() == 0) continue;
    const uint32_t variable = placement.slices()[blocks[b].slice].variable;
    const bool follows = !groups.empty() &&
                         groups.back().variable == variable &&
                         groups.back().rows.end == rows[b].begin;
    if (!follows) groups.push_back({variable, {rows[b].begin, 0}, b, 0});
    groups.back().rows.end = rows[b].end;
    groups.back().end_block = b + 1;
  }
  return groups;
}

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
  std::vector<size_t> next(made.numbers_.size(), 0);  // Row, by sparse one.
  for (uint32_t s = 0; s < placement.slices().size(); ++s) {
    const PlacedSlice& slice = placement.slices()[s];
    if (!slice.sparse) continue;
    made.AddRuns(placement, s, &next[made.place_[slice.variable]]);
  }
  made.versions_.resize(made.runs_.size());
  return made;
}

// Slices of a variable come in the order of its rows.
void SparseRows::AddRuns(const Placement& placement, uint32_t s, size_t* next) {
  const PlacedSlice& slice = placement.slices()[s];
  const auto rows = NumbersOf(slice.variable);
  if (*next == rows.size()) return;
  const uint64_t block_rows = slice.block_rows();
  const uint64_t buckets =
      BucketCount(placement.elements()[slice.variable] / slice.row_elements,
                  slice.row_elements);
  // A row that is in the same block, and ascends as numbers do.
  const auto row_of = [&](uint64_t number) {
    return slice.keyed ? BucketOf(number, buckets) * block_rows : number;
  };
  // Few are of one block, so the first steps are short.
  const auto first_from = [&](auto from, uint64_t row) {
    auto end = from;
    for (ptrdiff_t step = 1; end != rows.end() && row_of(*end) < row;
         step *= 2) {
      from = end + 1;
      end += std::min(step, rows.end() - end);
    }
    return std::partition_point(
        from, end, [&](uint64_t number) { return row_of(number) < row; });
  };
  auto at = rows.begin() + *next;
  while (at != rows.end() && row_of(*at) < slice.rows.end) {
    const uint64_t block = (row_of(*at) - slice.rows.begin) / block_rows;
    const uint64_t last =
        std::min(slice.rows.end, slice.rows.begin + (block + 1) * block_rows);
    const auto end = first_from(at, last);
    runs_.push_back({{s, static_cast<uint32_t>(block)},
                     {static_cast<size_t>(at - rows.begin()),
                      static_cast<size_t>(end - rows.begin())}});
    at = end;
  }
  *next = at - rows.begin();
}

BufferChain SparseRows::HandOut(BufferChain dense) const {
  for (size_t s = 0; s < values_.size(); ++s) dense[variables_[s]] = values_[s];
  dense.insert(dense.end(), numbers_.begin(), numbers_.end());
  return dense;
}

absl::Span<const uint64_t> SparseRows::NumbersOf(uint32_t variable) const {
  return AsNumbers(numbers_[place_[variable]]);
}

BufferChain SparseRows::NamesOf(const Placement& placement,
                                absl::Span<const RowGroup> groups,
                                absl::Span<const BlockId> blocks,
                                absl::Span<const RowSpan> rows) const {
  BufferChain names;
  for (const RowGroup& group : groups) {
    if (placement.is_keyed(group.variable)) {
      names.push_back(numbers_[place_[group.variable]].Part(
          group.rows.begin * sizeof(uint64_t),
          group.rows.size() * sizeof(uint64_t)));
      continue;
    }
    Buffer inside = Buffer::Allocate(group.rows.size() * sizeof(uint32_t));
    auto* out = reinterpret_cast<uint32_t*>(inside.mutable_bytes().data());
    const absl::Span<const uint64_t> numbers = NumbersOf(group.variable);
    for (size_t b = group.first_block; b < group.end_block; ++b) {
      const PlacedSlice& slice = placement.slices()[blocks[b].slice];
      const uint64_t first =
          slice.rows.begin + blocks[b].block * slice.block_rows();
      for (const uint64_t number :
           numbers.subspan(rows[b].begin, rows[b].size())) {
        *out++ = static_cast<uint32_t>(number - first);
      }
    }
    names.push_back(std::move(inside));
  }
  return names;
}

void SparseRows::Set(const Placement& placement,
                     absl::Span<const RowGroup> groups,
                     const NumberReader& values) {
  for (const RowGroup& group : groups) {
    const size_t width = placement.row_elements()[group.variable];
    auto* const out = reinterpret_cast<float*>(
        values_[place_[group.variable]].mutable_bytes().data());
    values.ReadTo(out + group.rows.begin * width, group.rows.size() * width);
  }
}

bool SparseRows::IsRun(size_t run, const BlockId& id) const {
  return run < runs_.size() && runs_[run].id.slice == id.slice &&
         runs_[run].id.block == id.block;
}

size_t SparseRows::RunOf(const BlockId& id, size_t near) const {
  if (IsRun(near, id)) return near;
  if (IsRun(near + 1, id)) return near + 1;
  const auto found = std::lower_bound(
      runs_.begin(), runs_.end(), id, [](const Run& run, const BlockId& id) {
        return std::make_pair(run.id.slice, run.id.block) <
               std::make_pair(id.slice, id.block);
      });
  return found - runs_.begin();
}

v1::BlockVersion SparseRows::version(const BlockId& id) const {
  v1::BlockVersion version;
  const size_t run = RunOf(id);
  if (!IsRun(run, id)) return version;
  version.set_life(versions_[run].life);
  version.set_counter(versions_[run].counter);
  return version;
}

void SparseRows::AddVersions(absl::Span<const BlockId> blocks,
                             v1::BlockVersions* versions) const {
  versions->mutable_lives()->Reserve(static_cast<int>(blocks.size()));
  versions->mutable_counters()->Reserve(static_cast<int>(blocks.size()));
  size_t run = 0;
  for (const BlockId& id : blocks) {
    run = RunOf(id, run);
    const Version version = IsRun(run, id) ? versions_[run] : Version();
    versions->add_lives(version.life);
    versions->add_counters(version.counter);
  }
}

void SparseRows::SetVersions(absl::Span<const BlockId> blocks,
                             const v1::BlockVersions& versions) {
  size_t run = 0;
  for (size_t b = 0; b < blocks.size(); ++b) {
    run = RunOf(blocks[b], run);
    if (!IsRun(run, blocks[b])) continue;
    const int at = static_cast<int>(b);
    versions_[run] = {versions.lives(at), versions.counters(at)};
  }
}

}  // namespace paramd
