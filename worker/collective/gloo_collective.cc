#include "worker/collective/gloo_collective.h"

#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

#include "base/mutex.h"
#include "gloo/transport/context.h"
#include "gloo/transport/tcp/device.h"
#include "gloo/transport/unbound_buffer.h"

namespace paramd {
namespace {

using ::gloo::transport::UnboundBuffer;
using Buffers = std::vector<std::unique_ptr<UnboundBuffer>>;

// Gloo waits five times as long for a connection. Members connect when all are
// there.
constexpr std::chrono::seconds kConnect(2);
// A member that is there and silent is found by its heartbeats.
constexpr std::chrono::hours kForEver(24 * 365);

// Elements of a message, 1 MiB, and how many of each member are received ahead.
// Smaller ones are warmer when they are added, and cost more wake-ups than that
// (bench/all_reduce).
constexpr size_t kChunk = size_t{256} << 10;
constexpr size_t kAhead = 2;

// to = a + b, where each is itself or apart.
void AddTo(float* to, const float* a, const float* b, size_t count) {
  // Eight at a time, which the compiler does not find out by itself.
  using Eight [[gnu::vector_size(32), gnu::aligned(4), gnu::may_alias]] = float;
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    *reinterpret_cast<Eight*>(to + i) = *reinterpret_cast<const Eight*>(a + i) +
                                        *reinterpret_cast<const Eight*>(b + i);
  }
  for (; i < count; ++i) to[i] = a[i] + b[i];
}

// Gloo throws; what is there says why.
template <typename F>
absl::Status Guarded(F f) {
  try {
    f();
    return absl::OkStatus();
  } catch (const std::exception& e) {
    return absl::UnavailableError(e.what());
  }
}

class GlooCollective : public LinkedCollective {
 public:
  GlooCollective(size_t rank, size_t size) : rank_(rank), size_(size) {}
  ~GlooCollective() override {
    Abort();
    // What is under way ends before its memory goes.
    const absl::Status ended = Guarded([this] {
      mesh_.reset();
      device_.reset();
    });
    ended.IgnoreError();
  }

  // The rest of the constructor, which throws.
  void Open(const std::string& host) {
    ::gloo::transport::tcp::attr attr(host.c_str());
    device_ = ::gloo::transport::tcp::CreateDevice(attr);
    mesh_ = device_->createContext(static_cast<int>(rank_),
                                   static_cast<int>(size_));
    mesh_->setTimeout(kConnect);
    for (size_t r = 0; r < size_; ++r) {
      if (r == rank_) {
        links_.emplace_back();
        continue;
      }
      const std::vector<char> bytes =
          mesh_->createPair(static_cast<int>(r))->address().bytes();
      links_.emplace_back(bytes.begin(), bytes.end());
    }
  }

  size_t rank() const override { return rank_; }
  size_t size() const override { return size_; }
  const std::vector<std::string>& links() const override { return links_; }

  absl::Status Connect(
      const std::vector<std::vector<std::string>>& links) override {
    return Say(Guarded([&] {
      for (size_t r = 0; r < size_; ++r) {
        if (r == rank_ || aborted_) continue;
        // What others say came over the network.
        const std::string& link = links.at(r).at(rank_);
        PairWith(r).connect({link.begin(), link.end()});
      }
    }));
  }

  absl::Status Sum(absl::Span<float> values) override {
    if (size_ == 1) return Say(absl::OkStatus());
    return Say(Guarded([&] { SumByChunks(values); }));
  }

  absl::Status Gather(absl::Span<const double> own,
                      absl::Span<double> all) override {
    std::copy(own.begin(), own.end(), all.begin() + rank_ * own.size());
    return Say(Guarded([&] {
      const size_t bytes = own.size() * sizeof(double);
      Buffers sends, receives;
      for (size_t r = 0; r < size_; ++r) {
        if (r == rank_) continue;
        Receive(r, all.data() + r * own.size(), bytes, &receives);
        Send(r, all.data() + rank_ * own.size(), bytes, &sends);
      }
      Finish(&sends, &receives);
    }));
  }

