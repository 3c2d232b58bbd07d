#ifndef PARAMD_INPUT_GROWING_SOURCE_H_
#define PARAMD_INPUT_GROWING_SOURCE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/mutex.h"
#include "input/example_source.h"
#include "input/file.h"
#include "input/label_join.h"
#include "input/message_format.h"
#include "input/topic.h"
#include "input/topic_epoch.h"
#include "proto/paramd/v1/input.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

// A training set that grows: each epoch has files of its own, or messages of a
// topic. Which these are the chief decides, and whoever is given a part of an
// epoch is told. They are opened when the first of its examples is read, must
// be what the chief found, and are closed when others were read since.
//
// Thread-safe.
class GrowingSource : public ExampleSource {
 public:
  // What `config` names; no file need be there. INVALID_ARGUMENT if it is of a
  // kind that can't grow, or does not say what an example has.
  static absl::StatusOr<std::unique_ptr<GrowingSource>> Create(
      const v1::InputSource& config);
  // The same of messages that lie elsewhere than config.kafka says.
  static absl::StatusOr<std::unique_ptr<GrowingSource>> Create(
      const v1::InputSource& config, std::unique_ptr<Topic> topic);

  // What an epoch consists of. Forgets what was told long before.
  void Tell(const v1::EpochFiles& files);
  // Where a network file system shows late what another machine wrote, a file
  // that is not there, or too short, is waited for: so long, 30 s unless told.
  void SetPatience(absl::Duration patience);
  // No longer than until now; nor for messages.
  void StopWaiting();

  // As Topic has it, of messages.
  Topic::Wait waiting() const;
  const TopicCounters& counters() const { return counters_; }

  const InputSpec& spec() const override { return nothing_->spec(); }
  uint64_t size() const override { return 0; }
  v1::DataSet Describe() const override;
  SourceNames Names() const override { return nothing_->Names(); }
  absl::Status Read(uint64_t index, Example* example) const override;
  std::string Where(uint64_t index) const override;
  uint64_t SizeIn(uint64_t epoch) const override;
  uint64_t IndexOf(uint64_t epoch, uint64_t offset) const override;
  std::vector<uint64_t> FileStartsIn(uint64_t epoch) const override;
  GrowingSource* growing() override { return this; }

 private:
  using Opened = std::shared_ptr<const ExampleSource>;

  GrowingSource(const v1::InputSource& config,
                std::unique_ptr<ExampleSource> nothing)
      : config_(config), nothing_(std::move(nothing)) {}

  absl::StatusOr<Opened> OpenMessages(const v1::EpochFiles& epoch) const;

  // Null: it is not open.
  Opened Find(uint64_t epoch) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Opened> Load(uint64_t epoch) const
      ABSL_LOCKS_EXCLUDED(opening_, mutex_);
  absl::StatusOr<Opened> Open(const v1::EpochFiles& files) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::unique_ptr<InputFile>> OpenFile(
      const v1::EpochFiles::File& file) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits a little for a file to be seen. False: no longer.
  bool WaitSince(absl::Time since) const ABSL_LOCKS_EXCLUDED(mutex_);

  const v1::InputSource config_;
  const std::unique_ptr<ExampleSource> nothing_;  // Of no file.
  // Of messages; else null.
  std::unique_ptr<Topic> topic_;
  std::unique_ptr<const MessageFormat> format_;
  std::unique_ptr<LabelJoin> join_;  // Null: they have their labels.
  mutable TopicCounters counters_;
  // One thread opens files; taken before mutex_.
  mutable Mutex opening_;
  mutable Mutex mutex_;
  mutable CondVar changed_;  // The patience.
  absl::Duration patience_ ABSL_GUARDED_BY(mutex_) = absl::Seconds(30);
  std::map<uint64_t, v1::EpochFiles> told_ ABSL_GUARDED_BY(mutex_);
  std::deque<uint64_t> told_order_ ABSL_GUARDED_BY(mutex_);
  // The newest opened ones, in order.
  mutable std::deque<std::pair<uint64_t, Opened>> open_ ABSL_GUARDED_BY(mutex_);
  // What can't be opened once is not waited for again.
  mutable absl::Status failure_ ABSL_GUARDED_BY(opening_);
};

// Of what `config` follows, where that is files, finds those that the request
// does not know and checks that they can be trained on together, each example
// of them unless those that can't be read are skipped. UNAVAILABLE if the
// directory can't be looked through now, CANCELLED once `stopped`, if it is
// given, is true; else an error names the file and what is wrong with it.
absl::StatusOr<v1::ScanInputResult> ScanInput(
    const v1::InputConfig& config, const v1::ScanInput& request,
    const std::atomic<bool>* stopped = nullptr);

}  // namespace paramd

#endif  // PARAMD_INPUT_GROWING_SOURCE_H_
