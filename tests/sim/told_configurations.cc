#include "tests/sim/told_configurations.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/configuration_changes.h"
#include "proto/refusal.h"

namespace paramd {

absl::StatusOr<const google::protobuf::Message*> ToldConfigurations::Whole(
    const Head& sent) {
  const auto* request = dynamic_cast<const v1::ConfigureRequest*>(&sent);
  if (request == nullptr) return &sent;
  const v1::Configuration& told = request->configuration();
  const auto known = told_.find(IdOf(told.run_id(), told.changes_since()));
  auto whole =
      Expand(known == told_.end() ? v1::Configuration() : known->second, told);
  if (!whole.ok()) return absl::DataLossError(whole.status().message());
  const v1::ConfigurationVersion& version = told.version();
  const auto [first, is_new] =
      told_.try_emplace(IdOf(told.run_id(), version), *whole);
  if (!is_new &&
      first->second.SerializeAsString() != whole->SerializeAsString()) {
    return absl::DataLossError(absl::StrCat(
        "configuration ", VersionName(version), ", told as ",
        told.has_changes_since()
            ? absl::StrCat("changes since ", VersionName(told.changes_since()))
            : "a whole",
        ", is another one than was told before"));
  }
  whole_ = std::make_unique<v1::ConfigureRequest>(*request);
  *whole_->mutable_configuration() = *std::move(whole);
  return whole_.get();
}

}  // namespace paramd
