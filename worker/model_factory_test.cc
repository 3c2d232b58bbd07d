#include "worker/model_factory.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

constexpr char kPlugin[] = "pjrt:compute/pjrt/testing/libfake_plugin.so:";

// Jobs on a plugin that does wrong what a test tells it to.
class ModelFactoryTest : public ::testing::Test {
 protected:
  ModelFactoryTest() {
    setenv("PARAMD_FAKE_PJRT", "", 1);
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "strategy: ONE_DEVICE model { layers { flatten {} } "
        "layers { dense { units: 4 } } loss: SOFTMAX_CROSS_ENTROPY }",
        &job_));
  }
  ~ModelFactoryTest() override { unsetenv("PARAMD_FAKE_PJRT"); }

  absl::StatusOr<std::unique_ptr<TrainedModel>> MakeOn(
      const std::string& device) {
    job_.set_device(device);
    return BuiltInModels()(job_, LabelledImages({2, 3}, 4));
  }

  // What becomes exit code 2, and names the device.
  std::string RefusalOn(const std::string& device) {
    const auto model = MakeOn(device);
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(model.status().message()), HasSubstr(device));
    return std::string(model.status().message());
  }

  v1::JobConfig job_;
};

TEST_F(ModelFactoryTest, AJobIsMadeForAPluginsDevice) {
  const auto model = MakeOn(std::string(kPlugin) + "0");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->device(), "pjrt fake kind");
  EXPECT_EQ((*model)->Clone()->device(), "pjrt fake kind");
  EXPECT_EQ((*MakeOn("cpu"))->device(), "cpu");
}

TEST_F(ModelFactoryTest, APluginHasNoBudgetForActivations) {
  job_.mutable_memory()->set_activation_budget_bytes(1 << 20);
  EXPECT_THAT(RefusalOn(std::string(kPlugin) + "0"),
              HasSubstr("can't have memory.activation_budget_bytes"));
  EXPECT_TRUE(MakeOn("cpu").ok());
  job_.mutable_memory()->set_activation_budget_bytes(10);
  EXPECT_THAT(std::string(MakeOn("cpu").status().message()),
              HasSubstr("memory.activation_budget_bytes is 10; "));
}

TEST_F(ModelFactoryTest, ADirectoryToSwapToIsThere) {
  job_.mutable_memory()->set_activation_budget_bytes(1 << 20);
  job_.mutable_memory()->set_swap_directory(::testing::TempDir());
  EXPECT_TRUE(MakeOn("cpu").ok());
  job_.mutable_memory()->set_swap_directory("/does/not/exist");
  EXPECT_EQ(MakeOn("cpu").status(),
            absl::InvalidArgumentError(
                "memory.swap_directory '/does/not/exist': no file can be made "
                "there: No such file or directory"));
}

TEST_F(ModelFactoryTest, APluginRoundsNothing) {
  auto& aware = *job_.mutable_model()->mutable_quantization_aware();
  aware.set_weight_bits(8);
  aware.set_momentum(0.9);
  EXPECT_THAT(RefusalOn(std::string(kPlugin) + "0"),
              HasSubstr("with model.quantization_aware numbers are rounded on "
                        "the processor alone; choose cpu"));
  EXPECT_TRUE(MakeOn("cpu").ok());
}

TEST_F(ModelFactoryTest, WithoutItsGpuABudgetIsNotOfHalfAsManyBytes) {
  job_.mutable_memory()->set_activation_budget_bytes(10);
  job_.set_device("cuda:0");
  EXPECT_TRUE(WithoutGpu(job_).has_memory());
  job_.set_compute_format(v1::JobConfig::COMPUTE_FORMAT_BF16);
  EXPECT_FALSE(WithoutGpu(job_).has_memory());
}

