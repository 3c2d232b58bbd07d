#ifndef PARAMD_PROTO_MEMBER_NAME_H_
#define PARAMD_PROTO_MEMBER_NAME_H_

#include <cstdint>
#include <string>

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/types.pb.h"

// Members by the name that logs and waits give them.
namespace paramd {

// The session: "worker-1 generation 1.4". "worker-1" if the generation is zero:
// it has none.
std::string WorkerName(uint32_t worker, const v1::SessionId& generation = {});

// The life: "ps-0 generation 1.2", "ps-0".
std::string ServerName(uint32_t server, const v1::ServerLife& generation);

// The number under which it is called, of PeerId::Ps: its own, unless it has
// several places.
inline uint32_t PeerOf(const v1::ServerMember& server) {
  return server.has_peer() ? server.peer() : server.index();
}

// What a server's file in a checkpoint is called:
// "ps-00001-of-00002.safetensors".
std::string ServerFileName(uint32_t server, uint32_t servers);

}  // namespace paramd

#endif  // PARAMD_PROTO_MEMBER_NAME_H_
