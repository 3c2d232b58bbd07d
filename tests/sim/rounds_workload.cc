#include "tests/sim/rounds_workload.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/random.h"
#include "base/time.h"
#include "worker/rendezvous/rendezvous.h"
#include "worker/rendezvous/round_member.h"

namespace paramd {
namespace {

constexpr absl::Duration kLostAfter = absl::Milliseconds(500);
constexpr absl::Duration kPatience = absl::Seconds(20);
constexpr absl::Duration kTick = absl::Milliseconds(5);
constexpr int kMostTurns = 200000;

// What stands for the variables: equal if, and only if, the same steps were
// made.
uint64_t Apply(uint64_t content, uint32_t step) {
  return StableHash("step", content * 31 + step + 1);
}

class Model {
 public:
  Model(const RoundsOptions& options, RoundsCounts* counts)
      : options_(options),
        counts_(counts),
        random_(options.seed),
        workers_(options.workers) {
    for (uint32_t w = 0; w < options.workers; ++w) Start(w);
    uint64_t content = 0;
    expected_.push_back(content);
    for (uint32_t s = 0; s < options.steps; ++s) {
      expected_.push_back(content = Apply(content, s));
    }
  }

  absl::optional<std::string> Run() {
    for (int turn = 0; turn < kMostTurns; ++turn) {
      now_ = now_ + kTick;
      const uint32_t w = random_.Below(options_.workers);
      if (MayKill() && random_.Below(60) == 0)
        Kill(random_.Below(options_.workers));
      if (workers_[w].phase == Phase::kDead) {
        if (!StaysAway(w) && random_.Below(20) == 0) Start(w);
      } else if (random_.Below(3) == 0) {
        Beat(w);
      } else {
        Act(w);
      }
      if (wrong_.has_value()) return wrong_;
      if (AllHaveEnded()) return absl::nullopt;
    }
    return absl::StrCat("no end after ", kMostTurns, " turns: ", Describe());
  }

 private:
  // What a worker's process does.
  enum class Phase {
    kDead,
    kAwaitsContent,  // Of a round that says from whom.
    kBrings,
    kComputes,
    kJoins,  // Stands before a step, without the others.
    kSums,
    kFigures,  // Has the sums.
    kAwaitsVerdict,
    kAtEnd,
    kGone,  // Has ended as it should.
  };
  struct Process {
    Phase phase = Phase::kDead;
    std::unique_ptr<RoundMember> member;
    uint64_t content = 0;
    uint32_t step = 0;  // The next.
    bool has_sums = false;
    uint64_t brings_in = 0;             // The round that said from whom.
    uint64_t together = 0;              // In this round.
    bool finished = false;              // The chief said so.
    std::deque<v1::BeatReply> replies;  // On their way.
    absl::optional<Time> asked;
  };
  // What workers of one round have sent each other, of one step.
  struct Exchange {
    uint32_t step = 0;
    uint64_t content = 0;
    std::set<std::pair<uint32_t, uint32_t>> sums;  // From, to.
    std::set<std::pair<uint32_t, uint32_t>> figures;
  };

  bool MayKill() const { return counts_->kills < options_.kills; }
  bool StaysAway(uint32_t w) const {
    return options_.one_stays_away && w == options_.workers - 1;
  }

  void Start(uint32_t w) {
    Process& process = workers_[w];
    process = Process();
    process.phase = Phase::kAwaitsContent;
    process.member = std::make_unique<RoundMember>(w, ++incarnations_);
    if (w != 0) return;
    Rendezvous::Options options;
    options.workers = options_.workers;
    options.lost_after = kLostAfter;
    options.patience = kPatience;
    options.fewest = options_.one_stays_away ? options_.workers - 1 : 0;
    rendezvous_ = std::make_unique<Rendezvous>(options);
  }

  void Kill(uint32_t w) {
    Process& process = workers_[w];
    if (process.phase == Phase::kDead || process.phase == Phase::kGone) return;
    // Who has finished must not be needed again.
    if (w == 0 && (!options_.kill_chief || chief_finished_)) return;
    ++counts_->kills;
    Break(w);
    process.phase = Phase::kDead;
    if (w == 0) rendezvous_.reset();
  }

