#include "compute/device/testing/emulated_nccl.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "base/check.h"
#include "base/mutex.h"
#include "compute/device/testing/emulated_accelerator.h"

namespace paramd {
namespace {

// Between looks whether an end was aborted.
constexpr int kLookMs = 2;

// What a process has of the library.
struct Library {
  Mutex mutex;
  EmulatedNccl::Faults faults ABSL_GUARDED_BY(mutex);
  // Sockets of ids that no end of rank 0 has taken.
  std::map<std::string, int> listening ABSL_GUARDED_BY(mutex);
  std::atomic<int> ids{0};
  std::atomic<int> ends{0};
};

Library& TheLibrary() {
  static Library* const library = new Library;
  return *library;
}

sockaddr_un AddressOf(const std::string& name, socklen_t* length) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  // Of no file: the first byte is 0.
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  *length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

// What a call of a sum asks for.
struct Call {
  EmulatedAccelerator::Handle* stream = nullptr;
  std::vector<SumPart> parts;  // As the stream sees them.
};

// Thread-safe.
class End : public std::enable_shared_from_this<End> {
 public:
  End(std::string name, int size, int rank, const EmulatedNccl::Faults& faults)
      : name_(std::move(name)), size_(size), rank_(rank), faults_(faults) {
    ++TheLibrary().ends;
  }
  ~End() {
    for (const int one : others_) close(one);
  }

  void Start() {
    joining_ = std::thread([this] { Join(); });
  }

  void Abort() {
    {
      const MutexLock lock(&mutex_);
      aborted_ = true;
      changed_.NotifyAll();
    }
    joining_.join();
    for (const int one : others_) shutdown(one, SHUT_RDWR);
    --TheLibrary().ends;
  }

  void Give(Call call) {
    calls_.push_back(std::move(call));
    asked_ = 0;
    int done = 0;  // An error stays.
    state_.compare_exchange_strong(done, Nccl::kInProgress);
  }

  Nccl::Result State() {
    if (!calls_.empty() && ++asked_ >= 2) {
      int in_progress = Nccl::kInProgress;
      for (Call& call : std::exchange(calls_, {})) Launch(std::move(call));
      state_.compare_exchange_strong(in_progress, 0);
    }
    return state_;
  }

 private:
  bool IsAborted() ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(&mutex_);
    return aborted_;
  }
  void AwaitAbort() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    while (!aborted_) changed_.Wait(&mutex_);
  }

  // Until the socket may be read or written; false if it was aborted.
  bool Await(int socket, short events) {
    pollfd one = {.fd = socket, .events = events, .revents = 0};
    while (poll(&one, 1, kLookMs) == 0) {
      if (IsAborted()) return false;
    }
    return !IsAborted();
  }

