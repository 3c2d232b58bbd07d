// Writes the corpora of the targets beside it.

#include <string>
#include <utility>
#include <vector>

#include "grpcpp/support/slice.h"

#include "base/fuzz/pieces.h"
#include "base/fuzz/seeds.h"
#include "net/certified_name.h"
#include "net/hello.h"
#include "net/method_table.h"
#include "net/wire_message.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

using fuzz::WriteSeeds;

// As a call with this request, or its answer, has it.
std::string Wire(const google::protobuf::Message& head, const Buffer& payload,
                 const v1::SharedPayload* shared = nullptr) {
  const auto& methods = MethodTable::Get().methods();
  std::string bytes;
  for (size_t m = 0; m < methods.size(); ++m) {
    const bool is_reply =
        methods[m].reply->GetDescriptor() == head.GetDescriptor();
    if (!is_reply &&
        methods[m].request->GetDescriptor() != head.GetDescriptor()) {
      continue;
    }
    fuzz::AddNumber(m, 1, &bytes);
    fuzz::AddNumber(is_reply ? 7 : 6, 1, &bytes);
    break;
  }
  std::vector<grpc::Slice> slices;
  const BufferChain chain =
      payload.empty() ? BufferChain() : BufferChain{payload};
  (void)EncodeMessage(head, chain, shared).Dump(&slices);
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

void WriteMessages(const std::string& directory) {
  v1::PushRequest push;
  push.mutable_header()->set_worker(1);
  *push.mutable_header()->mutable_generation() = testing::Pair(1, 11);
  push.add_blocks()->set_elements(2);
  v1::PullReply pulled;
  pulled.set_encoding(v1::FP32);
  pulled.add_blocks()->set_elements(2);
  v1::SharedPayload shared;
  shared.set_memory(7);
  shared.add_pieces()->set_length(100);
  const Buffer numbers = Buffer::Copy(std::string("12345678"));
  WriteSeeds(directory, "wire_message",
             {{"push", Wire(push, numbers)},
              {"pulled", Wire(pulled, numbers)},
              {"push_in_shared_memory", Wire(push, {}, &shared)},
              {"without_payload", Wire(push, {})},
              {"empty", Wire(v1::StatusRequest(), {})}});
}

// A word of a unit, and what is said.
std::string Said(uint16_t unit, uint8_t word,
                 const std::vector<std::pair<uint64_t, uint64_t>>& places,
                 uint64_t memory = 7) {
  v1::SharedPayload shared;
  shared.set_memory(memory);
  for (const auto& [offset, length] : places) {
    shared.add_pieces()->set_offset(offset);
    shared.mutable_pieces(shared.pieces_size() - 1)->set_length(length);
  }
  std::string bytes;
  fuzz::AddNumber(unit, 2, &bytes);
  fuzz::AddNumber(word, 1, &bytes);
  fuzz::AddSized(shared.SerializeAsString(), &bytes);
  return bytes;
}

void WriteShared(const std::string& directory) {
  WriteSeeds(directory, "shared_memory",
             {{"one", Said(0, 1, {{0, 100}})},
              {"two", Said(0, 1, {}) + Said(1, 1, {{0, 9}, {16384, 20000}})},
              {"of_another_memory", Said(0, 1, {{0, 1}}, 8)},
              {"holds_nothing", Said(0, 0, {{0, 1}})},
              {"beyond_the_end", Said(1023, 1, {{1023 * 16384, 16385}})},
              {"a_sum_that_overflows", Said(0, 1, {{0, ~uint64_t{0}}})}});
}

void WriteNames(const std::string& directory) {
  Identity self;
  self.task = TaskOf(PeerId::Worker(0));
  self.incarnation = 6;
  self.job_name = "job";
  self.job_digest = "digest";
  self.cluster = {"ps-0=a:1", "worker-0=b:1"};
  Identity other = self;
  other.job_digest = "another";
  other.job_settings = {"a=2"};
  WriteSeeds(directory, "hello",
             {{"same_job", MakeHello(self).SerializeAsString()},
              {"answer", AnswerHello(self).SerializeAsString()},
              {"other_job", MakeHello(other).SerializeAsString()},
              {"other_answer", AnswerHello(other).SerializeAsString()},
              {"nothing", ""}});
  WriteSeeds(directory, "certified_name",
             {{"ps", "spiffe://paramd/job/ps/0"},
              {"worker", "https://other/\nspiffe://paramd/job/worker/12"},
              {"operator", "spiffe://paramd/job/operator/0"},
              {"two", "spiffe://paramd/a/ps/0\nspiffe://paramd/b/ps/0"},
              {"task", "worker-3"},
              {"leading_zero", "spiffe://paramd/job/ps/00"}});
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  paramd::WriteMessages(argv[1]);
  paramd::WriteShared(argv[1]);
  paramd::WriteNames(argv[1]);
  return 0;
}
