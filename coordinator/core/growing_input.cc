#include "coordinator/core/growing_input.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paramd {

using ::google::protobuf::DynamicCastToGenerated;

GrowingInput::GrowingInput(const CoordinatorOptions& options,
                           Portions* portions)
    : portions_(*portions),
      config_(options.job.input().follow()),
      directory_(options.data.directory()) {}

// A run may go on with fewer epochs than it found: the others are not handed
// out, and their files are not found again.
void GrowingInput::Read(const v1::EpochFiles& logged) {
  portions_.OnFound(logged);
  if (logged.files().empty()) return;
  next_epoch_ = logged.epoch() + 1;
  for (const v1::EpochFiles::File& file : logged.files()) {
    known_.push_back(file.name());
  }
}

void GrowingInput::Advance(Turn* turn) {
  if (!portions_.epochs().complete() && portions_.all_begun() &&
      stage_ == Stage::kWaiting && turn->job.phase == JobPhase::kRunning &&
      turn->now >= next_scan_) {
    Scan(turn);
  }
}

void GrowingInput::Scan(Turn* turn) {
  stage_ = Stage::kScanning;
  scan_began_ = turn->now;
  next_scan_ = turn->now + absl::Milliseconds(config_.poll_ms());
  auto scan = std::make_unique<v1::ScanInput>();
  scan->mutable_known()->Add(known_.begin(), known_.end());
  turn->StartIo(std::move(scan), Then(this, &GrowingInput::OnScanned));
}

void GrowingInput::OnScanned(const IoResult& result, Turn* turn) {
  stage_ = Stage::kWaiting;
  const auto* scanned =
      DynamicCastToGenerated<v1::ScanInputResult>(result.head.get());
  if (absl::IsUnavailable(result.status)) {
    if (!std::exchange(failing_, true)) {
      turn->out->Warn(absl::StrCat("looking for new files is tried again: ",
                                   result.status.message()));
    }
    return;
  }
  if (!result.status.ok() || scanned == nullptr) {
    turn->out->Exit(result.status.ok()
                        ? absl::InternalError("a look for files has no result")
                        : result.status);
    return;
  }
  failing_ = false;
  if (!scanned->found().files().empty()) {
    idle_since_.reset();
    // There are more, or the end comes next.
    if (scanned->more() || scanned->ended()) next_scan_ = turn->now;
    return Log(scanned->found(), turn);
  }
  if (scanned->ended() || HasBeenIdle()) Log({}, turn);
}

bool GrowingInput::HasBeenIdle() {
  if (!idle_since_.has_value()) idle_since_ = scan_began_;
  return config_.idle_timeout_ms() > 0 &&
         scan_began_ - *idle_since_ >=
             absl::Milliseconds(config_.idle_timeout_ms());
}

void GrowingInput::Log(v1::EpochFiles found, Turn* turn) {
  stage_ = Stage::kLogging;
  found.set_epoch(next_epoch_);
  v1::LogEntry entry;
  *entry.mutable_epoch_files() = found;
  turn->Append(std::move(entry), [this, found = std::move(found)](
                                     const IoResult& result, Turn* later) {
    OnLogged(found, result, later);
  });
}

void GrowingInput::OnLogged(const v1::EpochFiles& found, const IoResult& result,
                            Turn* turn) {
  stage_ = Stage::kWaiting;
  if (!result.status.ok()) {
    turn->out->Exit(result.status);
    return;
  }
  Read(found);
  if (found.files().empty()) {
    turn->out->Note(absl::StrCat("no more files are waited for; there are ",
                                 found.epoch() - 1, " epochs"));
  } else {
    turn->out->Note(
        absl::StrCat("epoch ", found.epoch(), ": ", found.files_size(),
                     " new files from '", found.files(0).name(), "' on, with ",
                     found.examples(), " examples"),
        {{"epoch", found.epoch()},
         {"files", found.files_size()},
         {"examples", found.examples()}});
  }
}

bool GrowingInput::waits() const {
  return !portions_.epochs().complete() && portions_.all_used();
}

std::string GrowingInput::waiting_for() const {
  return absl::StrCat("new files in ", directory_);
}

}  // namespace paramd
