#ifndef PARAMD_TESTS_SIM_INTEGER_JOB_H_
#define PARAMD_TESTS_SIM_INTEGER_JOB_H_

#include <compare>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "base/random.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "tensor/buffer.h"

namespace paramd {

// A batch of a job's input, by where it begins.
struct BatchPlace {
  uint32_t epoch = 0;
  uint64_t begin = 0;
  friend auto operator<=>(const BatchPlace&, const BatchPlace&) = default;
};

// A job that can be checked exactly: SGD with rate 1, integer gradients that
// depend on nothing but the batch, the variable and the element. Every sum of
// them is exact in float, so the weights say which batches are in them, and the
// order in which they came makes no difference.
//
// The gradient of a batch for element e of a variable is a coefficient of the
// batch times a fixed pattern of the element. So all elements of a block agree
// on one sum of coefficients, or the block is torn.
//
// Its variables are small multiples of a block, so that every push has several
// chunks and slices have several blocks: meant to be used under a FineCut.
//
// Immutable, hence thread-safe.
class IntegerJob {
 public:
  // Divides every cut that is drawn.
  static constexpr uint64_t kEvenWidth = 4;
  // How a keyed variable is used: the keys of a bucket make up groups that are
  // read and pushed together.
  enum class Keys {
    kNone,
    // One group, which fills the bucket.
    kFit,
    // Three, of which two fill it: so keys are evicted, or ignored.
    kEvict,
    kIgnore,
  };
  struct Options {
    // Of each of two epochs; a batch has kBatch. 0: drawn.
    uint64_t examples = 0;
    // Long enough that nobody is taken for dead on the worst of networks.
    absl::Duration lease = absl::Minutes(2);
    std::string staleness = "async";
    // Adam instead of SGD: values are then not those of ValueOf, but what the
    // optimizer makes of the gradients in the order in which they came.
    bool adam = false;
    uint32_t backup_workers = 0;
    // With Adam: RoundedGradient is what workers compute.
    bool rounded = false;
    // Small weights become zero, by one threshold for all variables. With
    // `rounded`, in sync mode.
    bool pruned = false;
    // How likely a batch has anything but zeros for a block of the larger
    // variables.
    double touched = 1;
    // One more variable is sparse. A batch reads all rows of a block, or none;
    // more than half have none of a given block.
    bool sparse = false;
    // Values of a row of that variable.
    uint64_t width = kEvenWidth;
    // That variable is keyed, and a batch reads all rows of a group, or none.
    Keys keys = Keys::kNone;
    // As in v1::Variable, of that one: keys then come and go by themselves.
    uint32_t admit_after = 0;
    uint64_t expire_after = 0;
    // As in v1::CheckpointConfig.
    uint32_t incremental = 0;
    // How likely a batch's gradient has a number that is not finite.
    double spoiled = 0;
    // Every batch adds 1: weights then say how many are in.
    bool counted = false;
    // How gradients travel; what is half as long is exact in either format.
    v1::JobConfig::WireFormat push_format = v1::JobConfig::WIRE_FORMAT_FP32;
    v1::JobConfig::WireFormat pull_format = v1::JobConfig::WIRE_FORMAT_FP32;
    // Steps over which the rate falls along a cosine; 0: it stays.
    uint64_t decay_steps = 0;
    // The rate is divided by the staleness.
    bool scale_rate = false;
    // Instead of two epochs there are more, of as many examples together and
    // each of its own number, which are found one by one.
    bool growing = false;
    // Steps that a worker computes at the same time, as in a pipeline without a
    // flush.
    uint32_t concurrent = 1;
  };
  // Of every fourth seed one that does not divide a block, as it is cut now:
  // some elements fewer are in each block of these rows, an even number of
  // rows all the same, which two groups of keys fill.
  static uint64_t DrawWidth(uint64_t seed);
  static constexpr uint32_t kBatch = 4;
  // With this chance one of the two that take half as many bytes.
  static v1::JobConfig::WireFormat DrawFormat(double half,
                                              RandomStream* random);

  // A block, by where it lies: as coordinators lay variables out, whatever the
  // number of servers. Blocks are numbered in the order of slices.
  struct BlockPlace {
    size_t variable = 0;
    uint32_t slice = 0;
    uint32_t block = 0;  // In the slice.
    // In the variable. Of a keyed one its keys are counted, in ascending order,
    // whichever rows they have.
    uint64_t first_element = 0;
    uint64_t elements = 0;
  };
  struct SlicePlace {
    size_t variable = 0;
    uint64_t row_begin = 0;
    uint64_t row_end = 0;
    uint32_t first_block = 0;
    uint32_t blocks = 0;
  };

  // Sizes are drawn from the seed.
  explicit IntegerJob(uint64_t seed) : IntegerJob(seed, Options()) {}
  IntegerJob(uint64_t seed, const Options& options);

  const v1::JobConfig& config() const { return config_; }
  const std::vector<v1::Variable>& variables() const { return variables_; }
  // Of each epoch; 0: each has its own.
  uint64_t examples() const {
    return config_.input().has_follow() ? 0 : sizes_[0];
  }
  uint32_t epochs() const { return static_cast<uint32_t>(sizes_.size()); }
  uint64_t ExamplesOf(uint32_t epoch) const { return sizes_[epoch - 1]; }
  bool is_adam() const { return config_.optimizer().has_adam(); }
  bool is_rounded() const { return rounded_; }
  // Values are not those of ValueOf, but what the optimizer makes of the
  // gradients in the order in which they came, and of how stale they were.
  bool is_replayed() const;
  // Pulled values are not those that the server has.
  bool is_pull_rounded() const;
  // Every batch of every epoch.
  const std::set<BatchPlace>& batches() const { return batches_; }

