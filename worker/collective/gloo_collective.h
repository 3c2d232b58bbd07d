#ifndef PARAMD_WORKER_COLLECTIVE_GLOO_COLLECTIVE_H_
#define PARAMD_WORKER_COLLECTIVE_GLOO_COLLECTIVE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "worker/collective/linked_collective.h"

namespace paramd {

// Members in processes of their own, joined by Gloo's TCP connections, each to
// each; not encrypted. `host` is this machine's name or address, at which the
// others reach it. INVALID_ARGUMENT if it is none, UNAVAILABLE if no name
// server answers. From then on the process ignores SIGPIPE, unless it handles
// it.
//
// Any number of members adds in order: each part of the values is added by one
// member, to which the others send theirs, and which sends the sum back, chunk
// by chunk. So a member sends and receives 2 (N-1)/N of the bytes, as in a
// ring, over N-1 connections, and needs 2 MiB for each member.
absl::StatusOr<std::unique_ptr<LinkedCollective>> MakeGlooCollective(
    const std::string& host, size_t rank, size_t size);

}  // namespace paramd

#endif  // PARAMD_WORKER_COLLECTIVE_GLOO_COLLECTIVE_H_