  // Moves all of the bytes; false if the other end is gone or this is aborted.
  bool Send(int socket, const void* data, size_t bytes) {
    const char* at = static_cast<const char*>(data);
    while (bytes > 0) {
      if (!Await(socket, POLLOUT)) return false;
      const ssize_t moved =
          send(socket, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (moved < 0 && errno == EAGAIN) continue;
      if (moved <= 0) return IsGone();
      at += moved;
      bytes -= moved;
    }
    return true;
  }
  bool Receive(int socket, void* data, size_t bytes) {
    char* at = static_cast<char*>(data);
    while (bytes > 0) {
      if (!Await(socket, POLLIN)) return false;
      const ssize_t moved = recv(socket, at, bytes, MSG_DONTWAIT);
      if (moved < 0 && errno == EAGAIN) continue;
      if (moved <= 0) return IsGone();
      at += moved;
      bytes -= moved;
    }
    return true;
  }
  bool IsGone() {
    state_ = Nccl::kRemoteError;
    return false;
  }

  void Join() {
    absl::SleepFor(faults_.delay);
    if (faults_.absent_rank == rank_) return AwaitAbort();
    if (rank_ == 0 ? !Accept() : !Connect()) return;
    int in_progress = Nccl::kInProgress;
    state_.compare_exchange_strong(in_progress, 0);
  }

  bool Accept() {
    int listening = -1;
    {
      const MutexLock lock(&TheLibrary().mutex);
      std::swap(listening, TheLibrary().listening[name_]);
      TheLibrary().listening.erase(name_);
    }
    std::vector<int> others(size_, -1);
    bool all = true;
    for (int i = 1; i < size_ && all; ++i) {
      all = Await(listening, POLLIN);
      if (!all) break;
      const int one = accept(listening, nullptr, nullptr);
      int rank = 0;
      all = Receive(one, &rank, sizeof(rank));
      if (all) others[rank] = one;
    }
    close(listening);
    for (int r = 1; r < size_; ++r) {
      if (others[r] >= 0) others_.push_back(others[r]);
    }
    const char go = 1;
    for (const int one : others_) all = all && Send(one, &go, 1);
    return all;
  }

  bool Connect() {
    socklen_t length = 0;
    const sockaddr_un address = AddressOf(name_, &length);
    const int one = socket(AF_UNIX, SOCK_STREAM, 0);
    others_.push_back(one);
    while (connect(one, reinterpret_cast<const sockaddr*>(&address), length) !=
           0) {
      if (IsAborted()) return false;
      absl::SleepFor(absl::Milliseconds(kLookMs));
    }
    char go = 0;
    return Send(one, &rank_, sizeof(rank_)) && Receive(one, &go, 1);
  }

  void Launch(Call call) {
    EmulatedAccelerator& accelerator = *call.stream->accelerator;
    const Accelerator::Stream stream = call.stream->stream;
    accelerator.AddedSum(stream);
    accelerator.Launch(
        stream, [self = shared_from_this(), parts = std::move(call.parts)] {
          absl::SleepFor(self->faults_.delay);
          for (const SumPart& part : parts) {
            if (self->Reduce(part)) continue;
            return self->AwaitAbort();  // As a kernel.
          }
        });
  }

  bool Reduce(const SumPart& part) {
    const size_t bytes = part.count * sizeof(float);
    if (rank_ > 0) {
      return Send(others_[0], part.values, bytes) &&
             Receive(others_[0], part.values, bytes);
    }
    std::vector<float> term(part.count);
    for (const int one : others_) {
      if (!Receive(one, term.data(), bytes)) return false;
      for (uint64_t i = 0; i < part.count; ++i) part.values[i] += term[i];
    }
    for (const int one : others_) {
      if (!Send(one, part.values, bytes)) return false;
    }
    return true;
  }

  const std::string name_;
  const int size_;
  const int rank_;
  const EmulatedNccl::Faults faults_;
  std::atomic<int> state_{Nccl::kInProgress};
  // Of rank 0, by rank; else the one to it. Of the joining thread at first.
  std::vector<int> others_;
  std::vector<Call> calls_;  // That no stream has.
  int asked_ = 0;            // For the state, since the last call.
  Mutex mutex_;
  CondVar changed_;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread joining_;
};

// What an End of NCCL's is here.
using Held = std::shared_ptr<End>;

Held& Of(Nccl::End end) { return *reinterpret_cast<Held*>(end); }

// Between begin and end, of this thread.
struct Group {
  Held end;
  Call call;
};

Group& TheGroup() {
  static thread_local Group group;
  return group;
}

Nccl::Result MakeId(Nccl::Id* id) {
  const std::string name =
      absl::StrCat("paramd-nccl-", getpid(), "-", ++TheLibrary().ids);
  socklen_t length = 0;
  const sockaddr_un address = AddressOf(name, &length);
  const int made = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(bind(made, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
            listen(made, 64) == 0,
        "a name that nobody else has can be listened at");
  std::memset(id->internal, 0, sizeof(id->internal));
  std::memcpy(id->internal, name.data(), name.size());
  const MutexLock lock(&TheLibrary().mutex);
  TheLibrary().listening[name] = made;
  return 0;
}

Nccl::Result BeginToJoin(Nccl::End* end, int size, Nccl::Id id, int rank,
                         Nccl::Config* config) {
  CHECK(config->blocking == 0 && config->magic == 0xcafebeef,
        "no call is to wait");
  EmulatedNccl::Faults faults;
  {
    const MutexLock lock(&TheLibrary().mutex);
    faults = TheLibrary().faults;
  }
  auto* const made = new Held(
      std::make_shared<End>(std::string(id.internal), size, rank, faults));
  (*made)->Start();
  *end = reinterpret_cast<Nccl::End>(made);
  return Nccl::kInProgress;
}

Nccl::Result Abort(Nccl::End end) {
  Of(end)->Abort();
  delete &Of(end);
  return 0;
}

Nccl::Result Sum(const void* from, void* to, size_t count, int type,
                 int operation, Nccl::End end, Nccl::Stream stream) {
  CHECK(from == to && type == Nccl::kFloat32 && operation == Nccl::kSum,
        "sums are of float32, in place");
  Group& group = TheGroup();
  group.end = Of(end);
  group.call.stream = reinterpret_cast<EmulatedAccelerator::Handle*>(stream);
  group.call.parts.push_back(
      {static_cast<float*>(
           group.call.stream->accelerator->Inside(to, count * sizeof(float))),
       count});
  return 0;
}

Nccl::Result EndGroup() {
  Group group = std::exchange(TheGroup(), {});
  if (group.end == nullptr) return 0;
  group.end->Give(std::move(group.call));
  return Nccl::kInProgress;
}

}  // namespace

absl::StatusOr<Nccl> EmulatedNccl::Load() {
  Nccl nccl;
  nccl.make_id = MakeId;
  nccl.abort = Abort;
  nccl.begin = [] { return 0; };
  nccl.sum = Sum;
  nccl.end = EndGroup;
  nccl.words = [](Nccl::Result) { return "an error that nobody made"; };
  nccl.version = [](int* number) {
    const MutexLock lock(&TheLibrary().mutex);
    *number = TheLibrary().faults.version;
    return 0;
  };
  nccl.begin_to_join = BeginToJoin;
  nccl.state = [](Nccl::End end, Nccl::Result* result) {
    *result = Of(end)->State();
    return 0;
  };
  return nccl;
}

void EmulatedNccl::SetFaults(const Faults& faults) {
  const MutexLock lock(&TheLibrary().mutex);
  TheLibrary().faults = faults;
}

int EmulatedNccl::ends() { return TheLibrary().ends; }

}  // namespace paramd
