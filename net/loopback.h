#ifndef PARAMD_NET_LOOPBACK_H_
#define PARAMD_NET_LOOPBACK_H_

#include <sys/socket.h>

namespace paramd {

// Connections that do not leave the machine. Thread-safe.

// 127.0.0.0/8, also as an IPv6 address, or ::1.
bool IsLoopback(const sockaddr* address);
// Whether the TCP connection ends where it begins: by a loopback address, or by
// another address of this machine. False if `fd` is no such connection.
bool StaysOnMachine(int fd);

// Sends what is given to TCP socket `fd` as soon as the receiver has room. No
// change, but where the system's congestion control paces, as bbr does: inside
// of a machine there is nobody to make way for, and the pauses cost more
// processor time than the bytes (docs/decisions/0023-loopback.md).
void SendUnpaced(int fd);

}  // namespace paramd

#endif  // PARAMD_NET_LOOPBACK_H_