TEST_F(ModelFactoryTest, APluginThatCantBeUsedIsRefusedWithADeviceThatCan) {
  EXPECT_THAT(RefusalOn("pjrt:/nowhere/plugin.so:0"),
              HasSubstr("every strategy also runs on cpu"));
  setenv("PARAMD_FAKE_PJRT", "major", 1);
  EXPECT_EQ(
      RefusalOn(std::string(kPlugin) + "0"),
      "device pjrt:compute/pjrt/testing/libfake_plugin.so:0 can't be used: "
      "it has version 1.7 of PJRT's C API; this program needs 0.x; every "
      "strategy also runs on cpu");
}

TEST_F(ModelFactoryTest, ADeviceThatThePluginDoesNotHaveIsRefused) {
  EXPECT_EQ(
      RefusalOn(std::string(kPlugin) + "3"),
      "device pjrt:compute/pjrt/testing/libfake_plugin.so:3 can't be used: "
      "the plugin has 1 device: number 0; every strategy also runs on "
      "cpu");
}

TEST_F(ModelFactoryTest, AFormatThatAPluginHasNotIsRefused) {
  job_.set_compute_format(v1::JobConfig::COMPUTE_FORMAT_FP16);
  EXPECT_EQ(
      RefusalOn(std::string(kPlugin) + "0"),
      "device pjrt:compute/pjrt/testing/libfake_plugin.so:0 can't be used: "
      "a plugin computes in fp32 or bf16, and compute_format is fp16");
  job_.set_compute_format(v1::JobConfig::COMPUTE_FORMAT_BF16);
  EXPECT_TRUE(MakeOn(std::string(kPlugin) + "0").ok());
}

TEST_F(ModelFactoryTest, WhoEvaluatesComputesOnOneOfTheJobsDevices) {
  const auto one_of = [&](const std::string& device) {
    job_.set_strategy(v1::JobConfig::CENTRAL_STORAGE);
    job_.set_replicas(4);
    job_.set_device(device);
    const v1::JobConfig one = WithOneReplica(job_);
    EXPECT_EQ(one.replicas(), 1u);
    return one.device();
  };
  EXPECT_EQ(one_of("cuda:2-3,0,7"), "cuda:2");
  EXPECT_EQ(one_of("cuda:12,3"), "cuda:12");
  for (const char* device :
       {"", "cpu", "auto", "cuda", "cuda:3", "cuda:x", "pjrt:a-b,c.so:1"}) {
    EXPECT_EQ(one_of(device), device);
  }
  setenv("PARAMD_FAKE_PJRT", "", 1);  // It has one device.
  job_.set_device(std::string(kPlugin) + "0");
  EXPECT_FALSE(BuiltInModels()(job_, LabelledImages({2, 3}, 4)).ok());
  EXPECT_TRUE(
      BuiltInModels()(WithOneReplica(job_), LabelledImages({2, 3}, 4)).ok());
}

TEST_F(ModelFactoryTest, WhoEvaluatesNeedsNoDirectoryToSwapTo) {
  job_.mutable_memory()->set_activation_budget_bytes(1 << 20);
  job_.mutable_memory()->set_swap_directory("/does/not/exist");
  EXPECT_FALSE(MakeOn("cpu").ok());
  const v1::JobConfig one = WithOneReplica(job_);
  EXPECT_EQ(one.memory().activation_budget_bytes(), 1u << 20);
  const auto model = BuiltInModels()(one, LabelledImages({2, 3}, 4));
  EXPECT_TRUE(model.ok()) << model.status();
}

TEST_F(ModelFactoryTest, WhoComputesNothingHasNoGpu) {
  const auto without = [&](const std::string& device) {
    job_.set_device(device);
    return WithoutGpu(job_).device();
  };
  for (const char* device : {"auto", "cuda", "cuda:0", "cuda:0-3", "cpu"}) {
    EXPECT_EQ(without(device), "cpu");
  }
  EXPECT_EQ(without("pjrt:x.so:1"), "pjrt:x.so:1");
}

