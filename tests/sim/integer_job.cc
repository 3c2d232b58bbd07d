#include "tests/sim/integer_job.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/random.h"
#include "tensor/keyed_rows.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

constexpr double kSparseTouched = 0.4;
constexpr uint64_t kBuckets = 5;

}  // namespace

v1::JobConfig::WireFormat IntegerJob::DrawFormat(double half,
                                                 RandomStream* random) {
  if (!random->Chance(half)) return v1::JobConfig::WIRE_FORMAT_FP32;
  return random->Chance(0.5) ? v1::JobConfig::WIRE_FORMAT_BF16
                             : v1::JobConfig::WIRE_FORMAT_FP16;
}

uint64_t IntegerJob::DrawWidth(uint64_t seed) {
  RandomStream random(StableHash("row width", seed));
  if (!random.Chance(0.25)) return kEvenWidth;
  std::vector<uint64_t> widths;
  for (const uint64_t width : {3, 5, 6, 7}) {
    const uint64_t rows = BlockRows(width);
    if (kMaxBlockElements % width != 0 && rows > 0 && rows % 2 == 0) {
      widths.push_back(width);
    }
  }
  return widths.empty() ? kEvenWidth : widths[random.Below(widths.size())];
}

IntegerJob::IntegerJob(uint64_t seed, const Options& options)
    : seed_(seed),
      touched_(options.touched),
      rounded_(options.rounded),
      spoiled_(options.spoiled),
      counted_(options.counted),
      keys_are_(options.sparse ? options.keys : Keys::kNone),
      has_policy_(keys_are_ != Keys::kNone &&
                  (options.admit_after > 1 || options.expire_after > 0)),
      width_(options.width) {
  DrawConfig(options, seed);
  if (options.growing) Grow(seed);
  for (uint32_t epoch = 1; epoch <= epochs(); ++epoch) {
    for (uint64_t begin = 0; begin < ExamplesOf(epoch); begin += kBatch) {
      batches_.insert({epoch, begin});
    }
  }
  RandomStream random(StableHash("integer variables", seed));
  AddVariable("scalar", {});
  AddVariable("bias", {10});
  AddVariable("kernel", {1 + random.Below(kMaxBlockElements / 8), 23});
  AddVariable("blocks", {2, kMaxBlockElements / 2 + 1});
  AddVariable("slices", {2, kMaxBlockElements * 2 + 5});
  if (keys_are_ != Keys::kNone) {
    AddKeyed(options);
  } else if (options.sparse) {
    AddVariable("rows", {kMaxBlockElements + 1, width_}, /*sparse=*/true);
  }
}

void IntegerJob::DrawConfig(const Options& options, uint64_t seed) {
  RandomStream random(StableHash("integer job", seed));
  config_.set_name("integers");
  config_.set_seed(seed);
  options.adam || options.rounded
      ? void(config_.mutable_optimizer()->mutable_adam())
      : void(config_.mutable_optimizer()->mutable_sgd());
  config_.mutable_optimizer()->set_learning_rate(1);
  config_.mutable_optimizer()->set_schedule(
      options.decay_steps > 0 ? v1::OptimizerConfig::COSINE
                              : v1::OptimizerConfig::CONSTANT);
  config_.mutable_optimizer()->set_decay_steps(options.decay_steps);
  config_.mutable_optimizer()->set_staleness_treatment(
      options.scale_rate ? v1::OptimizerConfig::SCALE_RATE
                         : v1::OptimizerConfig::NONE);
  if (options.pruned) {
    v1::OptimizerConfig::Pruning* const pruning =
        config_.mutable_optimizer()->add_pruning();
    pruning->set_variables("*");
    pruning->set_scope(v1::OptimizerConfig::Pruning::GLOBAL);
    pruning->set_sparsity(0.5);
    pruning->set_begin_step(3 + seed % 4);
    pruning->set_end_step(24);
    pruning->set_every_steps(4 + seed % 5);
  }
  config_.set_push_format(options.push_format);
  config_.set_pull_format(options.pull_format);
  // Nobody's are refused so often in a row.
  config_.set_quarantine_limit(100);
  config_.set_batch_per_replica(kBatch);
  config_.set_epochs(2);
  config_.set_staleness(options.staleness);
  config_.set_backup_workers(options.backup_workers);
  const uint64_t examples =
      options.examples > 0 ? options.examples : 60 + random.Below(60);
  sizes_ = {examples, examples};
  const uint64_t steps = 2 * examples / kBatch;
  config_.mutable_checkpoint()->set_every_steps(
      static_cast<uint32_t>(steps / 8 + random.Below(steps / 8)));
  config_.mutable_checkpoint()->set_keep(
      1 + static_cast<uint32_t>(random.Below(3)));
  config_.mutable_checkpoint()->set_keep_every_steps(seed % 3 == 0 ? steps / 4
                                                                   : 0);
  config_.mutable_checkpoint()->set_keep_best(seed % 5 == 0 ? 1 : 0);
  config_.mutable_checkpoint()->set_incremental(options.incremental);
  config_.set_evaluate_every_epochs(1);
  config_.set_portion_batches(1 + static_cast<uint32_t>(random.Below(4)));
  config_.set_chunk_bytes(2 * kMaxBlockElements * sizeof(float));
  config_.set_start_timeout_ms(600000);
  config_.set_lease_ms(
      static_cast<uint32_t>(absl::ToInt64Milliseconds(options.lease)));
  config_.set_heartbeat_ms(1000);
  config_.set_park_timeout_ms(5000);
  config_.set_finish_timeout_ms(10000);
  config_.set_drain_timeout_ms(25000);
  if (options.concurrent > 1) {
    config_.mutable_pipeline()->set_stages(options.concurrent);
    config_.mutable_pipeline()->set_schedule(
        v1::PipelineConfig::SCHEDULE_PIPEDREAM);
  }
}

