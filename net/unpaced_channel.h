#ifndef PARAMD_NET_UNPACED_CHANNEL_H_
#define PARAMD_NET_UNPACED_CHANNEL_H_

#include "grpcpp/support/channel_arguments.h"

namespace paramd {

// Every connection of a channel made with `args` sends as SendUnpaced says. No
// change with another gRPC than the one whose way of being told is known.
// Thread-safe.
void SendUnpaced(grpc::ChannelArguments* args);

}  // namespace paramd

#endif  // PARAMD_NET_UNPACED_CHANNEL_H_
