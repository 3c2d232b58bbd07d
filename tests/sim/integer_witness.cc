#include "tests/sim/integer_witness.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

#include "base/status_macros.h"
#include "coordinator/core/push_audit.h"
#include "proto/refusal.h"
#include "tests/sim/resized_rows.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

// Notes of the cores that tell of something rare, and what they tell of.
constexpr std::pair<absl::string_view, absl::string_view> kNotes[] = {
    {"was given up", "a snapshot is given up"},
    {"came back without its shard", "a server comes back without its shard"},
    {"is back after it was stopped", "a server comes back after draining"},
    {"going on from checkpoint", "a coordinator goes on from a checkpoint"},
    {"is gone after", "a worker is fenced or leaves"},
    {"is passed over", "a damaged checkpoint is passed over"},
    {"joining again", "a worker joins again in the same process"},
    {"goes on as generation", "a session goes on under a new coordinator"},
    {"leaves without a checkpoint", "a server drains without a coordinator"},
    {"is finished already", "a coordinator finds its run finished"},
    {"drained: all of", "a server leaves when its snapshot is committed"},
    {"worker has left", "a worker leaves in good order"},
    {"given up after", "a worker gives a push or pull up"},
};

}  // namespace

IntegerWitness::IntegerWitness(const IntegerJob& job, const SimStorage& storage,
                               Probes* probes)
    : job_(job),
      storage_(storage),
      probes_(*probes),
      ledger_(job),
      content_(job, ledger_, storage),
      input_(job),
      sessions_(job, ledger_, content_,
                [this](PushLedger::PushIndex push) {
                  input_.Whole(ledger_.push(push));
                  return absl::OkStatus();
                }),
      loss_(ledger_, content_, sessions_, storage),
      manifests_(ledger_, content_) {}

void IntegerWitness::Begin(Simulation* simulation) {
  simulation_ = simulation;
  simulation->Watch(this);
  snapshot_open_ = false;
  joining_.clear();
  heard_.clear();
  pushed_as_.clear();
  processes_.clear();
  said_ended_.clear();
  jumped_ = -absl::InfiniteDuration();
}

void IntegerWitness::ReadLog() {
  for (; log_read_ < storage_.log().size(); ++log_read_) {
    const v1::LogEntry& entry = storage_.log()[log_read_];
    if (entry.term() != 0) terms_logged_.insert(entry.term());
    if (entry.has_configuration()) {
      const v1::Configuration& configuration = entry.configuration();
      const uint64_t term = configuration.version().term();
      layouts_logged_.insert(term);
      Check(content_.Configured(configuration,
                                /*is_layout=*/!entry.has_input_left()));
      if (entry.has_input_left()) {
        Check(TakenOver(configuration, entry.input_left()));
        continue;
      }
      const std::string& directory =
          configuration.servers(0).restore_directory();
      if (retired_logged_.contains(directory)) {
        Check(Wrong("the retired checkpoint '", directory, "' is restored"));
      }
      const v1::Manifest* begin = nullptr;
      for (const v1::Manifest& manifest : storage_.committed()) {
        if (SimStorage::PathOf(manifest.snapshot()) == directory) {
          begin = &manifest;
        }
      }
      input_.Begin(term, begin);
      manifests_.Begin(term, begin);
      listed_in_term_[term].clear();  // All sessions end with it.
    }
    if (entry.has_retired()) {
      retired_logged_.insert(SimStorage::PathOf(entry.retired()));
    }
    if (entry.has_fence()) {
      const SessionKey session = {entry.fence().worker(),
                                  NumberOf(entry.fence().generation())};
      fences_logged_.insert(session);
      input_.Fenced(session, left_.contains(session));
    }
  }
}

absl::Status IntegerWitness::TakenOver(const v1::Configuration& configuration,
                                       const v1::SavedInput& left) {
  const uint64_t term = configuration.version().term();
  const bool lossy = content_.IsLossy(configuration);
  probes_.Hit(lossy ? "servers are taken over, one of which had lost pushes"
                    : "servers are taken over");
  loss_.TakenOver(configuration);
  manifests_.TakeOver(term);
  for (const v1::WorkerMember& worker : configuration.workers()) {
    const SessionKey key = {worker.index(), NumberOf(worker.generation())};
    if (fences_logged_.contains(key)) {
      return Wrong(SessionName(key), " goes on, whose fence is logged");
    }
    gone_.erase(key);  // For a coordinator that could not log it any more.
  }
  const uint64_t before = input_.NewestOf([&](uint64_t earlier) {
    return earlier < term && content_.LineOf(earlier) == content_.LineOf(term);
  });
  return input_.TakeOver(term, before, left, content_.BatchesIn(configuration),
                         lossy);
}

