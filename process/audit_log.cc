#include "process/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

#include "base/log.h"

namespace paramd {
namespace {

// What is no UTF-8 is replaced.
std::string LineOf(const v1::OperatorCall& call, const std::string& process) {
  nlohmann::ordered_json line;
  line["time"] = absl::FormatTime(
      absl::RFC3339_full,
      absl::FromUnixMillis(static_cast<int64_t>(call.origin().unix_ms())),
      absl::UTCTimeZone());
  line["process"] = process;
  line["number"] = call.number();
  line["who"] = call.origin().who();
  line["address"] = call.origin().address();
  line["call"] = call.call();
  line["asks"] = call.asks();
  line["refused"] = call.refused();
  return line.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

bool AppendTo(const std::string& path, const std::string& line) {
  const int fd =
      open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
           0640);
  if (fd < 0) return false;
  const bool written =
      write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int error = errno;
  close(fd);
  errno = error;
  return written;
}

}  // namespace

AuditLog::AuditLog(std::string run_directory, std::string process)
    : directory_(std::move(run_directory)), process_(std::move(process)) {}

AuditLog::~AuditLog() {
  std::unique_ptr<WorkerThread> thread;
  {
    const MutexLock lock(&mutex_);
    thread = std::move(thread_);
  }
  if (thread == nullptr) return;
  Mutex mutex;
  CondVar changed;
  bool done = false;
  thread->Post([&] {
    const MutexLock lock(&mutex);
    done = true;
    changed.NotifyAll();
  });
  MutexLock lock(&mutex);
  while (!done) changed.Wait(&mutex);
}

void AuditLog::Append(const v1::OperatorCall& call) {
  if (directory_.empty()) return;
  const MutexLock lock(&mutex_);
  if (thread_ == nullptr) thread_ = std::make_unique<WorkerThread>("audit");
  thread_->Post([this, call] { Write(call); });
}

// A process other than the chief's may not have the directory.
void AuditLog::Write(const v1::OperatorCall& call) {
  struct stat there = {};
  if (stat(directory_.c_str(), &there) != 0) return;
  if (AppendTo(directory_ + "/audit.jsonl", LineOf(call, process_)) ||
      has_warned_) {
    return;
  }
  has_warned_ = true;
  Log(LogLevel::kWarning, "audit.jsonl is not written: the log has it alone",
      {{"why", strerror(errno)}});
}

}  // namespace paramd
