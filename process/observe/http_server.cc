#include "process/observe/http_server.h"

#include <netinet/in.h>
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
constexpr char kGaveWay[] =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n"
    "Content-Length: 60\r\nConnection: close\r\n\r\n"
    "too many connections are open, and this was the oldest one.\n";

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
    std::vector<pollfd> fds = {{stop_, POLLIN, 0}};
    for (const int listener : listeners_) {
      fds.push_back({listener, static_cast<short>(waits ? 0 : POLLIN), 0});
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
    Serve(fds.data() + first);
    for (size_t i = 0; i < listeners_.size(); ++i) {
      if (fds[i + 1].revents != 0 && !Accept(listeners_[i])) {
        accept_again_ = MonotonicNow() + kAcceptAgain;
        ++without_descriptor_;
      }
    }
  }
}

void HttpServer::Serve(const pollfd* polled) {
  const Time now = MonotonicNow();
  std::vector<Connection> open;
  for (size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = connections_[i];
    if (polled[i].revents != 0 &&
        !(connection.answer.empty() ? Read(&connection) : Write(&connection))) {
      close(connection.fd);
      continue;
    }
    const bool is_cut = now >= connection.deadline ||
                        (connection.answer.empty() &&
                         connection.request.size() > kMostRequestBytes);
    if (!is_cut) {
      open.push_back(std::move(connection));
      continue;
    }
    if (!connection.request.empty()) ++unfinished_;
    close(connection.fd);
  }
  connections_ = std::move(open);
}

void HttpServer::MakeRoom() {
  const Connection& oldest = connections_.front();
  // To a request that is still to come this would be no answer.
  if (!oldest.request.empty() && oldest.sent == 0) {
    send(oldest.fd, kGaveWay, sizeof(kGaveWay) - 1, MSG_NOSIGNAL);
  }
  close(oldest.fd);
  connections_.erase(connections_.begin());
  ++over_limit_;
}

bool HttpServer::Accept(int listener) {
  const int fd =
      accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) {
    if (connections_.size() >= kMostConnections) MakeRoom();
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
  return true;
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
