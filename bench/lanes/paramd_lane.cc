#include <algorithm>
#include <cmath>
#include <future>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "bench/lanes/lane.h"
#include "client/core/session.h"
#include "net/grpc_runtime.h"
#include "net/keep_memory.h"
#include "net/testing/certificates.h"
#include "net/testing/loopback_address.h"
#include "proto/refusal.h"
#include "proto/testing/pair.h"
#include "server/core/shard.h"
#include "tensor/disk_memory.h"
#include "tensor/keyed_rows.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

using testing::Pair;

constexpr absl::Duration kLong = absl::Minutes(1);
constexpr char kJob[] = "dense";

// One server, two workers, plain SGD at a rate that keeps numbers small.
v1::Configuration ConfigurationOf(const std::vector<uint64_t>& variables) {
  v1::Configuration configuration;
  *configuration.mutable_version() = Pair(1, 1);
  configuration.set_run_id(kJob);
  configuration.mutable_optimizer()->mutable_sgd();
  configuration.mutable_optimizer()->set_learning_rate(1e-6f);
  configuration.mutable_consistency()->set_mode(v1::Consistency::ASYNC);
  v1::ServerMember* const server = configuration.add_servers();
  *server->mutable_generation() = Pair(1, 1);
  server->set_incarnation(1);
  for (uint32_t worker = 0; worker < 2; ++worker) {
    v1::WorkerMember* const member = configuration.add_workers();
    member->set_index(worker);
    *member->mutable_generation() = Pair(1, 2 + worker);
  }
  v1::Layout* const layout = configuration.mutable_layout();
  for (const uint64_t bytes : variables) {
    v1::Variable* const variable = layout->add_variables();
    variable->set_name(absl::StrCat("v", layout->variables_size()));
    variable->set_dtype(v1::FLOAT32);
    variable->add_shape(bytes / sizeof(float));
    const uint64_t step = kSliceBytes / sizeof(float);
    for (uint64_t row = 0; row < variable->shape(0); row += step) {
      v1::Slice* const slice = layout->add_slices();
      slice->set_variable(layout->variables_size() - 1);
      slice->set_row_begin(row);
      slice->set_row_end(std::min(row + step, variable->shape(0)));
    }
  }
  return configuration;
}

v1::Configuration ConfigurationOf(const Table& table) {
  v1::Configuration configuration = ConfigurationOf(
      std::vector<uint64_t>{table.rows * table.width * sizeof(float)});
  configuration.mutable_optimizer()->mutable_adagrad();
  v1::Variable* const variable =
      configuration.mutable_layout()->mutable_variables(0);
  variable->set_sparse(true);
  variable->set_keyed(table.keys > 0);
  variable->set_when_full(v1::Variable::EVICT);
  variable->set_memory_rows(table.memory_rows);
  variable->set_shape(0, table.rows);
  variable->add_shape(table.width);
  for (v1::Slice& slice : *configuration.mutable_layout()->mutable_slices()) {
    slice.set_row_begin(slice.row_begin() / table.width);
    slice.set_row_end(slice.row_end() / table.width);
  }
  return configuration;
}

// A server that acknowledges what is pushed and changes nothing; else a Shard.
class NotApplying : public Core {
 public:
  explicit NotApplying(Shard* shard) : shard_(shard) {}

  void Start(Time now, Outbox* out) override { shard_->Start(now, out); }
  void Receive(Message message, Time now, Outbox* out) override {
    const auto* const push = dynamic_cast<const v1::PushRequest*>(message.head);
    if (push == nullptr) {
      return shard_->Receive(std::move(message), now, out);
    }
    auto reply = std::make_unique<v1::PushReply>();
    *reply->mutable_server_generation() = push->header().server_generation();
    reply->set_incarnation(push->header().server_incarnation());
    for (const v1::PushBlock& block : push->blocks()) {
      v1::PushedBlock* const pushed = reply->add_blocks();
      pushed->set_slice(block.slice());
      pushed->set_block(block.block());
      pushed->set_result(v1::PushedBlock::APPLIED);
    }
    out->Reply(message.call, std::move(reply));
  }
  void Completed(IoResult result, Time now, Outbox* out) override {
    shard_->Completed(std::move(result), now, out);
  }
  void Tick(Time now, Outbox* out) override { shard_->Tick(now, out); }
  Time next_tick() const override { return shard_->next_tick(); }

