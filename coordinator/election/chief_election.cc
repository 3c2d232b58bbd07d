#include "coordinator/election/chief_election.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "checkpoint/file_error.h"

namespace paramd {
namespace {

// For one look at etcd while another one leads: a connection that is cut
// without a word is noticed by then.
constexpr absl::Duration kLookAgain = absl::Seconds(10);
constexpr absl::Duration kTryAgain = absl::Milliseconds(500);
constexpr absl::Duration kSayAgain = absl::Seconds(5);

std::string Hex(uint64_t number) {
  return absl::StrCat(absl::Hex(number, absl::kZeroPad16));
}

// What a file system of several machines may have missed of another one's
// write: an empty file, for a moment.
constexpr int kLooks = 50;
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(100);

// Makes the file if there is none: whole, whenever this process ends.
absl::Status MakeRun(const std::string& path) {
  std::random_device random;
  const uint64_t run = (uint64_t{random()} << 32) | random() | 1;
  const std::string text = absl::StrCat(Hex(run), "\n");
  const std::string temporary = absl::StrCat(path, ".tmp-", Hex(run));
  ASSIGN_OR_RETURN(const std::unique_ptr<NewFile> file,
                   NewFile::Create(temporary));
  RETURN_IF_ERROR(file->Append(absl::string_view(text)));
  RETURN_IF_ERROR(file->Finish());
  const int error = ::link(temporary.c_str(), path.c_str()) == 0 ? 0 : errno;
  RETURN_IF_ERROR(RemoveTree(temporary));
  // An answer of NFS may be lost: then it is there all the same.
  if (error != 0 && error != EEXIST && ::access(path.c_str(), F_OK) != 0) {
    return FileError(error, "link the run's name to", path);
  }
  return SyncDirectory(DirectoryOf(path));
}

}  // namespace

absl::StatusOr<uint64_t> RunOfElection(const std::string& state_directory) {
  const std::string directory = absl::StrCat(state_directory, "/configuration");
  const std::string path = absl::StrCat(directory, "/election");
  RETURN_IF_ERROR(MakeDirectories(directory));
  // Whoever makes it first: that asks the file server, which looking for it may
  // not.
  RETURN_IF_ERROR(MakeRun(path));
  for (int look = 0; look < kLooks; ++look) {
    ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, 64));
    uint64_t run;
    if (text.size() == 17 &&
        absl::SimpleHexAtoi(absl::string_view(text).substr(0, 16), &run)) {
      return run;
    }
    absl::SleepFor(kBetweenLooks);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", path, "' does not have a line of 16 hexadecimal digits: remove it"));
}

std::string ElectedChief::ToText() const {
  return absl::StrCat(address, " ", Hex(incarnation), " ", Hex(run));
}

absl::optional<ElectedChief> ElectedChief::FromText(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ' ');
  ElectedChief chief;
  if (parts.size() != 3 || parts[0].empty() || parts[0].size() > 300 ||
      !absl::SimpleHexAtoi(parts[1], &chief.incarnation) ||
      !absl::SimpleHexAtoi(parts[2], &chief.run)) {
    return absl::nullopt;
  }
  chief.address = std::string(parts[0]);
  return chief;
}

absl::StatusOr<std::unique_ptr<ChiefElection>> ChiefElection::Stand(
    const Options& options) {
  ASSIGN_OR_RETURN(const uint64_t run, RunOfElection(options.state_directory));
  ASSIGN_OR_RETURN(auto client,
                   EtcdClient::Create(options.place, options.tls_directory));
  std::unique_ptr<ChiefElection> election(
      new ChiefElection(options, std::move(client)));
  election->run_ = run;
  RETURN_IF_ERROR(election->WaitToBeElected());
  election->thread_ = std::thread([raw = election.get()] { raw->Loop(); });
  return election;
}

ChiefElection::ChiefElection(const Options& options,
                             std::unique_ptr<EtcdClient> client)
    : options_(options),
      key_(options.place.key()),
      client_(std::move(client)),
      renewed_(MonotonicNow()),
      tried_(renewed_) {}

ChiefElection::~ChiefElection() { Resign(); }

absl::Status ChiefElection::WaitToBeElected() {
  Time heard = MonotonicNow();
  Time said = Time();
  while (true) {
    const absl::StatusOr<bool> elected = TryOnce();
    const Time now = MonotonicNow();
    if (elected.ok() && *elected) return absl::OkStatus();
    if (elected.ok()) {
      heard = now;
      continue;
    }
    if (!absl::IsUnavailable(elected.status())) return elected.status();
    if (now - heard >= options_.patience) {
      return absl::DeadlineExceededError(absl::StrCat(
          "nobody can be elected the chief: ", elected.status().message()));
    }
    if (said == Time() || now - said >= kSayAgain) {
      said = now;
      Log(LogLevel::kWarning, "waiting for etcd, which elects the chief",
          {{"why", elected.status().message()}});
    }
    absl::SleepFor(kTryAgain);
  }
}

absl::StatusOr<bool> ChiefElection::TryOnce() {
  ASSIGN_OR_RETURN(EtcdClient::Found found, client_->Get(key_));
  if (!found.kv.has_value()) {
    // One of a try whose answer was lost bought nothing.
    if (lease_ != 0) client_->Revoke(std::exchange(lease_, 0)).IgnoreError();
    const Time asked = MonotonicNow();
    ASSIGN_OR_RETURN(lease_, client_->Grant(options_.ttl));
    const ElectedChief self{options_.address, options_.incarnation, run_};
    ASSIGN_OR_RETURN(const int64_t revision,
                     client_->CreateKey(key_, self.ToText(), lease_));
    if (revision == 0) return false;  // Somebody was faster.
    token_ = static_cast<uint64_t>(revision);
    const MutexLock lock(&mutex_);
    renewed_ = asked;
  } else if (lease_ != 0 && found.kv->lease() == lease_) {
    token_ = static_cast<uint64_t>(found.kv->create_revision());
  } else {
    RETURN_IF_ERROR(StandBy(found));
    return false;
  }
  Log(LogLevel::kInfo, "elected the chief",
      {{"by", options_.place.ToString()}, {"token", token_}});
  return true;
}

