#include "worker/input/open_pipeline.h"

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "worker/input/testing/idx_test_files.h"
#include "worker/input/testing/input_test_files.h"

namespace paramd {
namespace {

v1::InputConfig Config() {
  const std::string path =
      WriteTestFile("train-images", IdxBytes({3, 1, 1}, {1, 2, 3}));
  WriteTestFile("train-labels", IdxBytes({3}, {0, 1, 2}));
  WriteTestFile("test-images", IdxBytes({2, 1, 1}, {1, 2}));
  WriteTestFile("test-labels", IdxBytes({2}, {0, 1}));
  v1::InputConfig config;
  config.set_format(v1::InputConfig::IDX);
  config.set_directory(std::filesystem::path(path).parent_path());
  config.set_train_images("train-images");
  config.set_train_labels("train-labels");
  config.set_test_images("test-images");
  config.set_test_labels("test-labels");
  return config;
}

TEST(OpenPipelineTest, FilesAreFoundInTheDirectory) {
  const auto training = OpenTrainingData(Config(), /*seed=*/1);
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_EQ((*training)->size(), 3u);
}

TEST(OpenPipelineTest, AnAbsoluteNameDoesNotNeedTheDirectory) {
  v1::InputConfig config = Config();
  config.set_train_images(config.directory() + "/train-images");
  config.set_train_labels(config.directory() + "/train-labels");
  config.set_directory("/nowhere");
  EXPECT_TRUE(OpenTrainingData(config, /*seed=*/1).ok());
}

TEST(OpenPipelineTest, TestDataHasTheClassesOfTheTrainingData) {
  const auto test = OpenTestData(Config(), LabelledImages({1, 1}, 3));
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ((*test)->size(), 2u);
  EXPECT_EQ((*test)->spec().Find("label")->classes, 3u);
}

TEST(OpenPipelineTest, TestDataOfAnotherShapeIsRefused) {
  EXPECT_EQ(OpenTestData(Config(), LabelledImages({28, 28}, 3)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// What NumPy writes unless told; layers and losses read 32 bits.
TEST(OpenPipelineTest, DoublesReachTheModelAsFloats) {
  v1::InputConfig config;
  v1::InputSource::Npy* const npy = config.mutable_train()->mutable_npy();
  for (const char* name : {"x", "label"}) {
    v1::InputSource::Npy::Array* const array = npy->add_arrays();
    array->set_name(name);
    array->set_file(WriteTestFile(
        absl::StrCat(name, ".npy"),
        NpyBytes("<f8", "(2,)", ValueBytes<double>({0.25, 1e300}))));
  }
  for (const auto& pipeline :
       {OpenTrainingData(config, /*seed=*/1),
        OpenTestData(config, InputSpec{{{.name = "x", .dims = {}},
                                        {.name = "label", .dims = {}}}})}) {
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    for (const FeatureSpec& feature : (*pipeline)->spec().features) {
      EXPECT_EQ(feature.dtype, DType::kFloat32);
    }
    Batch batch;
    ASSERT_TRUE((*pipeline)->Read({0, 0, 2}, &batch).ok());
    EXPECT_EQ(batch.Find("x")->values<float>().size(), 2u);
  }
}

TEST(OpenPipelineTest, AnUnknownFormatIsRefused) {
  v1::InputConfig config = Config();
  config.clear_format();
  EXPECT_EQ(
      OpenTrainingData(config, /*seed=*/1).status(),
      absl::InvalidArgumentError("the input has no format; \"idx\" is known"));
}

TEST(OpenPipelineTest, AMissingNameIsRefused) {
  v1::InputConfig config = Config();
  config.clear_train_labels();
  EXPECT_EQ(
      OpenTrainingData(config, /*seed=*/1).status(),
      absl::InvalidArgumentError("the input names no images or no labels"));
}

// A synthetic input to train on, with these stages.
v1::InputConfig Synthetic() {
  v1::InputConfig config;
  v1::InputSource::Synthetic* synthetic =
      config.mutable_train()->mutable_synthetic();
  synthetic->set_examples(20);
  v1::InputFeature* image = synthetic->add_features();
  image->set_name("image");
  image->set_type(v1::InputFeature::TYPE_UINT8);
  for (int i = 0; i < 2; ++i) image->add_dims(8);
  return config;
}

TEST(OpenPipelineTest,
     WithoutTestDataThoseOfTrainingPassTheStagesOfEvaluation) {
  v1::InputConfig config = Synthetic();
  v1::InputStage* take = config.add_stages();
  take->mutable_take()->set_examples(15);
  take->set_on(v1::InputStage::ON_TRAINING);
  v1::InputStage* skip = config.add_stages();
  skip->mutable_skip()->set_examples(15);
  skip->set_on(v1::InputStage::ON_EVALUATION);
  const auto training = OpenTrainingData(config, 1);
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_EQ((*training)->size(), 15u);
  const auto test = OpenTestData(config, (*training)->spec());
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ((*test)->size(), 5u);
}

TEST(OpenPipelineTest, TestDataThatLookOtherwiseAreRefused) {
  v1::InputConfig config = Synthetic();
  const auto training = *OpenTrainingData(config, 1);
  *config.mutable_test() = config.train();
  config.mutable_test()->mutable_synthetic()->mutable_features(0)->set_dims(0,
                                                                            9);
  EXPECT_EQ(
      OpenTestData(config, training->spec()).status(),
      absl::InvalidArgumentError(
          "the test data have 'image' of uint8 9x8; those trained on have "
          "'image' of uint8 8x8"));
}

TEST(OpenPipelineTest, ThreadsAndMemoryAreThoseOfTheJob) {
  v1::InputConfig config;
  config.set_parallelism("7");
  config.set_memory_mb(3);
  EXPECT_EQ(PrefetchOptions(config, 32).threads, 7u);
  EXPECT_EQ(PrefetchOptions(config, 32).memory_bytes, 3000000u);
  config.set_parallelism("auto");
  EXPECT_EQ(PrefetchOptions(config, 32).threads, 0u);
  EXPECT_EQ(PrefetchOptions(config, 32).batch_size, 32u);
}

// The batches of a range are the same whatever the threads, a cache and what is
// made ahead.
TEST(OpenPipelineTest, ThreadsCachesAndPrefetchingDoNotChangeABatch) {
  v1::InputConfig config = Synthetic();
  config.add_stages()->mutable_shuffle();
  auto* crop = config.add_stages()->mutable_random_crop();
  crop->set_feature("image");
  crop->set_height(5);
  crop->set_width(5);
  config.add_stages()->mutable_flip()->set_feature("image");
  auto* augment = config.add_stages()->mutable_rand_augment();
  augment->set_feature("image");
  augment->set_operations(2);
  augment->set_strength(9);
  v1::InputConfig cached = config;
  cached.clear_stages();
  cached.add_stages()->mutable_cache()->set_max_mb(1);
  cached.mutable_stages()->MergeFrom(config.stages());
  // The stages stand one further: what is random is keyed by their place.
  v1::InputConfig uncached = config;
  uncached.clear_stages();
  uncached.add_stages()->mutable_take()->set_examples(20);
  uncached.mutable_stages()->MergeFrom(config.stages());
  const auto expected = *OpenTrainingData(uncached, 1);
  for (const v1::InputConfig& one : {uncached, cached}) {
    for (const uint32_t threads : {1u, 3u, 0u}) {
      const auto pipeline = *OpenTrainingData(one, 1);
      Prefetcher prefetcher(
          *pipeline,
          {.batch_size = 6, .threads = threads, .depth = threads + 1});
      ASSERT_TRUE(prefetcher.Add({1, 0, 20}).ok());
      ASSERT_TRUE(prefetcher.Add({2, 0, 20}).ok());
      prefetcher.NoMore();
      int batches = 0;
      for (;; ++batches) {
        const auto next = prefetcher.WaitForNext(absl::Minutes(10));
        ASSERT_TRUE(next.ok()) << next.status();
        if (next->state == Prefetcher::NextBatch::kEnd) break;
        Batch batch;
        ASSERT_TRUE(expected->Read(next->batch->range, &batch).ok());
        EXPECT_EQ(batch.columns[0].values<uint8_t>(),
                  next->batch->columns[0].values<uint8_t>());
      }
      EXPECT_EQ(batches, 8);
    }
  }
}

}  // namespace
}  // namespace paramd