void IntegerWitness::Sent(const SimProcess& self, PeerId, const Head& request) {
  ReadLog();
  if (self.peer.kind == PeerId::Kind::kOutside) return;
  if (const auto* push = DynamicCastToGenerated<v1::PushRequest>(&request)) {
    const size_t before = ledger_.pushes();
    const auto index = ledger_.See(self.peer, *push);
    if (!index.ok()) return Check(index.status());
    pushed_as_[self] = KeyOf(push->header());
    if (ledger_.pushes() > before) Check(input_.Pushed(ledger_.push(*index)));
    Check(sessions_.SendsPush(*index));
  } else if (const auto* heartbeat =
                 DynamicCastToGenerated<v1::HeartbeatRequest>(&request)) {
    Check(sessions_.SendsHeartbeat(*heartbeat));
  } else if (const auto* portion =
                 DynamicCastToGenerated<v1::PortionRequest>(&request)) {
    Check(sessions_.SendsPortion(*portion));
  } else if (self.peer == PeerId::Coordinator()) {
    Check(SentByCoordinator(self, request));
  } else if (const auto* join =
                 DynamicCastToGenerated<v1::JoinRequest>(&request)) {
    joining_.insert(self.peer.index);
    processes_.emplace(join->incarnation(), self);
    NoteLeftBehind(*join);
  }
}

// With the first join that says so, whatever this process was given before.
void IntegerWitness::NoteLeftBehind(const v1::JoinRequest& join) {
  if (join.left_sessions() == 0 ||
      !joins_.emplace(join.incarnation(), join.left_sessions()).second) {
    return;
  }
  for (const auto& [session, incarnation] : incarnations_) {
    if (incarnation == join.incarnation()) left_behind_.insert(session);
  }
}

absl::Status IntegerWitness::SentByCoordinator(const SimProcess&,
                                               const Head& request) {
  if (const auto* configure =
          DynamicCastToGenerated<v1::ConfigureRequest>(&request)) {
    RETURN_IF_ERROR(CheckLogged(configure->configuration()));
    return content_.Configured(configure->configuration(),
                               /*is_layout=*/false);
  }
  if (const auto* recall =
          DynamicCastToGenerated<v1::RecallRequest>(&request)) {
    return terms_logged_.contains(recall->header().term())
               ? absl::OkStatus()
               : Wrong("servers are recalled for a term that is not logged");
  }
  if (const auto* seal = DynamicCastToGenerated<v1::SealRequest>(&request)) {
    input_.Cut(NumberOf(seal->header().snapshot()));
    loss_.Sealing(*seal);
    manifests_.Sealing(*seal);
    snapshot_open_ = true;
  }
  return absl::OkStatus();
}

absl::Status IntegerWitness::CheckLogged(
    const v1::Configuration& configuration) {
  const uint64_t term = configuration.version().term();
  const std::string name = VersionName(configuration.version());
  if (!layouts_logged_.contains(term)) {
    return Wrong("configuration ", name, " is told before it is logged");
  }
  std::set<SessionKey> present;
  for (const v1::WorkerMember& worker : configuration.workers()) {
    const SessionKey key = {worker.index(), NumberOf(worker.generation())};
    present.insert(key);
    first_listed_.try_emplace(key, NumberOf(configuration.version()));
    newest_listed_[key.worker] = std::max(newest_listed_[key.worker], key);
    const auto [known, is_new] =
        incarnations_.try_emplace(key, worker.incarnation());
    if (known->second != worker.incarnation()) {
      return Wrong("configuration ", name, " gives ", SessionName(key),
                   " to a second process");
    }
  }
  std::set<SessionKey>& told = listed_in_term_[term];
  for (const SessionKey& key : told) {
    if (!present.contains(key) && !fences_logged_.contains(key)) {
      return Wrong("configuration ", name, " is told without ",
                   SessionName(key), ", whose fence is not logged");
    }
  }
  for (const SessionKey& key : present) {
    if (fences_logged_.contains(key)) {
      // Sent before the fence and not yet superseded.
      continue;
    }
    told.insert(key);
  }
  return absl::OkStatus();
}

