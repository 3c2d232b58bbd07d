#ifndef PARAMD_COORDINATOR_CORE_GROWING_INPUT_H_
#define PARAMD_COORDINATOR_CORE_GROWING_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "coordinator/core/coordinator_options.h"
#include "coordinator/core/portions.h"
#include "coordinator/core/turn.h"

namespace paramd {

// Has new files of a training set that grows, or new messages of its topic,
// looked for, and makes epochs of them:
//
//   waiting ─► scanning ─► logging ─► waiting … ─► the input is complete
//      ▲          │ nothing new
//      └──────────┘
//
// Invariant: the log has what an epoch consists of before anybody is given some
// of it. A file, or an offset of a partition, is in one epoch only.
//
// Not thread-safe: a part of the coordinator's core.
class GrowingInput {
 public:
  // `portions`, which outlive it, are told of each epoch.
  GrowingInput(const CoordinatorOptions& options, Portions* portions);

  // The log has this.
  void Read(const v1::EpochFiles& logged);
  // Looks for files while the job runs and no epoch that is known is untouched:
  // no more are found than somebody will soon be given. A file that can't be
  // trained on ends the process.
  void Advance(Turn* turn);

  // The job has nothing to do before new files come.
  bool waits() const;

  // "new files in /data/clicks", "new messages of topic 'clicks'", and why they
  // can't be looked for, if that is so.
  std::string waiting_for() const;
  // Of a topic; 0: of files.
  size_t partitions() const { return partitions_.size(); }
  // That the topic had deleted before they were found.
  uint64_t gone_messages() const { return gone_messages_; }
  // That were there at the last look, and wait for their clicks.
  uint64_t held_messages() const { return held_messages_; }

 private:
  enum class Stage { kWaiting, kScanning, kLogging };

  bool reads_topic() const { return !topic_.empty(); }
  void Scan(Turn* turn);
  void OnScanned(const IoResult& result, Turn* turn);
  // Whether no new file has been found for as long as the job waits for one.
  bool HasBeenIdle();
  void Log(v1::EpochFiles found, Turn* turn);
  void OnLogged(const v1::EpochFiles& found, const IoResult& result,
                Turn* turn);
  void Say(const v1::EpochFiles& found, Turn* turn) const;
  void SayOfTopic(const v1::EpochFiles& found, Turn* turn) const;

  Portions& portions_;
  const v1::InputConfig::Follow config_;
  const std::string directory_;
  const std::string topic_;  // Its name; empty: there are files.
  Stage stage_ = Stage::kWaiting;
  uint32_t next_epoch_ = 1;
  std::vector<std::string> known_;  // Names. Bound: the log's.
  // Of a topic, by number: what was found last. Bound: its partitions.
  std::map<uint32_t, v1::EpochFiles::Partition> partitions_;
  uint64_t examples_ = 0;  // Found until now.
  uint64_t gone_messages_ = 0;
  uint64_t held_messages_ = 0;
  Time next_scan_;
  Time scan_began_;
  // Of the first one of those that have found nothing since something was.
  absl::optional<Time> idle_since_;
  std::string failure_;  // Why the last one could not be made; empty: it was.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_GROWING_INPUT_H_