void IntegerJob::Grow(uint64_t seed) {
  RandomStream random(StableHash("growing", seed));
  uint64_t left = sizes_[0] + sizes_[1];
  sizes_.clear();
  const uint64_t most = left / (2 + random.Below(4));
  while (left > 0) {
    sizes_.push_back(std::min(left, 1 + random.Below(most)));
    left -= sizes_.back();
  }
  v1::InputConfig::Follow* const follow =
      config_.mutable_input()->mutable_follow();
  follow->set_poll_ms(200 + static_cast<uint32_t>(random.Below(3000)));
  // Or so many epochs are the end.
  config_.set_epochs(random.Chance(0.3) ? epochs() : 1000);
}

void IntegerJob::AddVariable(const std::string& name,
                             std::vector<uint64_t> shape, bool sparse) {
  const size_t v = variables_.size();
  const float initial = static_cast<float>(v) * 5 - 3;
  v1::Variable& variable = variables_.emplace_back();
  variable.set_name(name);
  variable.set_dtype(v1::FLOAT32);
  // One is not trained: it takes each gradient as it is, whatever the
  // optimizer.
  variable.set_untrained(name == "bias");
  variable.set_sparse(sparse);
  RowShape rows = {1, 1};
  for (size_t i = 0; i < shape.size(); ++i) {
    variable.add_shape(shape[i]);
    (i == 0 ? rows.rows : rows.row_elements) *= shape[i];
  }
  variable.mutable_initializer()->set_kind(v1::Initializer::UNIFORM);
  variable.mutable_initializer()->set_low(initial);
  variable.mutable_initializer()->set_high(initial);
  initial_.push_back(initial);
  const BlockCut cut = BlockCut::Of(sparse, rows.row_elements);
  const uint64_t step = MostSliceRows(sparse, rows.row_elements);
  for (uint64_t row = 0; row < rows.rows; row += step) {
    const uint64_t end = std::min(rows.rows, row + step);
    const uint64_t elements = (end - row) * rows.row_elements;
    const auto blocks = static_cast<uint32_t>(cut.Count(elements));
    slices_.push_back(
        {v, row, end, static_cast<uint32_t>(blocks_.size()), blocks});
    for (uint32_t b = 0; b < blocks; ++b) {
      blocks_.push_back({v, static_cast<uint32_t>(slices_.size() - 1), b,
                         row * rows.row_elements + cut.Begin(b),
                         cut.ElementsOf(b, elements)});
    }
  }
  SetPattern(rows.rows * rows.row_elements, name, &patterns_.emplace_back());
}

