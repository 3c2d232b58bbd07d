#include "input/order_stages.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "input/example_order.h"

namespace paramd {
namespace {

// Readers of two epochs at a time, and of a few repetitions of each.
constexpr size_t kMostEpochs = 4;

// Examples [begin, end) of a stage.
class Slice : public PlaceStage {
 public:
  Slice(std::string name, const Stage& upstream, uint64_t begin, uint64_t end)
      : PlaceStage(std::move(name), upstream, end - begin), begin_(begin) {
    CHECK(begin < end && end <= upstream.size(), "a slice holds an example");
  }

  std::vector<uint64_t> FileStarts(uint64_t epoch) const override {
    std::vector<uint64_t> starts = {0};
    for (const uint64_t start : upstream().FileStarts(epoch)) {
      if (start > begin_ && start < begin_ + size()) {
        starts.push_back(start - begin_);
      }
    }
    return starts;
  }

 protected:
  ExamplePlace UpstreamOf(const ExamplePlace& place) const override {
    return {place.epoch, begin_ + place.offset};
  }

 private:
  const uint64_t begin_;
};

class Repeat : public PlaceStage {
 public:
  Repeat(const Stage& upstream, uint64_t times)
      : PlaceStage("repeat", upstream, upstream.size() * times), times_(times) {
    CHECK(times > 0, "something is repeated");
  }

 protected:
  ExamplePlace UpstreamOf(const ExamplePlace& place) const override {
    return {place.epoch * times_ + place.offset / upstream().size(),
            place.offset % upstream().size()};
  }

 private:
  const uint64_t times_;
};

// An order of which few threads read at a time.
class LimitedOrder : public OrderStage {
 public:
  LimitedOrder(std::string name, const Stage& upstream, uint32_t most_readers,
               MakeOrder make)
      : OrderStage(std::move(name), upstream, std::move(make)),
        free_(most_readers) {
    CHECK(most_readers > 0, "somebody may read");
  }

 protected:
  absl::Status DoGet(const ExamplePlace& place,
                     Example* example) const override {
    {
      MutexLock lock(&readers_mutex_);
      while (free_ == 0) freed_.Wait(&readers_mutex_);
      --free_;
    }
    absl::Status status = OrderStage::DoGet(place, example);
    MutexLock lock(&readers_mutex_);
    ++free_;
    freed_.NotifyOne();
    return status;
  }

