#include "coordinator/core/loss_report.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "proto/refusal.h"

namespace paramd {
namespace {

using Range = std::pair<uint64_t, uint64_t>;

// Numbers that are in any of the ranges.
uint64_t CountOf(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end());
  uint64_t count = 0;
  uint64_t counted = 0;  // Up to this one.
  for (const auto& [from, to] : ranges) {
    const uint64_t begin = std::max(from, counted + 1);
    if (to < begin) continue;
    count += to + 1 - begin;
    counted = to;
  }
  return count;
}

bool IsEmpty(const v1::LostPushes& lost) { return lost.to() < lost.from(); }

}  // namespace

void LossReport::Told(uint32_t server, const v1::ServerLife& generation,
                      const List& lost) {
  Server& known = servers_[server];
  if (known.generation != generation) known.added.clear();
  LivesAs(generation, &known);
  known.told = lost;
}

void LossReport::TakenOver(uint32_t server, const v1::ServerLife& generation) {
  Server& known = servers_[server];
  // What the last life heard is in what the new one goes on with.
  AddHeard(server, known, known.told, &known.heard);
  known.generation = generation;
  known.goes_on = true;
}

void LossReport::AddHeard(uint32_t index, const Server& server,
                          const List& lost, std::set<Session>* heard) {
  for (const v1::LostPushes& one : lost) {
    if (one.server() != index || one.server_generation() < server.filled) {
      continue;
    }
    heard->insert(SessionOf(one.worker(), one.generation()));
  }
}

void LossReport::LivesAs(const v1::ServerLife& generation, Server* server) {
  server->generation = generation;
  if (!server->goes_on) server->filled = generation;
}

std::vector<v1::LostPushes> LossReport::Restoring(
    uint32_t server, const v1::ServerLife& generation) {
  Server& known = servers_[server];
  known.generation = known.filled = generation;
  known.goes_on = false;
  known.heard.clear();
  const auto content = committed_contents_.find(server);
  known.restored =
      content == committed_contents_.end() ? Content() : content->second;
  // What belongs to the checkpoint, the server will tell.
  for (const v1::LostPushes& lost : std::exchange(known.added, {})) {
    *known.told.Add() = lost;
  }
  std::vector<v1::LostPushes> found;
  for (const EndedSession& ended : ended_) {
    Add(ended.session, ended.in, server, {}, known.restored.lost, &found);
  }
  return found;
}

void LossReport::TakeOver(const v1::Manifest* newest,
                          const std::vector<Life>& lives,
                          const std::vector<v1::SavedSession>& sessions,
                          const std::vector<SessionName>& going_on) {
  for (uint32_t s = 0; s < lives.size(); ++s) {
    servers_[s].generation = lives[s].generation;
    servers_[s].filled = lives[s].filled;
    servers_[s].goes_on = lives[s].filled != lives[s].generation;
  }
  std::map<uint32_t, v1::SessionId> saved;  // By worker.
  bool wrote_it = newest != nullptr;
  if (newest != nullptr) {
    for (const v1::ShardFile& file : newest->files()) {
      committed_contents_[file.server()] = {PositionsOf(file), file.lost()};
      for (const auto& [worker, position] :
           committed_contents_[file.server()].positions) {
        saved[worker] = std::max(saved[worker], position.first);
      }
      Server& server = servers_[file.server()];
      // And has what it had then.
      if (IsOf(server, file.server_generation())) {
        server.restored = committed_contents_[file.server()];
      } else {
        wrote_it = false;
      }
      for (const v1::LostPushes& lost : file.lost()) {
        // The life that wrote the file knows of what it has heard itself.
        if (IsOf(server, lost.server_generation())) {
          server.added.push_back(lost);
        }
      }
    }
  }
  // What lives that began with it do not have was computed again.
  if (wrote_it) {
    for (const v1::SavedSession& session : newest->ended()) {
      Ended(session.worker(), session.generation(), session.ended_with(), {});
      ended_.back().in = session.sequence();
    }
  }
  for (const v1::SavedSession& session : sessions) {
    // All else of an earlier session is in the checkpoint.
    if (session.generation() < saved[session.worker()]) continue;
    Ended(session.worker(), session.generation(), session.sequence(), {});
  }
  for (const EndedSession& ended : ended_) {
    HeardBefore(ended.session.worker(), ended.session.generation());
  }
  for (const auto& [worker, generation] : going_on) {
    HeardBefore(worker, generation);
  }
}

