// A program of its own: it counts what operator new is asked for. What oneDNN
// asks for while it runs a primitive is not ours and does not count.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/check.h"
#include "base/random.h"
#include "compute/model/network.h"
#include "dnnl.h"

namespace {

int allocations = 0;  // The test has one thread.
bool in_onednn = false;

void* Allocate(std::size_t bytes) {
  if (!in_onednn) ++allocations;
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return Allocate(bytes); }
void* operator new[](std::size_t bytes) { return Allocate(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

// Stands before the library's.
extern "C" dnnl_status_t dnnl_primitive_execute(
    const_dnnl_primitive_t primitive, dnnl_stream_t stream, int count,
    const dnnl_exec_arg_t* arguments) {
  using Execute = decltype(&dnnl_primitive_execute);
  static const auto execute =
      reinterpret_cast<Execute>(dlsym(RTLD_NEXT, "dnnl_primitive_execute"));
  in_onednn = true;
  const dnnl_status_t status = execute(primitive, stream, count, arguments);
  in_onednn = false;
  return status;
}

namespace paramd {
namespace {

// Allocations of ours in the fourth to the sixth step on a batch of this size,
// or smaller ones.
int AllocationsOfSteps(const std::string& layers, const InputSpec& input) {
  v1::ModelConfig config;
  config.set_loss(v1::SOFTMAX_CROSS_ENTROPY);
  CHECK(google::protobuf::TextFormat::MergeFromString(layers, &config),
        "the test's models are read");
  const auto model = *Network::Create(config, input);
  RandomStream random(1);
  std::vector<std::vector<float>> values;
  for (const v1::Variable& variable : model->variables()) {
    size_t size = 1;
    for (const uint64_t dimension : variable.shape()) size *= dimension;
    values.emplace_back(size);
    for (float& value : values.back()) value = random.Uniform();
  }
  std::vector<std::vector<float>> gradients = values;
  const std::vector<absl::Span<const float>> weights(values.begin(),
                                                     values.end());
  std::vector<absl::Span<float>> spans;
  for (auto& one : gradients) spans.push_back(absl::MakeSpan(one));
  std::vector<Batch> batches(2);
  for (size_t b = 0; b < 2; ++b) {
    batches[b].Reset(input, 8 - b);
    for (Column& column : batches[b].columns) {
      std::memset(column.tensor().data, 0,
                  column.tensor().size() * SizeOf(column.spec().dtype));
    }
  }
  int before = 0;
  for (int step = 0; step < 7; ++step) {
    if (step == 4) before = allocations;
    const auto metrics = model->Step(weights, batches[step % 2], {.divisor = 8},
                                     spans, [](size_t) {});
    CHECK(metrics.ok(), "a step is computed");
  }
  return allocations - before;
}

TEST(AllocationTest, AStepOfDenseLayersAllocatesNothing) {
  EXPECT_EQ(AllocationsOfSteps(R"(
      layers { flatten {} } layers { dense { units: 5 } } layers { relu {} }
      layers { batch_norm { momentum: 0.9 epsilon: 1e-5 } }
      layers { dropout { rate: 0.5 } } layers { dense { units: 4 } }
      metrics: ACCURACY)",
                               LabelledImages({6, 6}, 4)),
            0);
}

TEST(AllocationTest, AStepOfAResidualNetworkAllocatesNothing) {
  EXPECT_EQ(AllocationsOfSteps(R"(
      layers { conv2d { filters: 4 kernel: 3 stride: 1 groups: 1 } }
      layers { residual { drop_rate: 0.1
        layers { batch_norm { momentum: 0.9 epsilon: 1e-5 } }
        layers { relu {} }
        layers { conv2d { filters: 4 kernel: 3 stride: 1 groups: 1 } } } }
      layers { max_pool { size: 2 stride: 2 } }
      layers { flatten {} } layers { dense { units: 4 } })",
                               LabelledImages({6, 6}, 4)),
            0);
}

TEST(AllocationTest, AStepOfAttentionAllocatesNothing) {
  const InputSpec text{
      {FeatureSpec{
           .name = "text", .dtype = DType::kInt32, .dims = {6}, .classes = 5},
       FeatureSpec{.name = "label",
                   .dtype = DType::kInt32,
                   .dims = {6},
                   .classes = 5}}};
  EXPECT_EQ(AllocationsOfSteps(R"(
      layers { embedding { width: 8 name: "tokens" } }
      layers { positional_embedding {} }
      layers { residual { layers { layer_norm { epsilon: 1e-5 } }
                          layers { attention { heads: 2 causal: true } } } }
      layers { gelu {} }
      layers { dense { units: 5 } })",
                               text),
            0);
}

TEST(AllocationTest, AStepThatComputesLayersAgainAllocatesNothing) {
  EXPECT_EQ(AllocationsOfSteps(R"(
      layers { recompute {
        layers { conv2d { filters: 4 kernel: 3 stride: 1 groups: 1 } }
        layers { batch_norm { momentum: 0.9 epsilon: 1e-5 } }
        layers { recompute { layers { relu {} }
                             layers { dropout { rate: 0.5 } } } }
        layers { max_pool { size: 2 stride: 2 } } } }
      layers { flatten {} } layers { dense { units: 4 } })",
                               LabelledImages({6, 6}, 4)),
            0);
}

TEST(AllocationTest, AStepOverAListAllocatesNothing) {
  const InputSpec places{
      {FeatureSpec{
           .name = "places", .dtype = DType::kInt32, .dims = {6}, .classes = 5},
       FeatureSpec{
           .name = "label", .dtype = DType::kInt32, .dims = {}, .classes = 2}}};
  EXPECT_EQ(AllocationsOfSteps(R"(
      layers { parallel {
        branches { layers { select { count: 2 } }
                   layers { embedding { width: 4 name: "first" } }
                   layers { bag_pool { combine: MAX } } }
        branches { layers { select { begin: 1 } }
                   layers { embedding { width: 8 name: "list" padding: true } }
                   layers { attention_pool { units: 3 } }
                   layers { select { begin: 1 } }
                   layers { flatten {} } } } }
      layers { dense { units: 2 } })",
                               places),
            0);
}

TEST(AllocationTest, AStepOfALossOverABatchAllocatesNothing) {
  const InputSpec pairs{
      {FeatureSpec{.name = "x", .dims = {2, 5}},
       FeatureSpec{.name = "item", .dtype = DType::kInt64, .dims = {}}}};
  EXPECT_EQ(AllocationsOfSteps(R"(
      layers { dense { units: 4 } } loss: IN_BATCH_SOFTMAX label: "item"
      temperature: 0.5 top_k: 3 metrics: [ACCURACY, TOP_K])",
                               pairs),
            0);
}

}  // namespace
}  // namespace paramd