 private:
  mutable Mutex readers_mutex_;
  mutable CondVar freed_;
  mutable uint32_t free_ ABSL_GUARDED_BY(readers_mutex_);
};

// The number of the run within the epoch is part of the seed.
OrderStage::Order OrderInRuns(uint64_t seed, uint64_t epoch, uint64_t size,
                              uint64_t run) {
  OrderStage::Order order;
  order.reserve(size);
  for (uint64_t begin = 0; begin < size; begin += run) {
    const uint64_t length = std::min(run, size - begin);
    for (const uint32_t i : ExampleOrder(seed + begin, epoch, length)) {
      order.push_back(static_cast<uint32_t>(begin + i));
    }
  }
  return order;
}

}  // namespace

SourceStage::SourceStage(std::unique_ptr<ExampleSource> source)
    : Stage("read", source->spec(), source->size()),
      source_(std::move(source)) {}

uint64_t SourceStage::SizeIn(uint64_t epoch) const {
  return source_->SizeIn(epoch);
}

std::vector<uint64_t> SourceStage::FileStarts(uint64_t epoch) const {
  return source_->FileStartsIn(epoch);
}

absl::Status SourceStage::DoGet(const ExamplePlace& place,
                                Example* example) const {
  example->dropped = false;
  example->index = IndexAt(place);
  return source_->ReadAt(place, example);
}

absl::Status SourceStage::GetFeature(const ExamplePlace& place, size_t feature,
                                     Example* example) const {
  example->dropped = false;
  example->index = IndexAt(place);
  return source_->ReadFeatureAt(place, feature, example);
}

uint64_t SourceStage::IndexAt(const ExamplePlace& place) const {
  return source_->IndexOf(place.epoch, place.offset);
}

std::vector<uint64_t> OrderStage::FileStarts(uint64_t epoch) const {
  return Load(epoch)->file_starts;
}

ExamplePlace OrderStage::UpstreamOf(const ExamplePlace& place) const {
  return {place.epoch, Load(place.epoch)->order[place.offset]};
}

std::shared_ptr<const OrderStage::Epoch> OrderStage::Load(
    uint64_t epoch) const {
  MutexLock lock(&mutex_);
  for (const auto& known : known_) {
    if (known->number == epoch) return known;
  }
  auto made = std::make_shared<Epoch>();
  made->number = epoch;
  made->order = make_(epoch, &made->file_starts);
  if (known_.size() == kMostEpochs) known_.erase(known_.begin());
  known_.push_back(made);
  return made;
}

std::unique_ptr<Stage> MakeShuffle(const Stage& upstream, uint64_t seed,
                                   uint64_t buffer, bool reshuffle) {
  return std::make_unique<OrderStage>(
      "shuffle", upstream,
      [=, &upstream](uint64_t epoch, std::vector<uint64_t>*) {
        const uint64_t size = upstream.SizeIn(epoch);
        const uint64_t drawn = reshuffle ? epoch : 0;
        return buffer == 0 ? ExampleOrder(seed, drawn, size)
                           : OrderInRuns(seed, drawn, size, buffer);
      });
}

std::unique_ptr<Stage> MakeFileShuffle(const Stage& upstream, uint64_t seed,
                                       bool reshuffle) {
  return std::make_unique<OrderStage>(
      "shuffle", upstream,
      [=, &upstream](uint64_t epoch, std::vector<uint64_t>* file_starts) {
        std::vector<uint64_t> starts = upstream.FileStarts(epoch);
        const uint64_t files = starts.size();
        starts.push_back(upstream.SizeIn(epoch));
        OrderStage::Order order;
        order.reserve(starts.back());
        file_starts->clear();
        const uint64_t drawn = reshuffle ? epoch : 0;
        for (const uint32_t file : ExampleOrder(seed, drawn, files)) {
          file_starts->push_back(order.size());
          for (uint64_t i = starts[file]; i < starts[file + 1]; ++i) {
            order.push_back(static_cast<uint32_t>(i));
          }
        }
        return order;
      });
}

std::unique_ptr<Stage> MakeInterleave(const Stage& upstream,
                                      uint64_t cycle_length,
                                      uint64_t block_length,
                                      uint32_t most_readers) {
  CHECK(cycle_length > 0 && block_length > 0, "something is interleaved");
  OrderStage::MakeOrder make = [=, &upstream](uint64_t epoch,
                                              std::vector<uint64_t>*) {
    struct Range {
      uint64_t next, end;
    };
    std::deque<Range> files;
    uint64_t begin = 0;
    std::vector<uint64_t> starts = upstream.FileStarts(epoch);
    const uint64_t size = upstream.SizeIn(epoch);
    starts.push_back(size);
    for (size_t i = 1; i < starts.size(); ++i) {
      files.push_back({begin, starts[i]});
      begin = starts[i];
    }
    OrderStage::Order order;
    order.reserve(size);
    std::vector<Range> cycle;
    for (size_t turn = 0; order.size() < size; ++turn) {
      while (cycle.size() < cycle_length && !files.empty()) {
        cycle.push_back(files.front());
        files.pop_front();
      }
      Range& file = cycle[turn %= cycle.size()];
      for (uint64_t i = 0; i < block_length && file.next < file.end; ++i) {
        order.push_back(static_cast<uint32_t>(file.next++));
      }
      if (file.next < file.end) continue;
      // The next file takes this one's place in the cycle.
      if (!files.empty()) {
        file = files.front();
        files.pop_front();
      } else {
        cycle.erase(cycle.begin() + static_cast<ptrdiff_t>(turn));
        if (turn-- == 0) turn = static_cast<size_t>(-1);
      }
    }
    return order;
  };
  if (most_readers == 0) {
    return std::make_unique<OrderStage>("interleave", upstream,
                                        std::move(make));
  }
  return std::make_unique<LimitedOrder>("interleave", upstream, most_readers,
                                        std::move(make));
}

std::unique_ptr<Stage> MakeSlice(std::string name, const Stage& upstream,
                                 uint64_t begin, uint64_t end) {
  return std::make_unique<Slice>(std::move(name), upstream, begin, end);
}

absl::StatusOr<std::unique_ptr<Stage>> MakeFilter(
    const Stage& upstream, uint64_t source_size,
    absl::FunctionRef<absl::StatusOr<bool>(const ExamplePlace&)> keeps) {
  const auto kept = std::make_shared<std::vector<bool>>(source_size);
  std::vector<bool> asked(source_size);
  uint64_t size = 0;
  for (uint64_t offset = 0; offset < upstream.size(); ++offset) {
    const ExamplePlace place = {.epoch = 0, .offset = offset};
    const uint64_t index = upstream.IndexAt(place);
    if (!asked[index]) {
      asked[index] = true;
      ASSIGN_OR_RETURN((*kept)[index], keeps(place));
    }
    if ((*kept)[index]) ++size;
  }
  if (size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("keeps none of the ", upstream.size(), " examples"));
  }
  return std::make_unique<OrderStage>(
      "filter", upstream, size,
      [kept, size, &upstream](uint64_t epoch,
                              std::vector<uint64_t>* file_starts) {
        std::vector<uint64_t> starts = upstream.FileStarts(epoch);
        starts.push_back(upstream.size());
        OrderStage::Order order;
        order.reserve(size);
        file_starts->clear();
        for (size_t file = 0; file + 1 < starts.size(); ++file) {
          const size_t begin = order.size();
          for (uint64_t i = starts[file]; i < starts[file + 1]; ++i) {
            if (!(*kept)[upstream.IndexAt({epoch, i})]) continue;
            order.push_back(static_cast<uint32_t>(i));
          }
          if (order.size() > begin) file_starts->push_back(begin);
        }
        return order;
      });
}