// The life that heard the session is gone, and the present one may never hear
// it: what it has lost of it is in the newest checkpoint, or the server tells.
void LossReport::HeardBefore(uint32_t worker, const v1::SessionId& generation) {
  const Session key = SessionOf(worker, generation);
  for (auto& [index, server] : servers_) {
    const bool is_listed =
        std::any_of(server.added.begin(), server.added.end(),
                    [&key](const v1::LostPushes& lost) {
                      return SessionOf(lost.worker(), lost.generation()) == key;
                    });
    if (server.goes_on && !is_listed) server.heard.insert(key);
  }
}

bool LossReport::IsOf(const Server& server, const v1::ServerLife& life) {
  return !(life < server.filled) && !(server.generation < life);
}

void LossReport::Rewind() {
  ended_.clear();
  sealed_.clear();
  sealed_ended_ = 0;
  for (auto& [index, server] : servers_) {
    server.added.clear();
    const auto content = committed_contents_.find(index);
    server.restored =
        content == committed_contents_.end() ? Content() : content->second;
    server.told = server.restored.lost;
    server.goes_on = false;
    server.heard.clear();
  }
}

void LossReport::Ended(uint32_t worker, const v1::SessionId& generation,
                       uint64_t acknowledged, const Cut& cut) {
  if (acknowledged == 0) return;
  if (ended_.size() == kMostEnded) {
    ended_.pop_front();
    sealed_ended_ -= std::min<size_t>(sealed_ended_, 1);
  }
  EndedSession& ended = ended_.emplace_back();
  ended.session.set_worker(worker);
  *ended.session.mutable_generation() = generation;
  ended.session.set_sequence(acknowledged);
  ended.cut = cut;
}

uint64_t LossReport::EndedSession::UpTo(
    const v1::SnapshotNumber& snapshot) const {
  return cut.snapshot == snapshot ? std::min(cut.sequence, session.sequence())
                                  : session.sequence();
}

void LossReport::Sealing(const v1::SnapshotNumber& snapshot,
                         std::vector<v1::SavedSession> present) {
  sealing_ = snapshot;
  sealed_.clear();
  for (v1::SavedSession& session : present) {
    sealed_.push_back({std::move(session)});
  }
  for (const EndedSession& ended : ended_) {
    sealed_.push_back({ended.session, ended.in});
    sealed_.back().session.set_sequence(ended.UpTo(snapshot));
  }
  sealed_ended_ = ended_.size();
}

std::vector<v1::LostPushes> LossReport::Complete(v1::Manifest* manifest) {
  std::vector<v1::LostPushes> found;
  sealed_contents_.clear();
  for (v1::ShardFile& file : *manifest->mutable_files()) {
    CompleteFile(&file, &found);
    sealed_contents_[file.server()] = {PositionsOf(file), file.lost()};
  }
  for (size_t i = 0; i < sealed_ended_; ++i) {
    const EndedSession& ended = ended_[i];
    const uint64_t in = std::max(ended.in, ended.UpTo(sealing_));
    if (in == ended.session.sequence()) continue;
    v1::SavedSession* const behind = manifest->add_ended();
    *behind = ended.session;
    behind->set_sequence(in);
    behind->set_ended_with(ended.session.sequence());
  }
  return found;
}

