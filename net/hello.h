#ifndef PARAMD_NET_HELLO_H_
#define PARAMD_NET_HELLO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "proto/paramd/v1/hello.pb.h"
#include "tensor/message.h"

namespace paramd {

// The protocol that this build speaks.
inline constexpr uint32_t kProtocolMin = 1;
inline constexpr uint32_t kProtocolMax = 1;

// What a process says about itself in Hello. What is empty is not known, and
// never compared.
struct Identity {
  v1::Task task;
  uint64_t incarnation = 0;
  std::string build;
  std::string job_name;
  std::string job_digest;
  // Of the digest: one "path=value" each. Above 64 KiB they are not sent.
  std::vector<std::string> job_settings;
  // As of EntriesToAgree. Beyond 512 KiB they are not sent.
  std::vector<std::string> cluster;
  // The machine, to share memory with its other processes, and the socket if
  // they may hand over any; empty: payloads travel in messages.
  v1::SharedMemoryOffer shared_memory;
  // Task t has the servers t * N to t * N + N - 1.
  uint32_t shards_per_server = 1;
};

v1::HelloRequest MakeHello(const Identity& self);
v1::HelloReply AnswerHello(const Identity& self);

// Whether a process that says `theirs` may talk to this one. Otherwise
// OVER_LIMIT, with nothing compared, if it is longer than any that MakeHello
// makes, PROTOCOL, with both ranges, or OTHER_JOB, naming the first entry of
// the cluster or setting of the job that differs, both values (cut at 200
// bytes) and both processes.
absl::Status CheckHello(const Identity& self, const v1::HelloRequest& theirs);

// As CheckHello. OTHER_JOB with the entity "task" if it is not `expected` that
// answers.
absl::Status CheckHelloReply(const Identity& self, PeerId expected,
                             const v1::HelloReply& theirs);

// The task that a peer is, or is part of: the coordinator is worker 0.
v1::Task TaskOf(PeerId peer, uint32_t shards_per_server = 1);

}  // namespace paramd

#endif  // PARAMD_NET_HELLO_H_
