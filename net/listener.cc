#include "net/listener.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "net/listen_address.h"
#include "net/loopback.h"

namespace paramd {
namespace {

constexpr size_t kMostConnections = 1024;
constexpr int kAcceptAgainMs = 100;

size_t MostConnections() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMostConnections;
  return std::min<rlim_t>(kMostConnections, limit.rlim_cur / 2);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Bind(
    const std::string& address, bool or_everywhere) {
  const int stop = eventfd(0, EFD_CLOEXEC);
  if (stop < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot listen on ", address, ": ", strerror(errno)));
  }
  std::unique_ptr<Listener> made(new Listener(stop));
  ASSIGN_OR_RETURN(made->listening_, ListenAt(address, or_everywhere));
  return made;
}

Listener::Listener(int stop) : stop_(stop), most_(MostConnections()) {}

Listener::~Listener() {
  if (thread_.joinable()) {
    eventfd_write(stop_, 1);
    thread_.join();
  }
  for (const int fd : listening_) close(fd);
  close(stop_);
}

void Listener::Start(Take take) {
  take_ = std::move(take);
  thread_ = std::thread([this] { Run(); });
}

void Listener::Run() {
  std::vector<pollfd> waiting = {{stop_, POLLIN, 0}};
  std::vector<int> all = listening_;
  all.insert(all.end(), added_.begin(), added_.end());
  for (const int fd : all) waiting.push_back({fd, POLLIN, 0});
  while (true) {
    // Without a descriptor left the sockets would be ready all the time.
    const nfds_t count = out_of_descriptors_ ? 1 : waiting.size();
    poll(waiting.data(), count, out_of_descriptors_ ? kAcceptAgainMs : -1);
    out_of_descriptors_ = false;
    if (waiting[0].revents != 0) return;
    for (const int fd : all) Accept(fd);
  }
}

void Listener::Accept(int listening_fd) {
  const int fd =
      accept4(listening_fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    // Whoever has gone meanwhile is nobody's error.
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
        errno == ENOMEM) {
      out_of_descriptors_ = true;
      Count("no descriptor for a connection", &without_descriptor_);
    }
    return;
  }
  if (!HasRoom()) {
    Count("connection over the limit closed", &closed_at_once_);
    close(fd);
    return;
  }
  struct stat status = {};
  fstat(fd, &status);
  open_.emplace_back(fd, status.st_ino);
  if (StaysOnMachine(fd)) SendUnpaced(fd);
  take_(listening_fd, fd);
}

// Nobody says when gRPC closes a connection; but then its number is that of
// another file, or of none.
bool Listener::HasRoom() {
  if (open_.size() < most_) return true;
  const auto is_closed = [](const std::pair<int, ino_t>& connection) {
    struct stat status = {};
    return fstat(connection.first, &status) != 0 ||
           status.st_ino != connection.second;
  };
  open_.erase(std::remove_if(open_.begin(), open_.end(), is_closed),
              open_.end());
  return open_.size() < most_;
}

// Logged the 1st, 2nd, 4th, 8th … time.
void Listener::Count(const char* what, std::atomic<uint64_t>* times) {
  const uint64_t now = ++*times;
  if ((now & (now - 1)) != 0) return;
  Log(LogLevel::kWarning, what, {{"times", now}, {"limit", most_}});
}

}  // namespace paramd
