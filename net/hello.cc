#include "net/hello.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "base/status_macros.h"
#include "config/cluster_agreement.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr uint64_t kLargestChunkBytes = uint64_t{1} << 20;
// Together below the limit of a control message.
constexpr size_t kMostClusterBytes = size_t{512} << 10;
constexpr size_t kMostSettingsBytes = size_t{64} << 10;
constexpr size_t kMostQuotedBytes = 200;
// Beside cluster and settings: a few names.
constexpr size_t kMostNamesBytes = size_t{16} << 10;
// Of the cluster, where each ps has one, and settings.
constexpr int kMostEntries = 16384;

std::string TaskName(const v1::Task& task) {
  switch (task.type()) {
    case v1::PS:
      return absl::StrCat("ps-", task.index());
    case v1::WORKER:
      return task.index() == PeerId::AnyWorker().index
                 ? "the worker that joins"
                 : absl::StrCat("worker-", task.index());
    case v1::EVALUATOR:
      return absl::StrCat("evaluator-", task.index());
    case v1::STAGE:
      return absl::StrCat("stage-", task.index());
    default:
      return "the caller";
  }
}

std::string Quoted(absl::string_view value) {
  if (value.empty()) return "none";
  return absl::StrCat("'", value.substr(0, kMostQuotedBytes), "'");
}

absl::Status RefuseOther(const Identity& self, const v1::Task& peer,
                         const Difference& difference) {
  const absl::string_view entry =
      absl::string_view(difference.name).substr(0, kMostQuotedBytes);
  return Refuse(
      v1::Refusal::OTHER_JOB, entry,
      absl::StrCat(entry, " differs: ", TaskName(peer), " has ",
                   Quoted(difference.theirs), ", ", TaskName(self.task),
                   " has ", Quoted(difference.ours)));
}

std::vector<std::string> Lines(
    const google::protobuf::RepeatedPtrField<std::string>& lines) {
  return {lines.begin(), lines.end()};
}

size_t SizeOf(const google::protobuf::RepeatedPtrField<std::string>& lines) {
  size_t bytes = 0;
  for (const std::string& line : lines) bytes += line.size();
  return bytes;
}

// Whether it is as short as the Hello of any process of paramd: comparing has a
// bound then, whoever says it.
template <typename Hello>
absl::Status CheckCost(const Hello& theirs) {
  const auto refuse = [](absl::string_view what, size_t found, size_t most) {
    return Refuse(v1::Refusal::OVER_LIMIT, "Hello",
                  absl::StrCat("a Hello with ", found, " ", what,
                               "; the limit is ", most));
  };
  const size_t names = theirs.build().size() + theirs.job_name().size() +
                       theirs.job_digest().size();
  if (names > kMostNamesBytes) {
    return refuse("bytes of names", names, kMostNamesBytes);
  }
  if (theirs.cluster_size() > kMostEntries) {
    return refuse("entries of the cluster", theirs.cluster_size(),
                  kMostEntries);
  }
  if (theirs.job_settings_size() > kMostEntries) {
    return refuse("settings", theirs.job_settings_size(), kMostEntries);
  }
  if (const size_t bytes = SizeOf(theirs.cluster());
      bytes > kMostClusterBytes) {
    return refuse("bytes of the cluster", bytes, kMostClusterBytes);
  }
  if (const size_t bytes = SizeOf(theirs.job_settings());
      bytes > kMostSettingsBytes) {
    return refuse("bytes of settings", bytes, kMostSettingsBytes);
  }
  return absl::OkStatus();
}

template <typename Hello>
absl::optional<Difference> DifferenceOfJobs(const Identity& self,
                                            const Hello& theirs) {
  if (self.job_digest.empty() || theirs.job_digest().empty() ||
      self.job_digest == theirs.job_digest()) {
    return absl::nullopt;
  }
  if (!self.job_settings.empty() && !theirs.job_settings().empty()) {
    const auto setting =
        FirstDifferentSetting(self.job_settings, Lines(theirs.job_settings()));
    if (setting.has_value()) return setting;
  }
  return Difference{"job_digest", self.job_digest, theirs.job_digest()};
}