void IntegerJob::SetPattern(uint64_t elements, const std::string& name,
                            std::vector<float>* pattern) const {
  const uint64_t salt = CounterRandom(StableHash(name, seed_)).Below(64, 0);
  pattern->clear();
  for (uint64_t e = 0; e < elements; ++e) {
    // A cheap mix: Philox for every element would take most of the time.
    pattern->push_back(
        static_cast<float>(1 + ((e + salt) * 0x9E3779B97F4A7C15 >> 61)));
  }
}

void IntegerJob::AddKeyed(const Options& options) {
  const uint64_t bucket = BucketRows(width_);
  const uint64_t rows = kBuckets * bucket;
  AddVariable("rows", {rows, width_}, /*sparse=*/true);
  v1::Variable& variable = variables_.back();
  variable.set_keyed(true);
  variable.set_when_full(ignores_new_keys() ? v1::Variable::IGNORE
                                            : v1::Variable::EVICT);
  variable.set_admit_after(options.admit_after);
  variable.set_expire_after(options.expire_after);
  // In every other such seed with large buckets rows move, and a quarter as
  // many as lie in memory are spare; the groups fill what is left. Who expires
  // first may follow from places, so they stay where that is of the story.
  uint64_t usable = bucket;
  if (bucket % 16 == 0 && !has_policy_ &&
      CounterRandom(StableHash("memory_rows", seed_)).Below(2, 0) == 0) {
    variable.set_memory_rows(rows / 2);
    usable -= bucket / 8;
  }
  const uint64_t keys = has_more_keys() ? 3 * (usable / 2) : usable;
  RandomStream random(StableHash("keys", seed_));
  for (uint64_t b = 0; b < kBuckets; ++b) {
    std::set<uint64_t> some;
    while (some.size() < keys) {
      const uint64_t key = random.Bits();
      if (BucketBegin(key, rows, width_) == b * bucket) some.insert(key);
    }
    keys_.insert(keys_.end(), some.begin(), some.end());
  }
  uint64_t first = 0;
  for (BlockPlace& block : blocks_) {
    if (!variables_[block.variable].keyed()) continue;
    block.first_element = first;
    block.elements = keys * width_;
    first += block.elements;
  }
  SetPattern(first, variable.name(), &patterns_.back());
}

size_t IntegerJob::groups(size_t block) const {
  return IsKeyed(block) && has_more_keys() ? 3 : 1;
}

size_t IntegerJob::parts(size_t block) const {
  return groups(block) * PartsOfGroup(block);
}

size_t IntegerJob::PartsOfGroup(size_t block) const {
  if (!has_policy_ || !IsKeyed(block)) return 1;
  return blocks_[block].elements / width_ / groups(block);
}

size_t IntegerJob::most_groups(size_t block) const {
  return IsKeyed(block) && has_more_keys() ? 2 : 1;
}

size_t IntegerJob::GroupOf(const BatchPlace& batch, size_t block) const {
  if (groups(block) == 1) return 0;
  const CounterRandom random(StableHash("part", seed_ * 4096 + block));
  return random.Below(groups(block), uint64_t{batch.epoch} << 32 | batch.begin);
}

absl::StatusOr<std::vector<uint64_t>> IntegerJob::ReadRows(
    size_t block, uint32_t count, ChainReader* reader) const {
  const BlockPlace& place = blocks_[block];
  const uint64_t width = variables_[place.variable].shape(1);
  std::vector<uint64_t> rows;
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t number = 0;
    const size_t bytes = IsKeyed(block) ? sizeof(uint64_t) : sizeof(uint32_t);
    const bool read = reader->Read(
        AsWritableBytes(absl::MakeSpan(&number, 1)).subspan(0, bytes));
    if (IsKeyed(block)) {
      number = std::lower_bound(keys_.begin(), keys_.end(), number) -
               keys_.begin() - place.first_element / width;
    }
    rows.push_back(number);
    if (read && number < place.elements / width) continue;
    return absl::DataLossError(absl::StrCat("a message names a row of block ",
                                            block, " that is not there"));
  }
  return rows;
}

bool IntegerJob::is_replayed() const {
  const v1::OptimizerConfig& optimizer = config_.optimizer();
  return is_adam() || optimizer.schedule() == v1::OptimizerConfig::COSINE ||
         optimizer.staleness_treatment() == v1::OptimizerConfig::SCALE_RATE;
}