  void Abort() override {
    {
      // Closing a connection does not wake all who wait for one that its other
      // end has closed.
      const MutexLock lock(&mutex_);
      aborted_ = true;
      if (awaited_ != nullptr) {
        awaited_->abortWaitRecv();
        awaited_->abortWaitSend();
      }
    }
    for (size_t r = 0; r < size_; ++r) {
      if (r == rank_ || mesh_ == nullptr) continue;
      Guarded([&] { PairWith(r).close(); }).IgnoreError();
    }
  }

 private:
  ::gloo::transport::Pair& PairWith(size_t r) {
    return *mesh_->getPair(static_cast<int>(r));
  }

  // Both begin the transfer of one message between two members.
  void Send(size_t to, void* data, size_t bytes, Buffers* buffers) {
    if (bytes == 0) return;
    buffers->push_back(mesh_->createUnboundBuffer(data, bytes));
    buffers->back()->send(static_cast<int>(to), slot_);
  }
  void Receive(size_t from, void* data, size_t bytes, Buffers* buffers) {
    if (bytes == 0) return;
    buffers->push_back(mesh_->createUnboundBuffer(data, bytes));
    buffers->back()->recv(static_cast<int>(from), slot_);
  }
  void Finish(Buffers* sends, Buffers* receives) {
    for (auto& buffer : *receives) AwaitReceived(buffer.get());
    for (auto& buffer : *sends) AwaitSent(buffer.get());
    ++slot_;
  }

  // Both wait for one transfer, and throw once it is aborted.
  void AwaitReceived(UnboundBuffer* buffer) {
    Await(buffer, [buffer] { return buffer->waitRecv(kForEver); });
  }
  void AwaitSent(UnboundBuffer* buffer) {
    Await(buffer, [buffer] { return buffer->waitSend(kForEver); });
  }
  template <typename F>
  void Await(UnboundBuffer* buffer, F wait) {
    const absl::Cleanup forget = [this] { SetAwaited(nullptr); };
    if (!SetAwaited(buffer) || !wait()) {
      throw std::runtime_error("it has been ended");
    }
  }
  // False if it is aborted.
  bool SetAwaited(UnboundBuffer* buffer) ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(&mutex_);
    awaited_ = buffer;
    return !aborted_;
  }

  // The part of a member, in chunks.
  struct Part {
    size_t begin = 0;
    size_t count = 0;

    size_t chunks() const { return (count + kChunk - 1) / kChunk; }
    size_t CountOf(size_t chunk) const {
      return std::min(kChunk, count - chunk * kChunk);
    }
  };
  Part PartOf(size_t rank, size_t count) const {
    const size_t begin = count * rank / size_;
    return {begin, count * (rank + 1) / size_ - begin};
  }

  // What is under way with one other member. What comes from it comes in the
  // order of chunks.
  struct Other {
    std::unique_ptr<UnboundBuffer> terms;   // Its values of the own part.
    std::unique_ptr<UnboundBuffer> values;  // To it, and sums from it.
    Part part;
  };

  // A chunk is added while the next ones come, and its sum leaves at once. A
  // sum comes into values that are not needed any more: who sends it had them.
  void SumByChunks(absl::Span<float> values) {
    const Part own = PartOf(rank_, values.size());
    terms_.resize(kAhead * kChunk * size_);
    std::vector<Other> others(size_);
    for (size_t r = 0; r < size_; ++r) {
      if (r != rank_) others[r] = Begin(r, values, own);
    }
    for (size_t c = 0; c < own.chunks(); ++c) {
      for (size_t r = 0; r < size_; ++r) {
        if (r != rank_) AwaitReceived(others[r].terms.get());
      }
      AddChunk(values, own, c);
      for (size_t r = 0; r < size_; ++r) {
        if (r == rank_) continue;
        others[r].values->send(static_cast<int>(r), slot_ + 1, OffsetOf(own, c),
                               own.CountOf(c) * sizeof(float));
        ReceiveTerms(r, own, c + kAhead, &others[r]);
      }
    }
    for (size_t r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      for (size_t c = 0; c < others[r].part.chunks(); ++c) {
        AwaitReceived(others[r].values.get());
      }
      for (size_t c = 0; c < others[r].part.chunks() + own.chunks(); ++c) {
        AwaitSent(others[r].values.get());
      }
    }
    slot_ += 2;
  }

