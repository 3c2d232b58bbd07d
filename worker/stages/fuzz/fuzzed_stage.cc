#include "worker/stages/fuzz/fuzzed_stage.h"

#include <utility>

#include "base/fuzz/pieces.h"
#include "compute/pipeline/testing/cut_cases.h"
#include "proto/paramd/v1/stage.pb.h"
#include "worker/stages/testing/stages_of_case.h"

namespace paramd::fuzz {
namespace {

constexpr absl::string_view kMethods[] = {"GreetStage", "PutStageContent",
                                          "ComputeStage", "FetchStageResult",
                                          "ReleaseStage"};

CutCase Model() {
  return {"Fuzzed", StageInput(), R"(
      layers { parallel {
        branches { input: "numbers" layers { dense { units: 4 } } }
        branches { input: "words"
                   layers { embedding { width: 2 sparse: true padding: true } }
                   layers { flatten {} } } } }
      layers { batch_norm { momentum: 0.9 epsilon: 1e-5 } }
      layers { dropout { rate: 0.3 } } layers { dense { units: 4 } }
      layers { parallel {
        branches { layers { dense { units: 2 } } }
        branches { input: "numbers" } } }
      layers { batch_norm { momentum: 0.9 epsilon: 1e-5 } }
      layers { dense { units: 3 name: "last" } })"};
}

MakeStages Stages() {
  v1::PipelineConfig pipeline =
      Pipeline(4, 2, v1::PipelineConfig::SCHEDULE_INTERLEAVED, 2);
  for (const char* const layer : {"batch_norm_1", "parallel_2", "last"}) {
    pipeline.add_begin_at(layer);
  }
  return StagesOfCase(Model(), pipeline);
}

StageCore::Options Options() {
  return {.build = "b",
          .start_timeout = absl::Seconds(60),
          .lease = absl::Seconds(10),
          .most_content_bytes = uint64_t{1} << 20};
}

}  // namespace

absl::Span<const absl::string_view> StageMethods() { return kMethods; }

InputSpec StageInput() {
  return {
      {FeatureSpec{.name = "numbers", .dims = {2}},
       FeatureSpec{
           .name = "words", .dtype = DType::kInt32, .dims = {3}, .classes = 5},
       FeatureSpec{
           .name = "label", .dtype = DType::kInt32, .dims = {}, .classes = 3}}};
}

FuzzedStage::FuzzedStage() : core_(Options()) {}

bool FuzzedStage::Work(const Outbox::IoItem& item, IoResult* result) {
  const auto* const request =
      dynamic_cast<const v1::ComputeStageRequest*>(item.head.get());
  if (request == nullptr) return false;
  std::unique_ptr<StageComputer>& lane = lanes_[request->header().lane()];
  if (lane == nullptr) {
    lane = std::make_unique<StageComputer>("stage-0", Stages());
  }
  auto reply = std::make_unique<v1::ComputeStageReply>();
  result->status = lane->Compute(
      *request, item.payload.empty() ? Buffer() : item.payload.front(),
      reply.get(), &result->payload);
  if (!result->status.ok()) CheckRefusal(result->status);
  result->head = std::move(reply);
  return true;
}

}  // namespace paramd::fuzz
