#include "compute/device/accelerated_device.h"

#include <utility>

namespace paramd {

AcceleratedDevice::AcceleratedDevice(Accelerator* accelerator,
                                     const Options& options)
    : accelerator_(*accelerator),
      records_(options.records),
      compute_(accelerator->MakeStream()),
      uploads_(options.overlaps ? accelerator->MakeStream() : compute_),
      downloads_(options.overlaps ? accelerator->MakeStream() : compute_),
      computed_(accelerator->MakeEvent()),
      uploaded_(accelerator->MakeEvent()),
      downloaded_(accelerator->MakeEvent()) {}

absl::Status AcceleratedDevice::status() const {
  absl::Status status = accelerator_.status();
  if (status.ok() && sum_ != nullptr) status = sum_->status();
  return status;
}

Device::Memory AcceleratedDevice::Allocate(size_t bytes) {
  ++counts_.allocations;
  return accelerator_.AllocateDevice(bytes);
}

void AcceleratedDevice::Copy(const void* from, size_t bytes, void* to) {
  if (bytes > 0) accelerator_.Copy(compute_, from, bytes, to);
}

void AcceleratedDevice::Finish() {
  accelerator_.Record(computed_, compute_);
  accelerator_.Record(uploaded_, uploads_);
  accelerator_.Record(downloaded_, downloads_);
  accelerator_.HostWait(computed_);
  accelerator_.HostWait(uploaded_);
  accelerator_.HostWait(downloaded_);
  if (sum_ != nullptr) {
    accelerator_.Record(summed_, sums_);
    accelerator_.HostWait(summed_);
  }
  trace_.Report();
}

Device::Memory AcceleratedDevice::AllocateHost(size_t bytes) {
  return accelerator_.AllocateHost(bytes);
}

void AcceleratedDevice::UploadBehind() {
  accelerator_.Record(computed_, compute_);
  accelerator_.StreamWait(uploads_, computed_);
}

void AcceleratedDevice::Upload(const void* from, size_t bytes, void* to) {
  if (bytes == 0) return;
  trace_.Begin(DeviceTrace::Lane::kUpload, uploads_);
  accelerator_.Copy(uploads_, from, bytes, to);
}

void AcceleratedDevice::MarkUploads(Mark mark) {
  trace_.End(DeviceTrace::Lane::kUpload, uploads_);
  accelerator_.Record(mark, uploads_);
}

void AcceleratedDevice::ComputeBehind(Mark mark) {
  accelerator_.StreamWait(compute_, mark);
}

void AcceleratedDevice::Download(const void* from, size_t bytes, void* to,
                                 Mark mark) {
  accelerator_.Record(computed_, compute_);
  accelerator_.StreamWait(downloads_, computed_);
  if (bytes > 0) {
    trace_.Begin(DeviceTrace::Lane::kDownload, downloads_);
    accelerator_.Copy(downloads_, from, bytes, to);
    trace_.End(DeviceTrace::Lane::kDownload, downloads_);
  }
  accelerator_.Record(mark, downloads_);
}

void AcceleratedDevice::Wait(Mark mark) {
  accelerator_.HostWait(mark);
  trace_.Report();
}

absl::Status AcceleratedDevice::Join(const ReplicaGroup& group) {
  if (group.ring != nullptr) {
    sum_ = std::make_unique<RingSum>(&accelerator_, group.ring);
  } else {
    auto joined = accelerator_.Join(group);
    if (!joined.ok()) return joined.status();
    sum_ = *std::move(joined);
  }
  if (std::exchange(has_sums_, true)) return absl::OkStatus();
  sums_ = accelerator_.MakeStream();
  summed_ = accelerator_.MakeEvent();
  return absl::OkStatus();
}

void AcceleratedDevice::Sum(absl::Span<const SumPart> parts, Mark mark) {
  accelerator_.Record(computed_, compute_);
  accelerator_.StreamWait(sums_, computed_);
  trace_.Begin(DeviceTrace::Lane::kSum, sums_);
  sum_->Add(sums_, parts);
  trace_.End(DeviceTrace::Lane::kSum, sums_);
  accelerator_.Record(mark, sums_);
}

void AcceleratedDevice::DownloadBehind(Mark mark) {
  accelerator_.StreamWait(downloads_, mark);
}

void AcceleratedDevice::AbortSums() {
  if (sum_ != nullptr) sum_->Abort(status());
}

}  // namespace paramd
