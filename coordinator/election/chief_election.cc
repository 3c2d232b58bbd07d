#include "coordinator/election/chief_election.h"

#include <unistd.h>

#include <cerrno>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
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

absl::optional<LeaderKey> KeyOf(const EtcdClient::Found& found) {
  if (!found.kv.has_value()) return absl::nullopt;
  return LeaderKey{found.kv->value(),
                   static_cast<uint64_t>(found.kv->create_revision()),
                   found.kv->lease()};
}

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

absl::StatusOr<std::unique_ptr<ChiefElection>> ChiefElection::Stand(
    const Options& options) {
  ASSIGN_OR_RETURN(const uint64_t run, RunOfElection(options.state_directory));
  ASSIGN_OR_RETURN(auto client,
                   EtcdClient::Create(options.place, options.tls_directory));
  std::unique_ptr<ChiefElection> election(
      new ChiefElection(options, std::move(client)));
  election->candidate_.self.run = run;
  RETURN_IF_ERROR(election->WaitToBeElected());
  election->thread_ = std::thread([raw = election.get()] { raw->Loop(); });
  return election;
}

ChiefElection::ChiefElection(const Options& options,
                             std::unique_ptr<EtcdClient> client)
    : options_(options),
      key_(options.place.key()),
      client_(std::move(client)),
      candidate_{
          {options.address, options.incarnation, 0}, options.replaces, 0},
      standing_({options.place.ToString(), options.ttl,
                 2 * options.place.endpoints.size() * EtcdClient::kPatience}) {}

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
  ASSIGN_OR_RETURN(const EtcdClient::Found found, client_->Get(key_));
  const absl::optional<LeaderKey> key = KeyOf(found);
  switch (NextMove(candidate_, key)) {
    case CandidateMove::kCreate: {
      ASSIGN_OR_RETURN(const bool created, CreateKey());
      if (!created) return false;
      break;
    }
    case CandidateMove::kIsElected:
      token_ = key->create_revision;
      break;
    case CandidateMove::kRemove:
      RETURN_IF_ERROR(
          client_->DeleteKey(key_, static_cast<int64_t>(key->create_revision)));
      return false;
    case CandidateMove::kStandBy:
      RETURN_IF_ERROR(StandBy(key->value, found.revision));
      return false;
    case CandidateMove::kNotOurs:
      return absl::InvalidArgumentError(
          absl::StrCat("chief_election: the key ", key_,
                       " in etcd is not one of paramd's: choose another "
                       "prefix"));
    case CandidateMove::kOtherRun:
      return OtherRun(key->value);
  }
  {
    const MutexLock lock(&mutex_);
    standing_.Elected(lease_asked_);
  }
  Log(LogLevel::kInfo, "elected the chief",
      {{"by", options_.place.ToString()}, {"token", token_}});
  return true;
}

absl::StatusOr<bool> ChiefElection::CreateKey() {
  // One of a try whose answer was lost bought nothing.
  if (candidate_.lease != 0) {
    client_->Revoke(std::exchange(candidate_.lease, 0)).IgnoreError();
  }
  lease_asked_ = MonotonicNow();
  ASSIGN_OR_RETURN(candidate_.lease, client_->Grant(options_.ttl));
  ASSIGN_OR_RETURN(
      const int64_t revision,
      client_->CreateKey(key_, candidate_.self.ToText(), candidate_.lease));
  token_ = static_cast<uint64_t>(revision);
  return revision != 0;
}

absl::Status ChiefElection::StandBy(const std::string& chief,
                                    int64_t revision) {
  stood_by_ = true;
  if (std::exchange(seen_, chief) != chief) {
    Log(LogLevel::kInfo, "standing by: there is a chief",
        {{"chief", ElectedChief::FromText(chief)->address},
         {"by", options_.place.ToString()}});
  }
  return client_->WaitForChange(key_, revision, kLookAgain);
}

absl::Status ChiefElection::OtherRun(const std::string& chief) const {
  return absl::InvalidArgumentError(absl::StrCat(
      "chief_election: '", options_.state_directory,
      "' is not the directory of the chief at ",
      ElectedChief::FromText(chief)->address,
      ": all candidates need one run_dir on storage that they share (NFS, "
      "CephFS), and another job another prefix"));
}

void ChiefElection::Keep(std::function<void(absl::Status)> on_lost) {
  absl::Status lost;
  {
    const MutexLock lock(&mutex_);
    lost = standing_.status();
    if (lost.ok()) on_lost_ = std::move(on_lost);
  }
  if (!lost.ok()) on_lost(lost);
}

void ChiefElection::Loop() {
  while (true) {
    {
      const Time until = MonotonicNow() + options_.ttl / 3;
      MutexLock lock(&mutex_);
      while (!stopping_ && standing_.status().ok() && MonotonicNow() < until) {
        changed_.WaitFor(&mutex_, until - MonotonicNow());
      }
      if (stopping_ || !standing_.status().ok()) return;
    }
    const Time asked = MonotonicNow();
    Heard(asked, Ask()).IgnoreError();
  }
}

absl::StatusOr<bool> ChiefElection::Ask() {
  ASSIGN_OR_RETURN(const bool lives, client_->KeepAlive(candidate_.lease));
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
    if (stopping_) return standing_.status();
    const bool was_away = standing_.away().has_value();
    const ChiefStanding::News news =
        standing_.Hear(asked, MonotonicNow(), answer);
    if (news == ChiefStanding::News::kAway) {
      Log(LogLevel::kWarning, "etcd is away; training goes on with this chief",
          {{"why", answer.status().message()}});
    }
    if (was_away && answer.ok()) {
      Log(LogLevel::kInfo, "etcd is back", {{"still_the_chief", *answer}});
    }
    if (news != ChiefStanding::News::kLost) return standing_.status();
    lost = standing_.status();
    on_lost = std::exchange(on_lost_, nullptr);
  }
  changed_.NotifyAll();
  if (on_lost != nullptr) on_lost(lost);
  return lost;
}

absl::Status ChiefElection::Check() {
  {
    const MutexLock lock(&mutex_);
    if (standing_.MayWrite(MonotonicNow()) != ChiefStanding::May::kAsk) {
      return standing_.status();
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

absl::optional<ChiefStanding::Away> ChiefElection::away() const {
  const MutexLock lock(&mutex_);
  return standing_.away();
}

void ChiefElection::Resign() {
  {
    const MutexLock lock(&mutex_);
    if (std::exchange(stopping_, true)) return;
    on_lost_ = nullptr;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
  if (candidate_.lease == 0) return;
  const absl::Status revoked = client_->Revoke(candidate_.lease);
  const MutexLock lock(&mutex_);
  if (!revoked.ok() && standing_.status().ok()) {
    Log(LogLevel::kWarning, "the next chief waits for the end of the lease",
        {{"why", revoked.message()}});
  }
}

}  // namespace paramd
