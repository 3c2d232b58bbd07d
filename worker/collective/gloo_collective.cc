#include "worker/collective/gloo_collective.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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
        const std::string& link = links[r][rank_];
        PairWith(r).connect({link.begin(), link.end()});
      }
    }));
  }

  absl::Status Sum(absl::Span<float> values) override {
    if (size_ == 1) return Say(absl::OkStatus());
    return Say(Guarded([&] {
      const size_t own = Begin(values.size(), rank_ + 1) - Begin(values.size(),
                                                                 rank_);
      others_.resize(own * size_);
      Scatter(values);
      AddInOrder(values);
      GatherParts(values);
    }));
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
    aborted_ = true;
    for (size_t r = 0; r < size_; ++r) {
      if (r == rank_ || mesh_ == nullptr) continue;
      Guarded([&] { PairWith(r).close(); }).IgnoreError();
    }
  }

 private:
  size_t Begin(size_t count, size_t rank) const { return count * rank / size_; }

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
    for (auto& buffer : *receives) buffer->waitRecv(kForEver);
    for (auto& buffer : *sends) buffer->waitSend(kForEver);
    ++slot_;
  }

  // Each part goes to its member.
  void Scatter(absl::Span<float> values) {
    const size_t begin = Begin(values.size(), rank_);
    const size_t own = Begin(values.size(), rank_ + 1) - begin;
    Buffers sends, receives;
    for (size_t r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      Receive(r, others_.data() + r * own, own * sizeof(float), &receives);
      const size_t from = Begin(values.size(), r);
      Send(r, values.data() + from,
           (Begin(values.size(), r + 1) - from) * sizeof(float), &sends);
    }
    Finish(&sends, &receives);
  }

  void AddInOrder(absl::Span<float> values) {
    const size_t begin = Begin(values.size(), rank_);
    const size_t own = Begin(values.size(), rank_ + 1) - begin;
    float* const mine = values.data() + begin;
    // The first term's place holds the sum until all are added.
    float* const sum = rank_ == 0 ? mine : others_.data();
    for (size_t r = 1; r < size_; ++r) {
      const float* const term = r == rank_ ? mine : others_.data() + r * own;
      for (size_t i = 0; i < own; ++i) sum[i] += term[i];
    }
    if (sum != mine) std::copy_n(sum, own, mine);
  }

  void GatherParts(absl::Span<float> values) {
    const size_t begin = Begin(values.size(), rank_);
    const size_t own = Begin(values.size(), rank_ + 1) - begin;
    Buffers sends, receives;
    for (size_t r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      const size_t from = Begin(values.size(), r);
      Receive(r, values.data() + from,
              (Begin(values.size(), r + 1) - from) * sizeof(float), &receives);
      Send(r, values.data() + begin, own * sizeof(float), &sends);
    }
    Finish(&sends, &receives);
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
  std::shared_ptr<::gloo::transport::Device> device_;
  std::shared_ptr<::gloo::transport::Context> mesh_;
  std::vector<std::string> links_;
  std::vector<float> others_;  // Of each member, its values of the own part.
  uint64_t slot_ = 0;          // Of Gloo's messages: the same on all members.
};

}  // namespace

absl::StatusOr<std::unique_ptr<LinkedCollective>> MakeGlooCollective(
    const std::string& host, size_t rank, size_t size) {
  // Gloo ends the process over one.
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int wrong = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (wrong != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no other worker can reach '", host, "': ", gai_strerror(wrong)));
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
