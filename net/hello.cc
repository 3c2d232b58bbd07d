#include "net/hello.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr uint64_t kLargestChunkBytes = uint64_t{1} << 20;

std::string TaskName(const v1::Task& task) {
  switch (task.type()) {
    case v1::PS:
      return absl::StrCat("ps-", task.index());
    case v1::WORKER:
      return absl::StrCat("worker-", task.index());
    case v1::EVALUATOR:
      return absl::StrCat("evaluator-", task.index());
    default:
      return "the caller";
  }
}

absl::Status Compare(absl::string_view entry, const Identity& self,
                     const std::string& ours, const v1::Task& peer,
                     const std::string& theirs) {
  if (ours.empty() || theirs.empty() || ours == theirs) return absl::OkStatus();
  return Refuse(
      v1::Refusal::OTHER_JOB, entry,
      absl::StrCat(entry, " differs: ", TaskName(peer), " has '", theirs, "', ",
                   TaskName(self.task), " has '", ours, "'"));
}

template <typename Hello>
absl::Status CompareJob(const Identity& self, const Hello& theirs) {
  const v1::Task& peer = theirs.task();
  RETURN_IF_ERROR(
      Compare("job_name", self, self.job_name, peer, theirs.job_name()));
  RETURN_IF_ERROR(
      Compare("job_digest", self, self.job_digest, peer, theirs.job_digest()));
  return Compare("cluster_digest", self, self.cluster_digest, peer,
                 theirs.cluster_digest());
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
  hello.set_protocol_min(kProtocolMin);
  hello.set_protocol_max(kProtocolMax);
  hello.set_build(self.build);
  *hello.mutable_task() = self.task;
  hello.set_incarnation(self.incarnation);
  hello.set_job_name(self.job_name);
  hello.set_job_digest(self.job_digest);
  hello.set_cluster_digest(self.cluster_digest);
  hello.set_largest_chunk_bytes(kLargestChunkBytes);
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  hello.set_host(host);
  hello.set_pid(static_cast<uint32_t>(getpid()));
  return hello;
}

v1::HelloReply AnswerHello(const Identity& self) {
  v1::HelloReply hello;
  hello.set_protocol(kProtocolMax);
  hello.set_build(self.build);
  *hello.mutable_task() = self.task;
  hello.set_incarnation(self.incarnation);
  hello.set_job_name(self.job_name);
  hello.set_job_digest(self.job_digest);
  hello.set_cluster_digest(self.cluster_digest);
  hello.set_largest_chunk_bytes(kLargestChunkBytes);
  return hello;
}

absl::Status CheckHello(const Identity& self, const v1::HelloRequest& theirs) {
  RETURN_IF_ERROR(CheckProtocol(self, theirs.task(), theirs.protocol_min(),
                                theirs.protocol_max()));
  return CompareJob(self, theirs);
}

absl::Status CheckHelloReply(const Identity& self, PeerId expected,
                             const v1::HelloReply& theirs) {
  RETURN_IF_ERROR(
      CheckProtocol(self, theirs.task(), theirs.protocol(), theirs.protocol()));
  const v1::Task task = TaskOf(expected);
  if (theirs.task().type() != task.type() ||
      theirs.task().index() != task.index()) {
    return Refuse(v1::Refusal::OTHER_JOB, "task",
                  absl::StrCat("another task answers: ",
                               TaskName(theirs.task()), " instead of ",
                               TaskName(task)));
  }
  return CompareJob(self, theirs);
}

v1::Task TaskOf(PeerId peer) {
  v1::Task task;
  task.set_index(peer.index);
  switch (peer.kind) {
    case PeerId::Kind::kPs:
      task.set_type(v1::PS);
      break;
    case PeerId::Kind::kWorker:
    case PeerId::Kind::kCoordinator:
      task.set_type(v1::WORKER);
      break;
    case PeerId::Kind::kOutside:
      break;
  }
  return task;
}

}  // namespace paramd