absl::StatusOr<std::unique_ptr<Stage>> MakeBuckets(
    const Stage& upstream, uint64_t source_size, const Buckets& config,
    absl::FunctionRef<absl::StatusOr<uint32_t>(const ExamplePlace&)> bucket) {
  const auto bucket_of = std::make_shared<std::vector<uint16_t>>(source_size);
  std::vector<bool> asked(source_size);
  std::vector<uint64_t> counts(config.buckets);
  for (uint64_t offset = 0; offset < upstream.size(); ++offset) {
    const ExamplePlace place = {.epoch = 0, .offset = offset};
    const uint64_t index = upstream.IndexAt(place);
    if (!asked[index]) {
      asked[index] = true;
      ASSIGN_OR_RETURN(const uint32_t number, bucket(place));
      (*bucket_of)[index] = static_cast<uint16_t>(number);
    }
    ++counts[(*bucket_of)[index]];
  }
  uint64_t size = upstream.size();
  if (config.drop_remainder) {
    for (const uint64_t count : counts) size -= count % config.batch;
  }
  if (size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "with drop_remainder no example is left: none of ", config.buckets,
        " buckets has the ", config.batch, " examples of a batch"));
  }
  return std::make_unique<OrderStage>(
      "bucket_by_length", upstream, size,
      [=, &upstream](uint64_t epoch, std::vector<uint64_t>*) {
        std::vector<OrderStage::Order> waiting(config.buckets);
        OrderStage::Order order;
        order.reserve(size);
        for (uint64_t i = 0; i < upstream.size(); ++i) {
          OrderStage::Order& batch =
              waiting[(*bucket_of)[upstream.IndexAt({epoch, i})]];
          batch.push_back(static_cast<uint32_t>(i));
          if (batch.size() < config.batch) continue;
          order.insert(order.end(), batch.begin(), batch.end());
          batch.clear();
        }
        for (const OrderStage::Order& batch : waiting) {
          if (config.drop_remainder) break;
          order.insert(order.end(), batch.begin(), batch.end());
        }
        return order;
      });
}

std::unique_ptr<Stage> MakeRepeat(const Stage& upstream, uint64_t times) {
  return std::make_unique<Repeat>(upstream, times);
}

}  // namespace paramd