void LossReport::CompleteFile(v1::ShardFile* file,
                              std::vector<v1::LostPushes>* found) {
  Server& server = servers_[file->server()];
  LivesAs(file->server_generation(), &server);
  // When it was sealed: what it hears meanwhile is not in the file.
  std::set<Session> heard = server.heard;
  AddHeard(file->server(), server, file->lost(), &heard);
  const auto is_heard = [&heard](const auto& session) {
    return heard.contains(SessionOf(session.worker(), session.generation()));
  };
  // One that has no part of any variable hears no session, and loses nothing.
  const bool has_something = !file->slices().empty();
  const Positions held = server.goes_on ? PositionsOf(*file) : Positions();
  for (const auto& [session, in] : sealed_) {
    if (has_something && !is_heard(session)) {
      Add(session, in, file->server(), held, file->lost(), found);
    }
  }
  // Who is heard at last, of whom the server knows more.
  std::vector<v1::LostPushes>& added = server.added;
  added.erase(std::remove_if(added.begin(), added.end(), is_heard),
              added.end());
  List* const list = file->mutable_lost();
  list->erase(std::remove_if(list->begin(), list->end(), IsEmpty), list->end());
  server.told = *list;
  for (const v1::LostPushes& lost : added) *list->Add() = lost;
}

void LossReport::Add(const v1::SavedSession& session, uint64_t in,
                     uint32_t index, const Positions& positions,
                     const List& listed, std::vector<v1::LostPushes>* found) {
  Server& server = servers_[index];
  if (!GivenBefore(session.generation(), server.filled)) return;
  uint64_t newest = in;
  const auto has = [&](const Positions& some) {
    const auto position = some.find(session.worker());
    if (position != some.end() &&
        position->second.first == session.generation()) {
      newest = std::max(newest, position->second.second);
    }
  };
  has(server.restored.positions);
  has(positions);
  const auto account = [&](const v1::LostPushes& lost) {
    if (lost.worker() == session.worker() &&
        lost.generation() == session.generation()) {
      newest = std::max(newest, lost.to());
    }
  };
  std::for_each(listed.begin(), listed.end(), account);
  std::for_each(server.added.begin(), server.added.end(), account);
  if (session.sequence() <= newest) return;
  v1::LostPushes& lost = server.added.emplace_back();
  lost.set_worker(session.worker());
  *lost.mutable_generation() = session.generation();
  lost.set_from(newest + 1);
  lost.set_to(session.sequence());
  lost.set_server(index);
  *lost.mutable_server_generation() = server.generation;
  found->push_back(lost);
}

void LossReport::Committed() {
  committed_contents_ = std::move(sealed_contents_);
  sealed_contents_.clear();
  // What a session pushed after its cut is not in it.
  const auto end = ended_.begin() + static_cast<ptrdiff_t>(sealed_ended_);
  const auto is_in = [this](const EndedSession& ended) {
    return ended.UpTo(sealing_) == ended.session.sequence();
  };
  const auto left =
      ended_.erase(std::remove_if(ended_.begin(), end, is_in), end);
  std::for_each(ended_.begin(), left, [this](EndedSession& ended) {
    ended.in = std::max(ended.in, ended.UpTo(sealing_));
  });
  sealed_ended_ = 0;
}

uint64_t LossReport::pushes() const {
  // A number of sessions long gone has no more than its server.
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, std::vector<Range>> ranges;
  const auto add = [&ranges](const v1::LostPushes& lost) {
    const v1::SessionId& generation = lost.generation();
    const uint32_t whose = IsZero(generation) ? lost.server() : lost.worker();
    ranges[{whose, generation.term(), generation.counter()}].push_back(
        {lost.from(), lost.to()});
  };
  for (const auto& [index, server] : servers_) {
    std::for_each(server.told.begin(), server.told.end(), add);
    std::for_each(server.added.begin(), server.added.end(), add);
  }
  uint64_t pushes = 0;
  for (const auto& [session, all] : ranges) pushes += CountOf(all);
  return pushes;
}

LossReport::Positions LossReport::PositionsOf(const v1::ShardFile& file) {
  Positions positions;
  for (const v1::SavedSlice& slice : file.slices()) {
    for (const v1::PushRecord& record : slice.records()) {
      auto& [generation, sequence] = positions[record.worker()];
      if (generation < record.generation()) {
        generation = record.generation();
        sequence = 0;
      }
      if (generation == record.generation()) {
        sequence = std::max(sequence, record.sequence());
      }
    }
  }
  return positions;
}

LossReport::Session LossReport::SessionOf(uint32_t worker,
                                          const v1::SessionId& generation) {
  return {worker, generation.term(), generation.counter()};
}

}  // namespace paramd
