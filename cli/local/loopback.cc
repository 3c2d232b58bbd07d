#include "cli/local/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paramd {
namespace {

constexpr int kFirstPort = 2222;

std::string QuotedList(const std::vector<std::string>& addresses) {
  return absl::StrCat(
      "[",
      absl::StrJoin(addresses, ",",
                    [](std::string* out, const std::string& address) {
                      absl::StrAppend(out, "\"", address, "\"");
                    }),
      "]");
}

}  // namespace

std::string LoopbackCluster::TfConfig(absl::string_view type, int index) const {
  const std::string ps =
      servers.empty() ? "" : absl::StrCat("\"ps\":", QuotedList(servers), ",");
  const std::string stage =
      stages.empty() ? "" : absl::StrCat(",\"stage\":", QuotedList(stages));
  return absl::StrCat("{\"cluster\":{", ps, "\"worker\":", QuotedList(workers),
                      stage, "},\"task\":{\"type\":\"", type,
                      "\",\"index\":", index, "}}");
}

LoopbackCluster DrawLoopbackCluster(int servers, int workers, int stages,
                                    RandomStream* random) {
  // Not 127.0.x.y, where resolvers and other daemons live; no 0 or 255.
  const std::string host =
      absl::StrCat("127.", 1 + random->Below(254), ".", 1 + random->Below(254),
                   ".", 1 + random->Below(254));
  LoopbackCluster cluster;
  int port = kFirstPort;
  for (int i = 0; i < servers; ++i) {
    cluster.servers.push_back(absl::StrCat(host, ":", port++));
  }
  for (int i = 0; i < workers; ++i) {
    cluster.workers.push_back(absl::StrCat(host, ":", port++));
  }
  for (int i = 0; i < stages; ++i) {
    cluster.stages.push_back(absl::StrCat(host, ":", port++));
  }
  return cluster;
}

std::string LaterAddress(const std::string& address, int steps) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port == 0) {
    return address;
  }
  return absl::StrCat(address.substr(0, colon + 1), port + steps);
}

bool IsTaken(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return false;
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  int port = 0;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      inet_pton(AF_INET, std::string(address.substr(0, colon)).c_str(),
                &name.sin_addr) != 1) {
    return false;
  }
  name.sin_port = htons(static_cast<uint16_t>(port));
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  // As a server binds: connections that linger from before do not count.
  const int yes = 1;
  setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const bool taken =
      bind(probe, reinterpret_cast<sockaddr*>(&name), sizeof(name)) != 0 &&
      errno == EADDRINUSE;
  close(probe);
  return taken;
}

}  // namespace paramd