  // Its links end: what it has sent may be there or not.
  void Break(uint32_t w) {
    for (auto& [round, exchange] : exchanges_) {
      for (auto* sent : {&exchange.sums, &exchange.figures}) {
        for (auto it = sent->begin(); it != sent->end();) {
          const bool lost = it->first == w && random_.Below(2) == 0;
          it = lost ? sent->erase(it) : std::next(it);
        }
      }
    }
    broken_.insert(Round(w));
  }

  uint64_t Round(uint32_t w) const {
    return workers_[w].member->round().round();
  }

  void Beat(uint32_t w) {
    Process& process = workers_[w];
    if (process.phase == Phase::kGone) return;
    if (!process.replies.empty()) {
      const v1::BeatReply reply = process.replies.front();
      process.replies.pop_front();
      process.finished |= reply.finished();
      const uint64_t before = Round(w);
      if (process.member->Hear(reply)) broken_.insert(before);
      return;
    }
    if (rendezvous_ == nullptr || random_.Below(10) == 0) return;
    const auto reply = rendezvous_->Beat(process.member->said(), now_);
    if (!reply.ok()) {
      wrong_ = std::string(reply.status().message());
      return;
    }
    counts_->rounds = std::max<uint32_t>(counts_->rounds, reply->round());
    if (!reply->gave_up().empty()) wrong_ = reply->gave_up();
    if (random_.Below(10) != 0) process.replies.push_back(*reply);
  }

  void Act(uint32_t w) {
    Process& process = workers_[w];
    RoundMember& member = *process.member;
    switch (process.phase) {
      case Phase::kAwaitsContent:
        member.Wait(!member.is_in_one());
        if (!member.is_in_one()) return;
        if (member.round().source() == w) {
          // The first of all: nobody has any.
          if (member.round().has_next() || member.round().ended()) {
            wrong_ =
                absl::StrCat("worker ", w, " has nothing and is the source");
          }
          process.phase = Phase::kComputes;
        } else {
          process.phase = Phase::kBrings;
          process.brings_in = Round(w);
        }
        return;
      case Phase::kBrings:
        return Bring(w);
      case Phase::kComputes:
        if (random_.Below(4) != 0) return;
        if (process.step == options_.steps) {
          member.StandAtTheEnd();
          process.phase = Phase::kAtEnd;
          return;
        }
        Stand(&process);
        process.phase = Phase::kJoins;
        return;
      case Phase::kJoins:
        return Join(w);
      case Phase::kSums:
      case Phase::kFigures:
        return Exchange_(w);
      case Phase::kAwaitsVerdict:
        return AwaitVerdict(w);
      case Phase::kAtEnd:
        return End(w);
      case Phase::kDead:
      case Phase::kGone:
        return;
    }
  }

  void Stand(Process* process) {
    v1::StepPosition next;
    next.set_epoch(1 + process->step / 5);
    next.set_begin(process->step % 5 * 8);
    process->member->StandBefore(next);
  }

  void Bring(uint32_t w) {
    Process& process = workers_[w];
    if (Round(w) != process.brings_in) {
      process.phase = Phase::kAwaitsContent;
      return;
    }
    const Process& source = workers_[process.member->round().source()];
    const bool stands =
        source.phase == Phase::kAtEnd ||
        (source.phase == Phase::kJoins && source.member->said().linking() != 0);
    if (!stands || source.member->round().round() != Round(w)) return;
    process.content = source.content;
    process.step = source.step;
    process.phase = Phase::kComputes;
    ++counts_->brought;
  }

  void Join(uint32_t w) {
    Process& process = workers_[w];
    RoundMember& member = *process.member;
    member.Wait(!member.is_in_one());
    if (!member.is_in_one()) return;
    if (process.together != Round(w)) {
      const absl::Status place = member.CheckPlace();
      if (!place.ok()) return Elsewhere(w, place);
      if (member.said().linking() != Round(w)) return member.Link({"here"});
      if (!member.all_have_linked()) return;
      if (broken_.count(Round(w)) != 0) return member.Leave();
      process.together = Round(w);
    }
    process.phase = Phase::kSums;
    process.has_sums = false;
  }

  // What it has is of no use to the others: it is started again.
  void Elsewhere(uint32_t w, const absl::Status& why) {
    if (!options_.one_stays_away) {
      wrong_ = absl::StrCat("worker ", w, ": ", why.message());
      return;
    }
    Break(w);
    workers_[w].phase = Phase::kDead;
    if (w == 0) rendezvous_.reset();
  }

