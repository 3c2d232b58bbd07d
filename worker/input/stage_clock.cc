#include "worker/input/stage_clock.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace paramd {
namespace {

std::atomic<uint32_t> lanes{0};

uint32_t LaneOfThisThread() {
  static thread_local const uint32_t lane =
      lanes.fetch_add(1, std::memory_order_relaxed);
  return lane;
}

double Microseconds(absl::Duration duration) {
  return absl::ToDoubleMicroseconds(duration);
}

}  // namespace

void InputTrace::Add(const char* name, Time begin, Time end) {
  const uint32_t lane = LaneOfThisThread();
  MutexLock lock(&mutex_);
  if (events_.size() < kMost) {
    events_.push_back({name, lane, begin, end});
  } else {
    ++left_out_;
  }
}

std::string InputTrace::ToJson() const {
  MutexLock lock(&mutex_);
  Time first = Time::Never();
  for (const Event& event : events_) first = std::min(first, event.begin);
  nlohmann::json events = nlohmann::json::array();
  for (const Event& event : events_) {
    events.push_back({{"name", event.name},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", event.lane},
                      {"ts", Microseconds(event.begin - first)},
                      {"dur", Microseconds(event.end - event.begin)}});
  }
  return nlohmann::json({{"traceEvents", std::move(events)}}).dump();
}

uint64_t InputTrace::left_out() const {
  MutexLock lock(&mutex_);
  return left_out_;
}

}  // namespace paramd
