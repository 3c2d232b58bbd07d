#ifndef PARAMD_TESTS_SIM_EVENT_QUEUE_H_
#define PARAMD_TESTS_SIM_EVENT_QUEUE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace paramd {

// Events by time, those of one time in the order in which they were put in.
// Millions are taken out of it in a run, so it is a heap of small entries.
//
// Not thread-safe.
template <typename Event>
class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }

  void Put(int64_t at, std::unique_ptr<Event> event) {
    heap_.push_back({at, ++count_, std::move(event)});
    std::push_heap(heap_.begin(), heap_.end(), IsLater);
  }

  // The earliest one and its time. REQUIRES: not empty.
  std::pair<int64_t, std::unique_ptr<Event>> Take() {
    std::pop_heap(heap_.begin(), heap_.end(), IsLater);
    Entry entry = std::move(heap_.back());
    heap_.pop_back();
    return {entry.at, std::move(entry.event)};
  }

 private:
  struct Entry {
    int64_t at = 0;
    uint64_t number = 0;
    std::unique_ptr<Event> event;
  };
  static bool IsLater(const Entry& a, const Entry& b) {
    return a.at != b.at ? a.at > b.at : a.number > b.number;
  }

  std::vector<Entry> heap_;
  uint64_t count_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_EVENT_QUEUE_H_
