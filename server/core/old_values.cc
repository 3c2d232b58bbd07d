#include "server/core/old_values.h"

#include <algorithm>
#include <iterator>

namespace paramd {
namespace {

bool IsSame(const v1::BlockVersion& a, const v1::BlockVersion& b) {
  return a.life() == b.life() && a.counter() == b.counter();
}

}  // namespace

void OldValues::SetWorkers(const std::vector<uint32_t>& workers) {
  for (auto it = workers_.begin(); it != workers_.end();) {
    const bool stays =
        std::count(workers.begin(), workers.end(), it->first) > 0;
    it = stays ? std::next(it) : workers_.erase(it);
  }
  for (const uint32_t worker : workers) workers_[worker];
}

bool OldValues::Clear() {
  bool any = false;
  for (auto& [worker, reads] : workers_) {
    any |= !reads.empty();
    reads.clear();
  }
  return any;
}

void OldValues::Read(uint32_t worker, Place place,
                     const v1::BlockVersion& version, const Buffer& values) {
  const auto reads = workers_.find(worker);
  if (reads == workers_.end()) return;
  std::vector<Kept>& versions = reads->second[place];
  if (!versions.empty() && IsSame(versions.back().version, version)) return;
  if (versions.size() == versions_kept_) versions.erase(versions.begin());
  versions.push_back({version, values});
}

const Buffer* OldValues::Find(uint32_t worker, Place place,
                              const v1::BlockVersion& version) const {
  const auto reads = workers_.find(worker);
  if (reads == workers_.end()) return nullptr;
  const auto versions = reads->second.find(place);
  if (versions == reads->second.end()) return nullptr;
  for (const Kept& kept : versions->second) {
    if (IsSame(kept.version, version)) return &kept.values;
  }
  return nullptr;
}

}  // namespace paramd
