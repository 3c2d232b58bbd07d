#ifndef PARAMD_WORKER_INPUT_CACHE_STAGE_H_
#define PARAMD_WORKER_INPUT_CACHE_STAGE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"

#include "base/mutex.h"
#include "worker/input/stage.h"

namespace paramd {

// Keeps the examples that its upstream gave, by offset, and gives them again in
// every epoch: the upstream is asked for epoch 0 alone. What exceeds the bound
// is asked for again each time, so the bound changes no result.
//
// Kept in memory, or in a file of its own that has no name: it goes with the
// process. Thread-safe.
class CacheStage : public Stage {
 public:
  // With a directory, the file lies there; the system's code if it can't be
  // made.
  static absl::StatusOr<std::unique_ptr<Stage>> Create(
      const Stage& upstream, const std::string& directory, uint64_t max_bytes);
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
    std::shared_ptr<const std::string> memory;
    uint64_t position = 0;  // In the file.
    uint64_t bytes = 0;     // 0: not kept.
    uint32_t crc32c = 0;    // Of those in the file.
  };

  CacheStage(const Stage& upstream, int fd, uint64_t max_bytes);
  absl::Status Load(const Entry& entry, Example* example) const;
  absl::Status Store(uint64_t offset, const Example& example) const;

  const Stage& upstream_;
  const int fd_;  // -1: in memory.
  const uint64_t max_bytes_;
  mutable Mutex mutex_;
  mutable std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  mutable uint64_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_INPUT_CACHE_STAGE_H_
