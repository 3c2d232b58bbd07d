#ifndef PARAMD_INPUT_PIPELINE_H_
#define PARAMD_INPUT_PIPELINE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "input/batch.h"
#include "input/example_source.h"
#include "input/order_stages.h"
#include "input/stage.h"
#include "input/taught_labels.h"
#include "input/transform.h"
#include "proto/paramd/v1/input.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// A source and the stages of a job file behind it: from a range of an epoch to
// a batch. (seed, range) alone determine the batch.
//
// A batch is made in two steps, so that threads can share it: ReadExample of
// each of its offsets, then Finish; or by Read, all at once.
//
// Thread-safe.
class Pipeline {
 public:
  struct Options {
    uint64_t seed = 0;
    // Else for evaluation: without the stages that are for training.
    bool training = true;
    // Examples of a whole batch; 0: nobody said.
    uint64_t batch = 0;
    // It is put together with others, by a source that reads `examples`: it
    // makes no batches, and without stages is in the order of its source.
    bool is_part = false;
  };

  // Of the config the stages and what stands beside them are read; without
  // stages, training examples are shuffled. INVALID_ARGUMENT, with the stage,
  // if one does not suit; the error of the source if it can't be read; as Read
  // if a batch's shape is that of the first example.
  static absl::StatusOr<std::unique_ptr<Pipeline>> Create(
      std::unique_ptr<ExampleSource> source, const v1::InputConfig& config,
      const Options& options);

  // What its batches have. A dimension of 0 differs from batch to batch.
  const InputSpec& spec() const { return spec_; }
  // Examples of an epoch; at least 1, below 2^32. 0: the source grows.
  uint64_t size() const { return stages_.back()->size(); }
  // The source, if it grows; else null.
  GrowingSource* growing() const { return growing_; }
  // What tells the source from another one, and what is learned of its
  // examples: all but the directory and the host.
  v1::DataSet Describe() const;
  // What its numbers mean; the same as Describe has, without teachers.
  const v1::DataMeaning& meaning() const { return meaning_; }
  const ExampleSource& source() const { return source_->source(); }
  SourceNames names() const { return source().Names(); }
  // What batches are made of, before the stages behind `batch`.
  const Stage& examples() const { return *stages_.back(); }
  // In what their epochs differ.
  const Variation& variation() const { return variation_; }
  // The source and the stages before the batch. The first `fixed` of them give
  // the same examples, at the same places, in every epoch.
  absl::Span<const std::unique_ptr<Stage>> stages() const { return stages_; }
  size_t fixed() const { return fixed_; }
  // Whether the stage window makes one example of several, among these stages
  // or those of a source within.
  bool has_windows() const;
  // What examples are behind the first `count` stages of the config. REQUIRES:
  // each of these is a filter, a take, a skip, or a map before the batch, and
  // takes part.
  const Stage& Behind(int count) const {
    return *stages_[static_cast<size_t>(count)];
  }

  // OUT_OF_RANGE, naming the portion and the size, unless it is a range of at
  // least one example of an epoch.
  absl::Status Check(const Portion& range) const;

  // Overwrites `batch` with the examples of `range`; its memory is reused. The
  // error of the first example that can't be read or mapped, with its place in
  // the files: DATA_LOSS where it does not suit a stage or the batch. The batch
  // is then unspecified. REQUIRES: Check(range) is OK.
  absl::Status Read(const Portion& range, Batch* batch) const;

  // Overwrites `example` with the one at `offset` of an epoch, before the
  // stages behind `batch`. REQUIRES: it is within a range that Check admits.
  absl::Status ReadExample(uint64_t epoch, uint64_t offset,
                           Example* example) const;
  // The same behind the first `count` stages, in epoch 0, of an offset below
  // the size there. REQUIRES: as Behind.
  absl::Status ReadBehind(int count, uint64_t offset, Example* example) const;
  // Of an error about an example that was read: where examples are skipped,
  // drops, counts and logs it; returns it otherwise, with the example's place.
  absl::Status OnError(const absl::Status& error, Example* example) const;
  // Overwrites `batch` with the examples of `range`, which it may change.
  absl::Status Finish(const Portion& range, absl::Span<Example> examples,
                      Batch* batch) const;

  // Batches get what these say of their examples (Batch::taught), in this
  // order. A batch with an example of which one says nothing is an error that
  // names both. REQUIRES: they were opened for this pipeline; nothing is read
  // yet.
  void Teach(std::vector<std::unique_ptr<const TaughtLabels>> taught) {
    taught_ = std::move(taught);
  }
  // These models, whose names tell them apart, say something of its examples
  // too, in this order: whoever trains with others, or goes on, needs the same.
  void TaughtBy(std::vector<std::string> models) {
    teachers_ = std::move(models);
  }
  absl::Span<const std::unique_ptr<const TaughtLabels>> taught() const {
    return taught_;
  }

  // Whether a thread is to take whole batches: `batch` stands before a map.
  bool takes_whole_batches() const { return !late_.empty(); }
  // Batches to make ahead.
  uint32_t prefetch() const { return prefetch_; }
  // Examples that were left out because they could not be read or mapped.
  uint64_t skipped() const { return skipped_.load(std::memory_order_relaxed); }

  // Measures what each stage does with one example in `every` from now on, into
  // `trace` if that is given, which outlives it. REQUIRES: nothing is read yet.
  void Measure(ChromeTrace* trace, uint32_t every = 1);
  // What each stage took itself, summed over threads, in their order; "batch"
  // is the assembly. Of all examples, if not all are measured by extrapolation.
  // While threads read it is right up to the examples that are under way.
  struct StageTime {
    std::string name;  // "normalise", and of another one "normalise_2".
    uint64_t calls = 0;
    absl::Duration time;  // Never negative.
  };
  std::vector<StageTime> StageTimes() const;

 private:
  class Builder;
  Pipeline() = default;

  bool IsMeasured(uint64_t epoch, uint64_t offset) const;
  // Says which example it is. INVALID_ARGUMENT becomes DATA_LOSS.
  absl::Status Named(const absl::Status& error, const Example& example) const;
  absl::Status FixSpec();
  absl::Status CheckShape(size_t feature, const OwnedTensor& value) const;
  void Assemble(absl::Span<Example> examples, Batch* batch) const;
  absl::Status AddTaught(Batch* batch) const;

  std::vector<std::unique_ptr<Stage>> stages_;  // The source's is the first.
  size_t fixed_ = 0;                            // Of them.
  const SourceStage* source_ = nullptr;
  GrowingSource* growing_ = nullptr;
  std::vector<std::unique_ptr<Transform>> late_;  // Behind `batch`.
  std::vector<std::unique_ptr<const TaughtLabels>> taught_;
  std::vector<std::string> teachers_;
  // What a batch does with features of which examples have any length.
  struct Padding {
    double value = 0;
    uint64_t length = 0;             // Of each; 0: that of the longest.
    std::vector<bool> is_used = {};  // Of each feature.
  };

  InputSpec spec_;
  absl::optional<Padding> padding_;
  Variation variation_;
  v1::DataMeaning meaning_;
  absl::optional<uint32_t> new_labels_crc32c_;  // Of relabel.
  uint32_t prefetch_ = 4;
  bool skip_errors_ = false;
  uint32_t every_ = 1;  // Example that is measured.
  mutable StageClock assembling_;
  mutable std::atomic<uint64_t> skipped_{0};
};

}  // namespace paramd

#endif  // PARAMD_INPUT_PIPELINE_H_
