#include "tests/sim/chaos.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

using Moment = Simulation::Moment;

std::string KindOf(PeerId peer) {
  switch (peer.kind) {
    case PeerId::Kind::kPs:
      return "server";
    case PeerId::Kind::kCoordinator:
      return "chief";
    default:
      return peer.index == 0 ? "chief" : "worker";
  }
}

}  // namespace

Chaos::Chaos(const Options& options, IntegerCluster* cluster,
             const IntegerWitness& witness, SimStorage* storage, Probes* probes,
             Simulation* simulation)
    : options_(options),
      cluster_(*cluster),
      witness_(witness),
      storage_(*storage),
      probes_(*probes),
      simulation_(*simulation),
      random_(StableHash("chaos", options.seed)) {
  Plan();
  simulation_.OnMoment(
      [this](Moment moment, const SimProcess& self, PeerId from,
             const Head& head) { OnMoment(moment, self, from, head); });
}

void Chaos::Plan() {
  const auto draw = [&](double from, double to) {
    const double share = from + (to - from) * random_.Uniform();
    return 1 + static_cast<uint64_t>(share * options_.chunks);
  };
  if (options_.join) {
    Add(draw(0.05, 0.4), [this](PeerId, PeerId) { cluster_.AddLateWorker(); });
  }
  if (options_.leave) {
    Add(draw(0.2, 0.8), [this](PeerId, PeerId) {
      const PeerId victim = PeerId::Worker(
          1 +
          static_cast<uint32_t>(random_.Below(cluster_.options().workers - 1)));
      Count("drain worker", victim);
      cluster_.Drain(victim);
    });
  }
  if (options_.kill_chief) {
    kill_chief_later_ = true;
    Add(draw(0.3, 0.6), [this](PeerId, PeerId) {
      kill_chief_later_ = false;
      kill_chief_armed_ = true;
    });
  }
  if (!options_.gentle && random_.Chance(0.5)) {
    // Two coordinators that take the same term.
    traps_.push_back(
        {.type = "ReadLog", .moment = Moment::kAfterIo, .replaces = true});
  }
  for (uint64_t i = 0; i < options_.faults; ++i) {
    options_.gentle ? AddGentle(draw(0, 1)) : AddDrawn(draw(0.02, 1));
  }
  std::stable_sort(
      faults_.begin(), faults_.end(),
      [](const Fault& a, const Fault& b) { return a.chunk < b.chunk; });
}

void Chaos::Add(uint64_t chunk,
                std::function<void(PeerId server, PeerId sender)> strike) {
  faults_.push_back(
      {chunk,
       random_.Chance(0.5) ? Moment::kBeforeRequest : Moment::kAfterRequest,
       std::move(strike)});
}

void Chaos::AddDrawn(uint64_t chunk) {
  switch (random_.Below(9)) {
    case 0:
    case 1:
      return AddKill(chunk);
    case 2:
      return AddStorageFault(chunk);
    case 3:
      return Add(chunk, [this](PeerId server, PeerId sender) {
        Count("reset connection", sender);
        simulation_.Reset(server, sender);
      });
    case 4: {
      const absl::Duration ahead = DrawTime(20000);
      return Add(chunk, [this, ahead](PeerId server, PeerId sender) {
        const PeerId victim = DrawVictim(server, sender);
        Count("jump clock", victim);
        simulation_.JumpClock(victim, ahead);
      });
    }
    case 5:
      return AddIntrusions(chunk);
    default:
      return AddSilence(chunk);
  }
}

void Chaos::AddIntrusions(uint64_t chunk) {
  for (uint64_t i = 0; i < 5; ++i) {
    Add(chunk + i, [this](PeerId server, PeerId sender) {
      const auto push = witness_.ledger().Find(chunk_->header());
      if (!push.ok()) return;
      Count("spoiled copy", sender);
      cluster_.Intrude(server, *chunk_, witness_.ledger().push(*push).batch);
    });
  }
}

