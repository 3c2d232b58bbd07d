// A program of its own: it counts what operator new is asked for.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/check.h"
#include "input/open_pipeline.h"
#include "input/pipeline.h"
#include "input/prefetcher.h"

namespace {

std::atomic<int> allocations{0};

void* Allocate(std::size_t bytes) {
  ++allocations;
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

namespace paramd {
namespace {

constexpr uint64_t kExamples = 640;
constexpr uint64_t kBatch = 8;
constexpr uint64_t kDepth = 4;

// Vectors of 1 to 4 numbers.
class RaggedSource : public ExampleSource {
 public:
  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return kExamples; }
  v1::DataSet Describe() const override { return {}; }
  absl::Status Read(uint64_t index, Example* example) const override {
    example->values.resize(1);
    example->values[0].Reset(DType::kInt32, {1 + index % 4});
    for (int32_t& value : example->values[0].values<int32_t>()) {
      value = static_cast<int32_t>(index);
    }
    return absl::OkStatus();
  }

 private:
  const InputSpec spec_ = {
      {{.name = "tokens", .dtype = DType::kInt32, .dims = {0}}}};
};

v1::InputConfig InputOf(const std::string& text) {
  v1::InputConfig config;
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &config),
        "the test's configurations are read");
  return config;
}

// Images and labels, through these stages.
std::unique_ptr<Pipeline> Images(const std::string& stages) {
  auto pipeline = OpenTrainingData(InputOf(R"(train { synthetic { examples: 640
          features { name: "image" type: TYPE_UINT8 dims: [8, 8, 3] }
          features { name: "label" type: TYPE_INT32 classes: 10 } } })" +
                                           stages),
                                   /*seed=*/1);
  CHECK(pipeline.ok(), pipeline.status().ToString());
  return *std::move(pipeline);
}

// Allocations while the second half of epoch `epoch` is given. Before, every
// batch and every example has been in use.
int AllocationsOf(const Pipeline& pipeline, uint64_t epoch) {
  Prefetcher prefetcher(pipeline,
                        {.batch_size = kBatch, .threads = 2, .depth = kDepth});
  for (uint64_t e = 1; e <= epoch; ++e) {
    CHECK(prefetcher.Add({e, 0, kExamples}).ok(), "an epoch is added");
  }
  const uint64_t batches = kExamples / kBatch;
  const uint64_t first = (epoch - 1) * batches + batches / 2;
  int before = 0;
  for (uint64_t i = 0; i < epoch * batches; ++i) {
    if (i == first) before = allocations;
    auto next = prefetcher.WaitForNext(absl::Minutes(1));
    CHECK(next.ok(), next.status().ToString());
    // All that can be ready are, so that all memory is in use at each batch:
    // which of it is used when depends on no thread's speed.
    const uint64_t left = epoch * batches - i - 1;
    while (prefetcher.figures().ready_now < std::min(kDepth, left)) {
      std::this_thread::yield();
    }
    prefetcher.Recycle(std::move(next->batch));
  }
  return allocations - before;
}

TEST(AllocationTest, WhatIsMappedAllocatesNothingPerBatch) {
  // A thread that has nothing to do before takes memory to resize with once.
  EXPECT_LE(AllocationsOf(*Images(R"(
      stages { shuffle {} }
      stages { random_crop { feature: "image" height: 8 width: 8 padding: 1 } }
      stages { flip { feature: "image" } }
      stages { resize { feature: "image" height: 12 width: 12 } }
      stages { normalise { feature: "image" mean: 0.5 deviation: 2 } })"),
                          /*epoch=*/1),
            1);
}

TEST(AllocationTest, WhatIsAugmentedAllocatesNothingPerBatch) {
  const auto pipeline = Images(R"(
      stages { rand_augment { feature: "image" operations: 2 strength: 9 } })");
  Batch batch;
  const auto read = [&](uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; i += kBatch) {
      CHECK(pipeline->Read({1, i, i + kBatch}, &batch).ok(), "it is read");
    }
  };
  read(0, kExamples / 2);  // Each operation has been drawn.
  const int before = allocations;
  read(kExamples / 2, kExamples);
  EXPECT_EQ(allocations - before, 0);
}

TEST(AllocationTest, WhatIsMappedInWholeBatchesAllocatesNothingPerBatch) {
  EXPECT_EQ(AllocationsOf(*Images(R"(
      stages { batch {} }
      stages { normalise { feature: "image" mean: 0.5 deviation: 2 } })"),
                          /*epoch=*/1),
            0);
}

TEST(AllocationTest, ACacheThatIsFilledAllocatesNothingPerBatch) {
  EXPECT_EQ(AllocationsOf(*Images("stages { cache { max_mb: 10 } }"), 2), 0);
  EXPECT_EQ(AllocationsOf(*Images("stages { cache { max_mb: 10 directory: '" +
                                  ::testing::TempDir() + "' } }"),
                          2),
            0);
}

TEST(AllocationTest, RaggedBatchesAllocateNothingEach) {
  const auto pipeline = *Pipeline::Create(
      std::make_unique<RaggedSource>(), v1::InputConfig(), {.training = false});
  EXPECT_EQ(AllocationsOf(*pipeline, /*epoch=*/1), 0);
}

TEST(AllocationTest, WhatIsReadForEvaluationAllocatesNothingPerBatch) {
  const auto pipeline = Images("stages { flip { feature: 'image' } }");
  Batch batch;
  ASSERT_TRUE(pipeline->Read({1, 0, kBatch}, &batch).ok());
  const int before = allocations;
  for (uint64_t i = 1; i < 20; ++i) {
    ASSERT_TRUE(pipeline->Read({1, i * kBatch, (i + 1) * kBatch}, &batch).ok());
  }
  EXPECT_EQ(allocations - before, 0);
}

}  // namespace
}  // namespace paramd
