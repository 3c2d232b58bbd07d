#include "net/listener.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "net/descriptors.h"
#include "net/listen_address.h"
#include "net/loopback.h"

namespace paramd {
namespace {

constexpr size_t kMostOfAdded = 32;
constexpr int kAcceptAgainMs = 100;
constexpr int kLookMs = 100;

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Bind(
    const std::string& address, bool or_everywhere, size_t most) {
  const int stop = eventfd(0, EFD_CLOEXEC);
  if (stop < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot listen on ", address, ": ", strerror(errno)));
  }
  std::unique_ptr<Listener> made(
      new Listener(stop, std::min(most, DescriptorLimit() / 2)));
  ASSIGN_OR_RETURN(made->own_.listening, ListenAt(address, or_everywhere));
  return made;
}

Listener::Listener(int stop, size_t most)
    : stop_(stop), own_{{}, most, {}}, added_{{}, kMostOfAdded, {}} {}

Listener::~Listener() {
  if (thread_.joinable()) {
    eventfd_write(stop_, 1);
    thread_.join();
  }
  for (const int fd : own_.listening) close(fd);
  close(stop_);
}

void Listener::Start(Take take) {
  take_ = std::move(take);
  thread_ = std::thread([this] { Run(); });
}

void Listener::Run() {
  std::vector<pollfd> waiting = {{stop_, POLLIN, 0}};
  for (const Sockets* const sockets : {&own_, &added_}) {
    for (const int fd : sockets->listening) waiting.push_back({fd, POLLIN, 0});
  }
  while (true) {
    // Without a descriptor left the sockets would be ready all the time.
    const nfds_t count = out_of_descriptors_ ? 1 : waiting.size();
    poll(waiting.data(), count,
         out_of_descriptors_ ? kAcceptAgainMs
         : watching_         ? kLookMs
                             : -1);
    out_of_descriptors_ = false;
    if (waiting[0].revents != 0) return;
    if (watching_) watching_ = look_();
    AcceptAll(&own_);
    AcceptAll(&added_);
  }
}

void Listener::AcceptAll(Sockets* sockets) {
  for (const int fd : sockets->listening) Accept(fd, sockets);
}

void Listener::Accept(int listening_fd, Sockets* sockets) {
  const int fd =
      accept4(listening_fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    // Whoever has gone meanwhile is nobody's error.
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
        errno == ENOMEM) {
      out_of_descriptors_ = true;
      Count("no descriptor for a connection", sockets->most,
            &without_descriptor_);
    }
    return;
  }
  if (!sockets->HasRoom()) {
    Count("connection over the limit closed", sockets->most, &closed_at_once_);
    close(fd);
    return;
  }
  struct stat status = {};
  fstat(fd, &status);
  sockets->open.emplace_back(fd, status.st_ino);
  if (StaysOnMachine(fd)) SendUnpaced(fd);
  watching_ = look_ != nullptr;
  take_(listening_fd, fd);
}

// Nobody says when gRPC closes a connection; but then its number is that of
// another file, or of none.
bool Listener::Sockets::HasRoom() {
  if (open.size() < most) return true;
  const auto is_closed = [](const std::pair<int, ino_t>& connection) {
    struct stat status = {};
    return fstat(connection.first, &status) != 0 ||
           status.st_ino != connection.second;
  };
  open.erase(std::remove_if(open.begin(), open.end(), is_closed), open.end());
  return open.size() < most;
}

// Logged the 1st, 2nd, 4th, 8th … time.
void Listener::Count(const char* what, size_t most,
                     std::atomic<uint64_t>* times) {
  const uint64_t now = ++*times;
  if ((now & (now - 1)) != 0) return;
  Log(LogLevel::kWarning, what, {{"times", now}, {"limit", most}});
}

}  // namespace paramd
