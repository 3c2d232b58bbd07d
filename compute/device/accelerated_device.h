#ifndef PARAMD_COMPUTE_DEVICE_ACCELERATED_DEVICE_H_
#define PARAMD_COMPUTE_DEVICE_ACCELERATED_DEVICE_H_

#include <memory>

#include "compute/device/accelerator.h"
#include "compute/device/device.h"
#include "compute/device/device_link.h"
#include "compute/device/device_trace.h"

namespace paramd {

// A device over an accelerator: it computes in one stream, in order, and copies
// in two others, one for each direction, as the link's half is called; among
// replicas it sums in one more. The primitives are a subclass's, which gives
// each to `compute()`.
class AcceleratedDevice : public Device, public DeviceLink {
 public:
  // What a benchmark or a test compares with.
  struct Options {
    // False: all is done in one stream.
    bool overlaps = true;
    // False: each call is made each time.
    bool records = true;
  };

  // `accelerator` outlives it.
  AcceleratedDevice(Accelerator* accelerator, const Options& options);

  DeviceLink* link() override { return this; }
  absl::Status status() const override;
  Device::Memory Allocate(size_t bytes) override;
  // In order with what is computed.
  void Copy(const void* from, size_t bytes, void* to) override;
  void Finish() override;

  std::string name() const override { return accelerator_.name(); }
  Device::Memory AllocateHost(size_t bytes) override;
  uint64_t FreeBytes() override { return accelerator_.FreeBytes(); }
  Mark MakeMark() override { return accelerator_.MakeEvent(); }
  void UploadBehind() override;
  void Upload(const void* from, size_t bytes, void* to) override;
  void MarkUploads(Mark mark) override;
  void ComputeBehind(Mark mark) override;
  void Download(const void* from, size_t bytes, void* to, Mark mark) override;
  void Wait(Mark mark) override;
  absl::StatusOr<std::unique_ptr<DeviceRing>> OpenRing() override {
    return accelerator_.OpenRing();
  }
  absl::Status Join(const ReplicaGroup& group) override;
  void Sum(absl::Span<const SumPart> parts, Mark mark) override;
  void DownloadBehind(Mark mark) override;
  void BeginRecording() override { accelerator_.BeginCapture(compute_); }
  absl::StatusOr<std::unique_ptr<Recording>> EndRecording() override {
    return accelerator_.EndCapture(compute_);
  }
  void Replay(const Recording& recording) override {
    ++counts_.replays;
    accelerator_.Replay(compute_, recording);
  }
  bool records() const override { return records_; }
  Counts counts() const override { return counts_; }
  void AbortSums() override;
  void SetTrace(ChromeTrace* trace) override {
    trace_.Start(trace, &accelerator_, compute_);
  }
  void Describe(const char* what) override { trace_.Describe(what); }

 protected:
  Accelerator::Stream compute() const { return compute_; }
  // Before streams end: they may wait for what the others will not do any more.
  void EndSums() { sum_ = nullptr; }

 private:
  Accelerator& accelerator_;
  const bool records_;
  Counts counts_;
  const Accelerator::Stream compute_;
  const Accelerator::Stream uploads_;
  const Accelerator::Stream downloads_;
  // Set again and again: who waits for one takes it as it is then.
  const Accelerator::Event computed_;
  const Accelerator::Event uploaded_;
  const Accelerator::Event downloaded_;
  // Null until it has joined.
  std::unique_ptr<StreamSum> sum_;
  bool has_sums_ = false;  // The stream and the event below are made.
  Accelerator::Stream sums_ = 0;
  Accelerator::Event summed_ = 0;
  DeviceTrace trace_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_ACCELERATED_DEVICE_H_
