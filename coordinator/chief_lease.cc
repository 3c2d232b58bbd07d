#include "coordinator/chief_lease.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/util/json_util.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "checkpoint/file_error.h"

namespace paramd {
namespace {

// Of one length, so that it is replaced by one write and never cut short.
constexpr size_t kFileBytes = 1024;
constexpr int kPatience = 3;                  // Heartbeats.
constexpr uint32_t kLongestBeatMs = 600'000;  // As heartbeat_ms may be.

std::string PathIn(const std::string& run_directory) {
  return absl::StrCat(run_directory, "/configuration/chief");
}

std::string LockPathOf(const std::string& path) {
  return absl::StrCat(path, ".lock");
}

struct flock WholeFile() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// Nullopt if nobody ever was the chief. What cannot be understood is somebody
// of whom nothing is known.
absl::optional<v1::ChiefLease> Read(const std::string& path) {
  // By its name: a file system of several machines looks anew when one is
  // opened.
  auto text = ReadWholeFile(path, kFileBytes);
  if (absl::IsNotFound(text.status())) return absl::nullopt;
  v1::ChiefLease lease;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  if (!text.ok() ||
      !google::protobuf::util::JsonStringToMessage(*text, &lease, options)
           .ok()) {
    return v1::ChiefLease();
  }
  lease.set_beat_ms(std::min(lease.beat_ms(), kLongestBeatMs));
  return lease;
}

std::string NameOf(const v1::ChiefLease& lease) {
  if (lease.pid() == 0) return "another process";
  return absl::StrCat("process ", lease.pid(), " on ", lease.host());
}

absl::Status Alive(const std::string& run_directory,
                   const v1::ChiefLease& lease) {
  return absl::AlreadyExistsError(absl::StrCat(
      "the chief of '", run_directory, "' is ", NameOf(lease),
      ", which is alive: stop that one, or give this one another run_dir"));
}

bool IsLocked(const std::string& path) {
  const int lock = ::open(LockPathOf(path).c_str(), O_RDWR | O_CLOEXEC);
  if (lock < 0) return false;
  struct flock other = WholeFile();
  const bool is_locked =
      ::fcntl(lock, F_OFD_GETLK, &other) == 0 && other.l_type != F_UNLCK;
  ::close(lock);
  return is_locked;
}

// What /proc says of a process in one line; empty if there is none.
std::string StatOf(absl::string_view process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/stat"));
  std::string text;
  std::getline(file, text);
  return text;
}

// The name of its program, up to 15 characters.
std::string ProgramIn(const std::string& stat) {
  const size_t begin = stat.find('(');
  const size_t end = stat.rfind(')');
  return begin < end && end < stat.size() ? stat.substr(begin, end - begin)
                                          : "";
}

bool HasBeaten(const v1::ChiefLease& before, const v1::ChiefLease& now) {
  return now.incarnation() != before.incarnation() ||
         now.beat() != before.beat();
}

bool IsGivenUp(const absl::optional<v1::ChiefLease>& lease, uint64_t replaces) {
  return !lease.has_value() || lease->released() ||
         (replaces != 0 && lease->incarnation() == replaces);
}

}  // namespace

std::string ChiefLease::BootOfThisMachine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return boot;
}

bool ChiefLease::AnotherLives(uint32_t pid) {
  if (pid == static_cast<uint32_t>(::getpid())) return false;
  const std::string text = StatOf(absl::StrCat(pid));
  if (ProgramIn(text) != ProgramIn(StatOf("self"))) return false;
  // After the name: state, five numbers, flags.
  const std::vector<std::string> fields =
      absl::StrSplit(text.substr(text.rfind(')') + 1), ' ', absl::SkipEmpty());
  constexpr uint32_t kExiting = 4;  // PF_EXITING; a lock is freed after that.
  uint32_t flags;
  return fields.size() > 6 && fields[0] != "Z" && fields[0] != "X" &&
         absl::SimpleAtoi(fields[6], &flags) && (flags & kExiting) == 0;
}

ChiefLease::ChiefLease(const Options& options)
    : options_(options), path_(PathIn(options.run_directory)) {
  lease_.set_host(options.host.substr(0, 255));
  lease_.set_pid(options.pid);
  lease_.set_incarnation(options.incarnation);
  lease_.set_boot(options.boot);
  lease_.set_beat_ms(absl::ToInt64Milliseconds(options.heartbeat));
}

ChiefLease::~ChiefLease() {
  LetGo();
  if (lock_ >= 0) ::close(lock_);
}

absl::StatusOr<std::unique_ptr<ChiefLease>> ChiefLease::Take(
    const Options& options) {
  std::unique_ptr<ChiefLease> lease(new ChiefLease(options));
  RETURN_IF_ERROR(lease->Begin());
  return lease;
}

absl::Status ChiefLease::CheckFree(const std::string& run_directory) {
  const std::string path = PathIn(run_directory);
  absl::optional<v1::ChiefLease> before;
  for (int beats = 0; IsLocked(path); ++beats) {
    const auto now = Read(path);
    const bool is_here = now.has_value() && !now->boot().empty() &&
                         now->boot() == BootOfThisMachine();
    if (!is_here || now->released()) break;
    if (AnotherLives(now->pid()) ||
        (before.has_value() && HasBeaten(*before, *now))) {
      return Alive(run_directory, *now);
    }
    if (beats == kPatience) break;
    before = now;
    absl::SleepFor(absl::Milliseconds(now->beat_ms()));
  }
  return absl::OkStatus();
}