 private:
  Shard* const shard_;
};

// Configures the server, again and again until it is filled.
class Configurer : public Core {
 public:
  explicit Configurer(const v1::Configuration& configuration)
      : configuration_(configuration) {}

  std::future<void> ready() { return ready_.get_future(); }

  void Start(Time, Outbox* out) override { Send(out); }
  void Receive(Message message, Time now, Outbox*) override {
    const auto* const reply =
        static_cast<const v1::ConfigureReply*>(message.head);
    CHECK(RefusalOf(message.status).reason() != v1::Refusal::INVALID,
          message.status.message());
    if (message.status.ok() && reply->restored()) return ready_.set_value();
    again_at_ = now + absl::Milliseconds(20);
  }
  void Completed(IoResult, Time, Outbox*) override {}
  void Tick(Time now, Outbox* out) override {
    if (now < again_at_) return;
    again_at_ = Time::Never();
    Send(out);
  }
  Time next_tick() const override { return again_at_; }

 private:
  void Send(Outbox* out) const {
    auto request = std::make_unique<v1::ConfigureRequest>();
    request->mutable_header()->set_term(1);
    *request->mutable_configuration() = configuration_;
    out->Send(PeerId::Ps(0), 1, std::move(request), {}, kLong);
  }

  const v1::Configuration configuration_;
  std::promise<void> ready_;
  Time again_at_ = Time::Never();
};

// A worker that moves everything as often as it is told, without computing.
class Mover : public Core {
 public:
  Mover(const v1::Configuration& configuration, uint32_t worker,
        NumberFormat format)
      : session_(Options(worker, format)) {
    CHECK(session_.Configure(configuration, Pair(1, 2 + worker)).ok(),
          "the configuration fits the session");
    weights_ = Weights(session_.placement());
    for (const uint64_t elements : session_.placement().elements()) {
      Buffer buffer = Buffer::Allocate(elements * sizeof(float));
      for (float& number : absl::MakeSpan(
               reinterpret_cast<float*>(buffer.mutable_bytes().data()),
               elements)) {
        number = 1e-3f;
      }
      gradients_.push_back(std::move(buffer));
    }
  }

  // On the loop thread. Ends `seconds` with the time of each transfer.
  void Begin(const MoveRequest& request,
             std::promise<std::vector<double>>* seconds) {
    left_ = request.times;
    transfer_ = request.transfer;
    seconds_ = seconds;
    took_.clear();
  }

  void Start(Time, Outbox*) override {}
  void Receive(Message message, Time now, Outbox* out) override {
    session_.Receive(message, now, out);
    Continue(now, out);
  }
  void Completed(IoResult, Time, Outbox*) override {}
  void Tick(Time now, Outbox* out) override {
    session_.Tick(now, out);
    Continue(now, out);
  }
  Time next_tick() const override {
    const bool begins = left_ > 0 && !moving_;
    return begins ? Time() : session_.next_tick();
  }

 private:
  static Session::Options Options(uint32_t worker, NumberFormat format) {
    Session::Options options;
    options.push_format = options.pull_format = format;
    options.worker = worker;
    options.chunk_bytes = kChunkBytes;
    options.calls_per_server = kCallsUnderWay;
    return options;
  }

  void Continue(Time now, Outbox* out) {
    while (const auto finished = session_.TakeFinished()) {
      CHECK(finished->status.ok(), finished->status.message());
      moving_ = false;
      CHECK(transfer_ != Transfer::kStep || finished->pulled,
            "a step's weights come with the answers to its push");
      took_.push_back(absl::ToDoubleSeconds(now - began_));
      if (--left_ == 0) seconds_->set_value(took_);
    }
    if (left_ > 0 && !moving_) Move(now, out);
    // Everything is wanted, though nothing has changed.
    for (const Outbox::SendItem& sent : out->sends) {
      auto* const pull = dynamic_cast<v1::PullRequest*>(sent.head.get());
      if (pull == nullptr) continue;
      for (v1::PullBlock& block : *pull->mutable_blocks()) block.clear_known();
    }
  }

