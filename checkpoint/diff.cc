#include "checkpoint/diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

#include "base/status_macros.h"
#include "tensor/buffer.h"

namespace paramd {
namespace {

using Numbers = CheckpointReader::Numbers;

constexpr uint64_t kComparedBytes = uint64_t{4} << 20;

std::vector<uint64_t> ShapeOf(const Numbers& numbers) {
  return numbers.shape();
}

std::vector<Numbers> AllOf(const CheckpointReader& reader, bool slots) {
  std::vector<Numbers> all;
  for (const SliceIndex::Entry& entry : reader.index().entries()) {
    all.push_back({&entry, ""});
    if (!slots) continue;
    for (const Slot& slot : SlotsOf(reader.manifest(), *entry.variable)) {
      // Keys and uses are no numbers that could be near to each other.
      if (slot.dtype == v1::INT64) continue;
      all.push_back({&entry, std::string(slot.name)});
    }
  }
  return all;
}

// Bytes [offset, offset + length) as one run of numbers.
absl::Status ReadRun(CheckpointReader* reader, const Numbers& numbers,
                     uint64_t offset, uint64_t length,
                     std::vector<float>* out) {
  BufferChain chain;
  RETURN_IF_ERROR(reader->Read(numbers, offset, length, &chain));
  out->resize(length / sizeof(float));
  ChainReader(chain).Read(AsWritableBytes(absl::MakeSpan(*out)));
  return absl::OkStatus();
}

// Sums of what Common tells.
struct Sums {
  double squares_a = 0;
  double squares_b = 0;
  double squares_difference = 0;
};

void Compare(const std::vector<float>& a, const std::vector<float>& b,
             CheckpointDifference::Common* common, Sums* sums) {
  for (size_t i = 0; i < a.size(); ++i) {
    common->changed += std::memcmp(&a[i], &b[i], sizeof(float)) != 0;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      ++common->not_finite;
      continue;
    }
    const double from = a[i], to = b[i], difference = to - from;
    sums->squares_a += from * from;
    sums->squares_b += to * to;
    sums->squares_difference += difference * difference;
    common->max_abs_difference =
        std::max(common->max_abs_difference, std::abs(difference));
  }
}

}  // namespace

bool CheckpointDifference::same() const {
  return only_in_a.empty() && only_in_b.empty() && reshaped.empty() &&
         std::all_of(common.begin(), common.end(),
                     [](const Common& both) { return both.changed == 0; });
}

absl::StatusOr<CheckpointDifference> DiffCheckpoints(
    CheckpointReader* a, CheckpointReader* b, const DiffOptions& options) {
  CheckpointDifference result;
  absl::flat_hash_map<std::string, Numbers> left;
  for (Numbers& numbers : AllOf(*b, options.slots)) {
    left.emplace(numbers.name(), std::move(numbers));
  }
  std::vector<std::pair<Numbers, Numbers>> both;
  for (const Numbers& in_a : AllOf(*a, options.slots)) {
    const std::string name = in_a.name();
    const auto found = left.find(name);
    if (found == left.end()) {
      result.only_in_a.push_back({name, ShapeOf(in_a)});
      continue;
    }
    const Numbers in_b = found->second;
    left.erase(found);
    if (ShapeOf(in_a) != ShapeOf(in_b)) {
      result.reshaped.push_back({name, ShapeOf(in_a), ShapeOf(in_b)});
      continue;
    }
    both.emplace_back(in_a, in_b);
  }
  for (const Numbers& in_b : AllOf(*b, options.slots)) {
    if (left.contains(in_b.name())) {
      result.only_in_b.push_back({in_b.name(), ShapeOf(in_b)});
    }
  }
  const auto progress = [&](uint64_t = 0, uint64_t = 0) {
    if (!options.progress) return;
    options.progress(a->read_bytes() + b->read_bytes(),
                     a->total_bytes() + b->total_bytes());
  };
  std::vector<float> from, to;
  for (const auto& [in_a, in_b] : both) {
    CheckpointDifference::Common common;
    common.name = in_a.name();
    common.shape = ShapeOf(in_a);
    common.elements = in_a.bytes() / sizeof(float);
    Sums sums;
    for (uint64_t at = 0; at < in_a.bytes(); at += kComparedBytes) {
      const uint64_t length = std::min(kComparedBytes, in_a.bytes() - at);
      RETURN_IF_ERROR(ReadRun(a, in_a, at, length, &from));
      RETURN_IF_ERROR(ReadRun(b, in_b, at, length, &to));
      Compare(from, to, &common, &sums);
      progress();
    }
    common.norm_a = std::sqrt(sums.squares_a);
    common.norm_b = std::sqrt(sums.squares_b);
    common.norm_difference = std::sqrt(sums.squares_difference);
    result.common.push_back(std::move(common));
  }
  RETURN_IF_ERROR(a->Finish(progress));
  RETURN_IF_ERROR(b->Finish(progress));
  return result;
}

}  // namespace paramd