void IntegerWitness::Received(const SimProcess& self, PeerId,
                              const Head& request) {
  ReadLog();
  if (self.peer != PeerId::Coordinator()) return;
  const auto* heartbeat =
      DynamicCastToGenerated<v1::HeartbeatRequest>(&request);
  if (heartbeat != nullptr) {
    // Of an earlier session nothing counts.
    const SessionKey key = KeyOf(heartbeat->header());
    LastHeard& newest = heard_[key.worker];
    if (!(key < newest.session)) newest = {key, self, simulation_->elapsed()};
    loss_.Cut(*heartbeat);
    manifests_.HeardCut(*heartbeat);
    manifests_.Heard(heartbeat->header());
    // Of a session that is being fenced it comes too late.
    if (heartbeat->leaving() && !gone_.contains(key)) left_.insert(key);
  } else if (const auto* join =
                 DynamicCastToGenerated<v1::JoinRequest>(&request)) {
    said_ended_.insert(join->replaces());
  } else if (const auto* portion =
                 DynamicCastToGenerated<v1::PortionRequest>(&request)) {
    manifests_.Heard(portion->header());
  }
}

void IntegerWitness::Answered(const SimProcess& self, PeerId from,
                              const Head& request, const BufferChain& payload,
                              const Outbox::ReplyItem& reply) {
  ReadLog();
  if (reply.head == nullptr) {
    return ProbeRefusal(self, request, reply.status);
  }
  if (const auto* pull = DynamicCastToGenerated<v1::PullRequest>(&request)) {
    Check(content_.Pulled(self, *pull, payload,
                          static_cast<const v1::PullReply&>(*reply.head),
                          reply.payload));
  } else if (const auto* push =
                 DynamicCastToGenerated<v1::PushRequest>(&request)) {
    const auto& answer = static_cast<const v1::PushReply&>(*reply.head);
    Check(content_.Pushed(self, *push, answer));
    if (answer.has_pulled()) {
      v1::PullRequest pull;
      for (const v1::PushBlock& block : push->blocks()) {
        pull.add_blocks()->set_slice(block.slice());
        pull.mutable_blocks(pull.blocks_size() - 1)->set_block(block.block());
      }
      Check(content_.Pulled(self, pull, {}, answer.pulled(), reply.payload));
      probes_.Hit("a push is answered with the weights behind it");
    }
    loss_.Pushed(self.peer.index, *push, answer);
    simulation_->NoteProgress();
  } else if (const auto* seal =
                 DynamicCastToGenerated<v1::SealRequest>(&request)) {
    Check(content_.Sealed(self, *seal));
  } else if (const auto* portion =
                 DynamicCastToGenerated<v1::PortionRequest>(&request)) {
    loss_.Noted(portion->header());
    manifests_.Noted(portion->header());
    Check(input_.HandedOut(*portion,
                           static_cast<const v1::PortionReply&>(*reply.head)));
  } else if (DynamicCastToGenerated<v1::ConfigureRequest>(&request) !=
             nullptr) {
    const auto& answer = static_cast<const v1::ConfigureReply&>(*reply.head);
    Number& has = server_has_[self.peer.index];
    if (answer.restored()) {
      has = std::max(has, NumberOf(answer.configuration()));
    }
  } else if (DynamicCastToGenerated<v1::JoinRequest>(&request) != nullptr) {
    Check(CheckJoined(from.index,
                      static_cast<const v1::JoinReply&>(*reply.head)));
  } else if (const auto* heartbeat =
                 DynamicCastToGenerated<v1::HeartbeatRequest>(&request)) {
    loss_.Noted(heartbeat->header());
    manifests_.Noted(heartbeat->header());
    manifests_.NotedCut(*heartbeat);
    const auto& answer = static_cast<const v1::HeartbeatReply&>(*reply.head);
    snapshot_open_ = !IsZero(answer.snapshot());
    if (heartbeat->has_held() && heartbeat->held().term() == answer.term()) {
      Check(GoesOn(KeyOf(heartbeat->header()), heartbeat->held()));
    }
  }
}

// With the first heartbeat that a coordinator has from it.
absl::Status IntegerWitness::GoesOn(const SessionKey& session,
                                    const v1::HeldInput& held) {
  uint64_t& told = goes_on_in_[session];
  if (held.term() <= told) return absl::OkStatus();
  told = held.term();
  return input_.GoesOn(session, held);
}

void IntegerWitness::ProbeRefusal(const SimProcess& self, const Head& request,
                                  const absl::Status& status) {
  const v1::Refusal refusal = RefusalOf(status);
  probes_.Hit(absl::StrCat(self.peer.kind == PeerId::Kind::kPs ? "a server"
                           : self.peer.kind == PeerId::Kind::kCoordinator
                               ? "the coordinator"
                               : "a worker",
                           " refuses ", request.GetDescriptor()->name(), " as ",
                           v1::Refusal::Reason_Name(refusal.reason())));
}