  void Move(Time now, Outbox* out) {
    began_ = now;
    moving_ = true;
    if (transfer_ != Transfer::kPull) return StartPush(now, out);
    session_.StartPull(kPull, &weights_, absl::nullopt, now, out);
  }
  void StartPush(Time now, Outbox* out) {
    Session::PushInfo info;
    info.sequence = ++pushes_;
    if (transfer_ == Transfer::kStep) info.pull_into = &weights_;
    session_.StartPush(kPush, info, gradients_, now, out);
  }

  static constexpr Session::OpId kPull = 1;
  static constexpr Session::OpId kPush = 2;

  Session session_;
  Weights weights_;
  std::vector<Buffer> gradients_;
  std::promise<std::vector<double>>* seconds_ = nullptr;
  std::vector<double> took_;
  Transfer transfer_ = Transfer::kPush;
  int left_ = 0;
  bool moving_ = false;
  Time began_;
  uint64_t pushes_ = 0;
};

// Numbers below `count` by Zipf's law, the first one most often (Hoermann and
// Derflinger, "Rejection-inversion", 1996).
class Zipf {
 public:
  Zipf(uint64_t count, double exponent)
      : exponent_(exponent),
        first_(Integral(1.5) - 1),
        last_(Integral(static_cast<double>(count) + 0.5)) {}

  uint64_t Draw(RandomStream* random) const {
    for (;;) {
      const uint64_t bits = random->Below(uint64_t{1} << 53);
      const double share = std::ldexp(static_cast<double>(bits), -53);
      const double area = last_ + share * (first_ - last_);
      const double rank = std::max(1.0, std::round(Inverse(area)));
      if (area >= Integral(rank + 0.5) - std::pow(rank, -exponent_)) {
        return static_cast<uint64_t>(rank) - 1;
      }
    }
  }

 private:
  // Of x to the power of -exponent; exponent is not 1.
  double Integral(double x) const {
    return (std::pow(x, 1 - exponent_) - 1) / (1 - exponent_);
  }
  double Inverse(double area) const {
    return std::pow(1 + area * (1 - exponent_), 1 / (1 - exponent_));
  }

  const double exponent_;
  const double first_;
  const double last_;
};

// The same for rows: what a worker does beside computing, from sorted numbers
// of rows on. A step looks up and then pushes.
class RowMover : public Core {
 public:
  RowMover(const v1::Configuration& configuration, const Table& table)
      : table_(table), random_(7), session_(Session::Options()) {
    CHECK(session_.Configure(configuration, Pair(1, 2)).ok(),
          "the configuration fits the session");
    if (table.zipf > 0) zipf_.emplace(table.keys, table.zipf);
    for (int i = 0; i < kDraws && !zipf_.has_value(); ++i) {
      drawn_.push_back(Draw());
    }
  }

  void Begin(const MoveRequest& request,
             std::promise<std::vector<double>>* seconds) {
    left_ = request.times;
    transfer_ = request.transfer;
    seconds_ = seconds;
    took_.clear();
  }

  void Start(Time, Outbox*) override {}
  void Receive(Message message, Time now, Outbox* out) override {
    session_.Receive(message, now, out);
    Continue(now, out);
  }
  void Completed(IoResult, Time, Outbox*) override {}
  void Tick(Time now, Outbox* out) override {
    session_.Tick(now, out);
    Continue(now, out);
  }
  Time next_tick() const override {
    return left_ > 0 && rows_ == nullptr ? Time() : session_.next_tick();
  }

 private:
  static constexpr int kDraws = 100;

  Buffer Draw() {
    std::vector<uint64_t> rows;
    while (rows.size() < table_.rows_moved) {
      while (rows.size() < table_.rows_moved) {
        rows.push_back(table_.keys > 0 ? MixKey(random_.Below(table_.keys))
                                       : random_.Below(table_.rows));
      }
      std::sort(rows.begin(), rows.end());
      rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    }
    return Buffer::Copy(AsBytes(absl::MakeConstSpan(rows)));
  }

