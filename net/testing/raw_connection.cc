#include "net/testing/raw_connection.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/check.h"

namespace paramd {
namespace {

// Types and flags of frames.
constexpr uint8_t kData = 0x0;
constexpr uint8_t kHeaders = 0x1;
constexpr uint8_t kResetStream = 0x3;
constexpr uint8_t kSettings = 0x4;
constexpr uint8_t kPing = 0x6;
constexpr uint8_t kGoAway = 0x7;
constexpr uint8_t kWindowUpdate = 0x8;
constexpr uint8_t kAck = 0x1;
constexpr uint8_t kEndStream = 0x1;
constexpr uint8_t kEndHeaders = 0x4;

constexpr uint32_t kInitialWindowSize = 4;  // A setting.
constexpr int64_t kMostInAFrame = 16384;

// A header that no table has, both words shorter than 127 bytes.
std::string Literal(absl::string_view name, absl::string_view value) {
  return absl::StrCat(std::string(1, '\0'),
                      std::string(1, static_cast<char>(name.size())), name,
                      std::string(1, static_cast<char>(value.size())), value);
}

// Four bytes, the highest first.
uint32_t NumberAt(const std::string& bytes, size_t at) {
  uint32_t number = 0;
  for (size_t i = at; i < at + 4; ++i) {
    number = number << 8 | static_cast<uint8_t>(bytes.at(i));
  }
  return number;
}

}  // namespace

RawConnection::RawConnection(const std::string& address) {
  const std::vector<std::string> parts = absl::StrSplit(address, ':');
  int port = 0;
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  CHECK(parts.size() == 2 && absl::SimpleAtoi(parts[1], &port) &&
            inet_pton(AF_INET, parts[0].c_str(), &to.sin_addr) == 1,
        "the address is ip:port");
  to.sin_port = htons(static_cast<uint16_t>(port));
  fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  over_ = connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0;
  if (over_) return;
  Write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  SendFrame(kSettings, 0, 0, "");
}

RawConnection::~RawConnection() { close(fd_); }

void RawConnection::Call(absl::string_view path) {
  SendFrame(kHeaders, kEndHeaders, 1,
            absl::StrCat(Literal(":method", "POST"), Literal(":scheme", "http"),
                         Literal(":path", path), Literal(":authority", "ps"),
                         Literal("content-type", "application/grpc"),
                         Literal("te", "trailers")));
}

bool RawConnection::SendData(absl::string_view data) {
  while (!data.empty() && !over_) {
    const int64_t window =
        std::min({connection_window_, stream_window_, kMostInAFrame});
    // The end may lie there unread while a window is still open.
    if (window <= 0 || HasMore()) {
      if (!ReadFrame()) return false;
      continue;
    }
    const absl::string_view part = data.substr(0, static_cast<size_t>(window));
    SendFrame(kData, 0, 1, part);
    connection_window_ -= static_cast<int64_t>(part.size());
    stream_window_ -= static_cast<int64_t>(part.size());
    data.remove_prefix(part.size());
  }
  return !over_;
}

std::string RawConnection::ReadToTheEnd() {
  while (!over_ && ReadFrame()) {
  }
  return headers_;
}

bool RawConnection::HasMore() const {
  pollfd more{fd_, POLLIN, 0};
  return poll(&more, 1, 0) > 0;
}

bool RawConnection::ReadFrame() {
  std::string head, payload;
  over_ = over_ || !ReadBytes(9, &head) ||
          !ReadBytes(NumberAt(head, 0) >> 8, &payload);
  if (over_) return false;
  const auto type = static_cast<uint8_t>(head[3]);
  const auto flags = static_cast<uint8_t>(head[4]);
  const uint32_t stream = NumberAt(head, 5);
  if (type == kWindowUpdate) {
    (stream == 0 ? connection_window_ : stream_window_) += NumberAt(payload, 0);
  } else if (type == kSettings) {
    for (size_t at = 0; at + 6 <= payload.size(); at += 6) {
      if (NumberAt(payload, at) >> 16 != kInitialWindowSize) continue;
      const int64_t window = NumberAt(payload, at + 2);
      stream_window_ += window - std::exchange(first_window_, window);
    }
    if ((flags & kAck) == 0) SendFrame(kSettings, kAck, 0, "");
  } else if (type == kPing && (flags & kAck) == 0) {
    SendFrame(kPing, kAck, 0, payload);
  } else if (type == kHeaders) {
    headers_ += payload;
  }
  over_ = type == kResetStream || type == kGoAway ||
          (type == kHeaders && (flags & kEndStream) != 0);
  return true;
}

bool RawConnection::ReadBytes(size_t bytes, std::string* into) {
  into->resize(bytes);
  size_t have = 0;
  while (have < bytes) {
    const ssize_t got = read(fd_, into->data() + have, bytes - have);
    if (got <= 0) return false;
    have += static_cast<size_t>(got);
  }
  return true;
}

void RawConnection::SendFrame(uint8_t type, uint8_t flags, uint32_t stream,
                              absl::string_view payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) {
    frame.push_back(static_cast<char>(payload.size() >> shift));
  }
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  for (const int shift : {24, 16, 8, 0}) {
    frame.push_back(static_cast<char>(stream >> shift));
  }
  Write(absl::StrCat(frame, payload));
}

void RawConnection::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // The next read says what came of it.
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

}  // namespace paramd
