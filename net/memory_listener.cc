#include "net/memory_listener.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

constexpr absl::Duration kGreetingPatience = absl::Seconds(5);
constexpr int kAcceptMemoryAgainMs = 100;

absl::StatusOr<uint64_t> DrawBits() {
  uint64_t bits = 0;
  if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits)) {
    return absl::UnavailableError("the kernel draws no numbers");
  }
  return bits;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryListener>> MemoryListener::Start() {
  v1::SharedMemoryOffer offer;
  offer.set_machine(SharedMachineName());
  if (offer.machine().empty()) {
    return absl::UnavailableError("the machine has no name");
  }
  ASSIGN_OR_RETURN(const uint64_t bits, DrawBits());
  offer.set_socket(absl::StrFormat("paramd-%016x", bits));
  ASSIGN_OR_RETURN(OwnedFd listening, ListenInMemory(offer.socket()));
  OwnedFd stop(eventfd(0, EFD_CLOEXEC));
  if (stop.get() < 0) return absl::UnavailableError(strerror(errno));
  std::unique_ptr<MemoryListener> made(new MemoryListener(
      std::move(offer), std::move(listening), std::move(stop)));
  made->thread_ = std::thread([made = made.get()] { made->Run(); });
  return made;
}

MemoryListener::MemoryListener(v1::SharedMemoryOffer offer, OwnedFd listening,
                               OwnedFd stop)
    : offer_(std::move(offer)),
      listening_(std::move(listening)),
      stop_(std::move(stop)) {}

MemoryListener::~MemoryListener() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

std::shared_ptr<SharedMemory> MemoryListener::Find(uint64_t id) const {
  const MutexLock lock(&mutex_);
  const auto it = memories_.find(id);
  return it == memories_.end() ? nullptr : it->second;
}

void MemoryListener::Run() {
  std::vector<pollfd> waiting;
  while (true) {
    // Without a descriptor left the socket would be ready all the time.
    const bool accepts = !std::exchange(out_of_descriptors_, false);
    waiting = {{stop_.get(), POLLIN, 0},
               {accepts ? listening_.get() : -1, POLLIN, 0}};
    for (const Connection& connection : connections_) {
      waiting.push_back({connection.fd.get(), POLLIN, 0});
    }
    poll(waiting.data(), waiting.size(),
         accepts ? Patience() : kAcceptMemoryAgainMs);
    if (waiting[0].revents != 0) return;
    const Time now = MonotonicNow();
    size_t kept = 0;
    for (size_t i = 0; i < connections_.size(); ++i) {
      Connection& connection = connections_[i];
      const bool lives = waiting[2 + i].revents != 0 ? Serve(&connection)
                                                     : now < connection.until;
      if (!lives) {
        Drop(connection);
      } else if (kept++ != i) {
        connections_[kept - 1] = std::move(connection);
      }
    }
    connections_.resize(kept);
    if (waiting[1].revents != 0) out_of_descriptors_ = !Accept();
  }
}

int MemoryListener::Patience() const {
  Time first = Time::Never();
  for (const Connection& connection : connections_) {
    first = std::min(first, connection.until);
  }
  if (first == Time::Never()) return -1;
  const absl::Duration left =
      std::max(absl::ZeroDuration(), first - MonotonicNow());
  return static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
}

bool MemoryListener::Accept() {
  OwnedFd fd(accept4(listening_.get(), nullptr, nullptr,
                     SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.get() < 0) {
    return errno != EMFILE && errno != ENFILE && errno != ENOBUFS &&
           errno != ENOMEM;
  }
  absl::Status status = CheckSameUser(fd.get());
  if (status.ok() && connections_.size() >= kMostMemories) {
    status = absl::ResourceExhaustedError(
        absl::StrCat(kMostMemories, " processes share memory already"));
  }
  if (!status.ok()) {
    CountRefusal(status);
    return true;
  }
  Connection connection;
  connection.fd = std::move(fd);
  connection.until = MonotonicNow() + kGreetingPatience;
  connections_.push_back(std::move(connection));
  return true;
}

// After its memory a process says nothing but that it has gone.
bool MemoryListener::Serve(Connection* connection) {
  if (connection->id != 0) return false;
  const absl::Status status = TakeOver(connection);
  if (status.ok()) return true;
  CountRefusal(status);
  (void)SendMemoryId(connection->fd.get(), 0);
  return false;
}

absl::Status MemoryListener::TakeOver(Connection* connection) {
  ASSIGN_OR_RETURN(const OwnedFd fd, ReceiveMemory(connection->fd.get()));
  mapped_.erase(
      std::remove_if(mapped_.begin(), mapped_.end(),
                     [](const auto& mapping) { return mapping.expired(); }),
      mapped_.end());
  if (mapped_.size() >= kMostMemories) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kMostMemories, " memories are shared already"));
  }
  ASSIGN_OR_RETURN(auto mapping, SharedMapping::Open(fd.get()));
  ASSIGN_OR_RETURN(const uint64_t id, DrawBits());
  if (id == 0) return absl::UnavailableError("an unlucky number");
  mapped_.push_back(mapping);
  {
    const MutexLock lock(&mutex_);
    memories_[id] = std::make_shared<SharedMemory>(SharedMemory::End::kServer,
                                                   id, std::move(mapping));
  }
  connection->id = id;
  connection->until = Time::Never();
  const absl::Status answered = SendMemoryId(connection->fd.get(), id);
  if (!answered.ok()) Drop(*connection);
  return answered;
}

void MemoryListener::Drop(const Connection& connection) {
  std::shared_ptr<SharedMemory> dropped;  // Unmapped without the lock.
  const MutexLock lock(&mutex_);
  const auto it = memories_.find(connection.id);
  if (it == memories_.end()) return;
  dropped = std::move(it->second);
  memories_.erase(it);
}

// Logged the 1st, 2nd, 4th, 8th … time.
void MemoryListener::CountRefusal(const absl::Status& why) {
  ++refused_;
  if ((refused_ & (refused_ - 1)) != 0) return;
  Log(LogLevel::kWarning, "memory to share refused",
      {{"times", refused_}, {"why", why.message()}});
}

}  // namespace paramd
