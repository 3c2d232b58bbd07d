#ifndef PARAMD_NET_TESTING_NAME_SERVER_H_
#define PARAMD_NET_TESTING_NAME_SERVER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"

namespace paramd {

// A DNS server on loopback that knows one address for every name, or none.
//
//   NameServer names;
//   Dial(names.Target("ps-0.train:2222"));  // No such host.
//   names.SetAddress("127.1.2.3");          // From now on it is there.
//
// Thread-safe.
class NameServer {
 public:
  NameServer();
  ~NameServer();

  // What gRPC dials if it is to ask this server.
  std::string Target(absl::string_view host_and_port) const;
  void SetAddress(const std::string& ipv4);

 private:
  void Serve();

  const int fd_;
  int port_ = 0;
  std::atomic<uint32_t> address_{0};  // In network order; 0: nobody has one.
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_NET_TESTING_NAME_SERVER_H_
