#include "process/observe/http_server.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace paramd {
namespace {

constexpr size_t kMostConnections = 32;
constexpr size_t kMostRequestBytes = 8 << 10;
constexpr absl::Duration kAcceptAgain = absl::Milliseconds(100);

int PortOf(int socket) {
  sockaddr_storage name = {};
  socklen_t size = sizeof(name);
  getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size);
  return ntohs(name.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(name).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(name).sin_port);
}

bool MayComeLater(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

HttpServer::HttpServer(std::vector<int> listeners, Handler handler,
                       HostCheck is_ours, absl::Duration patience)
    : listeners_(std::move(listeners)),
      handler_(std::move(handler)),
      is_ours_(std::move(is_ours)),
      patience_(patience),
      port_(PortOf(listeners_[0])),
      stop_(eventfd(0, EFD_CLOEXEC)),
      thread_([this] { Loop(); }) {}

HttpServer::~HttpServer() {
  eventfd_write(stop_, 1);
  thread_.join();
  for (const Connection& connection : connections_) close(connection.fd);
  for (const int listener : listeners_) close(listener);
  close(stop_);
}

void HttpServer::Loop() {
  while (true) {
    // Without a descriptor left a listener would be ready all the time.
    const bool waits = MonotonicNow() < accept_again_;
    const bool full = waits || connections_.size() >= kMostConnections;
    std::vector<pollfd> fds = {{stop_, POLLIN, 0}};
    for (const int listener : listeners_) {
      fds.push_back({listener, static_cast<short>(full ? 0 : POLLIN), 0});
    }
    const size_t first = fds.size();
    Time until = waits ? accept_again_ : Time::Never();
    for (const Connection& connection : connections_) {
      const bool reads = connection.answer.empty();
      fds.push_back(
          {connection.fd, static_cast<short>(reads ? POLLIN : POLLOUT), 0});
      until = std::min(until, connection.deadline);
    }
    const absl::Duration left =
        std::max(until - MonotonicNow(), absl::ZeroDuration());
    poll(fds.data(), fds.size(),
         until == Time::Never()
             ? -1
             : static_cast<int>(absl::ToInt64Milliseconds(
                   absl::Ceil(left, absl::Milliseconds(1)))));
    if (fds[0].revents != 0) return;
    const Time now = MonotonicNow();
    std::vector<Connection> open;
    for (size_t i = 0; i < connections_.size(); ++i) {
      Connection& connection = connections_[i];
      const bool ready = fds[first + i].revents != 0;
      const bool goes_on =
          ready ? (connection.answer.empty() ? Read(&connection)
                                             : Write(&connection))
                : now < connection.deadline;
      if (goes_on) {
        open.push_back(std::move(connection));
      } else {
        close(connection.fd);
      }
    }
    connections_ = std::move(open);
    for (size_t i = 0; i < listeners_.size(); ++i) {
      if (fds[i + 1].revents != 0 && !Accept(listeners_[i])) {
        accept_again_ = MonotonicNow() + kAcceptAgain;
        ++without_descriptor_;
      }
    }
  }
}

bool HttpServer::Accept(int listener) {
  const int fd =
      accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) {
    connections_.push_back({fd, MonotonicNow() + patience_});
    return true;
  }
  return errno != EMFILE && errno != ENFILE && errno != ENOBUFS &&
         errno != ENOMEM;
}

bool HttpServer::Read(Connection* connection) {
  char bytes[4096];
  const ssize_t count = read(connection->fd, bytes, sizeof(bytes));
  if (count < 0) return MayComeLater(errno);
  if (count == 0) return false;
  connection->request.append(bytes, count);
  if (connection->request.find("\r\n\r\n") != std::string::npos) {
    connection->answer = AnswerHttp(connection->request, handler_, is_ours_);
    return Write(connection);
  }
  return connection->request.size() <= kMostRequestBytes;
}

bool HttpServer::Write(Connection* connection) {
  const std::string& answer = connection->answer;
  const ssize_t count = send(connection->fd, answer.data() + connection->sent,
                             answer.size() - connection->sent, MSG_NOSIGNAL);
  if (count < 0) return MayComeLater(errno);
  connection->sent += count;
  return connection->sent < answer.size();
}

}  // namespace paramd
