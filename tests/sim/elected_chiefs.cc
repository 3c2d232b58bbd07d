#include "tests/sim/elected_chiefs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/paramd/v1/storage.pb.h"

namespace paramd {
namespace {

// Of a call to the arbiter, and of the two that asking takes.
constexpr absl::Duration kArbiterPatience = absl::Seconds(1);
constexpr absl::Duration kLongestAsk = absl::Seconds(2);
constexpr uint64_t kTheRun = 1;
// ChiefElection's.
constexpr int kMostAsks = 3;
// Followers are cut off from nothing.
constexpr uint32_t kElsewhere = 1000;
// Where nobody listens.
constexpr uint64_t kNoLife = ~uint64_t{0};
// By then whoever was followed has ended, if it was reached.
constexpr absl::Duration kTimeToEnd = absl::Minutes(3);

std::string AddressOf(uint32_t machine) {
  return absl::StrCat("machine-", machine, ":1");
}

absl::Status IsAway() { return absl::UnavailableError("etcd is away"); }

bool IsWrite(const google::protobuf::Descriptor* work) {
  return work == v1::AppendLog::descriptor() ||
         work == v1::CommitCheckpoint::descriptor() ||
         work == v1::DeleteCheckpoints::descriptor() ||
         work == v1::WriteResult::descriptor();
}

}  // namespace

ElectedChiefs::ElectedChiefs(Options options, SimStorage* storage,
                             Simulation* simulation)
    : options_(std::move(options)),
      storage_(*storage),
      simulation_(*simulation),
      random_(StableHash("elections", options_.seed)) {}

std::string ElectedChiefs::NameOf(const Process& process) const {
  return absl::StrCat("the chief on machine ", process.machine, ", token ",
                      process.fence.token);
}

// Mostly fast; now and then long enough for much to happen meanwhile.
absl::Duration ElectedChiefs::Delay() {
  return absl::Microseconds(100 +
                            random_.Below(random_.Chance(0.1) ? 400000 : 5000));
}

// ---- calls

void ElectedChiefs::Call(uint32_t machine, bool is_lossy,
                         std::function<void()> act, Heard heard) {
  const absl::Duration now = simulation_.elapsed();
  const bool is_lost = now < std::max(away_until_, cut_there_[machine]);
  // Its sender gives it up, and it arrives all the same.
  const bool is_late = !is_lost && is_lossy && random_.Chance(0.1);
  if (is_lost || is_late) {
    After(kArbiterPatience, [heard] { heard(IsAway()); });
    if (is_late) {
      After(kArbiterPatience + absl::Milliseconds(random_.Below(8000)), act);
    }
    return;
  }
  const absl::Duration there = Delay();
  const absl::Duration back = Delay();
  const bool answer_is_lost = is_lossy && random_.Chance(0.05);
  After(there, [this, machine, there, back, answer_is_lost,
                act = std::move(act), heard = std::move(heard)] {
    act();
    const bool comes_back =
        !answer_is_lost &&
        simulation_.elapsed() >= std::max(away_until_, cut_back_[machine]);
    After(comes_back ? back : kArbiterPatience - there, [heard, comes_back] {
      heard(comes_back ? absl::OkStatus() : IsAway());
    });
  });
}

void ElectedChiefs::CallFor(Process* process, std::function<void()> act,
                            Heard heard) {
  Call(process->machine, /*is_lossy=*/process->life == 0, std::move(act),
       [this, process, heard = std::move(heard)](const absl::Status& status) {
         HearWhenAwake(process, status, heard);
       });
}

void ElectedChiefs::HearWhenAwake(Process* process, const absl::Status& status,
                                  const Heard& heard) {
  if (process->ended) return;
  if (simulation_.elapsed() >= process->paused_until) return heard(status);
  simulation_.At(process->paused_until, [this, process, status, heard] {
    HearWhenAwake(process, status, heard);
  });
}

// ---- candidates

void ElectedChiefs::Begin() {
  for (uint32_t machine = 0; machine < options_.machines; ++machine) {
    Stand(machine, /*replaces=*/0);
  }
}

void ElectedChiefs::Stand(uint32_t machine, uint64_t replaces) {
  Process* const process =
      processes_.emplace_back(std::make_unique<Process>()).get();
  process->machine = machine;
  process->began = Now();
  process->candidate.self = {AddressOf(machine), random_.Bits() | 1, kTheRun};
  process->candidate.replaces = replaces;
  process->standing = std::make_unique<ChiefStanding>(
      ChiefStanding::Options{"the arbiter", options_.ttl, kLongestAsk});
  LookAgain(process, absl::Milliseconds(random_.Below(1000)));
}

void ElectedChiefs::LookAgain(Process* process, absl::Duration delay) {
  After(delay, [this, process] {
    if (!process->ended && storage_.results().empty()) {
      Look(process);
    }
  });
}

void ElectedChiefs::Look(Process* process) {
  const auto key = std::make_shared<absl::optional<EtcdKey>>();
  CallFor(
      process, [this, key] { *key = arbiter_.Get(simulation_.elapsed()); },
      [this, process, key](const absl::Status& status) {
        if (status.ok()) return Next(process, HolderOf(*key, process->lease));
        LookAgain(process, absl::Milliseconds(500));
      });
}

void ElectedChiefs::Next(Process* process,
                         const absl::optional<ChiefHolder>& found) {
  switch (NextMove(process->candidate, found)) {
    case CandidateMove::kTake:
      return Create(process);
    case CandidateMove::kIsElected:
      return Lead(process, found->token, process->began);
    case CandidateMove::kRemove:
      return CallFor(
          process,
          [this, revision = found->token] {
            arbiter_.Delete(revision, simulation_.elapsed());
          },
          [this, process](const absl::Status&) {
            LookAgain(process, absl::ZeroDuration());
          });
    case CandidateMove::kStandBy:
      return LookAgain(process, absl::Milliseconds(10 + random_.Below(500)));
    case CandidateMove::kNotOurs:
    case CandidateMove::kOtherRun:
      return Fail(absl::InternalError("a key that nobody has written"));
  }
}

// As EtcdRecord::Take does.
void ElectedChiefs::Create(Process* process) {
  if (const int64_t old = std::exchange(process->lease, 0); old != 0) {
    return CallFor(
        process, [this, old] { arbiter_.Revoke(old, simulation_.elapsed()); },
        [this, process](const absl::Status&) { Create(process); });
  }
  process->lease_asked = Now();
  const auto again = [this, process](const absl::Status& status) {
    LookAgain(process,
              status.ok() ? absl::ZeroDuration() : absl::Milliseconds(500));
  };
  const auto revision = std::make_shared<uint64_t>(0);
  const auto created = [this, process, revision,
                        again](const absl::Status& status) {
    if (!status.ok() || *revision == 0) return again(status);
    Lead(process, *revision, process->lease_asked);
  };
  const auto lease = std::make_shared<int64_t>(0);
  const auto granted = [this, process, lease, revision, again,
                        created](const absl::Status& status) {
    if (!status.ok()) return again(status);
    process->lease = *lease;
    CallFor(
        process,
        [this, lease = *lease, revision,
         text = process->candidate.self.ToText()] {
          *revision = arbiter_.Create(text, lease, simulation_.elapsed());
        },
        created);
  };
  CallFor(
      process,
      [this, lease] {
        *lease = arbiter_.Grant(options_.ttl, simulation_.elapsed());
      },
      granted);
}

// ---- who leads

void ElectedChiefs::Lead(Process* process, uint64_t token, Time asked) {
  if (arbiter_.LeaseOf(token) != process->lease) {
    return Fail(absl::InternalError(absl::StrCat(
        "machine ", process->machine, " takes the key of revision ", token,
        ", which is bound to another lease than its own")));
  }
  process->standing->Elected(asked);
  process->fence.token = token;
  process->fence.check = [this, process] { return Check(process); };
  process->fence.confirm = [this, process]() -> absl::Status {
    const Time asked = Now();
    const absl::StatusOr<bool> answer = AskNow(process);
    const absl::Status heard = Hear(process, asked, answer);
    return heard.ok() ? answer.status() : heard;
  };
  if (is_led()) {
    leader_->followed_at = simulation_.elapsed();
    simulation_.Orphan(PeerId::Coordinator(), absl::ZeroDuration());
  }
  leader_ = process;
  ++led_;
  Core* const coordinator = options_.coordinator();
  for (SimStorage::Work& work : storage_.CoordinatorWorks()) {
    simulation_.HandleIo(
        PeerId::Coordinator(), work.type,
        {.shortest = absl::Microseconds(20), .longest = work.longest},
        [this, process, does = std::move(work.handler)](Outbox::IoItem item) {
          return Do(process, std::move(item), does);
        });
  }
  process->life = simulation_.AddNode(PeerId::Coordinator(), coordinator);
  lives_[process->candidate.self.address] = process->life;
  RouteAll();
  RenewLater(process);
}

void ElectedChiefs::RenewLater(Process* process) {
  After(options_.ttl / 3, [this, process] { Renew(process, /*asks=*/1); });
}

void ElectedChiefs::Renew(Process* process, int asks) {
  if (process->ended) return;
  if (simulation_.elapsed() < process->paused_until) {
    return simulation_.At(process->paused_until,
                          [this, process, asks] { Renew(process, asks); });
  }
  const Time asked = Now();
  const auto leads = std::make_shared<bool>(false);
  CallFor(
      process,
      [this, process, leads] {
        *leads = arbiter_.KeepAlive(process->lease, simulation_.elapsed()) &&
                 Leads(*process);
      },
      [this, process, asks, asked, leads](const absl::Status& status) {
        // As ChiefElection::Ask does.
        if (!status.ok() && asks < kMostAsks &&
            WasPausedMeanwhile(asked, Now(), kLongestAsk)) {
          return Renew(process, asks + 1);
        }
        const absl::StatusOr<bool> answer =
            status.ok() ? absl::StatusOr<bool>(*leads) : status;
        if (Hear(process, asked, answer).ok()) RenewLater(process);
      });
  if (std::exchange(process->pauses_at_ask, false) && process == leader_) {
    Pause(process->pause, /*at_ask=*/false);
  }
}

bool ElectedChiefs::Leads(const Process& process) {
  const auto key = arbiter_.Get(simulation_.elapsed());
  return key.has_value() && key->create_revision == process.fence.token;
}

absl::StatusOr<bool> ElectedChiefs::AskNow(Process* process) {
  const absl::Duration now = simulation_.elapsed();
  const uint32_t machine = process->machine;
  if (now < std::max(away_until_, cut_there_[machine])) return IsAway();
  const bool leads = arbiter_.KeepAlive(process->lease, now) && Leads(*process);
  if (now < cut_back_[machine]) return IsAway();
  return leads;
}

absl::Status ElectedChiefs::Hear(Process* process, Time asked,
                                 const absl::StatusOr<bool>& answer) {
  // Known to be away until it was to be asked again.
  if (!answer.ok()) {
    process->unaware_until = simulation_.elapsed() + options_.ttl + kLongestAsk;
  }
  const auto news = process->standing->Hear(asked, Now(), answer);
  if (news == ChiefStanding::News::kLost) {
    After(absl::ZeroDuration(), [this, process] {
      simulation_.Stop({PeerId::Coordinator(), process->life},
                       process->standing->status());
    });
  }
  return process->standing->status();
}

absl::Status ElectedChiefs::Check(Process* process) {
  if (process->standing->MayWrite(Now()) != ChiefStanding::May::kAsk) {
    return process->standing->status();
  }
  const Time asked = Now();
  return Hear(process, asked, AskNow(process));
}

IoResult ElectedChiefs::Do(Process* process, Outbox::IoItem item,
                           const Simulation::IoHandler& handler) {
  const google::protobuf::Descriptor* const type = item.head->GetDescriptor();
  if (absl::Status may = process->fence.MayDo(type); !may.ok()) {
    ++refused_;
    return Failed(std::move(may));
  }
  if (IsWrite(type)) Fail(CheckWrites(*process, *item.head));
  if (auto* append = dynamic_cast<v1::AppendLog*>(item.head.get())) {
    *append->mutable_entry() = process->fence.Guarded(append->entry());
    const v1::LogEntry entry = append->entry();
    IoResult result = handler(std::move(item));
    if (result.status.ok()) Fail(CheckLog(*process, entry));
    return result;
  }
  IoResult result = handler(std::move(item));
  const auto* log = dynamic_cast<const v1::ReadLogResult*>(result.head.get());
  if (log == nullptr) return result;
  absl::Status followed = process->fence.CheckNotFollowed(log->entries());
  if (followed.ok()) return result;
  ++refused_;
  return Failed(std::move(followed));
}

absl::Status ElectedChiefs::CheckWrites(const Process& process,
                                        const google::protobuf::Message& work) {
  if (Leads(process) || simulation_.elapsed() < process.unaware_until) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(NameOf(process), ", does ", work.GetDescriptor()->name(),
                   " after its lease, without having asked"));
}

