#include "compute/pipeline/partition.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace paramd {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Sums over layers in O(1).
class Prefixes {
 public:
  explicit Prefixes(absl::Span<const LayerTimes> layers)
      : layers_(layers), seconds_{0}, kept_{0}, variables_{0}, deferred_{0} {
    for (const LayerTimes& layer : layers) {
      seconds_.push_back(seconds_.back() + layer.forward_s + layer.backward_s);
      kept_.push_back(kept_.back() + layer.kept_bytes);
      variables_.push_back(variables_.back() + layer.variable_bytes);
      deferred_.push_back(deferred_.back() + layer.deferred_bytes);
    }
  }

  // Of a stage of these layers: it computes, and sends to both sides.
  double SecondsOf(size_t begin, size_t end) const {
    double seconds = seconds_[end] - seconds_[begin];
    if (begin > 0) seconds += layers_[begin - 1].border_s;
    if (end < layers_.size()) seconds += layers_[end - 1].border_s;
    return seconds;
  }

  uint64_t BytesOf(size_t begin, size_t end, uint32_t stage,
                   const PartitionOptions& options) const {
    const auto count = [stage](const std::function<uint64_t(uint32_t)>& of,
                               uint64_t without) {
      return of == nullptr ? without : of(stage);
    };
    return count(options.live, 1) * (kept_[end] - kept_[begin]) +
           count(options.versions, 1) * (variables_[end] - variables_[begin]) +
           count(options.deferred, 0) * (deferred_[end] - deferred_[begin]);
  }

 private:
  const absl::Span<const LayerTimes> layers_;
  std::vector<double> seconds_;
  std::vector<uint64_t> kept_;
  std::vector<uint64_t> variables_;
  std::vector<uint64_t> deferred_;
};

std::string MebibytesOf(uint64_t bytes) {
  return absl::StrCat((bytes + (1 << 20) - 1) >> 20, " MiB");
}

absl::Status NothingFits(absl::Span<const LayerTimes> layers,
                         const Prefixes& prefixes,
                         const PartitionOptions& options) {
  // Alone on the stage that keeps least.
  for (size_t i = 0; i < layers.size(); ++i) {
    uint64_t least = std::numeric_limits<uint64_t>::max();
    for (uint32_t s = 0; s < options.stages; ++s) {
      least = std::min(least, prefixes.BytesOf(i, i + 1, s, options));
    }
    if (least <= options.memory_bytes) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "the layer '", layers[i].name, "' alone needs ", MebibytesOf(least),
        "; a device has ", MebibytesOf(options.memory_bytes)));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("no cut into ", options.stages, " stages fits devices of ",
                   MebibytesOf(options.memory_bytes),
                   ": give more stages, more micro-batches or more memory"));
}

}  // namespace

uint64_t StageBytes(absl::Span<const LayerTimes> layers, size_t begin,
                    size_t end, uint32_t stage,
                    const PartitionOptions& options) {
  return Prefixes(layers).BytesOf(begin, end, stage, options);
}

absl::StatusOr<Partition> PartitionLayers(absl::Span<const LayerTimes> layers,
                                          const PartitionOptions& options) {
  const size_t count = layers.size();
  CHECK(options.stages > 0, "a model is cut into stages");
  if (options.stages > count) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model has ", count,
                     " layers that can be cut; it "
                     "can't have ",
                     options.stages, " stages"));
  }
  const Prefixes prefixes(layers);
  // Of the first i layers on s + 1 stages: the slowest one's time, and where
  // the last one begins.
  struct Best {
    double slowest = kNever;
    size_t begin = 0;
  };
  std::vector<std::vector<Best>> best(options.stages,
                                      std::vector<Best>(count + 1));
  for (uint32_t s = 0; s < options.stages; ++s) {
    for (size_t end = s + 1; end <= count; ++end) {
      for (size_t begin = s; begin < end; ++begin) {
        if (s == 0 && begin > 0) break;
        const double before = s == 0 ? 0 : best[s - 1][begin].slowest;
        const double slowest = std::max(before, prefixes.SecondsOf(begin, end));
        if (slowest >= best[s][end].slowest) continue;
        if (options.memory_bytes > 0 &&
            prefixes.BytesOf(begin, end, s, options) > options.memory_bytes) {
          continue;
        }
        best[s][end] = {slowest, begin};
      }
    }
  }
  Partition partition;
  partition.slowest_s = best.back()[count].slowest;
  if (partition.slowest_s == kNever) {
    return NothingFits(layers, prefixes, options);
  }
  size_t end = count;
  for (uint32_t s = options.stages; s-- > 0;) {
    end = best[s][end].begin;
    partition.begins.insert(partition.begins.begin(), end);
  }
  return partition;
}

Partition EqualCounts(absl::Span<const LayerTimes> layers, uint32_t stages) {
  CHECK(stages > 0 && stages <= layers.size(),
        "each stage has at least one layer");
  const Prefixes prefixes(layers);
  Partition partition;
  for (uint32_t s = 0; s < stages; ++s) {
    const size_t begin = layers.size() * s / stages;
    partition.begins.push_back(begin);
    partition.slowest_s =
        std::max(partition.slowest_s,
                 prefixes.SecondsOf(begin, layers.size() * (s + 1) / stages));
  }
  return partition;
}

}  // namespace paramd