bool IntegerJob::is_pull_rounded() const {
  return config_.pull_format() != v1::JobConfig::WIRE_FORMAT_FP32;
}

float IntegerJob::OfVariable(const BatchPlace& batch, size_t v) const {
  if (counted_) return 1;
  const CounterRandom random(StableHash("coefficient", seed_ * 8 + v));
  const uint64_t counter = uint64_t{batch.epoch} << 32 | batch.begin;
  // Times a pattern of up to 8 it has 8 bits: bf16 has no more.
  const bool half = config_.push_format() != v1::JobConfig::WIRE_FORMAT_FP32;
  const float size =
      1.0f + static_cast<float>(random.Below(half ? 31 : 500, counter));
  return batch.begin / kBatch % 2 == 0 ? size : -size;
}

float IntegerJob::Coefficient(const BatchPlace& batch, size_t block) const {
  const BlockPlace& place = blocks_[block];
  const double touched =
      IsSparse(block) ? std::min(touched_, kSparseTouched) : touched_;
  if (touched < 1 && variables_[place.variable].shape_size() == 2) {
    const CounterRandom random(StableHash("touched", seed_ * 4096 + block));
    const uint64_t counter = uint64_t{batch.epoch} << 32 | batch.begin;
    if (random.Uniform(counter) >= touched) return 0;
  }
  return OfVariable(batch, place.variable);
}

absl::optional<size_t> IntegerJob::SpoiledBlock(const BatchPlace& batch) const {
  if (spoiled_ == 0) return absl::nullopt;
  const CounterRandom random(StableHash("spoiled", seed_));
  const uint64_t counter = uint64_t{batch.epoch} << 32 | batch.begin;
  if (random.Uniform(counter) >= spoiled_) return absl::nullopt;
  const size_t block = CounterRandom(StableHash("spoiled block", seed_))
                           .Below(blocks_.size(), counter);
  // Of rows that are not read nothing is pushed.
  if (IsSparse(block) && Coefficient(batch, block) == 0) return absl::nullopt;
  return block;
}

std::vector<uint64_t> IntegerJob::PlacesOf(const BatchPlace& batch) const {
  std::vector<uint64_t> rows;
  for (size_t b = 0; b < blocks_.size(); ++b) {
    if (!IsSparse(b) || Coefficient(batch, b) == 0) continue;
    const uint64_t width = variables_[blocks_[b].variable].shape(1);
    const uint64_t elements = blocks_[b].elements / groups(b);
    const uint64_t first =
        blocks_[b].first_element + GroupOf(batch, b) * elements;
    for (uint64_t e = 0; e < elements; e += width) {
      rows.push_back((first + e) / width);
    }
  }
  return rows;
}

std::vector<uint64_t> IntegerJob::RowsOf(const BatchPlace& batch) const {
  std::vector<uint64_t> rows = PlacesOf(batch);
  if (keys_.empty()) return rows;
  for (uint64_t& row : rows) row = keys_[row];
  return rows;
}

std::vector<uint64_t> IntegerJob::AllRows() const {
  if (!keys_.empty()) return keys_;
  std::vector<uint64_t> rows(variables_.back().shape(0));
  std::iota(rows.begin(), rows.end(), uint64_t{0});
  return rows;
}

float IntegerJob::SumIn(size_t block, absl::Span<const float> values) const {
  const BlockPlace& place = blocks_[block];
  const uint64_t e = place.first_element;
  return (initial_[place.variable] - values[e]) / patterns_[place.variable][e];
}

