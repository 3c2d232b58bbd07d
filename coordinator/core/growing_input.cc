#include "coordinator/core/growing_input.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paramd {

using ::google::protobuf::DynamicCastToGenerated;

namespace {

// It is no epoch, but where partitions are found from now on.
bool SaysOnlyWhere(const v1::EpochFiles& found) {
  return !IsEnd(found) && found.examples() == 0;
}

}  // namespace

GrowingInput::GrowingInput(const CoordinatorOptions& options,
                           Portions* portions)
    : portions_(*portions),
      config_(options.job.input().follow()),
      directory_(options.data.directory()),
      topic_(options.job.input().train().kafka().topic()) {}

// A run may go on with fewer epochs than it found: the others are not handed
// out, and their files are not found again.
void GrowingInput::Read(const v1::EpochFiles& logged) {
  for (const v1::EpochFiles::Partition& partition : logged.partitions()) {
    partitions_[partition.number()] = partition;
    gone_messages_ += partition.gone();
  }
  if (SaysOnlyWhere(logged)) return;
  portions_.OnFound(logged);
  if (IsEnd(logged)) return;
  next_epoch_ = logged.epoch() + 1;
  examples_ += logged.examples();
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
  for (const auto& [number, partition] : partitions_) {
    *scan->add_partitions() = partition;
  }
  scan->set_examples(examples_);
  turn->StartIo(std::move(scan), Then(this, &GrowingInput::OnScanned));
}

void GrowingInput::OnScanned(const IoResult& result, Turn* turn) {
  stage_ = Stage::kWaiting;
  const auto* scanned =
      DynamicCastToGenerated<v1::ScanInputResult>(result.head.get());
  if (absl::IsUnavailable(result.status)) {
    const std::string before =
        std::exchange(failure_, std::string(result.status.message()));
    if (before.empty()) {
      turn->out->Warn(absl::StrCat("looking for new ",
                                   reads_topic() ? "messages" : "files",
                                   " is tried again: ", failure_));
    }
    return;
  }
  if (!result.status.ok() || scanned == nullptr) {
    turn->out->Exit(result.status.ok()
                        ? absl::InternalError("a look for files has no result")
                        : result.status);
    return;
  }
  failure_.clear();
  held_messages_ = scanned->held();
  if (!IsEnd(scanned->found())) {
    if (!SaysOnlyWhere(scanned->found())) idle_since_.reset();
    // There are more, or the end comes next.
    if (scanned->more() || scanned->ended()) next_scan_ = turn->now;
    return Log(scanned->found(), turn);
  }
  // Those that are held are found sooner or later.
  if (held_messages_ > 0) idle_since_.reset();
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
  if (IsEnd(found)) {
    turn->out->Note(absl::StrCat(
        "no more ", reads_topic() ? "messages" : "files",
        " are waited for; there are ", found.epoch() - 1, " epochs"));
  } else if (reads_topic()) {
    SayOfTopic(found, turn);
  } else {
    Say(found, turn);
  }
}

void GrowingInput::Say(const v1::EpochFiles& found, Turn* turn) const {
  turn->out->Note(
      absl::StrCat("epoch ", found.epoch(), ": ", found.files_size(),
                   " new files from '", found.files(0).name(), "' on, with ",
                   found.examples(), " examples"),
      {{"epoch", found.epoch()},
       {"files", found.files_size()},
       {"examples", found.examples()}});
}

void GrowingInput::SayOfTopic(const v1::EpochFiles& found, Turn* turn) const {
  for (const v1::EpochFiles::Partition& partition : found.partitions()) {
    if (partition.gone() == 0) continue;
    turn->out->Warn(absl::StrCat(
        "topic '", topic_, "' has deleted ", partition.gone(),
        " messages of partition ", partition.number(),
        " before they were found; it goes on with offset ", partition.begin()));
  }
  if (SaysOnlyWhere(found)) {
    turn->out->Note(absl::StrCat("topic '", topic_, "' has ",
                                 partitions_.size(), " partitions"),
                    {{"partitions", partitions_.size()}});
    return;
  }
  turn->out->Note(absl::StrCat("epoch ", found.epoch(), ": ", found.examples(),
                               " new messages of ", found.partitions_size(),
                               " partitions of topic '", topic_, "'"),
                  {{"epoch", found.epoch()},
                   {"partitions", found.partitions_size()},
                   {"examples", found.examples()}});
}

bool GrowingInput::waits() const {
  return !portions_.epochs().complete() && portions_.all_used();
}

std::string GrowingInput::waiting_for() const {
  return absl::StrCat(
      reads_topic()
          ? absl::StrCat("new messages of topic '", topic_, "'",
                         held_messages_ == 0 ? ""
                                             : ", or the clicks of those that "
                                               "are held")
          : absl::StrCat("new files in ", directory_),
      failure_.empty() ? "" : ": ", failure_);
}

}  // namespace paramd
