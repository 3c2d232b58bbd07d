#ifndef PARAMD_NET_TESTING_GRPC_RUNTIME_TEST_BASE_H_
#define PARAMD_NET_TESTING_GRPC_RUNTIME_TEST_BASE_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"

#include "net/grpc_runtime.h"
#include "net/testing/loopback_address.h"
#include "net/testing/toy_core.h"
#include "proto/paramd/v1/data.pb.h"

namespace paramd {
namespace testing {

constexpr char kPull[] = "/paramd.v1.ParameterServer/Pull";
constexpr char kPush[] = "/paramd.v1.ParameterServer/Push";
// Of every process.
constexpr uint64_t kIncarnation = 77;

// Its own for each process that a test starts.
inline std::string OperatorSocketOf(const std::string& address) {
  return absl::StrCat(::testing::TempDir(), "/",
                      absl::StrReplaceAll(address, {{":", "-"}}), ".sock");
}

inline GrpcRuntimeOptions ProcessOptions(v1::TaskType type, uint32_t index,
                                         const std::string& address) {
  GrpcRuntimeOptions options;
  if (type == v1::PS) options.operator_socket = OperatorSocketOf(address);
  options.self.set_type(type);
  options.self.set_index(index);
  options.incarnation = kIncarnation;
  options.job_name = "job";
  options.job_digest = "aaaa";
  options.job_settings = {"seed=1"};
  options.cluster = {"ps=1"};
  options.memory_limit_bytes = 1;
  options.listen_address = address;
  return options;
}

// A process: a runtime and the thread that runs it.
class RunningProcess {
 public:
  explicit RunningProcess(std::unique_ptr<Runtime> runtime)
      : runtime_(std::move(runtime)) {}
  ~RunningProcess() {
    if (!thread_.joinable()) return;
    Stop();
    (void)Wait();
  }

  Runtime& runtime() { return *runtime_; }
  void Start() {
    thread_ = std::thread([this] { status_ = runtime_->Run(); });
  }
  void Stop() { runtime_->Stop(absl::CancelledError("the test says so")); }
  // What Run returned.
  absl::Status Wait() {
    thread_.join();
    return status_;
  }

 private:
  std::unique_ptr<Runtime> runtime_;
  std::thread thread_;
  absl::Status status_;
};

// A parameter server at ps_address_; tests dial it.
class GrpcRuntimeTestBase : public ::testing::Test {
 protected:
  GrpcRuntimeTestBase() {
    do {
      host_ = DrawLoopbackHost();
      ps_address_ = absl::StrCat(host_, ":2222");
      auto runtime = MakeGrpcRuntime(ProcessOptions(v1::PS, 0, ps_address_));
      if (runtime.ok()) {
        ps_ = std::make_unique<RunningProcess>(*std::move(runtime));
      }
    } while (ps_ == nullptr);
    ps_->runtime().AddCore(PeerId::Ps(0), &shard_);
    shard_.on_receive = [this](Message m, Time, Outbox* out) {
      ++received_;
      out->Reply(m.call, Answer(m));
    };
  }

  static Outbox::Head Answer(const Message& m) {
    if (m.head->GetDescriptor() == v1::PullRequest::descriptor()) {
      return std::make_unique<v1::PullReply>();
    }
    return std::make_unique<v1::PushReply>();
  }

  // Runs a worker with these options that calls Pull on ps-0 until `enough`
  // accepts an answer.
  void PullUntil(GrpcRuntimeOptions options,
                 std::function<bool(const Message&)> enough) {
    options.listen_address = absl::StrCat(host_, ":2223");
    options.peers = {{PeerId::Ps(0), ps_address_}};
    auto runtime = MakeGrpcRuntime(options);
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    ToyCore worker;
    const auto pull = [](Outbox* out) {
      out->Send(PeerId::Ps(0), 1, std::make_unique<v1::PullRequest>(), {},
                absl::Seconds(60));
    };
    worker.on_start = [&](Time, Outbox* out) { pull(out); };
    worker.on_tick = worker.on_start;
    worker.on_receive = [&](Message m, Time now, Outbox* out) {
      if (enough(m)) {
        out->Exit(absl::OkStatus());
      } else {
        worker.tick = now + absl::Milliseconds(10);
      }
    };
    (*runtime)->AddCore(PeerId::Worker(options.self.index()), &worker);
    EXPECT_TRUE((*runtime)->Run().ok());
  }

  std::string host_, ps_address_;
  ToyCore shard_;
  int received_ = 0;  // Of the server's loop thread until it has ended.
  std::unique_ptr<RunningProcess> ps_;
};

}  // namespace testing
}  // namespace paramd

#endif  // PARAMD_NET_TESTING_GRPC_RUNTIME_TEST_BASE_H_