absl::Status ChiefLease::Begin() {
  RETURN_IF_ERROR(MakeDirectories(DirectoryOf(path_)));
  absl::optional<v1::ChiefLease> before;
  for (int beats = 0;; ++beats) {
    const Locked locked = TryLock();
    if (options_.is_elected) break;
    const auto now = Read(path_);
    const bool is_here = now.has_value() && !options_.boot.empty() &&
                         now->boot() == options_.boot;
    if (IsGivenUp(now, options_.replaces) && locked != Locked::kByAnother) {
      break;
    }
    if (now.has_value() && IsGivenUp(now, options_.replaces) &&
        !now->released()) {
      break;  // Whoever started this one saw it end.
    }
    if (is_here && !now->released()) {
      if (locked == Locked::kYes) break;
      if (locked == Locked::kByAnother && options_.lives(now->pid())) {
        return Alive(options_.run_directory, *now);
      }
    }
    const bool has_moved = beats > 0 && now.has_value() && !now->released() &&
                           (!before.has_value() || HasBeaten(*before, *now));
    if (has_moved) return Alive(options_.run_directory, *now);
    before = now;
    if (beats == kPatience) break;
    const auto theirs =
        absl::Milliseconds(now.has_value() ? now->beat_ms() : 0);
    options_.wait(std::max(options_.heartbeat, theirs));
  }
  const auto last = Read(path_);
  if (!IsGivenUp(last, 0)) {
    Log(LogLevel::kInfo, "the chief before this one has ended",
        {{"process", last->pid()}, {"host", last->host()}});
  }
  if (last.has_value()) passed_over_ = last->incarnation();
  is_ours_ = true;
  return Write();
}

ChiefLease::Locked ChiefLease::TryLock() {
  if (has_lock_) return Locked::kYes;
  if (lock_ < 0) {
    lock_ =
        ::open(LockPathOf(path_).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  }
  struct flock whole = WholeFile();
  if (lock_ < 0) return Locked::kUnknown;
  if (::fcntl(lock_, F_OFD_SETLK, &whole) == 0) {
    has_lock_ = true;
    return Locked::kYes;
  }
  return errno == EAGAIN || errno == EACCES ? Locked::kByAnother
                                            : Locked::kUnknown;
}

absl::Status ChiefLease::Write() {
  lease_.set_beat(lease_.beat() + 1);
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto printed =
      google::protobuf::util::MessageToJsonString(lease_, &text, options);
  if (!printed.ok()) return absl::InternalError(printed.ToString());
  text.resize(kFileBytes - 1, ' ');
  text.push_back('\n');
  // In its place: another machine then sees the change of the file that it
  // knows, where a new file of this name might stay unseen for a minute.
  const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return FileError(errno, "open", path_);
  const bool is_written = ::pwrite(file, text.data(), text.size(), 0) ==
                          static_cast<ssize_t>(text.size());
  const int error = errno;
  if (::close(file) != 0) return FileError(errno, "write", path_);
  return is_written ? absl::OkStatus() : FileError(error, "write", path_);
}

void ChiefLease::Keep(std::function<void(absl::Status)> on_lost) {
  thread_ =
      std::thread([this, on_lost = std::move(on_lost)] { Loop(on_lost); });
}

void ChiefLease::Loop(const std::function<void(absl::Status)>& on_lost) {
  while (Beat(on_lost)) {
    const Time until = MonotonicNow() + options_.heartbeat;
    MutexLock lock(&mutex_);
    while (!stopping_ && MonotonicNow() < until) {
      stopped_.WaitFor(&mutex_, until - MonotonicNow());
    }
    if (stopping_) return;
  }
}

bool ChiefLease::IsOfAnother(const v1::ChiefLease& lease) const {
  return lease.incarnation() != 0 &&
         lease.incarnation() != options_.incarnation &&
         lease.incarnation() != passed_over_;
}

bool ChiefLease::Beat(const std::function<void(absl::Status)>& on_lost) {
  const auto now = Read(path_);
  if (now.has_value() && IsOfAnother(*now)) {
    is_ours_ = false;
    on_lost(absl::AlreadyExistsError(absl::StrCat(
        "the chief of '", options_.run_directory, "' is ", NameOf(*now),
        " now, which has taken over: nothing counts that this one still "
        "does")));
    return false;
  }
  TryLock();
  const absl::Status written = Write();
  if (!written.ok() && !std::exchange(complained_, true)) {
    Log(LogLevel::kWarning, "a process of another machine may take over",
        {{"reason", written.message()}});
  }
  return true;
}

void ChiefLease::LetGo() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  stopped_.NotifyAll();
  if (thread_.joinable()) thread_.join();
  if (!std::exchange(is_ours_, false)) return;
  // One that took over meanwhile keeps what it says.
  const auto now = Read(path_);
  if (!now.has_value() || IsOfAnother(*now)) return;
  lease_.set_released(true);
  const absl::Status written = Write();
  if (!written.ok()) {
    Log(LogLevel::kWarning, "the next chief may wait for this one",
        {{"reason", written.message()}});
  }
}

}  // namespace paramd
