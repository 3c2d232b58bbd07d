// Writes the corpus of the target beside it: mini-batches of a worker, in
// short.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/fuzz/seeds.h"
#include "proto/paramd/v1/stage.pb.h"
#include "tensor/fuzz/make_events.h"
#include "worker/stages/fuzz/fuzzed_stage.h"
#include "worker/stages/stage_content.h"

namespace paramd::fuzz {
namespace {

using Part = v1::StageOperation::Backward;

struct Life {
  bool trains = true;
  bool in_halves = false;  // Backward passes.
  bool in_pieces = false;  // Contents are put before their operations.
  uint32_t micro_batches = 1;
};

// What the worker sends of a content: arrays of ones.
class Sent {
 public:
  explicit Sent(std::vector<std::pair<DType, Dims>> arrays) {
    for (auto& [dtype, dims] : arrays) {
      parts_.emplace_back(SizeOf(dims) * SizeOf(dtype));
      if (dtype == DType::kFloat32) {
        const auto values = reinterpret_cast<float*>(parts_.back().data());
        std::fill_n(values, SizeOf(dims), 1.0f);
      }
      content_.Add(dtype, dims, parts_.back());
    }
  }

  const StageArrays& arrays() const { return content_.arrays(); }
  Buffer bytes() const { return content_.Copy(0, content_.bytes()); }

 private:
  std::vector<std::vector<std::byte>> parts_;
  StageContent content_;
};

class Worker {
 public:
  explicit Worker(const Life& life)
      : life_(life),
        recorder_(stage_.core(),
                  {StageMethods().begin(), StageMethods().end()}) {
    recorder_.set_work([this](const Outbox::IoItem& item, IoResult* result) {
      const bool is_work = stage_.Work(item, result);
      CHECK(result->status.ok(), "what the worker sends is computed");
      return is_work;
    });
  }

  std::string Run() {
    v1::GreetStageRequest greet;
    *greet.mutable_header() = Header();
    recorder_.Add(CallOf(PeerId::Worker(0), greet));
    for (int i = 0; i < 2; ++i) MiniBatch();
    v1::ReleaseStageRequest release;
    *release.mutable_header() = Header();
    recorder_.Add(CallOf(PeerId::Worker(0), release));
    return recorder_.bytes();
  }

 private:
  static constexpr uint64_t kExamples = 2;
  static constexpr DType kFloat = DType::kFloat32;

  v1::StageHeader Header() const {
    v1::StageHeader header;
    header.set_incarnation(7);
    header.mutable_generation()->set_term(1);
    header.mutable_generation()->set_counter(2);
    header.set_lane(life_.trains ? 0 : 1);
    header.set_mini_batch(mini_batch_);
    header.set_operation(operation_);
    return header;
  }

  void MiniBatch() {
    ++mini_batch_;
    operation_ = 0;
    Begin(0, {{kFloat, {2, 4}}, {kFloat, {4}}, {kFloat, {2, 2}}});
    Begin(2, {{kFloat, {4, 2}},
              {kFloat, {2}},
              {kFloat, {4}},
              {kFloat, {4}},
              {kFloat, {4}},
              {kFloat, {4}}});
    for (uint32_t m = 0; m < life_.micro_batches; ++m) {
      Forward(0, m, {});
      Forward(2, m, {{kFloat, {kExamples, 4}}});
      if (!life_.trains) continue;
      Backward(2, m, 4);
      Backward(0, m, 10);
    }
    for (const uint32_t stage : {2u, 0u}) {
      if (life_.trains) Update(stage);
    }
  }

  void Begin(uint32_t stage, std::vector<std::pair<DType, Dims>> weights) {
    v1::StageOperation operation;
    operation.set_stage(stage);
    v1::StageOperation::Begin* const begin = operation.mutable_begin();
    begin->set_build("b");
    ToProto(StageInput(), begin->mutable_features());
    begin->set_slots(life_.micro_batches);
    if (!life_.trains && mini_batch_ > 1) {
      begin->set_same_weights(true);
      weights.clear();
    }
    Compute(operation, std::move(weights));
  }

