#ifndef PARAMD_INPUT_CACHE_STAGE_H_
#define PARAMD_INPUT_CACHE_STAGE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"

#include "base/mutex.h"
#include "input/stage.h"

namespace paramd {

// Keeps the examples that its upstream gave, by offset, and gives them again in
// every epoch: the upstream is asked for epoch 0 alone. What exceeds the bound
// is asked for again each time, so the bound changes no result.
//
// Kept in memory, or in a file of its own that has no name: it goes with the
// process. Or in files that stay, in a directory that a key names: each process
// reads those that it finds, and writes what none of them has into one of its
// own, record behind record. So processes need no lock, and one that is killed
// leaves what it had written. Thread-safe.
class CacheStage : public Stage {
 public:
  struct Options {
    std::string directory = {};  // Empty: in memory.
    uint64_t max_bytes = 0;
    // Of files that stay; empty: they don't.
    std::string key = {};
  };
  // The system's code if the file or the directory can't be made.
  static absl::StatusOr<std::unique_ptr<Stage>> Create(const Stage& upstream,
                                                       const Options& options);
  ~CacheStage() override;

  std::vector<uint64_t> FileStarts(uint64_t /*epoch*/) const override {
    return upstream_.FileStarts(0);
  }
  // Keeps nothing.
  absl::Status GetFeature(const ExamplePlace& place, size_t feature,
                          Example* example) const override {
    return upstream_.GetFeature({0, place.offset}, feature, example);
  }
  uint64_t IndexAt(const ExamplePlace& place) const override {
    return upstream_.IndexAt({0, place.offset});
  }

 protected:
  absl::Status DoGet(const ExamplePlace& place,
                     Example* example) const override;

 private:
  // Where the bytes of an example are kept.
  struct Entry {
    std::shared_ptr<const std::string> memory = {};
    int fd = -1;
    uint64_t position = 0;  // In the file.
    uint64_t bytes = 0;     // 0: not kept.
    uint32_t crc32c = 0;    // Of those in the file.
  };
  enum class Where { kMemory, kFile, kFilesThatStay };

  CacheStage(const Stage& upstream, Where where, uint64_t max_bytes,
             std::string directory);
  // Files that earlier processes, and others beside this one, have written.
  absl::Status FindFiles();
  void FindRecords(int fd);
  // Makes the file that this process writes to.
  absl::Status OpenOwnLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Load(const Entry& entry, Example* example) const;
  absl::Status Store(uint64_t offset, const Example& example) const;

  const Stage& upstream_;
  const Where where_;
  const uint64_t max_bytes_;
  const std::string directory_;
  mutable Mutex mutex_;
  mutable std::vector<int> fds_ ABSL_GUARDED_BY(mutex_);  // Of all files.
  mutable int own_ ABSL_GUARDED_BY(mutex_) = -1;
  mutable uint64_t own_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  mutable uint64_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace paramd

#endif  // PARAMD_INPUT_CACHE_STAGE_H_
