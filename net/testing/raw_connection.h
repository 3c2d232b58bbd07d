#ifndef PARAMD_NET_TESTING_RAW_CONNECTION_H_
#define PARAMD_NET_TESTING_RAW_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace paramd {

// A connection to a process by somebody who writes HTTP/2 as he likes (RFC
// 9113, without Huffman codes). Every method blocks. Not thread-safe.
class RawConnection {
 public:
  // Connects to "ip:port" and sends the preface. If it can't connect, the call
  // is over from the start.
  explicit RawConnection(const std::string& address);
  ~RawConnection();
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  // Begins a call of gRPC as stream 1.
  void Call(absl::string_view path);
  // Data of stream 1, as fast as the windows of the protocol allow. False if
  // the call or the connection is over.
  bool SendData(absl::string_view data);
  // Reads until the call or the connection is over. The call's headers and
  // trailers, as they came.
  std::string ReadToTheEnd();

 private:
  // Whether reading would not block.
  bool HasMore() const;
  // False if nothing comes any more.
  bool ReadFrame();
  bool ReadBytes(size_t bytes, std::string* into);
  void SendFrame(uint8_t type, uint8_t flags, uint32_t stream,
                 absl::string_view payload);
  void Write(absl::string_view bytes);

  int fd_ = -1;
  // Bytes that may be sent: on the connection, and in stream 1.
  int64_t connection_window_ = 65535;
  int64_t stream_window_ = 65535;
  int64_t first_window_ = 65535;
  std::string headers_;
  bool over_ = false;
};

}  // namespace paramd

#endif  // PARAMD_NET_TESTING_RAW_CONNECTION_H_