  void Forward(uint32_t stage, uint32_t slot,
               std::vector<std::pair<DType, Dims>> border) {
    v1::StageOperation operation;
    operation.set_stage(stage);
    v1::StageOperation::Forward* const forward = operation.mutable_forward();
    forward->set_slot(slot);
    forward->set_examples(kExamples);
    forward->set_training(life_.trains);
    forward->set_seed(1);
    forward->set_epoch(1);
    forward->set_share(1);
    forward->set_has_offsets(life_.in_halves);
    forward->set_features(2);
    std::vector<std::pair<DType, Dims>> arrays;
    if (life_.in_halves) arrays.push_back({DType::kInt64, {kExamples}});
    arrays.push_back({kFloat, {kExamples, 2}});
    arrays.push_back({DType::kInt32, {3 * kExamples}});
    arrays.insert(arrays.end(), border.begin(), border.end());
    Compute(operation, std::move(arrays));
  }

  void Backward(uint32_t stage, uint32_t slot, uint64_t outputs) {
    v1::StageOperation operation;
    operation.set_stage(stage);
    Part* const backward = operation.mutable_backward();
    backward->set_slot(slot);
    backward->set_part(life_.in_halves ? Part::INPUT : Part::WHOLE);
    backward->set_adds(slot > 0);
    Compute(operation, {{kFloat, {kExamples, outputs}}});
    if (!life_.in_halves) return;
    backward->set_part(Part::VARIABLES);
    Compute(operation, {});
  }

  void Update(uint32_t stage) {
    v1::StageOperation operation;
    operation.set_stage(stage);
    operation.mutable_update();
    Compute(operation, {});
    v1::FetchStageResultRequest fetch;
    *fetch.mutable_header() = Header();
    fetch.set_offset(4);
    recorder_.Add(CallOf(PeerId::Worker(0), fetch));
  }

  // The operation, with its content or after it.
  void Compute(const v1::StageOperation& operation,
               std::vector<std::pair<DType, Dims>> arrays) {
    ++operation_;
    const Sent sent(std::move(arrays));
    v1::ComputeStageRequest request;
    *request.mutable_header() = Header();
    *request.mutable_operation() = operation;
    *request.mutable_operation()->mutable_arrays() = sent.arrays();
    const Buffer bytes = sent.bytes();
    BufferChain payload;
    if (!bytes.empty() && !life_.in_pieces) payload.push_back(bytes);
    if (!bytes.empty() && life_.in_pieces) Put(bytes);
    recorder_.Add(CallOf(PeerId::Worker(0), request, payload));
    recorder_.Add(Done());
  }

  void Put(const Buffer& bytes) {
    const size_t half = bytes.size() / 2;
    for (const auto& [offset, length] :
         {std::pair<size_t, size_t>{half, bytes.size() - half}, {0, half}}) {
      v1::PutStageContentRequest put;
      *put.mutable_header() = Header();
      put.set_bytes(bytes.size());
      put.set_offset(offset);
      recorder_.Add(
          CallOf(PeerId::Worker(0), put, {bytes.Part(offset, length)}));
    }
  }

  const Life life_;
  FuzzedStage stage_;
  Recorder recorder_;
  uint64_t mini_batch_ = 0;
  uint64_t operation_ = 0;
};

}  // namespace
}  // namespace paramd::fuzz

int main(int argc, char** argv) {
  using paramd::fuzz::Worker;
  if (argc != 2) return 2;
  paramd::fuzz::WriteSeeds(
      argv[1], "stages",
      {{"trains", Worker({}).Run()},
       {"in_halves", Worker({.in_halves = true}).Run()},
       {"in_pieces", Worker({.in_pieces = true}).Run()},
       {"micro_batches", Worker({.micro_batches = 3}).Run()},
       {"evaluates", Worker({.trains = false}).Run()}});
  return 0;
}
