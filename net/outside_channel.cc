#include "net/outside_channel.h"

#include "absl/strings/str_cat.h"
#include "grpc/compression.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/channel_arguments.h"

#include "net/method_table.h"

namespace paramd {

std::shared_ptr<grpc::Channel> OutsideChannel(
    const std::string& target,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMostBulkBytes));
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
                   1 << GRPC_COMPRESS_NONE);
  return grpc::CreateCustomChannel(target, credentials, arguments);
}

std::string OutsideTarget(const std::string& address) {
  return absl::StrCat("dns:///", address);
}

}  // namespace paramd