void IntegerWitness::Heard(const SimProcess& self, PeerId, const Head& request,
                           const absl::Status& status, const Head* reply) {
  ReadLog();
  if (self.peer.kind != PeerId::Kind::kWorker) return;
  if (RefusalOf(status).reason() == v1::Refusal::QUARANTINED) {
    const auto* push = DynamicCastToGenerated<v1::PushRequest>(&request);
    if (push != nullptr &&
        sessions_.IsOpen(KeyOf(push->header()), push->header().sequence())) {
      probes_.Hit("a push is refused for its numbers");
      Check(GaveUp(KeyOf(push->header())));
    }
  }
  if (const auto* heartbeat =
          DynamicCastToGenerated<v1::HeartbeatRequest>(&request)) {
    Check(sessions_.HearsHeartbeat(
        *heartbeat, static_cast<const v1::HeartbeatReply*>(reply)));
  } else if (reply != nullptr) {
    Check(HeardByWorker(self, request, *reply));
  }
}

absl::Status IntegerWitness::HeardByWorker(const SimProcess& self,
                                           const Head& request,
                                           const Head& reply) {
  if (const auto* push = DynamicCastToGenerated<v1::PushRequest>(&request)) {
    return sessions_.HearsPush(*push, static_cast<const v1::PushReply&>(reply));
  }
  if (DynamicCastToGenerated<v1::JoinRequest>(&request) != nullptr) {
    joining_.erase(self.peer.index);
    return sessions_.Joined(self.peer.index,
                            static_cast<const v1::JoinReply&>(reply));
  }
  return absl::OkStatus();
}

// The servers' newest configurations, as far as they said so to anybody.
absl::Status IntegerWitness::CheckJoined(uint32_t worker,
                                         const v1::JoinReply& reply) const {
  const SessionKey key = {worker, NumberOf(reply.generation())};
  const auto listed = first_listed_.find(key);
  for (const v1::ServerMember& server : reply.configuration().servers()) {
    const auto has = server_has_.find(server.index());
    if (listed == first_listed_.end() || has == server_has_.end() ||
        has->second < listed->second) {
      return Wrong(SessionName(key), " is told so before ps-", server.index(),
                   " knows it");
    }
  }
  return absl::OkStatus();
}

// By the coordinator's clock, unless that was put forward. One that was
// replaced has not heard what its successor did.
absl::Status IntegerWitness::CheckFence(const SimProcess& self,
                                        uint32_t worker) {
  const auto newest = heard_.find(worker);
  if (newest == heard_.end()) return absl::OkStatus();
  const LastHeard& heard = newest->second;
  const absl::Duration now = simulation_->elapsed();
  const absl::Duration lease = absl::Milliseconds(job_.config().lease_ms());
  if (heard.by != self || heard.session != newest_listed_.at(worker) ||
      left_.contains(heard.session) || now - heard.at >= lease ||
      now - jumped_ <= lease) {
    return absl::OkStatus();
  }
  if (left_behind_.contains(heard.session)) {
    probes_.Hit("a worker is fenced because it left its session");
    return absl::OkStatus();
  }
  const uint64_t incarnation = incarnations_[heard.session];
  const auto process = processes_.find(incarnation);
  if (said_ended_.contains(incarnation) && process != processes_.end() &&
      simulation_->HasEnded(process->second)) {
    probes_.Hit("a worker is fenced because its process ended");
    return absl::OkStatus();
  }
  return Wrong(SessionName(heard.session), " is fenced, which was heard ",
               absl::FormatDuration(now - heard.at), " ago");
}

void IntegerWitness::ClockJumped(PeerId task) {
  if (task == PeerId::Coordinator()) jumped_ = simulation_->elapsed();
}

void IntegerWitness::Started(const SimProcess&, const Head& work) {
  ReadLog();
  const auto* prepare = DynamicCastToGenerated<v1::PrepareCheckpoint>(&work);
  if (prepare == nullptr) return;
  snapshot_open_ = true;
  if (!snapshots_.insert(NumberOf(prepare->snapshot())).second) {
    Check(Wrong("snapshot number ", VersionName(prepare->snapshot()),
                " is used a second time"));
  }
}

void IntegerWitness::Noted(const SimProcess& self, absl::string_view note) {
  for (const auto& [part, name] : kNotes) {
    if (absl::StrContains(note, part)) probes_.Hit(name);
  }
  if (absl::StrContains(note, "push given up after")) Check(GivesUp(self));
  uint32_t worker = 0;
  if (self.peer == PeerId::Coordinator() &&
      absl::StrContains(note, "is gone after") &&
      absl::ConsumePrefix(&note, "worker-") &&
      absl::SimpleAtoi(note.substr(0, note.find(' ')), &worker)) {
    Check(CheckFence(self, worker));
    const auto newest = newest_listed_.find(worker);
    if (newest != newest_listed_.end()) gone_.insert(newest->second);
  }
}

