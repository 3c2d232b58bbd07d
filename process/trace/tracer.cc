#include "process/trace/tracer.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/clock.h"
#include "base/status_macros.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// Names of one answer, each once.
class NameTable {
 public:
  explicit NameTable(v1::TraceReply* reply) : reply_(reply) {}

  uint32_t IndexOf(absl::string_view name) {
    const auto [it, is_new] =
        indices_.try_emplace(name, static_cast<uint32_t>(reply_->names_size()));
    if (is_new) {
      reply_->add_names(std::string(name));
      bytes_ += name.size() + 8;
    }
    return it->second;
  }
  size_t bytes() const { return bytes_; }

 private:
  v1::TraceReply* const reply_;
  size_t bytes_ = 0;
  absl::flat_hash_map<absl::string_view, uint32_t> indices_;
};

v1::TraceFlow::Phase PhaseOf(ChromeTrace::Phase phase) {
  switch (phase) {
    case ChromeTrace::Phase::kStart:
      return v1::TraceFlow::START;
    case ChromeTrace::Phase::kStep:
      return v1::TraceFlow::STEP;
    case ChromeTrace::Phase::kEnd:
      return v1::TraceFlow::END;
  }
  return v1::TraceFlow::PHASE_UNSPECIFIED;
}

void FillEvent(const ChromeTrace::Event& event, NameTable* names,
               v1::TraceEvent* filled) {
  filled->set_name(names->IndexOf(event.name));
  filled->set_lane(names->IndexOf(ChromeTrace::NameOf(event.lane)));
  filled->set_thread(event.thread);
  filled->set_begin_ns(event.begin.nanoseconds());
  const int64_t duration = event.end.nanoseconds() - event.begin.nanoseconds();
  filled->set_duration_ns(
      static_cast<uint64_t>(std::max(int64_t{0}, duration)));
  for (const ChromeTrace::Number& number : event.numbers) {
    v1::TraceNumber* const added = filled->add_numbers();
    added->set_name(names->IndexOf(number.name));
    added->set_value(number.value);
  }
  for (const ChromeTrace::Flow& flow : event.flows) {
    v1::TraceFlow* const added = filled->add_flows();
    added->set_id(flow.id);
    added->set_phase(PhaseOf(flow.phase));
  }
}

}  // namespace

absl::StatusOr<v1::TraceReply> Tracer::Answer(const v1::TraceRequest& request) {
  const absl::Duration duration = absl::Milliseconds(request.duration_ms());
  if (duration < kShortest || duration > kLongest) {
    return Invalid(
        process_,
        absl::StrCat("a trace takes ", absl::FormatDuration(kShortest), " to ",
                     absl::FormatDuration(kLongest), ", not ",
                     absl::FormatDuration(duration)));
  }
  const MutexLock lock(&mutex_);
  if (trace_ == nullptr) {
    return Refuse(v1::Refusal::JOB_FINISHED, process_,
                  absl::StrCat("the job has ended: ", process_,
                               " does nothing that could be traced"));
  }
  const bool is_asked_again = has_begun_ && request.nonce() == nonce_;
  if (!is_asked_again) RETURN_IF_ERROR(Begin(request));
  asked_ = MonotonicNow();
  if (is_recording_ && MonotonicNow() >= end_) {
    known_ = trace_->TakeRecording();
    total_ = known_.events.size();
    is_recording_ = false;
  }
  v1::TraceReply reply;
  reply.set_process(process_);
  reply.set_recording(is_recording_);
  if (!is_recording_) RETURN_IF_ERROR(AddPiece(request.have(), &reply));
  reply.set_clock_ns(MonotonicNow().nanoseconds());
  return reply;
}

absl::Duration Tracer::TakenFor(Time now) const {
  absl::Duration taken;
  if (is_recording_) taken = end_ - now;
  if (is_recording_ || !known_.events.empty()) {
    taken = std::max(taken, asked_ + patience_ - now);
  }
  return std::max(taken, absl::ZeroDuration());
}

absl::Status Tracer::Begin(const v1::TraceRequest& request) {
  if (request.have() > 0) {
    return Invalid(
        process_,
        absl::StrCat("the events of this trace are gone from ", process_,
                     ": it was started again, or somebody else "
                     "has traced it since"));
  }
  const Time now = MonotonicNow();
  const absl::Duration left = TakenFor(now);
  if (left > absl::ZeroDuration()) {
    return RefuseForNow(
        v1::Refusal::RETRY, process_, left,
        absl::StrCat(process_, " is being traced by somebody else, for ",
                     absl::FormatDuration(absl::Ceil(left, absl::Seconds(1))),
                     " more"));
  }
  known_ = {};
  total_ = 0;
  has_begun_ = true;
  is_recording_ = true;
  nonce_ = request.nonce();
  end_ = now + absl::Milliseconds(request.duration_ms());
  trace_->Record(end_);
  return absl::OkStatus();
}

absl::Status Tracer::AddPiece(uint64_t have, v1::TraceReply* reply) {
  if (have > total_) {
    return Invalid(process_, absl::StrCat(process_, " recorded ", total_,
                                          " events; nobody has ", have));
  }
  reply->set_total(total_);
  reply->set_left_out(known_.left_out);
  if (have == total_) {
    known_.events = {};
    return absl::OkStatus();
  }
  // Whoever had them all lets them go before.
  if (known_.events.empty()) {
    return Invalid(process_,
                   absl::StrCat("the events of this trace are gone from ",
                                process_, ": it has handed them over"));
  }
  NameTable names(reply);
  size_t bytes = 0;
  for (size_t i = have; i < known_.events.size(); ++i) {
    v1::TraceEvent* const event = reply->add_events();
    FillEvent(known_.events[i], &names, event);
    bytes += event->ByteSizeLong() + 8;
    if (bytes + names.bytes() >= kPieceBytes) break;
  }
  return absl::OkStatus();
}

void Tracer::Close() {
  const MutexLock lock(&mutex_);
  if (trace_ == nullptr) return;
  trace_->CloseRecording();
  trace_ = nullptr;
  is_recording_ = false;
  known_ = {};
  total_ = 0;
}

}  // namespace paramd
