#include "compute/device/testing/emulated_sum.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "compute/device/testing/emulated_accelerator.h"

namespace paramd {
namespace {

// Of all members' part number `part`, the piece of one of them.
void AddPiece(const std::vector<std::vector<SumPart>>& members, size_t part,
              size_t rank) {
  const uint64_t count = members[rank][part].count;
  const uint64_t begin = count * rank / members.size();
  const uint64_t end = count * (rank + 1) / members.size();
  for (const std::vector<SumPart>& member : members) {
    CHECK(member.size() == members[rank].size() && member[part].count == count,
          "all members sum parts of the same lengths");
  }
  for (uint64_t i = begin; i < end; ++i) {
    float sum = members[0][part].values[i];
    for (size_t r = 1; r < members.size(); ++r) {
      sum += members[r][part].values[i];
    }
    for (const std::vector<SumPart>& member : members) {
      member[part].values[i] = sum;
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<StreamSum>> EmulatedSum::Join(
    EmulatedAccelerator* accelerator, const ReplicaGroup& group) {
  std::shared_ptr<void> shared;
  if (group.rank == 0) {
    shared = std::make_shared<Shared>(group.meeting->size());
  }
  RETURN_IF_ERROR(group.meeting->Meet(accelerator->status(), &shared));
  return std::unique_ptr<StreamSum>(new EmulatedSum(
      accelerator, group.rank, std::static_pointer_cast<Shared>(shared)));
}

void EmulatedSum::Add(size_t stream, absl::Span<const SumPart> parts) {
  std::vector<SumPart> inside(parts.begin(), parts.end());
  for (SumPart& part : inside) {
    part.values = static_cast<float*>(
        accelerator_.Inside(part.values, part.count * sizeof(float)));
  }
  accelerator_.AddedSum(stream);
  accelerator_.Launch(
      stream, [shared = shared_, rank = rank_, inside = std::move(inside)] {
        const absl::Status ok;
        shared->parts[rank] = inside;
        if (!shared->meeting.Meet(ok).ok()) return;
        for (size_t part = 0; part < inside.size(); ++part) {
          AddPiece(shared->parts, part, rank);
        }
        CHECK(shared->adding.Meet(ok).ok(), "who has met goes on together");
      });
}

void EmulatedSum::Abort(const absl::Status& why) {
  {
    const MutexLock lock(&shared_->mutex);
    shared_->why.Update(why);
  }
  shared_->meeting.Abort();
}

absl::Status EmulatedSum::status() const {
  const MutexLock lock(&shared_->mutex);
  return shared_->why;
}

}  // namespace paramd
