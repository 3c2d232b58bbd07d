#include "bench/overload/overloaded_server.h"

#include <sched.h>

#include <fstream>
#include <future>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "base/check.h"
#include "net/grpc_runtime.h"
#include "net/keep_memory.h"
#include "net/testing/raw_caller.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/testing/pair.h"
#include "server/core/testing/configurations.h"
#include "server/parameter_server.h"
#include "tensor/number_format.h"

namespace paramd {
namespace {

using testing::Pair;

constexpr char kConfigure[] = "/paramd.v1.ParameterServer/Configure";

cpu_set_t AllowedCpus() {
  cpu_set_t cpus;
  CHECK(sched_getaffinity(0, sizeof(cpus), &cpus) == 0,
        "the process may ask where it may run");
  return cpus;
}

int FirstOf(const cpu_set_t& cpus) {
  int cpu = 0;
  while (!CPU_ISSET(cpu, &cpus)) ++cpu;
  return cpu;
}

void RunOn(const cpu_set_t& cpus) {
  CHECK(sched_setaffinity(0, sizeof(cpus), &cpus) == 0,
        "the process may stay where it may run");
}

// VmHWM of this process.
uint64_t PeakResidentBytes() {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word) {
    uint64_t kilobytes = 0;
    if (word == "VmHWM:" && file >> kilobytes) return kilobytes << 10;
  }
  CHECK(false, "the system says how much memory a process has had");
  return 0;
}

std::string Report(Runtime* runtime) {
  std::promise<uint64_t> applied;
  runtime->Post(
      [&] { applied.set_value(runtime->Status().server().blocks_applied()); });
  return absl::StrCat(PeakResidentBytes(), " ", applied.get_future().get());
}

Child::Serve ServeAt(const std::string& address) {
  KeepMemory();
  GrpcRuntimeOptions options;
  options.self.set_type(v1::PS);
  options.listen_address = address;
  options.workers = kWorkers;
  options.shared_memory = false;
  options.memory_limit_bytes = kReceivedBytes;
  auto made = MakeGrpcRuntime(options);
  CHECK(made.ok(), made.status().message());
  // All of it lives as long as the process.
  Runtime* const runtime = (*std::move(made)).release();
  Shard::Options shard;
  shard.incarnation = 100;
  shard.life_seed = 1;
  shard.memory_limit_bytes = kHeldBytes;
  shard.coordinator_patience = absl::Hours(1);
  new ParameterServer({shard}, OwnDirectories::Settings(), runtime);
  std::thread([runtime] { (void)runtime->Run(); }).detach();
  return [runtime](const std::string&) { return Report(runtime); };
}

v1::Configuration JobConfiguration() {
  v1::Configuration configuration = testing::MakeAdamConfiguration(
      {testing::Zeros("w", {kBlocks * kBlockElements / 256, 256})});
  configuration.mutable_optimizer()->set_learning_rate(1e-6f);
  configuration.clear_workers();
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    v1::WorkerMember* const member = configuration.add_workers();
    member->set_index(worker);
    *member->mutable_generation() = Pair(1, 10 + worker);
  }
  return configuration;
}

}  // namespace

void PlaceServer() {
  const int first = FirstOf(AllowedCpus());
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  RunOn(one);
}

int PlaceClients() {
  cpu_set_t others = AllowedCpus();
  if (CPU_COUNT(&others) > 1) CPU_CLR(FirstOf(others), &others);
  RunOn(others);
  return CPU_COUNT(&others);
}

std::unique_ptr<Child> MakeOverloadedServer(const std::string& address) {
  return std::make_unique<Child>("paramd-server", [&] {
    PlaceServer();
    return ServeAt(address);
  });
}

ServerReport ReportOf(Child* server) {
  std::istringstream answer(server->Call("report"));
  ServerReport report;
  answer >> report.peak_bytes >> report.blocks_applied;
  CHECK(!answer.fail(), "a server reports two numbers");
  return report;
}

void ConfigureServer(const std::string& address) {
  RawCaller caller(address);
  v1::ConfigureRequest configure;
  *configure.mutable_configuration() = JobConfiguration();
  const std::string request = configure.SerializeAsString();
  for (int i = 0; i < 1000; ++i, absl::SleepFor(absl::Milliseconds(10))) {
    const auto bytes = caller.Call(kConfigure, "chief/0", request);
    v1::ConfigureReply reply;
    if (bytes.ok() && reply.ParseFromString(*bytes) && reply.restored()) return;
  }
  CHECK(false, "the server serves within ten seconds");
}

v1::PushRequest PushOf(uint32_t worker, uint64_t sequence, uint32_t block) {
  v1::PushRequest push;
  push.mutable_header()->set_worker(worker);
  *push.mutable_header()->mutable_generation() = Pair(1, 10 + worker);
  push.mutable_header()->set_sequence(sequence);
  push.set_encoding(v1::BF16);
  v1::PushBlock* const pushed = push.add_blocks();
  pushed->set_slice(block / kBlocksOfASlice);
  pushed->set_block(block % kBlocksOfASlice);
  pushed->set_elements(kBlockElements);
  return push;
}

Buffer Gradient() {
  const std::vector<float> numbers(kBlockElements, 1e-3f);
  Buffer encoded =
      Buffer::Allocate(numbers.size() * BytesOf(NumberFormat::kBf16));
  EncodeNumbers(NumberFormat::kBf16, numbers.data(), numbers.size(),
                encoded.mutable_bytes().data());
  return encoded;
}

v1::PullRequest PullOf(uint32_t block, uint32_t count) {
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  for (uint32_t i = block; i < block + count; ++i) {
    v1::PullBlock* const pulled = pull.add_blocks();
    pulled->set_slice(i / kBlocksOfASlice);
    pulled->set_block(i % kBlocksOfASlice);
  }
  return pull;
}

}  // namespace paramd
