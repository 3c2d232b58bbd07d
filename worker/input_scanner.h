#ifndef PARAMD_WORKER_INPUT_SCANNER_H_
#define PARAMD_WORKER_INPUT_SCANNER_H_

#include <atomic>
#include <memory>

#include "absl/status/statusor.h"

#include "base/worker_thread.h"
#include "input/topic.h"
#include "net/runtime.h"
#include "proto/paramd/v1/input.pb.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

// Looks for new files of a training set that grows, or for new messages, for
// the coordinator, on a thread of its own: counting the examples of files takes
// as long as reading them.
//
// Thread safety: AddTo before the runtime runs. Outlives its Run.
class InputScanner {
 public:
  explicit InputScanner(const v1::InputConfig& config)
      : config_(config), thread_("scan") {}

  // What is being looked through is left.
  ~InputScanner() { stopped_ = true; }
  InputScanner(const InputScanner&) = delete;
  InputScanner& operator=(const InputScanner&) = delete;

  void AddTo(Runtime* runtime);

 private:
  absl::StatusOr<v1::ScanInputResult> Scan(const v1::ScanInput& request);

  const v1::InputConfig config_;
  std::atomic<bool> stopped_{false};
  std::unique_ptr<Topic> topic_;  // Of messages, once they were looked for.
  WorkerThread thread_;           // Last: ends before what it uses.
};

}  // namespace paramd

#endif  // PARAMD_WORKER_INPUT_SCANNER_H_