TEST_F(ModelFactoryTest, ADeviceThatIsNoneIsRefusedWithoutOpeningOne) {
  const auto refusal = [&](const std::string& device) {
    job_.set_device(device);
    return std::string(CheckGpus(job_).message());
  };
  EXPECT_EQ(refusal("cpu"), "");
  EXPECT_EQ(refusal("auto"), "");
  EXPECT_EQ(refusal("pjrt:x.so:1"), "");
  EXPECT_THAT(refusal("cuda:x"), HasSubstr("device is 'cuda:x'; it must be"));
  EXPECT_NE(refusal("cuda:9000"), "");
}

// Gradients of a model on the processor, all of whose weights are 0.3.
std::vector<float> GradientsOf(TrainedModel* model) {
  std::vector<float> weights(6 * 4 + 4, 0.3f);
  std::vector<float> gradients(weights.size());
  Batch batch;
  batch.Reset(LabelledImages({2, 3}, 4), 2);
  float next = 0.1f;
  for (float& value : batch.Find("image")->values<float>()) {
    value = next += 0.0123f;
  }
  for (int32_t& label : batch.Find("label")->values<int32_t>()) label = 1;
  const absl::Span<const float> all = weights;
  const absl::Span<float> out = absl::MakeSpan(gradients);
  const std::vector<absl::Span<const float>> views = {all.first(24),
                                                      all.subspan(24)};
  const std::vector<absl::Span<float>> out_views = {out.first(24),
                                                    out.subspan(24)};
  EXPECT_TRUE(
      model->Step(views, batch, {.divisor = 2}, out_views, [](size_t) {}).ok());
  return gradients;
}

TEST_F(ModelFactoryTest, AModelComputesInTheJobsFormat) {
  const std::vector<float> fp32 = GradientsOf(MakeOn("cpu")->get());
  for (const auto format :
       {v1::JobConfig::COMPUTE_FORMAT_TF32, v1::JobConfig::COMPUTE_FORMAT_BF16,
        v1::JobConfig::COMPUTE_FORMAT_FP16}) {
    job_.set_compute_format(format);
    const auto model = MakeOn("cpu");
    const std::vector<float> rounded = GradientsOf(model->get());
    EXPECT_NE(rounded, fp32);
    EXPECT_THAT(rounded,
                ::testing::Pointwise(::testing::FloatNear(0.01f), fp32));
    EXPECT_EQ(GradientsOf((*model)->Clone().get()), rounded);
    EXPECT_EQ((*model)->loss_scaling().scale,
              format == v1::JobConfig::COMPUTE_FORMAT_FP16 ? 65536 : 0);
  }
}

TEST_F(ModelFactoryTest, WhoLearnsNothingNeedsNoTeachers) {
  job_.mutable_distill()->add_teachers("/nowhere");
  EXPECT_FALSE(MakeOn("cpu").ok());
  job_.set_device("cpu");
  EXPECT_TRUE(
      BuiltInModels()(WithOneReplica(job_), LabelledImages({2, 3}, 4)).ok());
}

TEST_F(ModelFactoryTest, APluginHasNoTeachers) {
  job_.mutable_distill()->add_teachers("runs/teacher");
  EXPECT_EQ(
      RefusalOn(std::string(kPlugin) + "0"),
      "device pjrt:compute/pjrt/testing/libfake_plugin.so:0 can't be used: a "
      "program that a plugin compiles learns of labels alone, and can't have "
      "distill; every strategy also runs on cpu");
}

TEST_F(ModelFactoryTest, ReplicasNeedADeviceEach) {
  job_.set_strategy(v1::JobConfig::CENTRAL_STORAGE);
  job_.set_replicas(2);
  EXPECT_EQ(
      RefusalOn(std::string(kPlugin) + "0"),
      "device pjrt:compute/pjrt/testing/libfake_plugin.so:0 can't be used: "
      "the plugin has 1 device: number 0; 2 replicas need as many, so give "
      "fewer, or choose strategy \"one_device\"");
  // The processor's has as many as one asks for.
  setenv("PARAMD_FAKE_PJRT", "cpu", 1);
  const auto model = MakeOn(std::string(kPlugin) + "0");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->replicated()->CloneForReplica(1)->device(),
            "pjrt fake kind");
}

}  // namespace
}  // namespace paramd
