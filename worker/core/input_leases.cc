#include "worker/core/input_leases.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "proto/paramd/v1/storage.pb.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

// Short, so that a lost answer is asked for again several times within the
// time that a finished coordinator stays.
constexpr absl::Duration kLeaseDeadline = absl::Seconds(1);
constexpr absl::Duration kLeaseRetry = absl::Milliseconds(200);
constexpr absl::Duration kLeasePoll = absl::Milliseconds(50);

}  // namespace

void InputLeases::Ask(const v1::Header& header, WorkerTurn* turn) {
  if (answered_) ++number_;
  answered_ = false;
  auto request = std::make_unique<v1::PortionRequest>();
  *request->mutable_header() = header;
  request->set_finished_id(finished_);
  request->set_number(number_);
  call_ = turn->Call(std::move(request), kLeaseDeadline);
}

bool InputLeases::Take(const Message& message, uint64_t term,
                       WorkerTurn* turn) {
  call_ = 0;
  ask_at_ = turn->now;
  const auto* reply = DynamicCastToGenerated<v1::PortionReply>(message.head);
  if (!message.status.ok() || reply == nullptr || reply->term() < term) {
    ask_at_ = turn->now + kLeaseRetry;
    return false;
  }
  answered_ = true;
  no_more_ = reply->no_more();
  none_now_ = !reply->has_portion();
  if (none_now_) {
    ask_at_ =
        turn->now + std::max(kLeasePoll, absl::Milliseconds(reply->retry_ms()));
    return true;
  }
  const v1::Portion& portion = reply->portion();
  if (portion.begin() >= portion.end()) return true;
  last_id_ = portion.id();
  portions_.push_back({portion, portion.begin(), portion.begin()});
  auto fetch = std::make_unique<v1::FetchPortion>();
  *fetch->mutable_portion() = portion;
  if (reply->has_files()) *fetch->mutable_files() = reply->files();
  turn->StartIo(std::move(fetch));
  return true;
}

void InputLeases::AskAnew(Time now) {
  call_ = 0;
  ask_at_ = now;
}

absl::optional<InputLeases::Range> InputLeases::TakeExamples(uint64_t most) {
  const auto lease =
      std::find_if(portions_.begin(), portions_.end(),
                   [](const Lease& l) { return l.taken < l.portion.end(); });
  if (lease == portions_.end()) return absl::nullopt;
  Range range;
  range.portion = lease->portion.id();
  range.epoch = lease->portion.epoch();
  range.begin = lease->taken;
  range.end = std::min(range.begin + most, lease->portion.end());
  lease->taken = range.end;
  return range;
}

uint64_t InputLeases::BatchesLeft(uint64_t batch) const {
  uint64_t batches = 0;
  for (const Lease& lease : portions_) {
    batches += (lease.portion.end() - lease.taken + batch - 1) / batch;
  }
  return batches;
}

void InputLeases::Used(uint64_t portion, uint64_t end) {
  for (Lease& lease : portions_) {
    if (lease.portion.id() == portion) lease.used = end;
  }
  while (!portions_.empty() &&
         portions_.front().used == portions_.front().portion.end()) {
    finished_ = portions_.front().portion.id();
    portions_.pop_front();
  }
}

uint32_t InputLeases::epoch() const {
  return portions_.empty() ? 0 : portions_.front().portion.epoch();
}

void InputLeases::FillCut(const absl::optional<Range>& open,
                          v1::WorkerCut* cut) const {
  cut->set_last_portion(last_id_);
  for (const Lease& lease : portions_) {
    const bool is_open =
        open.has_value() && open->portion == lease.portion.id();
    v1::Portion* const left = cut->add_remaining();
    *left = lease.portion;
    left->set_begin(is_open ? open->end : lease.used);
  }
}

v1::HeldInput InputLeases::Held(uint64_t term) const {
  v1::HeldInput held;
  held.set_term(term);
  for (const Lease& lease : portions_) {
    v1::HeldInput::Part* const part = held.add_parts();
    *part->mutable_portion() = lease.portion;
    part->set_used_to(lease.used);
  }
  held.set_last_portion(last_id_);
  held.set_answered(number_ - (answered_ ? 0 : 1));
  return held;
}

}  // namespace paramd