absl::Status IntegerWitness::GivesUp(const SimProcess& self) {
  const auto session = pushed_as_.find(self);
  if (session == pushed_as_.end()) {
    return Wrong(PeerName(self.peer), " gives up a push that it never sent");
  }
  probes_.Hit("a push is given up");
  return GaveUp(session->second);
}

absl::Status IntegerWitness::GaveUp(const SessionKey& session) {
  ASSIGN_OR_RETURN(const PushLedger::PushIndex push,
                   sessions_.GivesUp(session));
  ledger_.GivesUp(push);
  input_.Whole(ledger_.push(push));
  return absl::OkStatus();
}

absl::Status IntegerWitness::CheckAudit(const v1::Manifest& manifest) {
  const PushAudit audit(manifest, /*sync=*/false);
  return audit.doubled() + audit.missing() == 0 ? absl::OkStatus()
                                                : Wrong(audit.sentence());
}

absl::Status IntegerWitness::CheckCheckpoints() {
  RETURN_IF_ERROR(storage_.misuse());
  for (; checked_ < storage_.committed().size(); ++checked_) {
    const v1::Manifest& manifest = storage_.committed()[checked_];
    absl::Status status = content_.CheckCheckpoint(manifest);
    status.Update(input_.CheckCheckpoint(manifest));
    status.Update(loss_.CheckCheckpoint(manifest));
    status.Update(manifests_.CheckCheckpoint(manifest));
    status.Update(CheckAudit(manifest));
    status.Update(CheckResized(storage_, job_, manifest));
    if (status.ok()) continue;
    return absl::Status(
        status.code(),
        absl::StrCat("checkpoint ", VersionName(manifest.snapshot()), ": ",
                     status.message()));
  }
  return absl::OkStatus();
}

absl::Status IntegerWitness::CheckEnd(bool exactly_once,
                                      const v1::JobStats& job) const {
  if (storage_.committed().empty() || storage_.results().empty()) {
    return Wrong(storage_.committed().size(), " checkpoints and ",
                 storage_.results().size(), " results were written");
  }
  const v1::Manifest& last = storage_.committed().back();
  RETURN_IF_ERROR(input_.CheckFinished(last));
  const uint64_t lost = loss_.pushes();
  // One that found the job finished has nothing to say.
  if (job.checkpoint() == last.snapshot() &&
      (job.pushes_lost() != lost || job.pushes_doubled() != 0)) {
    return Wrong("the coordinator counts ", job.pushes_lost(),
                 " lost pushes and ", job.pushes_doubled(),
                 " doubled ones; its last checkpoint lists ", lost, " lost");
  }
  ASSIGN_OR_RETURN(const auto contents, content_.ContentsOf(last));
  for (size_t b = 0; b < contents.size(); ++b) {
    for (const BatchPlace& place : job_.batches()) {
      const auto found = contents[b].batches.find(place);
      const uint32_t times =
          found == contents[b].batches.end() ? 0 : found->second;
      const uint32_t most =
          exactly_once ? 1 : input_.TimesHandedOut(last, place);
      const bool may_lack = contents[b].lossy || input_.WasGivenUp(place);
      const uint32_t least = exactly_once || !may_lack ? 1 : 0;
      if (least <= times && times <= most) continue;
      return Wrong("batch ", place.begin, " of epoch ", place.epoch, " is ",
                   times, " times in block ", b, "; it may be from ", least,
                   " to ", most);
    }
  }
  const uint64_t steps = job_.batches().size();
  if (exactly_once && (last.global_step() != steps ||
                       storage_.results().back().global_step() != steps)) {
    return Wrong("the job ended at step ", last.global_step(), " of ", steps);
  }
  return absl::OkStatus();
}

absl::StatusOr<IntegerWitness::Damage> IntegerWitness::DamageOf(
    const v1::Manifest& manifest) const {
  Damage damage;
  ASSIGN_OR_RETURN(const auto contents, content_.ContentsOf(manifest));
  for (const ContentModel::BlockContent& content : contents) {
    damage.lost += job_.batches().size() - content.batches.size();
    for (const auto& [place, times] : content.batches) {
      damage.doubled += times - 1;
    }
  }
  return damage;
}

}  // namespace paramd
