#include "process/device_arrays.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

v1::JobConfig Job() {
  v1::JobConfig job;
  job.set_strategy(v1::JobConfig::ONE_DEVICE);
  job.mutable_optimizer()->mutable_adam();
  return job;
}

// 1000 x 1000, trained, and 1000 that are not.
std::vector<v1::Variable> ArrayVariables() {
  std::vector<v1::Variable> variables(2);
  variables[0].set_name("w");
  variables[0].add_shape(1000);
  variables[0].add_shape(1000);
  variables[1].set_name("mean");
  variables[1].add_shape(1000);
  variables[1].set_untrained(true);
  return variables;
}

TEST(DeviceArraysTest, MemoryIsForBlocksWeightsAndGradients) {
  const auto memory = PlanDeviceArrays(Job(), ArrayVariables());
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->weight_bytes, 4u * 1001000);
  EXPECT_EQ(memory->block_bytes, 4u * (1001000 + 2 * 1000000));
  // Two slots of what is trained; weights and gradients twice.
  EXPECT_EQ(memory->lasting_bytes, 4u * (5 * 1001000 + 2 * 1000000));
  EXPECT_GT(memory->most_bytes, memory->lasting_bytes);
}

TEST(DeviceArraysTest, ASentenceSaysWhyTheyLieInHostMemory) {
  const auto why = [](const v1::JobConfig& job,
                      const std::vector<v1::Variable>& variables) {
    const auto memory = PlanDeviceArrays(job, variables);
    EXPECT_TRUE(absl::IsFailedPrecondition(memory.status()));
    return std::string(memory.status().message());
  };
  v1::JobConfig job = Job();
  job.set_strategy(v1::JobConfig::CENTRAL_STORAGE);
  EXPECT_THAT(why(job, ArrayVariables()), HasSubstr("central_storage"));
  for (const bool pushes : {true, false}) {
    job = Job();
    pushes ? job.set_push_format(v1::JobConfig::WIRE_FORMAT_BF16)
           : job.set_pull_format(v1::JobConfig::WIRE_FORMAT_BF16);
    EXPECT_THAT(why(job, ArrayVariables()), HasSubstr("must be fp32"));
  }
  std::vector<v1::Variable> variables = ArrayVariables();
  variables[0].set_sparse(true);
  EXPECT_THAT(why(Job(), variables), HasSubstr("variable 'w' is sparse"));
  job = Job();
  job.mutable_optimizer()->mutable_lamb();
  EXPECT_THAT(why(job, ArrayVariables()),
              HasSubstr("optimizer lamb takes norms"));
}

TEST(DeviceArraysTest, WhatIsNoGpuOfCudasIsRefused) {
  const LoopMemory memory = {.weight_bytes = uint64_t{8} << 20};
  EXPECT_FALSE(MakeCudaLoops("emulated:0", memory).ok());
}

}  // namespace
}  // namespace paramd
