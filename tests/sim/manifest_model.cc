#include "tests/sim/manifest_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// Null if there is none.
template <typename Counts>
const uint64_t* Find(const std::map<Number, Counts>& cuts,
                     const Number& snapshot, const SessionKey& session) {
  const auto of_snapshot = cuts.find(snapshot);
  if (of_snapshot == cuts.end()) return nullptr;
  const auto found = of_snapshot->second.find(session);
  return found == of_snapshot->second.end() ? nullptr : &found->second;
}

}  // namespace

void ManifestModel::Begin(uint64_t term, const v1::Manifest* manifest) {
  base_[term] = manifest == nullptr ? 0 : manifest->global_step();
}

void ManifestModel::Heard(const v1::Header& header) {
  uint64_t& heard = heard_[KeyOf(header)];
  heard = std::max(heard, header.sequence());
}

void ManifestModel::Noted(const v1::Header& header) {
  uint64_t& noted = noted_[KeyOf(header)];
  noted = std::max(noted, header.sequence());
}

void ManifestModel::Add(const v1::HeartbeatRequest& request, Cuts* cuts) {
  const v1::WorkerCut& cut = request.cut();
  if (IsZero(cut.snapshot())) return;
  (*cuts)[NumberOf(cut.snapshot())][KeyOf(request.header())] = cut.sequence();
}

void ManifestModel::HeardCut(const v1::HeartbeatRequest& request) {
  Add(request, &heard_cuts_);
}

void ManifestModel::NotedCut(const v1::HeartbeatRequest& request) {
  Add(request, &noted_cuts_);
}

ManifestModel::Range ManifestModel::OfEnded(const SessionKey& session,
                                            uint64_t heard,
                                            const Number& snapshot) const {
  const auto noted = noted_.find(session);
  Range added = {noted == noted_.end() ? 0 : noted->second, heard};
  const uint64_t* const cut = Find(heard_cuts_, snapshot, session);
  if (cut == nullptr) return added;
  added.least = std::min(added.least, *cut);
  if (Find(noted_cuts_, snapshot, session) != nullptr) {
    added.most = std::min(added.most, *cut);
  }
  return added;
}

void ManifestModel::Sealing(const v1::SealRequest& request) {
  const Number snapshot = NumberOf(request.header().snapshot());
  const uint64_t term = snapshot.first;
  const bool took_over = !base_.contains(term);
  const uint64_t line = content_.LineOf(term);
  const auto base = base_.find(took_over ? line : term);
  const v1::Configuration* const configuration =
      content_.ConfigurationOf(request.header().configuration());
  if (base == base_.end() || configuration == nullptr) return;
  const auto [sealed, is_first] = sealed_.try_emplace(snapshot);
  if (!is_first) return;
  Range& step = sealed->second.step;
  step = {base->second, base->second};
  std::set<SessionKey> live;
  for (const v1::WorkerMember& worker : configuration->workers()) {
    live.insert({worker.index(), NumberOf(worker.generation())});
  }
  for (const auto& [session, heard] : heard_) {
    const uint64_t began = session.generation.first;
    if (took_over ? content_.LineOf(began) != line : began != term) continue;
    const uint64_t* const cut = Find(heard_cuts_, snapshot, session);
    Range added;
    if (cut != nullptr && live.contains(session)) {
      added = {*cut, *cut};
      sealed->second.cuts[session] = *cut;
    } else if (took_over) {
      added = {0, std::max(heard, ledger_.PushesOf(session))};
    } else {
      added = OfEnded(session, heard, snapshot);
    }
    step.least += added.least;
    step.most += added.most;
  }
}

ManifestModel::Range ManifestModel::PositionOf(const Number& snapshot,
                                               const SessionKey& session,
                                               uint64_t saved) const {
  const auto sealed = sealed_.find(snapshot);
  if (sealed != sealed_.end()) {
    const auto cut = sealed->second.cuts.find(session);
    if (cut != sealed->second.cuts.end()) {
      const uint64_t position = std::max(saved, cut->second);
      return {position, position};
    }
  }
  const uint64_t* const cut = Find(heard_cuts_, snapshot, session);
  return {saved, cut == nullptr ? saved : std::max(saved, *cut)};
}

absl::Status ManifestModel::CheckSessions(const v1::Manifest& manifest) const {
  ASSIGN_OR_RETURN(const auto newest, content_.NewestPushes(manifest));
  std::set<uint32_t> named;
  for (const v1::SavedSession& session : manifest.sessions()) {
    named.insert(session.worker());
    const auto known = newest.find(session.worker());
    const auto [generation, push] =
        known == newest.end() ? std::pair<Number, uint64_t>() : known->second;
    const SessionKey told = {session.worker(), NumberOf(session.generation())};
    // Of a generation nothing may be known but a fence or a cut.
    const auto [least, most] =
        PositionOf(NumberOf(manifest.snapshot()), told,
                   told.generation == generation ? push : 0);
    if (told.generation >= generation && session.sequence() >= least &&
        session.sequence() <= most) {
      continue;
    }
    return Wrong("its sessions say push ", session.sequence(), " of ",
                 SessionName(told), "; the newest is ", push, " of generation ",
                 generation.first, "-", generation.second);
  }
  for (const auto& [worker, push] : newest) {
    if (!named.contains(worker)) {
      return Wrong("its sessions do not name worker-", worker);
    }
  }
  return absl::OkStatus();
}

absl::Status ManifestModel::CheckCheckpoint(const v1::Manifest& manifest) {
  RETURN_IF_ERROR(CheckSessions(manifest));
  const uint64_t step = manifest.global_step();
  const Number number = NumberOf(manifest.snapshot());
  const auto sealed = sealed_.find(number);
  if (sealed != sealed_.end()) {
    const auto [least, most] = sealed->second.step;
    if (step < least || step > most) {
      return Wrong("it is of step ", step, "; its cuts come to ", least, " to ",
                   most);
    }
    exact_ += least == most ? 1 : 0;
  }
  const uint64_t line = content_.LineOf(number.first);
  if (line == newest_line_ && step < newest_step_) {
    return Wrong("it is of step ", step, ", the one before of ", newest_step_);
  }
  if (step > ledger_.pushes()) {
    return Wrong("it is of step ", step, " after ", ledger_.pushes(),
                 " pushes");
  }
  newest_line_ = line;
  newest_step_ = step;
  return absl::OkStatus();
}

}  // namespace paramd
