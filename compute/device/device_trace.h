#ifndef PARAMD_COMPUTE_DEVICE_DEVICE_TRACE_H_
#define PARAMD_COMPUTE_DEVICE_DEVICE_TRACE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "compute/device/accelerator.h"

namespace paramd {

class ChromeTrace;

// When copies and sums of an accelerator ran, for a trace: timed events in
// their streams, which are looked at once they are over. Does nothing until
// Start. Not thread-safe: of the device's thread.
class DeviceTrace {
 public:
  enum class Lane { kUpload, kDownload, kSum };

  // Both outlive it, the accelerator also this call. `stream`: of the
  // accelerator, which is waited for, so that its clock is known.
  void Start(ChromeTrace* trace, Accelerator* accelerator,
             Accelerator::Stream stream);
  // What comes is of this: a name that outlives the trace.
  void Describe(const char* what) { what_ = what; }

  // What the stream is given between is one event of the lane. A second Begin
  // before an End, and an End without a Begin, do nothing.
  void Begin(Lane lane, Accelerator::Stream stream);
  void End(Lane lane, Accelerator::Stream stream);
  // Tells the trace of what is over.
  void Report();

 private:
  static constexpr size_t kLanes = 3;
  struct Span {
    Lane lane = Lane::kUpload;
    const char* what = nullptr;  // Null: none has begun.
    Accelerator::Event begin = 0;
    Accelerator::Event end = 0;
  };

  Accelerator::Event TakeEvent();

  ChromeTrace* trace_ = nullptr;
  Accelerator* accelerator_ = nullptr;
  const char* what_ = "copy";
  // Times are counted from here.
  Accelerator::Event base_ = 0;
  int64_t base_nanoseconds_ = 0;  // Of the host's monotonic clock.
  std::array<Span, kLanes> open_;
  std::vector<Span> ended_;  // For the streams, perhaps, they are to come.
  std::vector<Accelerator::Event> free_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_DEVICE_TRACE_H_