template <typename Hello>
absl::Status CompareJob(const Identity& self, const Hello& theirs) {
  const v1::Task& peer = theirs.task();
  if (!self.job_name.empty() && !theirs.job_name().empty() &&
      self.job_name != theirs.job_name()) {
    return RefuseOther(self, peer,
                       {"job_name", self.job_name, theirs.job_name()});
  }
  if (const auto entry = FirstDifference(self.cluster, Lines(theirs.cluster()));
      entry.has_value()) {
    return RefuseOther(self, peer, *entry);
  }
  if (const auto job = DifferenceOfJobs(self, theirs); job.has_value()) {
    return RefuseOther(self, peer, *job);
  }
  return absl::OkStatus();
}

// What both directions say about the job.
template <typename Hello>
void FillJob(const Identity& self, Hello* hello) {
  hello->set_build(self.build);
  *hello->mutable_task() = self.task;
  hello->set_incarnation(self.incarnation);
  hello->set_job_name(self.job_name);
  hello->set_job_digest(self.job_digest);
  hello->set_largest_chunk_bytes(kLargestChunkBytes);
  size_t bytes = 0;
  for (const std::string& entry : self.cluster) {
    bytes += entry.size();
    if (bytes <= kMostClusterBytes) hello->add_cluster(entry);
  }
  bytes = 0;
  for (const std::string& line : self.job_settings) bytes += line.size();
  if (bytes > kMostSettingsBytes) return;
  for (const std::string& line : self.job_settings) {
    hello->add_job_settings(line);
  }
}

absl::Status CheckProtocol(const Identity& self, const v1::Task& peer,
                           uint32_t min, uint32_t max) {
  if (min <= kProtocolMax && max >= kProtocolMin && min <= max) {
    return absl::OkStatus();
  }
  return Refuse(v1::Refusal::PROTOCOL, "protocol",
                absl::StrCat("no common protocol: ", TaskName(peer), " speaks ",
                             min, " to ", max, ", ", TaskName(self.task),
                             " speaks ", kProtocolMin, " to ", kProtocolMax));
}

}  // namespace

v1::HelloRequest MakeHello(const Identity& self) {
  v1::HelloRequest hello;
  FillJob(self, &hello);
  hello.set_protocol_min(kProtocolMin);
  hello.set_protocol_max(kProtocolMax);
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  hello.set_host(host);
  hello.set_pid(static_cast<uint32_t>(getpid()));
  return hello;
}

v1::HelloReply AnswerHello(const Identity& self) {
  v1::HelloReply hello;
  FillJob(self, &hello);
  hello.set_protocol(kProtocolMax);
  if (!self.shared_memory.socket().empty()) {
    *hello.mutable_shared_memory() = self.shared_memory;
  }
  return hello;
}

absl::Status CheckHello(const Identity& self, const v1::HelloRequest& theirs) {
  RETURN_IF_ERROR(CheckCost(theirs));
  RETURN_IF_ERROR(CheckProtocol(self, theirs.task(), theirs.protocol_min(),
                                theirs.protocol_max()));
  return CompareJob(self, theirs);
}

absl::Status CheckHelloReply(const Identity& self, PeerId expected,
                             const v1::HelloReply& theirs) {
  RETURN_IF_ERROR(CheckCost(theirs));
  RETURN_IF_ERROR(
      CheckProtocol(self, theirs.task(), theirs.protocol(), theirs.protocol()));
  const v1::Task task = TaskOf(expected, self.shards_per_server);
  if (theirs.task().type() != task.type() ||
      theirs.task().index() != task.index()) {
    return Refuse(
        v1::Refusal::OTHER_JOB, "task",
        absl::StrCat("another task answers: ", TaskName(theirs.task()),
                     " instead of ", TaskName(task)));
  }
  return CompareJob(self, theirs);
}

v1::Task TaskOf(PeerId peer, uint32_t shards_per_server) {
  v1::Task task;
  task.set_index(peer.index);
  switch (peer.kind) {
    case PeerId::Kind::kPs:
      task.set_type(v1::PS);
      task.set_index(peer.index / shards_per_server);
      break;
    case PeerId::Kind::kWorker:
    case PeerId::Kind::kCoordinator:
      task.set_type(v1::WORKER);
      break;
    case PeerId::Kind::kStage:
      task.set_type(v1::STAGE);
      break;
    case PeerId::Kind::kOutside:
      break;
  }
  return task;
}

}  // namespace paramd