  const std::vector<SlicePlace>& slices() const { return slices_; }
  const std::vector<BlockPlace>& blocks() const { return blocks_; }

  // What a batch adds to a block, by the block's number: not 0 unless
  // Options::touched says so, so that one that is missing shows.
  float Coefficient(const BatchPlace& batch, size_t block) const;
  // Keys of a keyed variable's block, in groups that are named together; of
  // others there is one. Which of them a batch changes.
  size_t groups(size_t block) const;
  size_t GroupOf(const BatchPlace& batch, size_t block) const;
  // What comes and goes together: groups, or, where keys are admitted late or
  // expire, keys. How many of them a block has, in the order of groups, and how
  // many each group.
  size_t parts(size_t block) const;
  size_t PartsOfGroup(size_t block) const;
  // How many groups a block has room for.
  size_t most_groups(size_t block) const;
  bool has_policy() const { return has_policy_; }
  bool ignores_new_keys() const { return keys_are_ == Keys::kIgnore; }
  // Whether parts come and go.
  bool has_evictions() const { return has_more_keys() || has_policy_; }
  // The next rows that a message names of a block, counted from its first;
  // kDataLoss if they are not the block's.
  absl::StatusOr<std::vector<uint64_t>> ReadRows(size_t block, uint32_t count,
                                                 ChainReader* reader) const;
  // Of a keyed variable, mixed, ascending.
  const std::vector<uint64_t>& keys() const { return keys_; }
  // The block in whose gradient of this batch a number is not finite.
  absl::optional<size_t> SpoiledBlock(const BatchPlace& batch) const;
  // The sum of the coefficients of what is in a block, of its variable's
  // values.
  float SumIn(size_t block, absl::Span<const float> values) const;
  // Element `e` of variable `v` where the coefficients of what is in sum up to
  // `sum`.
  float ValueOf(size_t v, uint64_t e, float sum) const {
    return initial_[v] - sum * patterns_[v][e];
  }

  size_t elements(size_t v) const { return patterns_[v].size(); }

  // By variable, the gradient of a batch whose step has so many examples, at
  // these values: one in whose sums it shows in which order they were made, and
  // of which values each was.
  std::vector<std::vector<float>> RoundedGradient(
      const BatchPlace& batch,
      const std::vector<absl::Span<const float>>& values,
      uint64_t step_examples) const;
  // Of the sparse variable, which is the last one: numbers, or mixed keys, of
  // the rows that a batch reads.
  std::vector<uint64_t> RowsOf(const BatchPlace& batch) const;
  // The same of all batches.
  std::vector<uint64_t> AllRows() const;
  // One buffer a variable; of a sparse one, of the rows that the batch reads.
  BufferChain Gradient(const BatchPlace& batch) const;
  // OK if `values` of variable `v` are the initial ones minus the gradients of
  // `batches`, each once; else kDataLoss with the first wrong element.
  absl::Status CheckValues(size_t v, absl::Span<const float> values,
                           const std::multiset<BatchPlace>& batches) const;
  // OK if of its keys, which never come and go, those have a row that `batches`
  // name; else kDataLoss.
  absl::Status CheckKeys(const std::vector<bool>& present,
                         const std::multiset<BatchPlace>& batches) const;
  // OK if every block of `values` is of one version: agrees with itself on the
  // batches that are in it; else kDataLoss with the first element that differs.
  absl::Status CheckNotTorn(size_t v, absl::Span<const float> values) const;

 private:
  void DrawConfig(const Options& options, uint64_t seed);
  // Divides the examples among more epochs.
  void Grow(uint64_t seed);
  void AddVariable(const std::string& name, std::vector<uint64_t> shape,
                   bool sparse = false);
  void SetPattern(uint64_t elements, const std::string& name,
                  std::vector<float>* pattern) const;
  // The sparse variable, keyed.
  void AddKeyed(const Options& options);
  // Than rows.
  bool has_more_keys() const {
    return keys_are_ == Keys::kEvict || keys_are_ == Keys::kIgnore;
  }
  // Rows that a batch reads, counted as BlockPlace does.
  std::vector<uint64_t> PlacesOf(const BatchPlace& batch) const;
  bool IsKeyed(size_t block) const {
    return variables_[blocks_[block].variable].keyed();
  }
  bool IsSparse(size_t block) const {
    return variables_[blocks_[block].variable].sparse();
  }

  float OfVariable(const BatchPlace& batch, size_t v) const;

  const uint64_t seed_;
  const double touched_;
  const bool rounded_;
  const double spoiled_;
  const bool counted_;
  const Keys keys_are_;
  const bool has_policy_;
  const uint64_t width_;
  v1::JobConfig config_;
  std::vector<uint64_t> sizes_;  // Of epochs.
  std::vector<v1::Variable> variables_;
  std::set<BatchPlace> batches_;
  std::vector<float> initial_;                // By variable.
  std::vector<std::vector<float>> patterns_;  // By variable and element.
  std::vector<SlicePlace> slices_;
  std::vector<BlockPlace> blocks_;
  std::vector<uint64_t> keys_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_INTEGER_JOB_H_