absl::Status ElectedChiefs::CheckLog(const Process& process,
                                     const v1::LogEntry& entry) const {
  const std::vector<v1::LogEntry>& log = storage_.log();
  if (entry.number() == 0 || entry.number() > log.size() ||
      log[entry.number() - 1].nonce() != entry.nonce() ||
      log[entry.number() - 1].election() != process.fence.token) {
    return absl::DataLossError(
        absl::StrCat(NameOf(process), ", has decided entry ", entry.number(),
                     ", and the log has another one's"));
  }
  if (entry.number() > 1 &&
      log[entry.number() - 2].election() > process.fence.token) {
    return absl::DataLossError(absl::StrCat(NameOf(process), ", decides entry ",
                                            entry.number(),
                                            " after one of a later chief"));
  }
  return absl::OkStatus();
}

// ---- ends

absl::Status ElectedChiefs::Ended(const SimProcess& chief,
                                  const absl::Status& status) {
  const auto found = std::find_if(
      processes_.begin(), processes_.end(),
      [&](const auto& process) { return process->life == chief.life; });
  Process* const process = found->get();
  // Process::RunParts makes UNAVAILABLE of ALREADY_EXISTS, and gives the lease
  // back, whatever the end.
  const bool may_come_back = absl::IsUnavailable(status) ||
                             absl::IsAborted(status) ||
                             absl::IsAlreadyExists(status);
  const bool may_end = process->draining || !storage_.results().empty();
  const bool leads = Leads(*process);
  Call(
      process->machine, /*is_lossy=*/true,
      [this, lease = process->lease] {
        arbiter_.Revoke(lease, simulation_.elapsed());
      },
      [](const absl::Status&) {});
  if (status.ok()) ++resigned_;
  if (!leads && may_come_back) ++found_out_;
  Over(process, /*killed=*/false);
  if (status.ok() && !may_end) {
    return absl::InternalError("it ended before the job did");
  }
  return status.ok() || may_come_back ? absl::OkStatus() : status;
}

