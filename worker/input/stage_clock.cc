#include "worker/input/stage_clock.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace paramd {
namespace {

std::atomic<uint32_t> lanes{0};

uint32_t LaneOfThisThread() {
  static thread_local const uint32_t lane =
      lanes.fetch_add(1, std::memory_order_relaxed);
  return lane;
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
  std::string text = "{\"traceEvents\":[";
  for (const Event& event : events_) {
    absl::StrAppendFormat(
        &text,
        "%s\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%d,"
        "\"ts\":%.3f,\"dur\":%.3f}",
        text.back() == '[' ? "" : ",", event.name, event.lane,
        absl::ToDoubleMicroseconds(event.begin - first),
        absl::ToDoubleMicroseconds(event.end - event.begin));
  }
  text.append("\n]}\n");
  return text;
}

uint64_t InputTrace::left_out() const {
  MutexLock lock(&mutex_);
  return left_out_;
}

}  // namespace paramd