absl::Status ChiefElection::StandBy(const EtcdClient::Found& found) {
  const auto chief = ElectedChief::FromText(found.kv->value());
  if (!chief.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("chief_election: the key ", key_,
                     " in etcd is not one of paramd's: choose another prefix"));
  }
  if (options_.replaces != 0 && chief->incarnation == options_.replaces) {
    return client_->DeleteKey(key_, found.kv->create_revision());
  }
  RETURN_IF_ERROR(CheckSameRun(*chief));
  stood_by_ = true;
  if (std::exchange(seen_, found.kv->value()) != found.kv->value()) {
    Log(LogLevel::kInfo, "standing by: there is a chief",
        {{"chief", chief->address}, {"by", options_.place.ToString()}});
  }
  return client_->WaitForChange(key_, found.revision, kLookAgain);
}

absl::Status ChiefElection::CheckSameRun(const ElectedChief& chief) const {
  if (chief.run == run_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "chief_election: '", options_.state_directory,
      "' is not the directory of the chief at ", chief.address,
      ": all candidates need one run_dir on storage that they share (NFS, "
      "CephFS), and another job another prefix"));
}

void ChiefElection::Keep(std::function<void(absl::Status)> on_lost) {
  absl::Status lost;
  {
    const MutexLock lock(&mutex_);
    lost = lost_;
    if (lost.ok()) on_lost_ = std::move(on_lost);
  }
  if (!lost.ok()) on_lost(lost);
}

void ChiefElection::Loop() {
  while (true) {
    {
      const Time until = MonotonicNow() + options_.ttl / 3;
      MutexLock lock(&mutex_);
      while (!stopping_ && lost_.ok() && MonotonicNow() < until) {
        changed_.WaitFor(&mutex_, until - MonotonicNow());
      }
      if (stopping_ || !lost_.ok()) return;
    }
    const Time asked = MonotonicNow();
    Heard(asked, Ask()).IgnoreError();
  }
}

absl::StatusOr<bool> ChiefElection::Ask() {
  ASSIGN_OR_RETURN(const bool lives, client_->KeepAlive(lease_));
  if (!lives) return false;
  ASSIGN_OR_RETURN(const EtcdClient::Found found, client_->Get(key_));
  return found.kv.has_value() &&
         static_cast<uint64_t>(found.kv->create_revision()) == token_;
}

absl::Status ChiefElection::Heard(Time asked,
                                  const absl::StatusOr<bool>& answer) {
  std::function<void(absl::Status)> on_lost;
  absl::Status lost;
  {
    const MutexLock lock(&mutex_);
    if (!lost_.ok() || stopping_) return lost_;
    tried_ = MonotonicNow();
    if (!answer.ok()) {
      if (!away_.has_value()) {
        away_ = {std::string(answer.status().message()), asked};
        Log(LogLevel::kWarning,
            "etcd is away; training goes on with this chief",
            {{"why", answer.status().message()}});
      }
      return absl::OkStatus();
    }
    if (std::exchange(away_, absl::nullopt).has_value()) {
      Log(LogLevel::kInfo, "etcd is back", {{"still_the_chief", *answer}});
    }
    if (*answer) {
      renewed_ = std::max(renewed_, asked);
      return absl::OkStatus();
    }
    lost = lost_ = absl::UnavailableError(
        absl::StrCat("this process is not the chief any more: its lease in ",
                     options_.place.ToString(), " has ended"));
    on_lost = std::exchange(on_lost_, nullptr);
  }
  changed_.NotifyAll();
  if (on_lost != nullptr) on_lost(lost);
  return lost;
}

absl::Status ChiefElection::Check() {
  {
    const MutexLock lock(&mutex_);
    if (!lost_.ok()) return lost_;
    const Time now = MonotonicNow();
    // Known to be away: it is asked again by the thread, and nobody waits,
    // unless that thread was paused too.
    const absl::Duration longest_ask =
        2 * options_.place.endpoints.size() * EtcdClient::kPatience;
    if (now - renewed_ < options_.ttl ||
        (away_.has_value() && now - tried_ < options_.ttl + longest_ask)) {
      return absl::OkStatus();
    }
  }
  const Time asked = MonotonicNow();
  return Heard(asked, Ask());
}

absl::Status ChiefElection::Confirm() {
  const Time asked = MonotonicNow();
  const absl::StatusOr<bool> answer = Ask();
  RETURN_IF_ERROR(Heard(asked, answer));
  return answer.status();
}

absl::optional<ChiefElection::Away> ChiefElection::away() const {
  const MutexLock lock(&mutex_);
  return away_;
}

void ChiefElection::Resign() {
  {
    const MutexLock lock(&mutex_);
    if (std::exchange(stopping_, true)) return;
    on_lost_ = nullptr;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
  if (lease_ == 0) return;
  const absl::Status revoked = client_->Revoke(lease_);
  const MutexLock lock(&mutex_);
  if (!revoked.ok() && lost_.ok()) {
    Log(LogLevel::kWarning, "the next chief waits for the end of the lease",
        {{"why", revoked.message()}});
  }
}

}  // namespace paramd
