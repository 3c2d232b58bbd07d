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

// For one look while another one leads: a connection that is cut
// without a word is noticed by then.
constexpr absl::Duration kLookAgain = absl::Seconds(10);
constexpr absl::Duration kTryAgain = absl::Milliseconds(500);
constexpr int kMostAsks = 3;
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

absl::StatusOr<std::unique_ptr<ChiefElection>> ChiefElection::Stand(
    const Options& options, std::unique_ptr<ChiefRecord> record) {
  ASSIGN_OR_RETURN(const uint64_t run, RunOfElection(options.state_directory));
  std::unique_ptr<ChiefElection> election(
      new ChiefElection(options, std::move(record)));
  election->candidate_.self.run = run;
  RETURN_IF_ERROR(election->WaitToBeElected());
  election->thread_ = std::thread([raw = election.get()] { raw->Loop(); });
  return election;
}

ChiefElection::ChiefElection(const Options& options,
                             std::unique_ptr<ChiefRecord> record)
    : options_(options),
      record_(std::move(record)),
      candidate_{{options.address, options.incarnation, 0}, options.replaces},
      began_(MonotonicNow()),
      standing_({record_->place(), options.ttl, record_->longest_renewal()}) {}

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
      Log(LogLevel::kWarning,
          absl::StrCat("waiting for ", record_->keeper(),
                       ", which elects the chief"),
          {{"why", elected.status().message()}});
    }
    absl::SleepFor(kTryAgain);
  }
}

absl::StatusOr<bool> ChiefElection::TryOnce() {
  ASSIGN_OR_RETURN(const auto holder, record_->Look());
  // Of an answer that was lost it is not known when that was asked for.
  Time asked = began_;
  switch (NextMove(candidate_, holder)) {
    case CandidateMove::kTake: {
      asked = MonotonicNow();
      ASSIGN_OR_RETURN(token_,
                       record_->Take(candidate_.self.ToText(), options_.ttl));
      if (token_ == 0) return false;  // Somebody was faster.
      break;
    }
    case CandidateMove::kIsElected:
      token_ = holder->token;
      break;
    case CandidateMove::kRemove:
      RETURN_IF_ERROR(record_->Remove());
      return false;
    case CandidateMove::kStandBy:
      RETURN_IF_ERROR(StandBy(holder->text));
      return false;
    case CandidateMove::kNotOurs:
      return absl::InvalidArgumentError(
          absl::StrCat("chief_election: ", record_->NotOurs()));
    case CandidateMove::kOtherRun:
      return OtherRun(holder->text);
  }
  {
    const MutexLock lock(&mutex_);
    standing_.Elected(asked);
  }
  Log(LogLevel::kInfo, "elected the chief",
      {{"by", record_->place()}, {"token", token_}});
  return true;
}

absl::Status ChiefElection::StandBy(const std::string& chief) {
  stood_by_ = true;
  if (std::exchange(seen_, chief) != chief) {
    Log(LogLevel::kInfo, "standing by: there is a chief",
        {{"chief", ElectedChief::FromText(chief)->address},
         {"by", record_->place()}});
  }
  return record_->WaitForChange(kLookAgain);
}

absl::Status ChiefElection::OtherRun(const std::string& chief) const {
  return absl::InvalidArgumentError(absl::StrCat(
      "chief_election: '", options_.state_directory,
      "' is not the directory of the chief at ",
      ElectedChief::FromText(chief)->address,
      ": all candidates need one run_dir on storage that they share (NFS, "
      "CephFS), and another job a chief_election of its own"));
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
    Time asked;
    const absl::StatusOr<bool> answer = Ask(&asked);
    Heard(asked, answer).IgnoreError();
  }
}

absl::StatusOr<bool> ChiefElection::Ask(Time* asked) {
  for (int asks = 1;; ++asks) {
    *asked = MonotonicNow();
    absl::StatusOr<bool> answer = record_->Renew();
    if (answer.ok() || asks == kMostAsks ||
        !WasPausedMeanwhile(*asked, MonotonicNow(),
                            record_->longest_renewal())) {
      return answer;
    }
  }
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
      Log(LogLevel::kWarning,
          absl::StrCat(record_->keeper(),
                       " is away; training goes on with this chief"),
          {{"why", answer.status().message()}});
    }
    if (was_away && answer.ok()) {
      Log(LogLevel::kInfo, absl::StrCat(record_->keeper(), " is back"),
          {{"still_the_chief", *answer}});
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
  Time asked;
  const absl::StatusOr<bool> answer = Ask(&asked);
  return Heard(asked, answer);
}

absl::Status ChiefElection::Confirm() {
  Time asked;
  const absl::StatusOr<bool> answer = Ask(&asked);
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
  const absl::Status released = record_->Release();
  const MutexLock lock(&mutex_);
  if (!released.ok() && standing_.status().ok()) {
    Log(LogLevel::kWarning, "the next chief waits for the end of the lease",
        {{"why", released.message()}});
  }
}

}  // namespace paramd