void ElectedChiefs::Over(Process* process, bool killed) {
  process->ended = true;
  if (!storage_.results().empty()) return;
  const uint64_t replaces =
      killed && random_.Chance(0.5) ? process->candidate.self.incarnation : 0;
  After(absl::Milliseconds(random_.Below(random_.Chance(0.5) ? 300 : 15000)),
        [this, machine = process->machine, replaces] {
          if (storage_.results().empty()) Stand(machine, replaces);
        });
}

void ElectedChiefs::Kill() {
  simulation_.Crash(PeerId::Coordinator());
  Over(leader_, /*killed=*/true);
}

void ElectedChiefs::Drain() {
  leader_->draining = true;
  simulation_.Drain(PeerId::Coordinator());
}

void ElectedChiefs::Pause(absl::Duration time, bool at_ask) {
  if (at_ask) {
    leader_->pauses_at_ask = true;
    leader_->pause = time;
    return;
  }
  leader_->paused_until = simulation_.elapsed() + time;
  simulation_.Pause(PeerId::Coordinator(), time);
}

void ElectedChiefs::CutOff(Way way, absl::Duration time) {
  const absl::Duration until = simulation_.elapsed() + time;
  if (way != Way::kBack) cut_there_[leader_->machine] = until;
  if (way != Way::kThere) cut_back_[leader_->machine] = until;
}

