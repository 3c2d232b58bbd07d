#include "coordinator/core/base_files.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/refusal.h"

namespace paramd {

v1::SnapshotNumber BaseFiles::Next() const {
  return used_ < most_ ? base_.snapshot : v1::SnapshotNumber();
}

absl::Status BaseFiles::Complete(const v1::SnapshotNumber& base,
                                 v1::ShardFile* file) const {
  if (!file->has_base()) return absl::OkStatus();
  const v1::SnapshotNumber& named = file->base().snapshot();
  const auto known = base_.files.find(file->server());
  if (IsZero(base) || named != base || base != base_.snapshot ||
      known == base_.files.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", file->name(), "' of ps-", file->server(),
                     " refers to its file of checkpoint ", VersionName(named),
                     ", not of ", IsZero(base) ? "none" : VersionName(base)));
  }
  *file->mutable_base() = known->second;
  file->mutable_base()->set_directory(base_.directory);
  return absl::OkStatus();
}

void BaseFiles::Committing(const v1::Manifest& manifest) {
  committing_ = {};
  committing_.snapshot = manifest.snapshot();
  committing_.has_all_blocks = true;
  for (const v1::ShardFile& file : manifest.files()) {
    if (file.has_base()) committing_.has_all_blocks = false;
    v1::BaseFile& as_base = committing_.files[file.server()];
    *as_base.mutable_snapshot() = manifest.snapshot();
    as_base.set_name(file.name());
    as_base.set_bytes(file.bytes());
    as_base.set_crc32c(file.crc32c());
  }
}

void BaseFiles::Committed(absl::string_view path) {
  if (!committing_.has_all_blocks) {
    ++used_;
    return;
  }
  base_ = std::move(committing_);
  base_.directory = std::string(path.substr(path.rfind('/') + 1));
  used_ = 0;
}

void BaseFiles::Retired(const v1::SnapshotNumber& snapshot) {
  if (snapshot == base_.snapshot) base_ = {};
}

}  // namespace paramd
