// What exactly once costs a server per chunk of one block: who may push, which
// blocks are in, and the mark that they are now.
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "server/core/applied_pushes.h"
#include "server/core/shard.h"
#include "server/core/testing/configurations.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

using testing::MakeConfiguration;
using testing::Pair;
using testing::Zeros;

// 64 MiB: as much as does not fit the caches.
constexpr uint32_t kBlocks = 64;
constexpr uint32_t kSmallElements = 16;
constexpr uint32_t kWorkers = 64;

template <typename Work>
double Nanoseconds(const Work& work) {
  const Time begin = MonotonicNow();
  work();
  return absl::ToDoubleNanoseconds(MonotonicNow() - begin);
}

// A server that holds kBlocks blocks, a variable each, and a worker that pushes
// them in a chunk each.
class Pushed {
 public:
  explicit Pushed(uint32_t elements) : shard_(Options()) {
    Outbox out;
    shard_.Start(now_, &out);
    v1::ConfigureRequest request;
    request.mutable_header()->set_term(1);
    v1::Configuration* const configuration = request.mutable_configuration();
    *configuration = MakeConfiguration({});
    for (uint32_t v = 0; v < kBlocks; ++v) {
      *configuration->mutable_layout()->add_variables() =
          Zeros(absl::StrCat("v", v), {elements});
      v1::Slice* const slice = configuration->mutable_layout()->add_slices();
      slice->set_variable(v);
      slice->set_row_end(elements);
      chunks_.push_back(MakePush(v, elements));
    }
    Receive(PeerId::Coordinator(), request, {});
    while (shard_.next_tick() <= now_) shard_.Tick(now_, &out);
    Buffer gradient = Buffer::Allocate(elements * sizeof(float));
    for (std::byte& byte : gradient.mutable_bytes()) byte = std::byte{0};
    gradient_ = {gradient};
  }

  // Every block of the next push.
  void Push() {
    for (v1::PushRequest& chunk : chunks_) {
      chunk.mutable_header()->set_sequence(chunk.header().sequence() + 1);
      Receive(PeerId::Worker(1), chunk, gradient_);
    }
  }

 private:
  static Shard::Options Options() {
    Shard::Options options;
    options.incarnation = 100;
    options.life_seed = 1;
    return options;
  }
  static v1::PushRequest MakePush(uint32_t slice, uint32_t elements) {
    v1::PushRequest request;
    request.mutable_header()->set_worker(1);
    *request.mutable_header()->mutable_generation() = Pair(1, 11);
    request.set_encoding(v1::FP32);
    v1::PushBlock* const pushed = request.add_blocks();
    pushed->set_slice(slice);
    pushed->set_elements(elements);
    return request;
  }
  void Receive(PeerId from, const google::protobuf::Message& head,
               BufferChain payload) {
    Outbox out;
    Message message;
    message.from = from;
    message.call = 1;
    message.head = &head;
    message.payload = std::move(payload);
    shard_.Receive(std::move(message), now_, &out);
  }

  Shard shard_;
  const Time now_ = Time::FromNanoseconds(1);
  std::vector<v1::PushRequest> chunks_;
  BufferChain gradient_;
};

// The record of a slice of four blocks alone, with many workers in it.
double RecordNanoseconds(int pushes) {
  AppliedPushes applied(4);
  for (uint32_t w = 0; w < kWorkers; ++w) {
    for (int b = 0; b < 4; ++b) applied.MarkApplied({w, Pair(1, 1), 1}, b);
  }
  const double all = Nanoseconds([&] {
    for (int push = 2; push < 2 + pushes; ++push) {
      const PushId id = {kWorkers / 2, Pair(1, 1), static_cast<uint64_t>(push)};
      for (int b = 0; b < 4; ++b) {
        if (*applied.Admit(id, b) == AppliedPushes::Admission::kApply) {
          applied.MarkApplied(id, b);
        }
      }
    }
  });
  return all / (4 * pushes);
}

void Run(Report* report) {
  Pushed large(kMaxBlockElements), small(kSmallElements);
  Samples whole, rest, record;
  const int rounds = report->quick() ? 20 : 200;
  for (int round = -1; round < rounds; ++round) {
    const double large_ns = Nanoseconds([&] { large.Push(); }) / kBlocks;
    const double small_ns = Nanoseconds([&] { small.Push(); }) / kBlocks;
    const double record_ns = RecordNanoseconds(1000);
    if (round < 0) continue;
    whole.Add(large_ns);
    rest.Add(small_ns);
    record.Add(record_ns);
  }
  const Figure::Peer chunk = {"1 MiB, applied", whole};
  report->Add({"record_ns", "ns", record, chunk});
  report->Add({"all_but_numbers_ns", "ns", rest, chunk});
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  paramd::Report report("admission", argc, argv);
  paramd::Run(&report);
}