  // Each key once, the last ones first; then as Zipf's law says.
  Buffer DrawByZipf() {
    std::vector<uint64_t> keys(
        std::min(table_.rows_moved, table_.keys - std::min(table_.keys, met_)));
    for (uint64_t& key : keys) key = MixKey(table_.keys - ++met_);
    if (keys.empty()) {
      keys.resize(table_.rows_moved);
      for (uint64_t& key : keys) key = MixKey(zipf_->Draw(&random_));
    }
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    return Buffer::Copy(AsBytes(absl::MakeConstSpan(keys)));
  }

  void Continue(Time now, Outbox* out) {
    while (const auto finished = session_.TakeFinished()) {
      CHECK(finished->status.ok(), finished->status.message());
      if (transfer_ == Transfer::kStep && finished->op == kLookup) {
        Push(now, out);
        continue;
      }
      rows_ = nullptr;
      took_.push_back(absl::ToDoubleSeconds(now - began_));
      if (--left_ == 0) seconds_->set_value(took_);
    }
    if (left_ == 0 || rows_ != nullptr) return;
    const Buffer drawn =
        zipf_.has_value() ? DrawByZipf() : drawn_[moved_++ % kDraws];
    began_ = zipf_.has_value() ? MonotonicNow() : now;
    auto rows = SparseRows::Create(session_.placement(), {drawn});
    CHECK(rows.ok(), rows.status().message());
    rows_ = std::make_unique<SparseRows>(*std::move(rows));
    if (transfer_ == Transfer::kPush) return Push(began_, out);
    session_.StartLookup(kLookup, rows_.get(), absl::nullopt, 0, began_, out);
  }

  void Push(Time now, Outbox* out) {
    Session::PushInfo info;
    info.sequence = ++pushes_;
    info.rows = rows_.get();
    // What was never looked up is zeros: a gradient of these.
    session_.StartPush(kPush, info, {rows_->values(0)}, now, out);
  }

  static constexpr Session::OpId kLookup = 1;
  static constexpr Session::OpId kPush = 2;

  const Table table_;
  RandomStream random_;
  absl::optional<Zipf> zipf_;
  uint64_t met_ = 0;  // Keys.
  Session session_;
  std::vector<Buffer> drawn_;
  std::unique_ptr<SparseRows> rows_;  // That are moved; null: none.
  std::promise<std::vector<double>>* seconds_ = nullptr;
  std::vector<double> took_;
  Transfer transfer_ = Transfer::kPush;
  int left_ = 0;
  uint64_t moved_ = 0;
  Time began_;
  uint64_t pushes_ = 0;
};

// Pulls the first block of the first variable, some at once.
class SmallPuller : public Core {
 public:
  void Begin(const MoveRequest& request,
             std::promise<std::vector<double>>* seconds) {
    CHECK(request.under_way <= kMostUnderWay, "so many are enough");
    left_ = request.times;
    most_ = request.under_way;
    seconds_ = seconds;
    took_.clear();
  }

  void Start(Time, Outbox*) override {}
  void Receive(Message message, Time now, Outbox* out) override {
    CHECK(message.status.ok(), message.status.message());
    took_.push_back(absl::ToDoubleSeconds(now - sent_.at(message.call)));
    sent_.erase(message.call);
    if (left_ == 0 && sent_.empty()) return seconds_->set_value(took_);
    SendWhatMay(now, out);
  }
  void Completed(IoResult, Time, Outbox*) override {}
  void Tick(Time now, Outbox* out) override { SendWhatMay(now, out); }
  Time next_tick() const override {
    return left_ > 0 && sent_.size() < static_cast<size_t>(most_)
               ? Time()
               : Time::Never();
  }

