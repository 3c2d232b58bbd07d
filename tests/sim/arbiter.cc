#include "tests/sim/arbiter.h"

#include <utility>

namespace paramd {

void SimArbiter::PassTo(absl::Duration now) {
  for (auto lease = leases_.begin(); lease != leases_.end();) {
    lease = lease->second.ends <= now ? leases_.erase(lease) : ++lease;
  }
  if (key_.has_value() && !leases_.contains(key_->lease)) {
    key_.reset();
    ++revision_;
  }
}

int64_t SimArbiter::Grant(absl::Duration ttl, absl::Duration now) {
  PassTo(now);
  leases_[++leases_granted_] = {ttl, now + ttl};
  return leases_granted_;
}

bool SimArbiter::KeepAlive(int64_t lease, absl::Duration now) {
  PassTo(now);
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return false;
  found->second.ends = now + found->second.ttl;
  return true;
}

void SimArbiter::Revoke(int64_t lease, absl::Duration now) {
  leases_.erase(lease);
  PassTo(now);
}

absl::optional<EtcdKey> SimArbiter::Get(absl::Duration now) {
  PassTo(now);
  return key_;
}

uint64_t SimArbiter::Create(const std::string& value, int64_t lease,
                            absl::Duration now) {
  PassTo(now);
  if (key_.has_value() || !leases_.contains(lease)) return 0;
  key_ = EtcdKey{value, ++revision_, lease};
  created_[revision_] = lease;
  return revision_;
}

void SimArbiter::Delete(uint64_t create_revision, absl::Duration now) {
  PassTo(now);
  if (!key_.has_value() || key_->create_revision != create_revision) return;
  key_.reset();
  ++revision_;
}

}  // namespace paramd