void Chaos::AddGentle(uint64_t chunk) {
  if (random_.Chance(0.7)) return AddSilence(chunk);
  Add(chunk, [this](PeerId server, PeerId sender) {
    const PeerId victim = DrawVictim(server, sender);
    if (KindOf(victim) == "chief") {
      Count("reset connection", victim);
      return simulation_.Reset(server, victim);
    }
    Count(absl::StrCat("drain ", KindOf(victim)), victim);
    cluster_.Drain(victim);
    // So the snapshot that it means to leave with is given up.
    if (random_.Chance(0.4)) storage_.FailNextShard();
  });
}

void Chaos::AddKill(uint64_t chunk) {
  const uint64_t kind = random_.Below(8);
  Add(chunk, [this, kind](PeerId server, PeerId sender) {
    const PeerId victim = DrawVictim(server, sender);
    if (kind < 5) return Kill("kill", victim);
    if (kind < 7) {
      Count(absl::StrCat("replace ", KindOf(victim)), victim);
      return cluster_.Replace(victim);
    }
    if (KindOf(victim) == "chief") return;  // Draining it ends the job's run.
    Count(absl::StrCat("drain ", KindOf(victim)), victim);
    cluster_.Drain(victim);
  });
}

void Chaos::AddSilence(uint64_t chunk) {
  const uint64_t kind = random_.Below(4);
  // Mostly shorter than a lease.
  const absl::Duration time =
      DrawTime(!options_.gentle && random_.Chance(0.2) ? 20000 : 2000);
  Add(chunk, [this, kind, time](PeerId server, PeerId sender) {
    const PeerId victim = DrawVictim(server, sender);
    const char* const names[] = {"pause", "slow", "cut off", "cut one way"};
    Count(absl::StrCat(names[kind], " ", KindOf(victim)), victim);
    if (kind == 0) {
      simulation_.Pause(victim, time);
      if (KindOf(victim) == "chief") {
        simulation_.Pause(PeerId::Worker(0), time);
        simulation_.Pause(PeerId::Coordinator(), time);
      }
    } else if (kind == 1) {
      simulation_.Slow(victim, time);
    } else if (kind == 2) {
      simulation_.CutOff(victim, time);
    } else if (random_.Chance(0.5)) {
      simulation_.CutLink(server, sender, time);
    } else {
      simulation_.CutLink(sender, server, time);
    }
  });
}

void Chaos::AddStorageFault(uint64_t chunk) {
  const uint64_t kind = random_.Below(6);
  const absl::Duration time = DrawTime(4000);
  if (kind == 0) {
    return Add(chunk, [this, time](PeerId, PeerId) {
      Count("disk full", PeerId::Coordinator());
      storage_.SetFull(true);
      simulation_.At(simulation_.elapsed() + time,
                     [this] { storage_.SetFull(false); });
    });
  }
  if (kind == 1) {
    return Add(chunk, [this, time](PeerId, PeerId) {
      Count("lose storage results", PeerId::Coordinator());
      storage_.LoseResults(0.3, &random_);
      simulation_.At(simulation_.elapsed() + time,
                     [this] { storage_.LoseResults(0, &random_); });
    });
  }
  static const char* const types[] = {"AppendLog",         "PrepareCheckpoint",
                                      "WriteShard",        "CommitCheckpoint",
                                      "ReadSlices",        "FindCheckpoint",
                                      "DeleteCheckpoints", "ComputeGradient"};
  Trap trap = {types[random_.Below(std::size(types))],
               random_.Chance(0.5) ? Moment::kBeforeIo : Moment::kAfterIo,
               /*kills_server=*/kind >= 4};
  // While a checkpoint is being committed is when most depends on servers.
  if (kind == 5) trap.type = "CommitCheckpoint";
  Add(chunk, [this, trap](PeerId, PeerId) { traps_.push_back(trap); });
}

PeerId Chaos::DrawVictim(PeerId server, PeerId sender) {
  switch (random_.Below(4)) {
    case 0:
      return sender;
    case 1:
    case 2:
      return server;
    default: {
      const std::vector<PeerId> tasks = cluster_.tasks();
      return tasks[random_.Below(tasks.size())];
    }
  }
}

absl::Duration Chaos::DrawTime(int64_t most_ms) {
  return absl::Milliseconds(1 + random_.Below(most_ms));
}

