#include "coordinator/election/etcd_record.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"

namespace paramd {

EtcdRecord::EtcdRecord(const EtcdPlace& place,
                       std::unique_ptr<EtcdClient> client)
    : place_(place), key_(place.key()), client_(std::move(client)) {}

absl::StatusOr<absl::optional<ChiefRecord::Holder>> EtcdRecord::Look() {
  ASSIGN_OR_RETURN(found_, client_->Get(key_));
  absl::optional<EtcdKey> key;
  if (found_.kv.has_value()) {
    key = EtcdKey{found_.kv->value(),
                  static_cast<uint64_t>(found_.kv->create_revision()),
                  found_.kv->lease()};
  }
  const absl::optional<Holder> holder = HolderOf(key, lease_);
  if (holder.has_value() && holder->is_self) {
    created_ = found_.kv->create_revision();
  }
  return holder;
}

absl::Status EtcdRecord::WaitForChange(absl::Duration most) {
  return client_->WaitForChange(key_, found_.revision, most);
}

absl::StatusOr<uint64_t> EtcdRecord::Take(const std::string& text,
                                          absl::Duration ttl) {
  // One of a try whose answer was lost bought nothing.
  if (lease_ != 0) client_->Revoke(std::exchange(lease_, 0)).IgnoreError();
  ASSIGN_OR_RETURN(lease_, client_->Grant(ttl));
  ASSIGN_OR_RETURN(created_, client_->CreateKey(key_, text, lease_));
  return static_cast<uint64_t>(created_);
}

absl::StatusOr<bool> EtcdRecord::Renew() {
  ASSIGN_OR_RETURN(const bool lives, client_->KeepAlive(lease_));
  if (!lives) return false;
  ASSIGN_OR_RETURN(const EtcdClient::Found found, client_->Get(key_));
  return found.kv.has_value() && found.kv->create_revision() == created_;
}

absl::Status EtcdRecord::Release() {
  return lease_ == 0 ? absl::OkStatus() : client_->Revoke(lease_);
}

absl::Status EtcdRecord::Remove() {
  if (!found_.kv.has_value()) return absl::OkStatus();
  return client_->DeleteKey(key_, found_.kv->create_revision());
}

absl::Duration EtcdRecord::longest_renewal() const {
  return 2 * place_.endpoints.size() * EtcdClient::kPatience;
}

std::string EtcdRecord::NotOurs() const {
  return absl::StrCat("the key ", key_,
                      " in etcd is not one of paramd's: choose another prefix");
}

}  // namespace paramd
