#include "server/core/backup_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "proto/refusal.h"
#include "server/core/slice_copy.h"

namespace paramd {
namespace {

constexpr uint64_t kMostReplicateBytes = uint64_t{8} << 20;
// Of slices that are cut and not taken, beside pushes.
constexpr uint64_t kCutAhead = uint64_t{4} << 20;
// Where one call follows another, as in sync mode, a lost answer must not pass
// for a backup that stands still.
constexpr absl::Duration kReplicateDeadline = absl::Milliseconds(500);
constexpr absl::Duration kReplicateRetry = absl::Milliseconds(20);
constexpr absl::Duration kBeacon = absl::Milliseconds(250);
constexpr absl::Duration kProof = absl::Seconds(1);

}  // namespace

// ---- what is told -----------------------------------------------------------

void BackupStream::Tell(std::unique_ptr<v1::ReplicateRequest> head,
                        BufferChain payload, Time now) {
  if (items_.empty()) progressed_ = now;
  head->set_number(++told_);
  *head->mutable_since() = backup_.since();
  v1::Header* const header = head->mutable_header();
  *header->mutable_server_generation() = life_;
  header->set_server_incarnation(backup_.incarnation());
  Item& item = items_.emplace_back();
  item.bytes = ChainSize(payload);
  item.head = std::move(head);
  item.payload = std::move(payload);
  item.send_at = now;
  bytes_ += item.bytes;
  bytes_told_ += item.bytes;
  next_beacon_ = now + kBeacon;
}

// The backup takes no part in snapshots, and what is asked for with a push only
// this server answers.
void BackupStream::TellPush(const v1::PushRequest& push, BufferChain payload,
                            uint32_t applied, Time now) {
  auto head = std::make_unique<v1::ReplicateRequest>();
  *head->mutable_push() = push;
  head->mutable_push()->mutable_header()->clear_snapshot();
  head->mutable_push()->clear_pull();
  head->set_applied(applied);
  Tell(std::move(head), std::move(payload), now);
}

void BackupStream::TellState(v1::ReplicateRequest::State state, Time now) {
  auto head = std::make_unique<v1::ReplicateRequest>();
  *head->mutable_state() = std::move(state);
  Tell(std::move(head), {}, now);
}

void BackupStream::TellDecision(const v1::DecideRequest& decided, Time now) {
  auto head = std::make_unique<v1::ReplicateRequest>();
  v1::ReplicateRequest::Decision* const decision = head->mutable_decision();
  *decision->mutable_contributors() = decided.contributors();
  decision->set_step(decided.step());
  *decision->mutable_workers() = decided.workers();
  decision->set_examples(decided.examples());
  *decision->mutable_thresholds() = decided.thresholds();
  *decision->mutable_channels() = decided.channels();
  Tell(std::move(head), {}, now);
}

void BackupStream::TellLeaving(Time now) {
  if (told_leaving_ || stopped_) return;
  told_leaving_ = true;
  auto head = std::make_unique<v1::ReplicateRequest>();
  head->set_leaving(true);
  Tell(std::move(head), {}, now);
}

void BackupStream::CutNext(const ShardContent& content, Time now) {
  const std::vector<Slice*>& slices = content.owned();
  if (next_slice_ < slices.size()) {
    for (SlicePiece& piece :
         CutSlice(static_cast<uint32_t>(next_slice_), *slices[next_slice_])) {
      auto head = std::make_unique<v1::ReplicateRequest>();
      *head->mutable_piece() = std::move(piece.head);
      Tell(std::move(head), std::move(piece.payload), now);
    }
    ++next_slice_;
  }
  if (next_slice_ < slices.size()) return;
  cut_all_ = true;
  last_piece_ = told_;
}

// A block after the other.
void BackupStream::TellProof(const ShardContent& content, Time now) {
  next_proof_ = now + kProof;
  const std::vector<Slice*>& slices = content.owned();
  if (slices.empty()) return;
  if (proof_slice_ >= slices.size()) proof_slice_ = 0;
  const Slice& slice = *slices[proof_slice_];
  const Block& block = slice.block(proof_block_);
  auto head = std::make_unique<v1::ReplicateRequest>();
  v1::ReplicateRequest::Proof* const proof = head->mutable_proof();
  proof->set_slice(static_cast<uint32_t>(proof_slice_));
  proof->set_block(static_cast<uint32_t>(proof_block_));
  proof->set_crc32c(block.Checksum());
  proof->set_applied(block.applied());
  Tell(std::move(head), {}, now);
  if (++proof_block_ < slice.block_count()) return;
  proof_block_ = 0;
  ++proof_slice_;
}

// ---- the answers ------------------------------------------------------------

uint64_t BackupStream::CountPushes(const std::vector<Answer>& answers) {
  return std::count_if(
      answers.begin(), answers.end(),
      [](const Answer& answer) { return answer.decided == nullptr; });
}

void BackupStream::Keep(Answer answer) {
  kept_.push_back({told_, std::move(answer)});
}

void BackupStream::KeepDecided(CallId call,
                               std::unique_ptr<v1::DecideReply> reply) {
  Answer answer;
  answer.call = call;
  answer.decided = std::move(reply);
  Keep(std::move(answer));
}

std::vector<BackupStream::Answer> BackupStream::TakeAnswers() {
  std::vector<Answer> answers;
  while (!kept_.empty() && kept_.front().number <= taken_) {
    answers.push_back(std::move(kept_.front().answer));
    kept_.pop_front();
  }
  return answers;
}

std::vector<BackupStream::Answer> BackupStream::DropAnswers() {
  std::vector<Answer> answers;
  for (Kept& kept : kept_) answers.push_back(std::move(kept.answer));
  kept_.clear();
  return answers;
}

// ---- the end ----------------------------------------------------------------

void BackupStream::Stop() {
  stopped_ = true;
  handed_over_ = handed_over_ || (whole() && items_.empty());
}

// ---- the way ----------------------------------------------------------------

BackupStream::Item* BackupStream::Find(uint64_t number) {
  return number <= taken_ ? nullptr : &items_[number - taken_ - 1];
}

bool BackupStream::MaySend(const Item& item) const {
  return calls_.size() < kMostCalls &&
         (calls_.empty() ||
          bytes_under_way_ + item.bytes <= kMostReplicateBytes);
}

void BackupStream::Advance(const ShardContent* content, Time now, Outbox* out) {
  if (deposed_ || !lost_.empty()) return;
  if (content != nullptr) {
    while (!cut_all_ && bytes_ < kCutAhead) CutNext(*content, now);
    const bool proves = cut_all_ && !stopped_ && !full();
    if (proves && now >= next_proof_) TellProof(*content, now);
  }
  if (items_.empty()) {
    if (now < next_beacon_) return;
    Tell(std::make_unique<v1::ReplicateRequest>(), {}, now);
  }
  if (now - progressed_ >= patience_) {
    lost_ = absl::StrCat("it has taken nothing for ",
                         absl::FormatDuration(now - progressed_));
    return;
  }
  for (Item& item : items_) {
    if (!MaySend(item)) return;
    if (item.call != 0) continue;
    // Those behind it would not be taken.
    if (item.send_at > now) return;
    item.call = next_call_++;
    calls_[item.call] = {item.head->number(), now};
    bytes_under_way_ += item.bytes;
    auto head = std::make_unique<v1::ReplicateRequest>(*item.head);
    out->Send(PeerId::Ps(backup_.peer()), item.call, std::move(head),
              item.payload, kReplicateDeadline);
  }
}

void BackupStream::OnReply(const Message& message, Time now) {
  const auto found = calls_.find(message.call);
  if (found == calls_.end()) return;
  const Call call = found->second;
  calls_.erase(found);
  Item* const item = Find(call.number);
  if (message.status.ok()) {
    const auto* reply = dynamic_cast<const v1::ReplicateReply*>(message.head);
    const bool is_its =
        reply != nullptr && reply->incarnation() == backup_.incarnation() &&
        reply->number() >= call.number && reply->number() <= told_;
    if (item != nullptr) bytes_under_way_ -= item->bytes;
    if (!is_its) {
      lost_ = "something else answers there";
      diverged_ = true;
      return;
    }
    if (item != nullptr) item->call = 0;
    confirmed_ = std::max(confirmed_, call.sent);
    TakenUpTo(reply->number(), now);
    return;
  }
  const v1::Refusal refusal = RefusalOf(message.status);
  if (refusal.reason() == v1::Refusal::FENCED) {
    deposed_ = true;
    return;
  }
  switch (refusal.reason()) {
    case v1::Refusal::REASON_UNSPECIFIED:
    case v1::Refusal::NOT_READY:
    case v1::Refusal::RETRY:
    case v1::Refusal::OVER_LIMIT:
      break;
    default:
      lost_ = std::string(message.status.message());
      diverged_ = true;
  }
  if (item == nullptr) return;
  bytes_under_way_ -= item->bytes;
  item->call = 0;
  item->send_at = now + std::max(kReplicateRetry,
                                 absl::Milliseconds(refusal.retry_after_ms()));
}

// Other calls for what is taken may be under way: they are answered alike.
void BackupStream::TakenUpTo(uint64_t number, Time now) {
  if (number <= taken_) return;
  progressed_ = now;
  while (taken_ < number) {
    const Item& item = items_.front();
    if (item.call != 0) {
      bytes_under_way_ -= item.bytes;
      calls_.erase(item.call);
    }
    bytes_ -= item.bytes;
    items_.pop_front();
    ++taken_;
  }
  if (stopped_) Stop();
}

Time BackupStream::next_tick() const {
  if (deposed_ || !lost_.empty()) return Time::Never();
  if (items_.empty()) return next_beacon_;
  Time next = progressed_ + patience_;
  for (const Item& item : items_) {
    if (!MaySend(item)) break;
    if (item.call != 0) continue;
    next = std::min(next, item.send_at);
    break;
  }
  return next;
}

}  // namespace paramd
