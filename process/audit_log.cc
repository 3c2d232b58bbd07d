#include "process/audit_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/time.h"

namespace paramd {
namespace {

using Json = nlohmann::ordered_json;

std::string TimeText(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_full, time, absl::UTCTimeZone());
}

// What is no UTF-8 is replaced.
std::string Line(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string LineOf(const v1::OperatorCall& call, const std::string& process) {
  Json line;
  line["time"] = TimeText(
      absl::FromUnixMillis(static_cast<int64_t>(call.origin().unix_ms())));
  line["process"] = process;
  line["number"] = call.number();
  line["who"] = call.origin().who();
  line["address"] = call.origin().address();
  line["call"] = call.call();
  line["asks"] = call.asks();
  line["refused"] = call.refused();
  return Line(line);
}

std::string LineOfDropped(uint64_t dropped, const std::string& process) {
  Json line;
  line["time"] = TimeText(absl::Now());
  line["process"] = process;
  line["dropped"] = dropped;
  return Line(line);
}

absl::Status SystemError(int error) {
  return absl::UnavailableError(strerror(error));
}

// Whether the file ends in the middle of a line: a disk was full.
bool EndsInALine(int fd) {
  struct stat file = {};
  char last = '\n';
  return fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_size > 0 &&
         pread(fd, &last, 1, file.st_size - 1) == 1 && last != '\n';
}

}  // namespace

// What waits, and who writes it.
class AuditLog::Queue : public std::enable_shared_from_this<Queue> {
 public:
  Queue(const std::string& directory, std::string process, Options options)
      : directory_(directory),
        process_(std::move(process)),
        options_(std::move(options)) {}

  void Add(const v1::OperatorCall& call) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (directory_.empty()) return;
    {
      const MutexLock lock(&mutex_);
      if (waiting_.size() < options_.most_waiting) {
        waiting_.push_back(call);
        if (!thread_.joinable()) {
          thread_ = std::thread([self = shared_from_this()] { self->Run(); });
          pthread_setname_np(thread_.native_handle(), "audit");
        }
        changed_.NotifyAll();
        return;
      }
    }
    Dropped("too many entries wait for the disk");
  }

  // Of the owner, once.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_) {
    std::thread thread;
    uint64_t left = 0;
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      changed_.NotifyAll();
      if (!thread_.joinable()) return;
      thread = std::move(thread_);
      const Time until = MonotonicNow() + options_.patience;
      while (!ended_ && MonotonicNow() < until) {
        changed_.WaitFor(&mutex_, until - MonotonicNow());
      }
      if (!ended_) {
        is_left_ = true;
        left = waiting_.size() + 1;  // And the one that is being written.
      }
    }
    if (left == 0) return thread.join();
    thread.detach();
    Log(LogLevel::kWarning, "audit.jsonl is not written: the log has it alone",
        {{"why", "its disk does not answer"}, {"entries", left}});
  }

  uint64_t dropped() const ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(&mutex_);
    return dropped_;
  }

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_) {
    while (true) {
      v1::OperatorCall call;
      uint64_t unsaid = 0;
      {
        MutexLock lock(&mutex_);
        while (waiting_.empty() && !stopping_) changed_.Wait(&mutex_);
        if (is_left_ || waiting_.empty()) break;
        call = std::move(waiting_.front());
        waiting_.pop_front();
        unsaid = std::exchange(unsaid_, 0);
      }
      if (!WriteLines(LineOf(call, process_), unsaid)) return;
    }
    uint64_t unsaid;
    {
      const MutexLock lock(&mutex_);
      unsaid = is_left_ ? 0 : std::exchange(unsaid_, 0);
    }
    if (unsaid > 0 && !WriteLines("", unsaid)) return;
    const MutexLock lock(&mutex_);
    ended_ = true;
    changed_.NotifyAll();
  }

  // `entry` may be empty. False: nobody waits for this thread any more.
  bool WriteLines(const std::string& entry, uint64_t unsaid)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    // Each by itself: of two lines the first one may fit where both do not.
    absl::Status status;
    if (unsaid > 0) {
      status = Write(LineOfDropped(unsaid, process_));
      const MutexLock lock(&mutex_);
      if (is_left_) return false;
      if (!status.ok()) unsaid_ += unsaid;
    }
    if (status.ok() && !entry.empty()) status = Write(entry);
    {
      const MutexLock lock(&mutex_);
      if (is_left_) return false;
    }
    if (!status.ok() && !entry.empty()) Dropped(status.message());
    return true;
  }

  // A process other than the chief's may not have the directory; one that it
  // does not get at is another matter.
  absl::Status Write(const std::string& line) const {
    struct stat there = {};
    if (stat(directory_.c_str(), &there) != 0 && errno == ENOENT) {
      return absl::OkStatus();
    }
    return options_.write(directory_ + "/audit.jsonl", line);
  }

  // Anybody may call, so what is said of it is bounded too.
  void Dropped(absl::string_view why) ABSL_LOCKS_EXCLUDED(mutex_) {
    uint64_t times;
    {
      const MutexLock lock(&mutex_);
      ++unsaid_;
      times = ++dropped_;
    }
    if ((times & (times - 1)) != 0) return;
    Log(LogLevel::kWarning, "audit.jsonl is not written: the log has it alone",
        {{"why", why}, {"entries", times}});
  }

  const std::string directory_;
  const std::string process_;
  const Options options_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<v1::OperatorCall> waiting_ ABSL_GUARDED_BY(mutex_);
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of these, what the file does not say yet.
  uint64_t unsaid_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_left_ ABSL_GUARDED_BY(mutex_) = false;  // By the owner.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;    // The thread.
  // Not there until there is something to write.
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

AuditLog::AuditLog(const std::string& run_directory, const std::string& process)
    : AuditLog(run_directory, process, Options()) {}

AuditLog::AuditLog(const std::string& run_directory, const std::string& process,
                   Options options)
    : queue_(std::make_shared<Queue>(run_directory, process,
                                     std::move(options))) {}

AuditLog::~AuditLog() { queue_->Stop(); }

void AuditLog::Append(const v1::OperatorCall& call) { queue_->Add(call); }

uint64_t AuditLog::dropped() const { return queue_->dropped(); }

absl::Status AuditLog::AppendLines(const std::string& path,
                                   const std::string& lines) {
  const int fd = open(
      path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
  if (fd < 0) return SystemError(errno);
  const std::string text = absl::StrCat(EndsInALine(fd) ? "\n" : "", lines);
  const ssize_t count = write(fd, text.data(), text.size());
  const int error = count < 0 ? errno : ENOSPC;
  close(fd);
  return count == static_cast<ssize_t>(text.size()) ? absl::OkStatus()
                                                    : SystemError(error);
}

}  // namespace paramd
