#include "net/unreached.h"

#include "absl/strings/match.h"

namespace paramd {
namespace {

constexpr size_t kMostBytes = 80;
// Before it gRPC says that it has tried all addresses.
constexpr absl::string_view kLastError = "last error: ";

struct Known {
  absl::string_view text;
  absl::string_view reason;
};

// What gRPC 1.51, its resolver and the kernel write. The first that occurs
// counts.
constexpr Known kKnown[] = {
    {"Domain name not found", "no such host"},
    {"answer with no data", "no such host"},
    {"Misformatted domain name", "no such host"},
    {"Name or service not known", "no such host"},
    {"DNS resolution failed", "no answer from DNS"},
    {"Connection refused", "refused"},
    {"No route to host", "no route"},
    {"Network is unreachable", "no route"},
    {"timed out", "timed out"},
    {"Timeout occurred", "timed out"},
    {"watchdog timeout", "timed out"},
    {"tcp handshaker shutdown", "timed out"},
    {"Deadline Exceeded", "timed out"},
    {"http1.x server", "not a paramd process"},
    {"Failed parsing HTTP/2", "not a paramd process"},
    {"Received http2 header with status", "not a paramd process"},
    {"Socket closed", "connection lost"},
    {"reset by peer", "connection lost"},
    {"Broken pipe", "connection lost"},
    {"endpoint is not connected", "connection lost"},
    {"GOAWAY", "connection lost"},
};

}  // namespace

std::string WhyUnreached(absl::string_view grpc_message) {
  for (const Known& known : kKnown) {
    if (absl::StrContains(grpc_message, known.text)) {
      return std::string(known.reason);
    }
  }
  if (const size_t last = grpc_message.rfind(kLastError);
      last != absl::string_view::npos) {
    grpc_message.remove_prefix(last + kLastError.size());
  }
  return std::string(grpc_message.substr(0, kMostBytes));
}

}  // namespace paramd
