#include "compute/device/nccl_ring.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace paramd {
namespace {

// Of host memory that crosses at a time.
constexpr size_t kPiece = size_t{1} << 20;
constexpr size_t kPieceBytes = kPiece * sizeof(float);
// Between looks whether a member is lost, and whether a call has ended.
constexpr absl::Duration kWatch = absl::Milliseconds(5);
constexpr absl::Duration kCall = absl::Microseconds(50);

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceRing>> NcclRing::Open(
    std::unique_ptr<Accelerator> accelerator,
    const absl::StatusOr<Nccl>& nccl) {
  if (!nccl.ok()) return nccl.status();
  const absl::Status is_new = nccl->CheckNeedNotWait();
  if (!is_new.ok()) return is_new;
  return std::unique_ptr<DeviceRing>(
      new NcclRing(std::move(accelerator), *nccl));
}

NcclRing::~NcclRing() {
  Abort(absl::CancelledError("it was left"));
  if (watching_.joinable()) watching_.join();
}

absl::Status NcclRing::ErrorOf(const Nccl& nccl, Nccl::Result result) {
  if (result == Nccl::kRemoteError) {
    return absl::UnavailableError("NCCL says that another process is lost");
  }
  return absl::UnavailableError(
      absl::StrCat("NCCL says: ", nccl.words(result)));
}

std::string NcclRing::engine() const {
  int version = 0;
  nccl_.version(&version);
  return absl::StrCat("NCCL ", version / 10000, ".", version / 100 % 100, ".",
                      version % 100);
}

absl::StatusOr<DeviceRing::Id> NcclRing::MakeId() {
  static_assert(sizeof(Id) == sizeof(Nccl::Id), "an id is NCCL's");
  Nccl::Id made;
  const Nccl::Result result = nccl_.make_id(&made);
  if (result != 0) return ErrorOf(nccl_, result);
  Id id;
  std::memcpy(id.bytes, made.internal, sizeof(id.bytes));
  return id;
}

void NcclRing::Begin(const Id& id, size_t rank, size_t size) {
  size_ = size;
  // Before anything sums; and it makes the device this thread's, as NCCL asks.
  there_ = accelerator_->AllocateDevice(kPieceBytes);
  sent_ = accelerator_->AllocateHost(kPieceBytes);
  received_ = accelerator_->AllocateHost(kPieceBytes);
  stream_ = accelerator_->MakeStream();
  done_ = accelerator_->MakeEvent();
  if (!accelerator_->status().ok()) return Abort(accelerator_->status());
  Nccl::Id theirs;
  std::memcpy(theirs.internal, id.bytes, sizeof(id.bytes));
  Nccl::Config config;
  {
    const MutexLock lock(&calls_);
    const Nccl::Result result = nccl_.begin_to_join(
        &end_, static_cast<int>(size), theirs, static_cast<int>(rank), &config);
    if (result != 0 && result != Nccl::kInProgress) {
      end_ = nullptr;
      return Abort(ErrorOf(nccl_, result));
    }
  }
  watching_ = std::thread([this] { Watch(); });
}

bool NcclRing::IsDoneLocked() {
  if (end_ == nullptr || !status().ok()) return true;
  Nccl::Result state = 0;
  const Nccl::Result asked = nccl_.state(end_, &state);
  if (asked != 0) state = asked;
  if (state == Nccl::kInProgress) return false;
  if (state != 0) Abort(ErrorOf(nccl_, state));
  return true;
}

absl::StatusOr<bool> NcclRing::HasFormed() {
  const MutexLock lock(&calls_);
  const bool done = IsDoneLocked();
  const absl::Status status = this->status();
  if (!status.ok()) return status;
  return done;
}

void NcclRing::AddLocked(Nccl::Stream stream, absl::Span<const SumPart> parts) {
  const auto is_error = [](Nccl::Result result) {
    return result != 0 && result != Nccl::kInProgress;
  };
  Nccl::Result result = nccl_.begin();
  for (const SumPart& part : parts) {
    if (is_error(result)) break;
    result = nccl_.sum(part.values, part.values, part.count, Nccl::kFloat32,
                       Nccl::kSum, end_, stream);
  }
  const Nccl::Result ended = nccl_.end();
  if (!is_error(result)) result = ended;
  if (is_error(result)) Abort(ErrorOf(nccl_, result));
}

// What is asked of the stream after it is to come after it there, too.
void NcclRing::Add(void* stream, absl::Span<const SumPart> parts) {
  bool has_called = false;
  while (true) {
    {
      const MutexLock lock(&calls_);
      if (end_ == nullptr || !status().ok()) return;
      if (!std::exchange(has_called, true)) {
        AddLocked(static_cast<Nccl::Stream>(stream), parts);
      }
      if (IsDoneLocked()) return;
    }
    MutexLock lock(&mutex_);
    if (why_.ok()) changed_.WaitFor(&mutex_, kCall);
  }
}

absl::Status NcclRing::Sum(absl::Span<float> values) {
  float* const there = static_cast<float*>(there_.get());
  for (size_t begin = 0; begin < values.size(); begin += kPiece) {
    const size_t count = std::min(kPiece, values.size() - begin);
    const size_t bytes = count * sizeof(float);
    std::memcpy(sent_.get(), values.data() + begin, bytes);
    accelerator_->Copy(stream_, sent_.get(), bytes, there);
    Add(accelerator_->StreamHandle(stream_), {{there, count}});
    accelerator_->Copy(stream_, there, bytes, received_.get());
    accelerator_->Record(done_, stream_);
    accelerator_->HostWait(done_);
    if (!accelerator_->status().ok()) Abort(accelerator_->status());
    // What an abort has left there is no sum.
    const absl::Status status = this->status();
    if (!status.ok()) return status;
    std::memcpy(values.data() + begin, received_.get(), bytes);
  }
  return status();
}

void NcclRing::Abort(const absl::Status& why) {
  const MutexLock lock(&mutex_);
  why_.Update(absl::UnavailableError(why.message()));
  changed_.NotifyAll();
}

absl::Status NcclRing::status() const {
  const MutexLock lock(&mutex_);
  return why_;
}

void NcclRing::Watch() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      if (why_.ok()) changed_.WaitFor(&mutex_, kWatch);
    }
    const MutexLock lock(&calls_);
    static_cast<void>(IsDoneLocked());
    if (status().ok()) continue;
    nccl_.abort(std::exchange(end_, nullptr));
    return;
  }
}

}  // namespace paramd
