#ifndef PARAMD_CLI_LOCAL_LOOPBACK_H_
#define PARAMD_CLI_LOCAL_LOOPBACK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "base/random.h"

namespace paramd {

// The addresses of a cluster on this machine. Nobody can pick free ports before
// the processes bind them; so each cluster draws an address of its own out of
// the sixteen million of 127.0.0.0/8 and uses fixed ports there.
struct LoopbackCluster {
  std::vector<std::string> servers;  // "127.93.4.17:2222", …
  std::vector<std::string> workers;
  std::vector<std::string> stages = {};

  // `type` is "ps", "worker" or "stage". The value of TF_CONFIG for that task,
  // in its list form; worker 0 is the chief.
  std::string TfConfig(absl::string_view type, int index) const;
};

// Draws an address and gives it to the tasks, ports from 2222 on. What comes
// out of the stream decides it: the same stream gives the same addresses.
LoopbackCluster DrawLoopbackCluster(int servers, int workers, int stages,
                                    RandomStream* random);

// The address `steps` ports after `address` ("host:port"), for each process of
// a machine its own. As it is if it has port 0 or no port that can be counted
// up.
std::string LaterAddress(const std::string& address, int steps);

// Whether somebody listens at `address` ("host:port" in digits) now, so that it
// cannot be bound. False too if the address makes no sense.
bool IsTaken(absl::string_view address);

}  // namespace paramd

#endif  // PARAMD_CLI_LOCAL_LOOPBACK_H_
