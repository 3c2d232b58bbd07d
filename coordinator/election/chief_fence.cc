#include "coordinator/election/chief_fence.h"

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

absl::Status ChiefFence::MayDo(const google::protobuf::Descriptor* work) const {
  const bool counts = work == v1::ReadLog::descriptor() ||
                      work == v1::AppendLog::descriptor() ||
                      work == v1::CommitCheckpoint::descriptor() ||
                      work == v1::DeleteCheckpoints::descriptor() ||
                      work == v1::WriteResult::descriptor();
  return counts && check != nullptr ? check() : absl::OkStatus();
}

v1::LogEntry ChiefFence::Guarded(const v1::LogEntry& entry) const {
  v1::LogEntry guarded = entry;
  if (token != 0) guarded.set_election(token);
  return guarded;
}

absl::Status ChiefFence::CheckNotFollowed(
    const google::protobuf::RepeatedPtrField<v1::LogEntry>& log) const {
  if (token == 0) return absl::OkStatus();
  for (const v1::LogEntry& entry : log) {
    if (entry.election() <= token) continue;
    if (confirm().ok()) {
      Log(LogLevel::kWarning,
          "the etcd or Lease that elects the chief has lost its data: this "
          "chief's token is lower than one in the configuration log",
          {{"token", token}, {"entry", entry.number()}});
      return absl::OkStatus();
    }
    return absl::AbortedError(absl::StrCat(
        "another chief was elected after this one: entry ", entry.number(),
        " of the configuration log has its token, ", entry.election(),
        "; this one's is ", token));
  }
  return absl::OkStatus();
}

}  // namespace paramd