 private:
  void SendWhatMay(Time now, Outbox* out) {
    while (left_ > 0 && sent_.size() < static_cast<size_t>(most_)) {
      --left_;
      auto request = std::make_unique<v1::PullRequest>();
      request->set_encoding(v1::FP32);
      *request->mutable_header()->mutable_configuration() = Pair(1, 1);
      request->add_blocks();
      sent_[++calls_] = now;
      out->Send(PeerId::Ps(0), calls_, std::move(request), {}, kLong);
    }
  }

  int left_ = 0;
  int most_ = 1;
  CallId calls_ = 0;
  std::map<CallId, Time> sent_;
  std::promise<std::vector<double>>* seconds_ = nullptr;
  std::vector<double> took_;
};

// What both ends of a lane are told before they become processes.
struct Ends {
  std::string host;
  PayloadPath path;
  // For TLS, the directories with their certificates.
  std::string server_tls;
  std::string client_tls;
};

Ends EndsOf(PayloadPath path) {
  Ends ends = {DrawLoopbackHost(), path, "", ""};
  if (path == PayloadPath::kTls) {
    const Authority authority = MakeAuthority(kJob);
    ends.server_tls = CertificateDirectory(authority, kJob, "ps-0");
    ends.client_tls = CertificateDirectory(authority, kJob, "worker-0");
  }
  return ends;
}

std::unique_ptr<Runtime> MakeRuntime(const Ends& ends, PeerId self) {
  const bool server = self == PeerId::Ps(0);
  GrpcRuntimeOptions options;
  options.shared_memory = ends.path == PayloadPath::kSharedMemory;
  if (ends.path == PayloadPath::kTls) {
    options.tls = TlsOf(server ? ends.server_tls : ends.client_tls, kJob,
                        server ? "ps-0" : "worker-0");
  }
  options.self.set_type(server ? v1::PS : v1::WORKER);
  options.self.set_index(self.index);
  options.incarnation = server ? 1 : 2 + self.index;
  options.peers = {{PeerId::Ps(0), absl::StrCat(ends.host, ":2222")},
                   {PeerId::Coordinator(), absl::StrCat(ends.host, ":2223")},
                   {PeerId::Worker(0), absl::StrCat(ends.host, ":2223")},
                   {PeerId::Worker(1), absl::StrCat(ends.host, ":2224")}};
  options.listen_address = options.peers.at(self);
  auto runtime = MakeGrpcRuntime(options);
  CHECK(runtime.ok(), runtime.status().message());
  return *std::move(runtime);
}

[[noreturn]] void ServeShard(const Ends& ends, bool apply,
                             Shard::Options options) {
  KeepMemory();
  options.incarnation = 1;
  options.life_seed = 1;
  Shard shard(options);
  NotApplying not_applying(&shard);
  const std::unique_ptr<Runtime> runtime = MakeRuntime(ends, PeerId::Ps(0));
  runtime->AddCore(PeerId::Ps(0),
                   apply ? static_cast<Core*>(&shard) : &not_applying);
  CHECK(runtime->Run().ok(), "the server runs as long as it is wanted");
  std::abort();
}

// A client whose core is `mover`. All of it lives as long as the process.
template <typename MoverCore>
Child::Serve Serve(const Ends& ends, const v1::Configuration& configuration,
                   MoverCore* mover) {
  auto* const runtime = MakeRuntime(ends, PeerId::Worker(0)).release();
  auto* const configurer = new Configurer(configuration);
  runtime->AddCore(PeerId::Coordinator(), configurer);
  runtime->AddCore(PeerId::Worker(0), mover);
  std::future<void> ready = configurer->ready();
  std::thread([runtime] { (void)runtime->Run(); }).detach();
  ready.wait();
  return [runtime, mover](const std::string& line) {
    const MoveRequest request = ParseMoveRequest(line);
    std::promise<std::vector<double>> seconds;
    const Time start = MonotonicNow();
    runtime->Post([&] { mover->Begin(request, &seconds); });
    const std::vector<double> took = seconds.get_future().get();
    return MovedLine(absl::ToDoubleSeconds(MonotonicNow() - start), took);
  };
}