void ElectedChiefs::GoAway(absl::Duration time) {
  away_until_ = simulation_.elapsed() + time;
}

bool ElectedChiefs::IsSettled() {
  const absl::Duration now = simulation_.elapsed();
  return is_led() && Leads(*leader_) && !leader_->draining &&
         !leader_->pauses_at_ask &&
         now >= std::max({away_until_, leader_->paused_until,
                          cut_there_[leader_->machine],
                          cut_back_[leader_->machine]});
}

absl::Status ElectedChiefs::CheckNobodyElseLeads() const {
  for (const auto& process : processes_) {
    if (process->life == 0 || process->ended || process.get() == leader_) {
      continue;
    }
    const absl::Duration since =
        std::max(process->followed_at, process->paused_until);
    if (simulation_.elapsed() - since > kTimeToEnd) {
      return absl::DeadlineExceededError(
          absl::StrCat(NameOf(*process), ", was followed and goes on"));
    }
  }
  return absl::OkStatus();
}

// ---- who follows

void ElectedChiefs::Follow(PeerId who) {
  const bool is_new = followers_.count(who) == 0;
  followers_.insert_or_assign(who, FollowedChief(AddressOf(0)));
  RouteAll();
  if (is_new) Watch(who);
}

void ElectedChiefs::Watch(PeerId who) {
  const auto key = std::make_shared<absl::optional<EtcdKey>>();
  Call(
      kElsewhere, /*is_lossy=*/true,
      [this, key] { *key = arbiter_.Get(simulation_.elapsed()); },
      [this, who, key](const absl::Status& status) {
        if (status.ok() && followers_.at(who).Found(HolderOf(*key, 0))) {
          RouteAll();
        }
        After(absl::Milliseconds(50 + random_.Below(1000)),
              [this, who] { Watch(who); });
      });
}

void ElectedChiefs::RouteAll() {
  for (const auto& [who, chief] : followers_) {
    const auto life = lives_.find(chief.address());
    simulation_.Route(who, PeerId::Coordinator(),
                      life == lives_.end() ? kNoLife : life->second);
  }
}

}  // namespace paramd
