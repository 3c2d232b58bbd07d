#include "base/chrome_trace.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace paramd {
namespace {

constexpr absl::string_view kBegin = "{\"traceEvents\":[\n";
constexpr absl::string_view kEnd = "\n]}\n";
constexpr const char* kNames[ChromeTrace::kLanes] = {
    "disk",   "CPU",      "compute", "push",  "pull", "evaluate",
    "upload", "download", "sum",     "calls", "turns"};
// More threads than that of one kind share the last one's lane.
constexpr uint32_t kMostThreads = 1000;

std::atomic<uint32_t> threads{0};

uint32_t ThisThread() {
  static thread_local const uint32_t thread =
      threads.fetch_add(1, std::memory_order_relaxed);
  return thread;
}

std::string NameEvent(const char* what, uint32_t process, size_t lane,
                      const std::string& name) {
  return absl::StrFormat(
      "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,"
      "\"args\":{\"name\":\"%s\"}}",
      what, process, lane, name);
}

absl::Status WriteText(const std::string& text, const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  const bool is_written =
      file != nullptr &&
      std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool is_closed = file != nullptr && std::fclose(file) == 0;
  if (is_written && is_closed) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--trace: '", path, "' cannot be written: ", std::strerror(errno)));
}

}  // namespace

const char* ChromeTrace::NameOf(Lane lane) {
  return kNames[static_cast<size_t>(lane)];
}

void ChromeTrace::Keep(Event event) {
  event.thread = ThisThread();
  MutexLock lock(&mutex_);
  if (keeps_all_) {
    std::vector<KeptEvent>& events = events_[static_cast<size_t>(event.lane)];
    if (events.size() < kMost) {
      events.push_back({event.name, event.thread, event.begin, event.end});
    } else {
      ++left_out_;
    }
  }
  RecordLocked(std::move(event));
}

void ChromeTrace::AddRecorded(Event event) {
  if (!is_recording()) return;
  event.thread = ThisThread();
  MutexLock lock(&mutex_);
  RecordLocked(std::move(event));
}

void ChromeTrace::RecordLocked(Event event) {
  if (!is_recording()) return;
  if (event.begin >= until_) {
    recording_.store(false, std::memory_order_relaxed);
    return;
  }
  const size_t size = 1 + event.numbers.size() / 4 + event.flows.size();
  if (recorded_ + size > kMostRecorded) {
    ++recording_now_.left_out;
    return;
  }
  recorded_ += size;
  recording_now_.events.push_back(std::move(event));
}

void ChromeTrace::Record(Time until) {
  MutexLock lock(&mutex_);
  recording_now_ = {};
  recorded_ = 0;
  until_ = until;
  recording_.store(!closed_, std::memory_order_relaxed);
}

ChromeTrace::Recording ChromeTrace::TakeRecording() {
  MutexLock lock(&mutex_);
  recording_.store(false, std::memory_order_relaxed);
  recorded_ = 0;
  return std::exchange(recording_now_, {});
}

void ChromeTrace::CloseRecording() {
  MutexLock lock(&mutex_);
  recording_.store(false, std::memory_order_relaxed);
  closed_ = true;
  recorded_ = 0;
  recording_now_ = {};
}

std::string ChromeTrace::ToJson() const {
  const uint32_t process = number_ + 1;
  MutexLock lock(&mutex_);
  std::string text(kBegin);
  text += NameEvent("process_name", process, 0, process_);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    std::map<uint32_t, uint32_t> places;  // Of threads within the lane.
    for (const KeptEvent& event : events_[lane]) {
      places.emplace(event.thread, 0);
    }
    uint32_t next = 0;
    for (auto& [thread, place] : places) {
      place = std::min(next++, kMostThreads - 1);
      absl::StrAppend(
          &text, ",\n",
          NameEvent("thread_name", process, lane * kMostThreads + place + 1,
                    places.size() == 1
                        ? kNames[lane]
                        : absl::StrCat(kNames[lane], " ", place + 1)));
    }
    for (const KeptEvent& event : events_[lane]) {
      absl::StrAppendFormat(
          &text,
          ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,"
          "\"ts\":%.3f,\"dur\":%.3f}",
          event.name, process, lane * kMostThreads + places[event.thread] + 1,
          static_cast<double>(event.begin.nanoseconds()) / 1000,
          absl::ToDoubleMicroseconds(event.end - event.begin));
    }
  }
  absl::StrAppend(&text, kEnd);
  return text;
}

uint64_t ChromeTrace::left_out() const {
  MutexLock lock(&mutex_);
  return left_out_;
}

absl::Status ChromeTrace::WriteTo(const std::string& path) const {
  return WriteText(ToJson(), path);
}

absl::Status JoinTraces(const std::vector<std::string>& paths,
                        const std::string& into) {
  std::string text(kBegin);
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream read;
    read << file.rdbuf();
    const std::string all = read.str();
    absl::string_view events = all;
    if (!absl::ConsumePrefix(&events, kBegin) ||
        !absl::ConsumeSuffix(&events, kEnd)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--trace: '", path, "' is no trace of a worker"));
    }
    if (text.size() > kBegin.size()) text += ",\n";
    absl::StrAppend(&text, events);
  }
  absl::StrAppend(&text, kEnd);
  return WriteText(text, into);
}

}  // namespace paramd
