#ifndef PARAMD_COORDINATOR_SUMMARY_SUMMARY_WRITER_H_
#define PARAMD_COORDINATOR_SUMMARY_SUMMARY_WRITER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "checkpoint/file.h"
#include "coordinator/summary/event.pb.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

// Writes event files that TensorBoard reads:
// `events.out.tfevents.<unix seconds>.<host>.<pid>`, records in the framing of
// TFRecord (tensorflow/core/lib/io/record_writer).
//
// Invariants: a file's name is above those of all files that lie in the
// directory when it is made, clock set back or not, as TensorBoard reads them
// in that order and never goes back. A record is written at once, with one
// call. Nothing stands after a record that was not written whole: the next
// one begins a new file. A file that could not be begun is not left there.
//
// Not thread-safe. One writer at a time in a directory.
class SummaryWriter {
 public:
  // The directory and the file are made by the first Write.
  explicit SummaryWriter(std::string directory);
  // Closes the file, durably.
  ~SummaryWriter();
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  // Writes the scalars; before them, if the summary says `restarted`, that all
  // that was written for its step or a later one is void, and each tag that had
  // a value by then once more, at that step: TensorBoard's fast loader, which
  // is the default, passes over the first, and drops of a tag only what is not
  // below its newest point. What the disk answered, naming the path, if that is
  // impossible: the summary is lost and the next one is tried as if nothing had
  // been.
  absl::Status Write(const v1::WriteSummary& summary, absl::Time now);

 private:
  absl::Status Open(absl::Time now);
  absl::Status WriteAgain(uint64_t step, absl::Time now);
  absl::Status Append(const summary::Event& event);

  const std::string directory_;
  bool made_ = false;  // The directory.
  std::unique_ptr<NewFile> file_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_SUMMARY_SUMMARY_WRITER_H_
