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
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "net/descriptors.h"
#include "net/listen_address.h"
#include "net/loopback.h"

namespace paramd {
namespace {

constexpr size_t kMostOfAdded = 32;
constexpr int kAcceptAgainMs = 100;
constexpr absl::Duration kLook = absl::Milliseconds(100);
constexpr int kOpenAgainMs = 1000;

// Nobody says when gRPC closes a connection; but then its number is that of
// another file, or of none.
bool IsClosed(int fd, ino_t inode) {
  struct stat status = {};
  return fstat(fd, &status) != 0 || status.st_ino != inode;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Make(
    const std::string& name, size_t most) {
  const int stop = eventfd(0, EFD_CLOEXEC);
  if (stop < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot listen on ", name, ": ", strerror(errno)));
  }
  return std::unique_ptr<Listener>(
      new Listener(stop, std::min(most, DescriptorLimit() / 2)));
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Make() {
  return Make("the operators' socket", /*most=*/0);
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Bind(
    const std::string& address, bool or_everywhere, size_t most) {
  ASSIGN_OR_RETURN(std::unique_ptr<Listener> made, Make(address, most));
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
    poll(waiting.data(), count, Patience());
    out_of_descriptors_ = false;
    if (waiting[0].revents != 0) return;
    if (OpenAdded()) waiting.push_back({added_.listening.back(), POLLIN, 0});
    if (watching_ && MonotonicNow() >= look_at_) {
      watching_ = look_();
      look_at_ = MonotonicNow() + kLook;
    }
    AcceptAll(&own_);
    AcceptAll(&added_);
  }
}

int Listener::Patience() const {
  if (out_of_descriptors_) return kAcceptAgainMs;
  if (watching_) {
    const absl::Duration left =
        std::max(look_at_ - MonotonicNow(), absl::ZeroDuration());
    return static_cast<int>(
        absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
  }
  return open_ != nullptr ? kOpenAgainMs : -1;
}

bool Listener::OpenAdded() {
  if (open_ == nullptr) return false;
  const absl::optional<int> fd = open_();
  if (!fd.has_value()) return false;
  open_ = nullptr;
  if (*fd >= 0) added_.listening.push_back(*fd);
  return *fd >= 0;
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
  if (sockets == &added_) NoteUser(fd, status.st_ino);
  if (StaysOnMachine(fd)) SendUnpaced(fd);
  if (look_ != nullptr && !watching_) {
    watching_ = true;
    look_at_ = MonotonicNow() + kLook;
  }
  take_(listening_fd, fd);
}

bool Listener::Sockets::HasRoom() {
  if (open.size() < most) return true;
  std::erase_if(open, [](const std::pair<int, ino_t>& connection) {
    return IsClosed(connection.first, connection.second);
  });
  return open.size() < most;
}

void Listener::NoteUser(int fd, ino_t inode) {
  ucred user = {};
  socklen_t size = sizeof(user);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &size) != 0) return;
  const MutexLock lock(&mutex_);
  std::erase_if(users_, [](const User& u) { return IsClosed(u.fd, u.inode); });
  users_.push_back({fd, inode, user.uid});
}

std::set<uid_t> Listener::UsersOfAdded() const {
  const MutexLock lock(&mutex_);
  std::set<uid_t> users;
  for (const User& user : users_) {
    if (!IsClosed(user.fd, user.inode)) users.insert(user.uid);
  }
  return users;
}

// Logged the 1st, 2nd, 4th, 8th … time.
void Listener::Count(const char* what, size_t most,
                     std::atomic<uint64_t>* times) {
  const uint64_t now = ++*times;
  if ((now & (now - 1)) != 0) return;
  Log(LogLevel::kWarning, what, {{"times", now}, {"limit", most}});
}

}  // namespace paramd
