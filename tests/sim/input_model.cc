#include "tests/sim/input_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"

namespace paramd {
namespace {

std::string NameOf(const BatchPlace& place) {
  return absl::StrCat("batch ", place.begin, " of epoch ", place.epoch);
}

// Everything that the manifest says is left.
std::set<BatchPlace> LeftOf(const v1::SavedInput& input,
                            const IntegerJob& job) {
  std::set<BatchPlace> left;
  const auto add = [&](uint32_t epoch, uint64_t begin, uint64_t end) {
    for (; begin < end; begin += IntegerJob::kBatch)
      left.insert({epoch, begin});
  };
  for (const v1::SavedInput::Range& range : input.remaining()) {
    add(range.epoch(), range.begin(), range.end());
  }
  for (uint32_t epoch = input.next_epoch(); epoch <= job.epochs(); ++epoch) {
    add(epoch, epoch == input.next_epoch() ? input.next_offset() : 0,
        job.ExamplesOf(epoch));
  }
  return left;
}

}  // namespace

void InputModel::Begin(uint64_t term, const v1::Manifest* manifest) {
  Term& begun = terms_[term] = Term();
  std::set<BatchPlace> left = job_.batches();
  const std::map<BatchPlace, Batch>* before = nullptr;
  if (manifest != nullptr) {
    left = LeftOf(manifest->input(), job_);
    const auto cut = cuts_.find(NumberOf(manifest->snapshot()));
    if (cut != cuts_.end()) before = &cut->second;
  }
  for (const BatchPlace& place : job_.batches()) {
    Batch& batch = begun.batches[place];
    if (before != nullptr) batch.times = before->at(place).times;
    batch.state =
        left.contains(place) ? Batch::State::kFree : Batch::State::kDone;
  }
}

absl::Status InputModel::TakeOver(uint64_t term, uint64_t before,
                                  const v1::SavedInput& input,
                                  const std::set<BatchPlace>& in, bool lossy) {
  const Term& earlier = terms_[before];
  Term& begun = terms_[term] = Term();
  const std::set<BatchPlace> left = LeftOf(input, job_);
  for (const auto& [place, known] : earlier.batches) {
    const bool is_left = left.contains(place);
    const bool is_done = known.state == Batch::State::kDone;
    const bool is_used =
        is_done || (known.state == Batch::State::kLeased && known.whole);
    // What is missing of it servers may have told, or its worker.
    const bool given_up = WasGivenUp(place);
    if (!is_left && !is_done && !in.contains(place) && !given_up) {
      return Wrong(NameOf(place), " is left out in term ", term,
                   ", and not in every block");
    }
    if (is_left && is_used && !lossy && !given_up) {
      return Wrong(NameOf(place), " is done again in term ", term,
                   ", and its push is whole");
    }
    Batch& batch = begun.batches[place];
    batch.times = known.times;
    batch.state = is_left ? Batch::State::kFree : Batch::State::kDone;
  }
  return absl::OkStatus();
}

InputModel::Term& InputModel::TermOf(const SessionKey& session) {
  const auto found = goes_on_in_.find(session);
  return terms_[found == goes_on_in_.end() ? session.generation.first
                                           : found->second];
}

// What is in every block may be unheard of by its worker.
absl::Status InputModel::GoesOn(const SessionKey& session,
                                const v1::HeldInput& held) {
  const Term& before = TermOf(session);
  Term& term = terms_[held.term()];
  goes_on_in_[session] = held.term();
  for (const v1::HeldInput::Part& part : held.parts()) {
    const v1::Portion& portion = part.portion();
    for (uint64_t begin = portion.begin(); begin < portion.end();
         begin += IntegerJob::kBatch) {
      const BatchPlace place = {portion.epoch(), begin};
      Batch& batch = term.batches[place];
      if (batch.state == Batch::State::kLeased && batch.holder != session) {
        return Wrong(SessionName(session), " holds ", NameOf(place), ", which ",
                     SessionName(batch.holder), " was given");
      }
      batch.is_held = batch.state == Batch::State::kDone;
      if (!batch.is_held) {
        batch.state = begin < part.used_to() ? Batch::State::kDone
                                             : Batch::State::kLeased;
      }
      batch.holder = session;
      const Batch& was = before.batches.at(place);
      batch.pushed = was.pushed;
      // Since the session said what it holds.
      batch.whole = was.whole && was.holder == session;
      batch.stamp = was.stamp;
      batch.portion = portion.id();
      batch.times = std::max(batch.times, was.times);
    }
  }
  return absl::OkStatus();
}

uint64_t InputModel::NewestOf(
    const std::function<bool(uint64_t term)>& is_one) const {
  for (auto term = terms_.rbegin(); term != terms_.rend(); ++term) {
    if (is_one(term->first) && !term->second.batches.empty()) {
      return term->first;
    }
  }
  return 0;
}

absl::Status InputModel::HandedOut(const v1::PortionRequest& request,
                                   const v1::PortionReply& reply) {
  const SessionKey session = {request.header().worker(),
                              NumberOf(request.header().generation())};
  const auto found = terms_.find(reply.term());
  if (found == terms_.end()) {
    return Wrong("input is handed out in a term that nobody has logged");
  }
  Term& term = found->second;
  uint64_t& answered = term.answered[session];
  if (request.number() <= answered) return absl::OkStatus();
  answered = request.number();
  for (auto& [place, batch] : term.batches) {
    if (batch.state != Batch::State::kLeased || batch.holder != session ||
        batch.portion > request.finished_id()) {
      continue;
    }
    if (!batch.whole) {
      return Wrong(SessionName(session), " has used up ", NameOf(place),
                   ", whose push is not whole");
    }
    batch.state = Batch::State::kDone;
  }
  if (!reply.has_portion()) return absl::OkStatus();
  const v1::Portion& portion = reply.portion();
  for (uint64_t begin = portion.begin(); begin < portion.end();
       begin += IntegerJob::kBatch) {
    const auto batch = term.batches.find({portion.epoch(), begin});
    if (batch == term.batches.end() ||
        batch->second.state != Batch::State::kFree) {
      return Wrong("portion ", portion.id(), " of ", SessionName(session),
                   " has ", NameOf({portion.epoch(), begin}),
                   ", which is somebody's or done");
    }
    handed_out_again_ += batch->second.times > 0 ? 1 : 0;
    batch->second.state = Batch::State::kLeased;
    batch->second.holder = session;
    batch->second.portion = portion.id();
    batch->second.pushed = false;
    batch->second.whole = false;
    ++batch->second.times;
  }
  return absl::OkStatus();
}

void InputModel::Fenced(const SessionKey& session, bool in_good_order) {
  Term& term = TermOf(session);
  fenced_.insert(session);
  for (auto& [place, batch] : term.batches) {
    if (batch.state != Batch::State::kLeased || batch.holder != session) {
      continue;
    }
    const bool done = batch.whole && in_good_order;
    batch.state = done ? Batch::State::kDone : Batch::State::kFree;
    batch.was_whole |= batch.whole && !in_good_order;
  }
}

absl::Status InputModel::Pushed(const PushLedger::Push& push) {
  Batch& batch = TermOf(push.session).batches[push.batch];
  if (fenced_.contains(push.session)) return absl::OkStatus();
  const bool is_given = batch.state == Batch::State::kLeased || batch.is_held;
  if (is_given && batch.holder == push.session) {
    if (!std::exchange(batch.pushed, true)) return absl::OkStatus();
    return Wrong(SessionName(push.session), " pushes ", NameOf(push.batch),
                 " a second time");
  }
  return Wrong(SessionName(push.session), " pushes ", NameOf(push.batch),
               ", which it was not given");
}

void InputModel::Whole(const PushLedger::Push& push) {
  if (push.given_up) given_up_.insert(push.batch);
  Batch& batch = TermOf(push.session).batches[push.batch];
  if (batch.state == Batch::State::kLeased && batch.holder == push.session) {
    batch.whole = true;
    batch.stamp = push.stamp;
  }
}

void InputModel::Cut(const Number& snapshot) {
  cuts_.try_emplace(snapshot, terms_[snapshot.first].batches);
}

absl::Status InputModel::CheckCheckpoint(const v1::Manifest& manifest) const {
  const auto cut = cuts_.find(NumberOf(manifest.snapshot()));
  if (cut == cuts_.end()) return Wrong("it was never sealed");
  const std::set<BatchPlace> left = LeftOf(manifest.input(), job_);
  for (const auto& [place, batch] : cut->second) {
    if (batch.was_whole) continue;
    const bool used = batch.state == Batch::State::kDone ||
                      (batch.state == Batch::State::kLeased && batch.whole);
    const bool done = used && batch.stamp < NumberOf(manifest.snapshot());
    if (left.contains(place) == done) {
      return Wrong(NameOf(place), done ? " is left" : " is not left",
                   " in its input, which is wrong");
    }
  }
  return absl::OkStatus();
}

uint32_t InputModel::TimesHandedOut(const v1::Manifest& manifest,
                                    const BatchPlace& batch) const {
  const auto cut = cuts_.find(NumberOf(manifest.snapshot()));
  return cut == cuts_.end() ? 0 : cut->second.at(batch).times;
}

absl::Status InputModel::CheckFinished(const v1::Manifest& manifest) const {
  const std::set<BatchPlace> left = LeftOf(manifest.input(), job_);
  return left.empty() ? absl::OkStatus()
                      : Wrong("the job ended without ", NameOf(*left.begin()));
}

}  // namespace paramd
