#ifndef PARAMD_NET_OUTSIDE_CHANNEL_H_
#define PARAMD_NET_OUTSIDE_CHANNEL_H_

#include <memory>
#include <string>

#include "grpcpp/channel.h"
#include "grpcpp/security/credentials.h"

namespace paramd {

// A channel for somebody outside of a cluster to `target`, gRPC's name of a
// process: through no proxy, whatever the environment says; within a second or
// so to a process that is restarted. Whoever listens there may be a stranger:
// an answer is as long as paramd's messages, and never inflated.
std::shared_ptr<grpc::Channel> OutsideChannel(
    const std::string& target,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials);

// The target of "host:port". By itself gRPC would take "unix:7077" for a file.
std::string OutsideTarget(const std::string& address);

}  // namespace paramd

#endif  // PARAMD_NET_OUTSIDE_CHANNEL_H_
