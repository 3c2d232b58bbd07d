#ifndef PARAMD_BENCH_OVERLOAD_HOSTILE_CLIENTS_H_
#define PARAMD_BENCH_OVERLOAD_HOSTILE_CLIENTS_H_

#include <memory>
#include <string>
#include <vector>

#include "bench/harness/child.h"

namespace paramd {

// What strangers without a certificate do to a server, each as fast as it can:
//
//   silent     200 connections that say nothing, made again when they are
//   closed garbage    connections that send bytes that are no HTTP/2 endless
//   messages that claim to have 4 GB, of which 1 MiB after the other
//              comes
//   malformed  pushes that are no messages
//   oversized  pushes of 8 MB, above the limit and below gRPC's
//   stale      pushes of a session that is over
//   unread     16 callers that pull 4 MiB and never read
//   cancelled  pulls of everything, 64 at once, that nobody waits for
//   status     calls for the server's status
const std::vector<std::string>& HostileKinds();

// A process that does some of them, at the lowest priority: it takes the other
// clients' CPUs from them only while they do nothing. It ends when it goes.
std::unique_ptr<Child> MakeHostileClients(
    const std::string& address, const std::vector<std::string>& kinds);

}  // namespace paramd

#endif  // PARAMD_BENCH_OVERLOAD_HOSTILE_CLIENTS_H_