  // One message to another worker, or what is there from all of them.
  void Exchange_(uint32_t w) {
    Process& process = workers_[w];
    RoundMember& member = *process.member;
    const bool figures = process.phase == Phase::kFigures;
    if (!member.is_in_one()) return Failed(w);
    const uint64_t round = Round(w);
    Exchange& exchange = exchanges_[{round, process.step}];
    if (exchange.sums.empty()) {
      exchange.step = process.step;
      exchange.content = process.content;
    }
    if (exchange.content != process.content) {
      wrong_ = absl::StrCat("step ", process.step, " of round ", round,
                            " is made on different contents");
      return;
    }
    auto& sent = figures ? exchange.figures : exchange.sums;
    bool has_all = true;
    for (const uint32_t other : member.round().workers()) {
      if (other != w && sent.count({w, other}) == 0) {
        if (broken_.count(round) != 0) return Failed(w);
        sent.insert({w, other});
        return;
      }
      has_all &= other == w || sent.count({other, w}) != 0;
    }
    if (!has_all) {
      if (broken_.count(round) != 0 && random_.Below(3) == 0) Failed(w);
      return;
    }
    if (!figures) {
      process.has_sums = true;
      process.phase = Phase::kFigures;
      return;
    }
    Made(&process);
  }

  void Made(Process* process) {
    process->content = Apply(process->content, process->step);
    ++process->step;
    const double figures[] = {static_cast<double>(process->step)};
    process->member->Made(figures);
    process->phase = Phase::kComputes;
    if (process->content != expected_[process->step]) {
      wrong_ = absl::StrCat("another content after step ", process->step);
    }
  }

  void Failed(uint32_t w) {
    Process& process = workers_[w];
    ++counts_->made_again;
    process.has_sums = process.phase == Phase::kFigures;
    if (process.member->is_in_one()) {
      Break(w);
      process.member->Leave();
    }
    process.phase = Phase::kAwaitsVerdict;
  }

  void AwaitVerdict(uint32_t w) {
    Process& process = workers_[w];
    RoundMember& member = *process.member;
    member.Wait(!member.is_in_one());
    if (!member.is_in_one()) return;
    switch (member.VerdictOf(process.has_sums)) {
      case RoundMember::Verdict::kMakeAgain:
        process.phase = Phase::kJoins;
        return;
      case RoundMember::Verdict::kElsewhere:
        return Elsewhere(w, member.CheckPlace());
      case RoundMember::Verdict::kIsMade:
        if (member.round().figures(0) != process.step + 1) {
          wrong_ = absl::StrCat("worker ", w, " is given the figures of step ",
                                member.round().figures(0), " for those of ",
                                process.step + 1);
          return;
        }
        ++counts_->was_made;
        return Made(&process);
    }
  }

  void End(uint32_t w) {
    Process& process = workers_[w];
    process.member->Wait(true);
    if (w != 0) {
      if (process.finished) process.phase = Phase::kGone;
      return;
    }
    chief_finished_ = true;
    rendezvous_->Finish();
    if (rendezvous_->AllKnowTheEnd(now_)) process.phase = Phase::kGone;
  }

  bool AllHaveEnded() const {
    if (workers_[0].phase != Phase::kGone) return false;
    // One that the chief did not wait for has lost its way, which is its right.
    return true;
  }

  std::string Describe() const {
    std::string text;
    for (const Process& process : workers_) {
      absl::StrAppend(&text, " phase ", static_cast<int>(process.phase),
                      " step ", process.step, " round ",
                      process.member->round().round(), ";");
    }
    return text;
  }

  const RoundsOptions options_;
  RoundsCounts* const counts_;
  RandomStream random_;
  std::vector<Process> workers_;
  std::unique_ptr<Rendezvous> rendezvous_;  // Null while the chief is dead.
  std::map<std::pair<uint64_t, uint32_t>, Exchange> exchanges_;
  std::set<uint64_t> broken_;       // Rounds of which a link has ended.
  std::vector<uint64_t> expected_;  // Content before each step, and at the end.
  Time now_;
  uint64_t incarnations_ = 0;
  bool chief_finished_ = false;
  absl::optional<std::string> wrong_;
};

}  // namespace

absl::optional<std::string> RunRounds(const RoundsOptions& options,
                                      RoundsCounts* counts) {
  return Model(options, counts).Run();
}

}  // namespace paramd
