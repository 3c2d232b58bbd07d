#include "tests/sim/loss_model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

bool SharesSlice(const v1::ShardFile& a, const v1::ShardFile& b) {
  for (const v1::SavedSlice& one : a.slices()) {
    for (const v1::SavedSlice& other : b.slices()) {
      if (one.variable() == other.variable() &&
          one.row_begin() == other.row_begin()) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

void LossModel::Noted(const v1::Header& header) {
  uint64_t& noted = noted_[KeyOf(header)];
  noted = std::max(noted, header.sequence());
}

void LossModel::Cut(const v1::HeartbeatRequest& request) {
  const v1::WorkerCut& cut = request.cut();
  if (IsZero(cut.snapshot())) return;
  cuts_[NumberOf(cut.snapshot())][KeyOf(request.header())] = cut.sequence();
}

void LossModel::TakenOver(const v1::Configuration& configuration) {
  for (auto [session, whole] : sessions_.whole()) {
    for (;; ++whole) {
      const auto next = ledger_.Find(session, whole + 1);
      if (!next.ok() || !content_.IsWhole(*next, configuration)) break;
    }
    uint64_t& known = taken_over_[session];
    known = std::max(known, whole);
  }
}

void LossModel::Pushed(uint32_t server, const v1::PushRequest& request,
                       const v1::PushReply& reply) {
  spoke_.insert(
      {{server, NumberOf(reply.server_generation())}, KeyOf(request.header())});
}

void LossModel::Sealing(const v1::SealRequest& request) {
  const Number snapshot = NumberOf(request.header().snapshot());
  const auto [sealed, is_first] = sealed_.try_emplace(snapshot);
  if (!is_first) return;
  sealed->second.whole = sessions_.whole();
  sealed->second.noted = noted_;
  const v1::Configuration* const configuration =
      content_.ConfigurationOf(request.header().configuration());
  if (configuration == nullptr) return;
  for (const v1::WorkerMember& worker : configuration->workers()) {
    sealed->second.live.insert({worker.index(), NumberOf(worker.generation())});
  }
}

absl::Status LossModel::CheckCheckpoint(const v1::Manifest& manifest) {
  Pushes all;
  for (const v1::ShardFile& file : manifest.files()) {
    ASSIGN_OR_RETURN(const Pushes listed, Listed(file));
    const Pushes before = ListedBefore(file);
    Pushes must = before;
    Pushes may = before;
    RETURN_IF_ERROR(AddLost(manifest, file, &must, &may));
    for (const PushKey& push : must) {
      if (listed.contains(push)) continue;
      return absl::DataLossError(
          absl::StrCat(NameOf(file, push), " is lost and not listed"));
    }
    for (const PushKey& push : listed) {
      if (!may.contains(push)) {
        return absl::DataLossError(
            absl::StrCat(NameOf(file, push), " is listed and not lost"));
      }
      if (before.contains(push)) continue;
      ++reported_;
      reported_unheard_ += HasSpoken(file, push.first) ? 0 : 1;
    }
    all.insert(listed.begin(), listed.end());
  }
  pushes_ = all.size();
  return absl::OkStatus();
}

absl::StatusOr<LossModel::Pushes> LossModel::Listed(
    const v1::ShardFile& file) const {
  Pushes listed;
  std::set<std::pair<uint32_t, PushKey>> seen;  // With who lost it.
  for (const v1::LostPushes& lost : file.lost()) {
    const SessionKey session = {lost.worker(), NumberOf(lost.generation())};
    if (lost.to() < lost.from()) {
      return absl::DataLossError(absl::StrCat(
          NameOf(file, {session, lost.from()}), " is listed without a push"));
    }
    for (uint64_t n = lost.from(); n <= lost.to(); ++n) {
      listed.insert({session, n});
      if (seen.insert({lost.server(), {session, n}}).second) continue;
      return absl::DataLossError(
          absl::StrCat(NameOf(file, {session, n}), " is listed twice"));
    }
  }
  return listed;
}

// By the files of that checkpoint from which the slices of this one came.
LossModel::Pushes LossModel::ListedBefore(const v1::ShardFile& file) const {
  Pushes before;
  const std::string directory =
      content_.DirectoryOf(file.server(), NumberOf(file.server_generation()));
  for (const v1::Manifest& manifest : storage_.committed()) {
    if (SimStorage::PathOf(manifest.snapshot()) != directory) continue;
    for (const v1::ShardFile& source : manifest.files()) {
      if (!SharesSlice(file, source)) continue;
      const auto listed = Listed(source);  // It was checked before.
      if (listed.ok()) before.insert(listed->begin(), listed->end());
    }
  }
  return before;
}

absl::Status LossModel::AddLost(const v1::Manifest& manifest,
                                const v1::ShardFile& file, Pushes* must,
                                Pushes* may) const {
  const auto sealed = sealed_.find(NumberOf(manifest.snapshot()));
  if (sealed == sealed_.end()) return absl::OkStatus();
  const auto cuts = cuts_.find(NumberOf(manifest.snapshot()));
  for (const auto& [session, heard] : sealed->second.whole) {
    // What came before a line was taken back with its input.
    if (content_.LineOf(session.generation.first) !=
        content_.LineOf(file.server_generation().term())) {
      continue;
    }
    const auto taken_over = taken_over_.find(session);
    const uint64_t whole = taken_over == taken_over_.end()
                               ? heard
                               : std::max(heard, taken_over->second);
    uint64_t least = whole;
    const auto noted = sealed->second.noted.find(session);
    if (sealed->second.live.contains(session)) {
      if (cuts == cuts_.end() || !cuts->second.contains(session)) continue;
      least = std::min(whole, cuts->second.at(session));
    } else if (!HasSpoken(file, session)) {
      least = noted == sealed->second.noted.end() ? 0 : noted->second;
    }
    for (uint64_t n = 1; n <= whole; ++n) {
      ASSIGN_OR_RETURN(const auto push, ledger_.Find(session, n));
      // After the cut: of a later snapshot.
      if (!(ledger_.push(push).stamp < sealed->first)) break;
      ASSIGN_OR_RETURN(const bool lacks, content_.Lacks(manifest, file, push));
      if (!lacks) continue;
      // Whether one that was given up ever reached the server nobody can tell.
      const bool given_up = ledger_.push(push).given_up;
      if (n <= least && !given_up) must->insert({session, n});
      may->insert({session, n});
    }
  }
  return absl::OkStatus();
}

bool LossModel::HasSpoken(const v1::ShardFile& file,
                          const SessionKey& session) const {
  return spoke_.contains(
      {{file.server(), NumberOf(file.server_generation())}, session});
}

std::string LossModel::NameOf(const v1::ShardFile& file, const PushKey& push) {
  return absl::StrCat("push ", push.second, " of ", SessionName(push.first),
                      " in '", file.name(), "'");
}

}  // namespace paramd
