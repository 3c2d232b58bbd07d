#include "coordinator/core/pending_work.h"

#include <memory>

#include "absl/strings/str_cat.h"

#include "base/random.h"

namespace paramd {

// No code for which a supervisor would start this process again: two that both
// come back would end each other for ever.
absl::Status TermLost(absl::string_view how) {
  return absl::AlreadyExistsError(
      absl::StrCat("another chief has taken over this run, and nothing counts "
                   "that this one still does: ",
                   how));
}

void PendingWork::LogRead(uint64_t next_number, const std::string& run_id,
                          const v1::JobRecord& job) {
  next_log_number_ = next_number;
  run_id_ = run_id;
  job_ = job;
}

void PendingWork::StartIo(Outbox::Head head, BufferChain payload,
                          IoHandler handler, Outbox* out) {
  handlers_[next_io_] = std::move(handler);
  out->StartIo(next_io_++, std::move(head), std::move(payload));
}

void PendingWork::Append(v1::LogEntry entry, Haste haste, IoHandler handler,
                         Outbox* out) {
  entry.set_number(next_log_number_++);
  entry.set_nonce(CounterRandom(nonce_seed_).Bits(entry.number()));
  entry.set_run_id(run_id_);
  entry.set_job_digest(job_digest_);
  if (entry.kind_case() == v1::LogEntry::kTerm || entry.has_configuration()) {
    *entry.mutable_job() = job_;
  }
  handlers_[next_io_] = std::move(handler);
  appends_.push_back({next_io_++, std::move(entry), haste});
  if (appends_.size() == 1) AppendNext(out);
}

void PendingWork::AppendNext(Outbox* out) {
  auto append = std::make_unique<v1::AppendLog>();
  *append->mutable_entry() = appends_.front().entry;
  out->StartIo(appends_.front().io, std::move(append));
}

PendingWork::Ended PendingWork::End(IoResult* result, bool owns_term,
                                    Outbox* out) {
  Ended ended;
  const auto found = handlers_.find(result->io);
  if (found == handlers_.end()) return ended;
  ended.handler = std::move(found->second);
  handlers_.erase(found);
  if (!appends_.empty() && appends_.front().io == result->io) {
    ended.haste = appends_.front().haste;
    appends_.pop_front();
    if (absl::IsAborted(result->status) && owns_term) {
      result->status = TermLost(result->status.message());
    }
    if (!appends_.empty() && result->status.ok()) AppendNext(out);
  }
  return ended;
}

}  // namespace paramd
