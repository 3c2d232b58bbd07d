// Callers that ask for weights and never read them, at a server whose memory is
// a few blocks more than its content.
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

#include "net/grpc_runtime.h"
#include "net/testing/loopback_address.h"
#include "net/testing/raw_caller.h"
#include "net/testing/raw_stream.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/refusal.h"
#include "server/core/testing/configurations.h"
#include "server/parameter_server.h"

namespace paramd {
namespace {

using testing::MakeConfiguration;
using testing::Pair;
using testing::Zeros;

constexpr char kConfigure[] = "/paramd.v1.ParameterServer/Configure";
constexpr char kPull[] = "/paramd.v1.ParameterServer/Pull";
constexpr char kPush[] = "/paramd.v1.ParameterServer/Push";
constexpr size_t kBlockElements = 262144;
constexpr uint32_t kSlices = 4;  // Of four blocks each.
constexpr uint64_t kContent = uint64_t{16} << 20;
constexpr uint64_t kLimit = kContent + (uint64_t{6} << 20);

class SlowReadersTest : public ::testing::Test {
 protected:
  SlowReadersTest() {
    absl::StatusOr<std::unique_ptr<Runtime>> made;
    do {
      GrpcRuntimeOptions options;
      options.self.set_type(v1::PS);
      options.listen_address = absl::StrCat(DrawLoopbackHost(), ":2222");
      address_ = options.listen_address;
      made = MakeGrpcRuntime(options);
    } while (!made.ok());
    runtime_ = *std::move(made);
    Shard::Options shard;
    shard.incarnation = 100;
    shard.life_seed = 1;
    shard.memory_limit_bytes = kLimit;
    server_ = std::make_unique<ParameterServer>(
        std::vector<Shard::Options>{shard}, OwnDirectories::Settings(),
        runtime_.get());
    thread_ = std::thread([this] { (void)runtime_->Run(); });
    caller_ = std::make_unique<RawCaller>(address_);
    Configure();
  }
  ~SlowReadersTest() override {
    runtime_->Stop(absl::CancelledError("the test is over"));
    thread_.join();
  }

  void Configure() {
    v1::ConfigureRequest configure;
    *configure.mutable_configuration() =
        MakeConfiguration({Zeros("w", {16384, 256})});
    for (bool restored = false; !restored;
         absl::SleepFor(absl::Milliseconds(5))) {
      const auto bytes =
          caller_->Call(kConfigure, "chief/0", configure.SerializeAsString());
      v1::ConfigureReply reply;
      restored =
          bytes.ok() && reply.ParseFromString(*bytes) && reply.restored();
    }
  }

  static v1::PullRequest PullOf(uint32_t slice) {
    v1::PullRequest pull;
    pull.set_encoding(v1::FP32);
    for (uint32_t block = 0; block < 4; ++block) {
      pull.add_blocks()->set_slice(slice);
      pull.mutable_blocks(block)->set_block(block);
    }
    return pull;
  }

  // Push `sequence` of worker 1, a one for each number of the slice. The times
  // that it was refused for want of memory.
  int Push(uint64_t sequence, uint32_t slice) {
    v1::PushRequest push;
    push.mutable_header()->set_worker(1);
    *push.mutable_header()->mutable_generation() = Pair(1, 11);
    push.mutable_header()->set_sequence(sequence);
    push.set_encoding(v1::FP32);
    for (uint32_t block = 0; block < 4; ++block) {
      v1::PushBlock* const part = push.add_blocks();
      part->set_slice(slice);
      part->set_block(block);
      part->set_elements(kBlockElements);
    }
    const std::vector<float> ones(4 * kBlockElements, 1.0f);
    push.set_payload(ones.data(), ones.size() * sizeof(float));
    const std::string request = push.SerializeAsString();
    for (int refused = 0;; ++refused) {
      const auto answer = caller_->Call(kPush, "worker/1", request);
      if (answer.ok()) return refused;
      if (RefusalOf(answer.status()).reason() != v1::Refusal::OVER_LIMIT) {
        ADD_FAILURE() << answer.status();
        return refused;
      }
      absl::SleepFor(absl::Milliseconds(20));
    }
  }

  float FirstNumberOf(uint32_t slice) {
    const auto bytes =
        caller_->Call(kPull, "worker/1", PullOf(slice).SerializeAsString());
    v1::PullReply reply;
    float number = 0;
    if (bytes.ok() && reply.ParseFromString(*bytes)) {
      reply.payload().copy(reinterpret_cast<char*>(&number), sizeof(number));
    }
    return number;
  }

  uint64_t MemoryBytes() {
    std::promise<uint64_t> bytes;
    runtime_->Post(
        [&] { bytes.set_value(runtime_->Status().server().memory_bytes()); });
    return bytes.get_future().get();
  }

  std::string address_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<ParameterServer> server_;
  std::thread thread_;
  std::unique_ptr<RawCaller> caller_;
};

TEST_F(SlowReadersTest, Promise8_TenThatNeverReadHoldNobodyUp) {
  std::vector<std::unique_ptr<RawStream>> readers;
  for (uint32_t i = 0; i < 10; ++i) {
    readers.push_back(std::make_unique<RawStream>(address_, kPull));
    ASSERT_TRUE(readers.back()->Send(PullOf(i % kSlices)));
    readers.back()->HalfClose();
  }
  int refused = 0;
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    for (uint32_t slice = 0; slice < kSlices; ++slice) {
      refused += Push(sequence, slice);
      EXPECT_LE(MemoryBytes(), kLimit);
    }
  }
  EXPECT_GT(refused, 0) << "there was memory for all";
  // Each push is in once.
  for (uint32_t slice = 0; slice < kSlices; ++slice) {
    EXPECT_EQ(FirstNumberOf(slice), -3.0f) << slice;
  }
}

}  // namespace
}  // namespace paramd