Child::Serve MakeClient(const Ends& ends,
                        const std::vector<uint64_t>& variables, uint32_t worker,
                        NumberFormat format) {
  KeepMemory();
  const v1::Configuration configuration = ConfigurationOf(variables);
  // All of it lives as long as the process.
  auto* const runtime = MakeRuntime(ends, PeerId::Worker(worker)).release();
  auto* const configurer = new Configurer(configuration);
  auto* const mover = new Mover(configuration, worker, format);
  auto* const puller = new SmallPuller;
  runtime->AddCore(PeerId::Coordinator(), configurer);
  runtime->AddCore(PeerId::Worker(worker), mover);
  runtime->AddCore(PeerId::Worker(1 - worker), puller);
  std::future<void> ready = configurer->ready();
  std::thread([runtime] { (void)runtime->Run(); }).detach();
  ready.wait();
  return [runtime, mover, puller](const std::string& line) {
    const MoveRequest request = ParseMoveRequest(line);
    std::promise<std::vector<double>> seconds;
    const Time start = MonotonicNow();
    runtime->Post([&] {
      request.transfer == Transfer::kSmall ? puller->Begin(request, &seconds)
                                           : mover->Begin(request, &seconds);
    });
    const std::vector<double> took = seconds.get_future().get();
    return MovedLine(absl::ToDoubleSeconds(MonotonicNow() - start), took);
  };
}

std::unique_ptr<Child> MakeServer(const Ends& ends, bool apply,
                                  CpuPlacement placement,
                                  const Shard::Options& options = {}) {
  return std::make_unique<Child>("paramd-server", [&]() -> Child::Serve {
    Place(placement, /*server=*/true);
    ServeShard(ends, apply, options);
  });
}

std::string NameOf(PayloadPath path) {
  switch (path) {
    case PayloadPath::kTcp:
      return "paramd";
    case PayloadPath::kTls:
      return "paramd, TLS";
    case PayloadPath::kSharedMemory:
      return "shared memory";
  }
  return "";
}

}  // namespace

std::unique_ptr<Lane> MakeParamdLane(const std::vector<uint64_t>& variables,
                                     bool apply, const ParamdWay& way) {
  const Ends ends = EndsOf(way.path);
  auto server = MakeServer(ends, apply, way.placement);
  auto client = std::make_unique<Child>("paramd-client", [&] {
    Place(way.placement, /*server=*/false);
    return MakeClient(ends, variables, 0, way.format);
  });
  return std::make_unique<Lane>(
      absl::StrCat(NameOf(way.path), apply ? ", SGD" : ""), std::move(server),
      std::move(client));
}

std::unique_ptr<Lane> MakeRowsLane(const Table& table) {
  const Ends ends = EndsOf(PayloadPath::kTcp);
  Shard::Options options;
  options.memory_limit_bytes = table.memory_limit_bytes;
  if (!table.disk_directory.empty()) {
    auto disk = DiskMemory::Create(table.disk_directory);
    CHECK(disk.ok(), disk.status().message());
    options.disk = *std::move(disk);
  }
  auto server =
      MakeServer(ends, /*apply=*/true, CpuPlacement::kAnywhere, options);
  auto client = std::make_unique<Child>("paramd-client", [&] {
    KeepMemory();
    const v1::Configuration configuration = ConfigurationOf(table);
    return Serve(ends, configuration, new RowMover(configuration, table));
  });
  return std::make_unique<Lane>("paramd, rows", std::move(server),
                                std::move(client));
}

std::pair<std::unique_ptr<Lane>, std::unique_ptr<Lane>> MakeTwoParamdLanes(
    const std::vector<uint64_t>& variables) {
  const Ends ends = EndsOf(PayloadPath::kTcp);
  const std::shared_ptr<Child> server =
      MakeServer(ends, /*apply=*/false, CpuPlacement::kAnywhere);
  const auto make_lane = [&](uint32_t worker) {
    auto client = std::make_unique<Child>("paramd-client", [&] {
      return MakeClient(ends, variables, worker, NumberFormat::kFp32);
    });
    return std::make_unique<Lane>("paramd", server, std::move(client));
  };
  auto first = make_lane(0);
  return {std::move(first), make_lane(1)};
}

}  // namespace paramd