  static size_t OffsetOf(const Part& part, size_t chunk) {
    return (part.begin + chunk * kChunk) * sizeof(float);
  }

  Other Begin(size_t r, absl::Span<float> values, const Part& own) {
    Other other;
    other.part = PartOf(r, values.size());
    const int peer = static_cast<int>(r);
    other.terms = mesh_->createUnboundBuffer(TermsOf(r, 0),
                                             kAhead * kChunk * sizeof(float));
    other.values = mesh_->createUnboundBuffer(values.data(),
                                              values.size() * sizeof(float));
    for (size_t c = 0; c < kAhead; ++c) ReceiveTerms(r, own, c, &other);
    for (size_t c = 0; c < other.part.chunks(); ++c) {
      const size_t bytes = other.part.CountOf(c) * sizeof(float);
      other.values->recv(peer, slot_ + 1, OffsetOf(other.part, c), bytes);
      other.values->send(peer, slot_, OffsetOf(other.part, c), bytes);
    }
    return other;
  }

  void ReceiveTerms(size_t r, const Part& own, size_t chunk, Other* other) {
    if (chunk >= own.chunks()) return;
    other->terms->recv(static_cast<int>(r), slot_,
                       chunk % kAhead * kChunk * sizeof(float),
                       own.CountOf(chunk) * sizeof(float));
  }

  float* TermsOf(size_t r, size_t chunk) {
    return terms_.data() + (r * kAhead + chunk % kAhead) * kChunk;
  }

  void AddChunk(absl::Span<float> values, const Part& own, size_t chunk) {
    const size_t count = own.CountOf(chunk);
    float* const mine = values.data() + own.begin + chunk * kChunk;
    const auto term = [&](size_t r) {
      return r == rank_ ? mine : TermsOf(r, chunk);
    };
    if (rank_ == 0) {
      for (size_t r = 1; r < size_; ++r) AddTo(mine, mine, term(r), count);
      return;
    }
    // The first term's place holds the sum until the own one is added.
    float* const sum = term(0);
    for (size_t r = 1; r < rank_; ++r) AddTo(sum, sum, term(r), count);
    AddTo(mine, sum, mine, count);
    for (size_t r = rank_ + 1; r < size_; ++r) {
      AddTo(mine, mine, term(r), count);
    }
  }

  // Once one has failed all do: Gloo's connections are of no use then.
  absl::Status Say(absl::Status status) {
    if (status.ok() && aborted_) {
      status = absl::UnavailableError("it has been ended");
    }
    if (!status.ok()) Abort();
    return status;
  }

  const size_t rank_;
  const size_t size_;
  std::atomic<bool> aborted_{false};
  Mutex mutex_;
  // What the member waits for.
  UnboundBuffer* awaited_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::shared_ptr<::gloo::transport::Device> device_;
  std::shared_ptr<::gloo::transport::Context> mesh_;
  std::vector<std::string> links_;
  std::vector<float> terms_;  // Of each member, kAhead chunks of the own part.
  uint64_t slot_ = 0;         // Of Gloo's messages: the same on all members.
};

// Gloo writes to connections that a lost member has closed, and does not ask
// for an error in place of the signal, which would end the process. Who handles
// the signal goes on doing so.
void IgnoreBrokenPipes() {
  struct sigaction now = {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) {
    std::signal(SIGPIPE, SIG_IGN);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<LinkedCollective>> MakeGlooCollective(
    const std::string& host, size_t rank, size_t size) {
  IgnoreBrokenPipes();
  // Gloo ends the process over one.
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int wrong = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (wrong != 0) {
    const std::string sentence = absl::StrCat("no other worker can reach '",
                                              host, "': ", gai_strerror(wrong));
    // A name server that does not answer may do so later.
    return wrong == EAI_AGAIN ? absl::UnavailableError(sentence)
                              : absl::InvalidArgumentError(sentence);
  }
  freeaddrinfo(found);
  auto made = std::make_unique<GlooCollective>(rank, size);
  const absl::Status opened = Guarded([&] { made->Open(host); });
  if (!opened.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no other worker can reach '", host, "': ", opened.message()));
  }
  return std::unique_ptr<LinkedCollective>(std::move(made));
}

}  // namespace paramd