void Chaos::Count(const std::string& fault, PeerId victim) {
  const bool open = victim.kind == PeerId::Kind::kWorker
                        ? witness_.sessions().HasOpenPush(victim.index)
                        : witness_.sessions().AnyOpenPush();
  simulation_.CountFault(fault, open ? "open push" : "nothing open");
  hits_ += open ? 1 : 0;
}

void Chaos::Kill(const std::string& fault, PeerId victim) {
  Count(absl::StrCat(fault, " ", KindOf(victim)), victim);
  cluster_.Kill(victim, /*late_work=*/random_.Chance(0.5));
}

void Chaos::OnMoment(Moment moment, const SimProcess& self, PeerId from,
                     const Head& head) {
  if (storage_.finished()) return;
  if (moment == Moment::kBeforeIo || moment == Moment::kAfterIo) {
    if (SpringTrap(moment, self, head)) return;
  }
  if (kill_chief_later_ && options_.chief_dies_by > 0 &&
      witness_.ledger().pushes() >= options_.chief_dies_by) {
    kill_chief_later_ = false;
    kill_chief_armed_ = true;
  }
  if (kill_chief_armed_) KillChiefIfOpen();
  if (moment == Moment::kBeforeIo || moment == Moment::kAfterIo ||
      self.peer.kind != PeerId::Kind::kPs ||
      from.kind != PeerId::Kind::kWorker ||
      head.GetDescriptor() != v1::PushRequest::descriptor()) {
    return;
  }
  if (moment == Moment::kBeforeRequest) {
    ++chunks_;
    if (options_.end_after_pushes > 0 && chief_died() &&
        witness_.ledger().pushes() >= options_.end_after_pushes &&
        !storage_.committed().empty()) {
      return simulation_.End();
    }
  }
  chunk_ = static_cast<const v1::PushRequest*>(&head);
  while (next_fault_ < faults_.size() &&
         faults_[next_fault_].chunk <= chunks_ &&
         (faults_[next_fault_].moment == moment ||
          faults_[next_fault_].chunk < chunks_)) {
    faults_[next_fault_++].strike(self.peer, from);
  }
}

bool Chaos::SpringTrap(Moment moment, const SimProcess& self,
                       const Head& head) {
  const std::string& type = head.GetDescriptor()->name();
  const auto trap = std::find_if(
      traps_.begin(), traps_.end(),
      [&](const Trap& t) { return t.type == type && t.moment == moment; });
  if (trap == traps_.end()) return false;
  const bool kills_server = trap->kills_server;
  const bool replaces = trap->replaces;
  traps_.erase(trap);
  if (replaces) {
    Count(absl::StrCat("replace during ", type, " the ", KindOf(self.peer)),
          self.peer);
    cluster_.Replace(self.peer, /*at_once=*/true);
    return true;
  }
  if (kills_server) {
    Kill(absl::StrCat("kill during ", type, " a"),
         PeerId::Ps(
             static_cast<uint32_t>(random_.Below(cluster_.options().servers))));
    return true;
  }
  if (moment == Moment::kBeforeIo && random_.Chance(0.5) &&
      head.GetDescriptor() == v1::WriteShard::descriptor()) {
    storage_.Tear(static_cast<const v1::WriteShard&>(head));
    simulation_.CountFault("torn write", type);
  }
  Kill(absl::StrCat("kill ", moment == Moment::kBeforeIo ? "before" : "after",
                    " ", type, " of"),
       self.peer);
  return true;
}

void Chaos::KillChiefIfOpen() {
  const bool join = witness_.join_open();
  const bool snapshot = witness_.snapshot_open();
  if (!simulation_.IsUp(PeerId::Coordinator())) return;
  if (!join && !snapshot) {
    if (join_provoked_ || witness_.ledger().pushes() < options_.chief_dies_by) {
      return;
    }
    join_provoked_ = true;
    return Kill("kill", PeerId::Worker(1));
  }
  if (!random_.Chance(0.2)) return;
  kill_chief_armed_ = false;
  if (join) probes_.Hit("the chief dies while a join is open");
  if (snapshot) probes_.Hit("the chief dies while a snapshot is open");
  Kill("kill at a change:", PeerId::Coordinator());
}

}  // namespace paramd
