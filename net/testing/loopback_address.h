#ifndef PARAMD_NET_TESTING_LOOPBACK_ADDRESS_H_
#define PARAMD_NET_TESTING_LOOPBACK_ADDRESS_H_

#include <string>

namespace paramd {

// A random host in 127.0.0.0/8: with it a test's fixed ports are its own. Who
// finds a port in use draws again.
std::string DrawLoopbackHost();

}  // namespace paramd

#endif  // PARAMD_NET_TESTING_LOOPBACK_ADDRESS_H_
