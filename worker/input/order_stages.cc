#include "worker/input/order_stages.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "worker/input/example_order.h"

namespace paramd {
namespace {

// Readers of two epochs at a time, and of a few repetitions of each.
constexpr size_t kMostEpochs = 4;

// Examples [begin, end) of a stage.
class Slice : public Stage {
 public:
  Slice(std::string name, const Stage& upstream, uint64_t begin, uint64_t end)
      : Stage(std::move(name), upstream.spec(), end - begin),
        upstream_(upstream),
        begin_(begin) {
    CHECK(begin < end && end <= upstream.size(), "a slice holds an example");
  }

  std::vector<uint64_t> FileStarts(uint64_t epoch) const override {
    std::vector<uint64_t> starts = {0};
    for (const uint64_t start : upstream_.FileStarts(epoch)) {
      if (start > begin_ && start < begin_ + size()) {
        starts.push_back(start - begin_);
      }
    }
    return starts;
  }

 protected:
  absl::Status DoGet(const ExamplePlace& place,
                     Example* example) const override {
    return upstream_.Get({place.epoch, begin_ + place.offset}, example);
  }

 private:
  const Stage& upstream_;
  const uint64_t begin_;
};

class Repeat : public Stage {
 public:
  Repeat(const Stage& upstream, uint64_t times)
      : Stage("repeat", upstream.spec(), upstream.size() * times),
        upstream_(upstream),
        times_(times) {
    CHECK(times > 0, "something is repeated");
  }

 protected:
  absl::Status DoGet(const ExamplePlace& place,
                     Example* example) const override {
    return upstream_.Get(
        {place.epoch * times_ + place.offset / upstream_.size(),
         place.offset % upstream_.size()},
        example);
  }

 private:
  const Stage& upstream_;
  const uint64_t times_;
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
  example->index = source_->IndexOf(place.epoch, place.offset);
  return source_->Read(example->index, example);
}

OrderStage::OrderStage(std::string name, const Stage& upstream, MakeOrder make)
    : Stage(std::move(name), upstream.spec(), upstream.size()),
      upstream_(upstream),
      make_(std::move(make)) {}

std::vector<uint64_t> OrderStage::FileStarts(uint64_t epoch) const {
  return Load(epoch)->file_starts;
}

absl::Status OrderStage::DoGet(const ExamplePlace& place,
                               Example* example) const {
  return upstream_.Get({place.epoch, Load(place.epoch)->order[place.offset]},
                       example);
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
                                   uint64_t buffer) {
  return std::make_unique<OrderStage>(
      "shuffle", upstream,
      [seed, &upstream, buffer](uint64_t epoch, std::vector<uint64_t>*) {
        const uint64_t size = upstream.SizeIn(epoch);
        return buffer == 0 ? ExampleOrder(seed, epoch, size)
                           : OrderInRuns(seed, epoch, size, buffer);
      });
}

std::unique_ptr<Stage> MakeFileShuffle(const Stage& upstream, uint64_t seed) {
  return std::make_unique<OrderStage>(
      "shuffle", upstream,
      [seed, &upstream](uint64_t epoch, std::vector<uint64_t>* file_starts) {
        std::vector<uint64_t> starts = upstream.FileStarts(epoch);
        const uint64_t files = starts.size();
        starts.push_back(upstream.SizeIn(epoch));
        OrderStage::Order order;
        order.reserve(starts.back());
        file_starts->clear();
        for (const uint32_t file : ExampleOrder(seed, epoch, files)) {
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
                                      uint64_t block_length) {
  CHECK(cycle_length > 0 && block_length > 0, "something is interleaved");
  return std::make_unique<OrderStage>(
      "interleave", upstream,
      [=, &upstream](uint64_t epoch, std::vector<uint64_t>*) {
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
      });
}

std::unique_ptr<Stage> MakeSlice(std::string name, const Stage& upstream,
                                 uint64_t begin, uint64_t end) {
  return std::make_unique<Slice>(std::move(name), upstream, begin, end);
}

std::unique_ptr<Stage> MakeRepeat(const Stage& upstream, uint64_t times) {
  return std::make_unique<Repeat>(upstream, times);
}

}  // namespace paramd