BufferChain IntegerJob::Gradient(const BatchPlace& batch) const {
  std::vector<std::vector<float>> gradients;
  for (const auto& pattern : patterns_) gradients.emplace_back(pattern.size());
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const BlockPlace& place = blocks_[b];
    const float coefficient = Coefficient(batch, b);
    const uint64_t elements = place.elements / groups(b);
    const uint64_t first = place.first_element + GroupOf(batch, b) * elements;
    for (uint64_t element = first; element < first + elements; ++element) {
      gradients[place.variable][element] =
          coefficient * patterns_[place.variable][element];
    }
  }
  if (const auto block = SpoiledBlock(batch); block.has_value()) {
    const BlockPlace& place = blocks_[*block];
    const uint64_t elements = place.elements / groups(*block);
    gradients[place.variable][place.first_element +
                              (GroupOf(batch, *block) + 1) * elements - 1] =
        std::numeric_limits<float>::infinity();
  }
  if (variables_.back().sparse()) {
    const uint64_t width = variables_.back().shape(1);
    std::vector<float> of_rows;
    for (const uint64_t row : PlacesOf(batch)) {
      const auto first = gradients.back().begin() + row * width;
      of_rows.insert(of_rows.end(), first, first + width);
    }
    gradients.back() = std::move(of_rows);
  }
  BufferChain chain;
  for (const auto& gradient : gradients) {
    chain.push_back(Buffer::Copy(AsBytes<float>(gradient)));
  }
  return chain;
}

std::vector<std::vector<float>> IntegerJob::RoundedGradient(
    const BatchPlace& batch, const std::vector<absl::Span<const float>>& values,
    uint64_t step_examples) const {
  std::vector<std::vector<float>> gradients;
  for (const auto& pattern : patterns_) gradients.emplace_back(pattern.size());
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const BlockPlace& place = blocks_[b];
    const size_t v = place.variable;
    const float coefficient = Coefficient(batch, b) / 3;
    for (uint64_t i = 0; i < place.elements; ++i) {
      const uint64_t e = place.first_element + i;
      gradients[v][e] = (coefficient * patterns_[v][e] + values[v][e]) /
                        static_cast<float>(step_examples);
    }
  }
  return gradients;
}

absl::Status IntegerJob::CheckValues(
    size_t v, absl::Span<const float> values,
    const std::multiset<BatchPlace>& batches) const {
  if (values.size() != patterns_[v].size()) {
    return absl::DataLossError(absl::StrCat("'", variables_[v].name(), "' has ",
                                            values.size(), " values"));
  }
  for (size_t b = 0; b < blocks_.size(); ++b) {
    if (blocks_[b].variable != v) continue;
    float sum = 0;
    for (const BatchPlace& batch : batches) sum += Coefficient(batch, b);
    const uint64_t first = blocks_[b].first_element;
    for (uint64_t e = first; e < first + blocks_[b].elements; ++e) {
      const float wanted = ValueOf(v, e, sum);
      if (values[e] == wanted) continue;
      return absl::DataLossError(absl::StrCat(
          "element ", e, " of '", variables_[v].name(), "' is ", values[e],
          ", ", (values[e] - initial_[v]) / patterns_[v][e],
          " in coefficients; ", wanted, " (", -sum, ") is the sum over its ",
          batches.size(), " batches"));
    }
  }
  return absl::OkStatus();
}

absl::Status IntegerJob::CheckKeys(
    const std::vector<bool>& present,
    const std::multiset<BatchPlace>& batches) const {
  for (size_t b = 0; !present.empty() && b < blocks_.size(); ++b) {
    if (!IsKeyed(b)) continue;
    const bool wanted = std::any_of(
        batches.begin(), batches.end(),
        [&](const BatchPlace& batch) { return Coefficient(batch, b) != 0; });
    const uint64_t first = blocks_[b].first_element / width_;
    for (uint64_t k = 0; k < blocks_[b].elements / width_; ++k) {
      if (present[first + k] == wanted) continue;
      return absl::DataLossError(
          absl::StrCat("key ", first + k, wanted ? " has no row" : " has a row",
                       " after ", batches.size(), " batches"));
    }
  }
  return absl::OkStatus();
}

absl::Status IntegerJob::CheckNotTorn(size_t v,
                                      absl::Span<const float> values) const {
  for (const BlockPlace& block : blocks_) {
    if (block.variable != v) continue;
    const uint64_t first = block.first_element;
    const float sum = (initial_[v] - values[first]) / patterns_[v][first];
    for (uint64_t e = 1; e < block.elements; ++e) {
      if (values[first + e] == ValueOf(v, first + e, sum)) continue;
      return absl::DataLossError(
          absl::StrCat("element ", e, " of block ", block.block, " of '",
                       variables_[v].name(),
                       "' is not of the version of its first: the block is "
                       "torn"));
    }
  }
  return absl::OkStatus();
}

}  // namespace paramd
