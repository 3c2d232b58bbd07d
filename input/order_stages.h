#ifndef PARAMD_INPUT_ORDER_STAGES_H_
#define PARAMD_INPUT_ORDER_STAGES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "base/mutex.h"
#include "input/example_source.h"
#include "input/stage.h"

namespace paramd {

// The examples of a source, in its order, in every epoch: the first stage.
class SourceStage : public Stage {
 public:
  explicit SourceStage(std::unique_ptr<ExampleSource> source);

  const ExampleSource& source() const { return *source_; }
  uint64_t SizeIn(uint64_t epoch) const override;
  std::vector<uint64_t> FileStarts(uint64_t epoch) const override;
  absl::Status GetFeature(const ExamplePlace& place, size_t feature,
                          Example* example) const override;
  uint64_t IndexAt(const ExamplePlace& place) const override;

 protected:
  absl::Status DoGet(const ExamplePlace& place,
                     Example* example) const override;

 private:
  const std::unique_ptr<ExampleSource> source_;
};

// Examples of its upstream in an order of each epoch's own: all of them, or so
// many. Keeps the orders of the last epochs asked for.
class OrderStage : public PlaceStage {
 public:
  // What place i of an epoch holds: an offset of the upstream's.
  using Order = std::vector<uint32_t>;
  // Makes the order of an epoch; if given, also sets its FileStarts. Pure.
  using MakeOrder =
      std::function<Order(uint64_t epoch, std::vector<uint64_t>* file_starts)>;

  OrderStage(std::string name, const Stage& upstream, MakeOrder make)
      : OrderStage(std::move(name), upstream, upstream.size(),
                   std::move(make)) {}
  // Of `size` of the upstream's examples. REQUIRES: that does not grow.
  OrderStage(std::string name, const Stage& upstream, uint64_t size,
             MakeOrder make)
      : PlaceStage(std::move(name), upstream, size), make_(std::move(make)) {}

  uint64_t SizeIn(uint64_t epoch) const override {
    return upstream().size() == 0 ? upstream().SizeIn(epoch) : size();
  }
  std::vector<uint64_t> FileStarts(uint64_t epoch) const override;

 protected:
  ExamplePlace UpstreamOf(const ExamplePlace& place) const override;

 private:
  struct Epoch {
    uint64_t number = 0;
    Order order;
    std::vector<uint64_t> file_starts = {0};
  };
  // Shared with readers: it may be dropped here while one reads.
  std::shared_ptr<const Epoch> Load(uint64_t epoch) const;

  const MakeOrder make_;
  mutable Mutex mutex_;
  mutable std::vector<std::shared_ptr<const Epoch>> known_
      ABSL_GUARDED_BY(mutex_);
};

// All examples in an order drawn for the epoch; within runs of `buffer`
// examples if that is above 0. Keyed by (seed, epoch); unless they are to be
// reshuffled, every epoch has the order of epoch 0.
std::unique_ptr<Stage> MakeShuffle(const Stage& upstream, uint64_t seed,
                                   uint64_t buffer, bool reshuffle = true);

// The files in such an order, the examples of each together.
std::unique_ptr<Stage> MakeFileShuffle(const Stage& upstream, uint64_t seed,
                                       bool reshuffle = true);

// Takes `block_length` examples each of `cycle_length` files in turn; a file
// that ends makes room for the next. At most `most_readers` threads at a time
// are in the stages before it; 0: any number. REQUIRES: the lengths are above
// 0.
std::unique_ptr<Stage> MakeInterleave(const Stage& upstream,
                                      uint64_t cycle_length,
                                      uint64_t block_length,
                                      uint32_t most_readers = 0);

// The examples [begin, end) of the upstream. REQUIRES: begin < end <= its size.
std::unique_ptr<Stage> MakeSlice(std::string name, const Stage& upstream,
                                 uint64_t begin, uint64_t end);

// Those examples of the upstream, in its order, that `keeps` says to keep,
// which is asked once of each example of the source, of which there are so
// many. Its error; INVALID_ARGUMENT if it keeps none. REQUIRES: the upstream
// has the same examples in every epoch, and does not grow.
absl::StatusOr<std::unique_ptr<Stage>> MakeFilter(
    const Stage& upstream, uint64_t source_size,
    absl::FunctionRef<absl::StatusOr<bool>(const ExamplePlace&)> keeps);

// The upstream's examples in batches of one bucket each, as tf.data's
// bucket_by_sequence_length: in its order an example comes to its bucket, and
// where that is full its examples come, in their order. What is left at the end
// comes bucket by bucket, or is dropped. `bucket` says a number below
// `buckets`, and is asked once of each example of the source, of which there
// are so many. Its error; INVALID_ARGUMENT if nothing is left. REQUIRES: as
// above; buckets < 65536; batch > 0.
struct Buckets {
  uint32_t buckets = 1;
  uint64_t batch = 1;
  bool drop_remainder = false;
};
absl::StatusOr<std::unique_ptr<Stage>> MakeBuckets(
    const Stage& upstream, uint64_t source_size, const Buckets& config,
    absl::FunctionRef<absl::StatusOr<uint32_t>(const ExamplePlace&)> bucket);

// `times` epochs of the upstream in turn make one. REQUIRES: times > 0.
std::unique_ptr<Stage> MakeRepeat(const Stage& upstream, uint64_t times);

}  // namespace paramd

#endif  // PARAMD_INPUT_ORDER_STAGES_H_
