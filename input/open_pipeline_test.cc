#include "input/open_pipeline.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "input/testing/idx_test_files.h"
#include "input/testing/input_test_files.h"

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

// Labels, in order, of what is labelled behind these stages.
std::vector<int32_t> ToLabel(const std::string& stages) {
  v1::InputConfig config = Config();
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(stages, &config));
  const auto data = OpenToLabel(config, /*seed=*/1);
  EXPECT_TRUE(data.ok()) << data.status();
  std::vector<int32_t> labels;
  Example example;
  for (uint64_t i = 0; data.ok() && i < (*data)->size(); ++i) {
    EXPECT_TRUE((*data)->ReadExample(0, i, &example).ok());
    labels.push_back(example.values[1].values<int32_t>()[0]);
  }
  return labels;
}

TEST(OpenPipelineTest, WhatIsLabelledIsWhatRelabelGets) {
  EXPECT_EQ(ToLabel(""), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(ToLabel("stages { shuffle {} } stages { take { examples: 1 } }"),
            (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(ToLabel("stages { skip { examples: 1 } } stages { relabel { file: "
                    "'/nowhere' } } stages { take { examples: 1 } } "
                    "stages { shuffle {} }"),
            (std::vector<int32_t>{1, 2}));
}

TEST(OpenPipelineTest, WhatIsLabelledIsMappedAsInAnEvaluation) {
  for (const char* const last : {"stages { shuffle {} }", ""}) {
    v1::InputConfig config = Config();
    ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString(
        absl::StrCat("stages { resize { feature: 'image' height: 2 width: 3 } "
                     "on: ON_TRAINING } "
                     "stages { resize { feature: 'image' height: 4 width: 5 } "
                     "on: ON_EVALUATION }",
                     last),
        &config));
    const auto data = OpenToLabel(config, /*seed=*/1);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ((*data)->spec().features[0].dims[0], 4u);
    EXPECT_EQ((*data)->spec().features[0].dims[1], 5u);
  }
}

TEST(OpenPipelineTest, WhatIsLabelledIsPaddedWhereABatchIs) {
  const std::filesystem::path root =
      std::filesystem::path(WriteTestFile("nothing", "")).parent_path() /
      "two_sizes";
  std::filesystem::create_directories(root / "a");
  std::ofstream(root / "a" / "1.png", std::ios::binary)
      << PngBytes(1, 1, 1, {5});
  std::ofstream(root / "a" / "2.png", std::ios::binary)
      << PngBytes(1, 2, 1, {6, 7});
  v1::InputConfig config;
  config.mutable_train()->set_directory(root);
  config.mutable_train()->mutable_image_folders()->set_channels(1);
  config.add_stages()->mutable_shuffle();
  config.add_stages()->mutable_padded_batch()->set_value(9);
  const auto data = OpenToLabel(config, /*seed=*/1);
  ASSERT_TRUE(data.ok()) << data.status();
  Batch batch;
  const absl::Status read = (*data)->Read({0, 0, 2}, &batch);
  ASSERT_TRUE(read.ok()) << read;
  const auto pixels = batch.Find("image")->values<uint8_t>();
  EXPECT_EQ(std::vector<uint8_t>(pixels.begin(), pixels.end()),
            (std::vector<uint8_t>{5, 9, 6, 7}));
}

// With keep, an evaluation of the same stages would have the same files.
TEST(OpenPipelineTest, NoCacheIsKeptOfWhatIsLabelled) {
  const std::string directory =
      absl::StrCat(::testing::TempDir(), "/label_cache");
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  v1::InputConfig config = Config();
  v1::InputStage::Cache* const cache = config.add_stages()->mutable_cache();
  cache->set_directory(directory);
  cache->set_max_mb(1);
  cache->set_keep(true);
  config.add_stages()->mutable_relabel();
  {
    const auto data = OpenToLabel(config, /*seed=*/1);
    ASSERT_TRUE(data.ok()) << data.status();
    Example example;
    EXPECT_TRUE((*data)->ReadExample(0, 2, &example).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

TEST(OpenPipelineTest, AnAbsoluteNameDoesNotNeedTheDirectory) {
  v1::InputConfig config = Config();
  config.set_train_images(config.directory() + "/train-images");
  config.set_train_labels(config.directory() + "/train-labels");
  config.set_directory("/nowhere");
  EXPECT_TRUE(OpenTrainingData(config, /*seed=*/1).ok());
}

TEST(OpenPipelineTest, TestDataHasTheClassesOfTheTrainingData) {
  const auto training = *OpenTrainingData(Config(), /*seed=*/1);
  const auto test = OpenTestData(Config(), *training);
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ((*test)->size(), 2u);
  EXPECT_EQ((*test)->spec().Find("label")->classes, 3u);
}

TEST(OpenPipelineTest, TestDataOfAnotherShapeIsRefused) {
  v1::InputConfig config = Config();
  config.set_train_images(
      WriteTestFile("larger-images", IdxBytes({3, 1, 2}, {1, 2, 3, 4, 5, 6})));
  const auto training = *OpenTrainingData(config, /*seed=*/1);
  EXPECT_EQ(OpenTestData(config, *training).status().code(),
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
  const auto training = OpenTrainingData(config, /*seed=*/1);
  ASSERT_TRUE(training.ok()) << training.status();
  const auto test = OpenTestData(config, **training);
  for (const auto* pipeline : {&training, &test}) {
    ASSERT_TRUE(pipeline->ok()) << pipeline->status();
    for (const FeatureSpec& feature : (**pipeline)->spec().features) {
      EXPECT_EQ(feature.dtype, DType::kFloat32);
    }
    Batch batch;
    ASSERT_TRUE((**pipeline)->Read({0, 0, 2}, &batch).ok());
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
  const auto test = OpenTestData(config, **training);
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
      OpenTestData(config, *training).status(),
      absl::InvalidArgumentError(
          "the test data have 'image' of uint8 9x8; those trained on have "
          "'image' of uint8 8x8"));
}

// Of a source, with test data that have no label.
struct Unlabelled {
  std::string train;
  std::string test;
};

// Everything that a label could be read from is missing or no label.
std::vector<Unlabelled> UnlabelledSources(const std::string& directory) {
  WriteTestFile("train.csv", "a,b,y,g\n1,2,no,k\n3,4,yes,k\n");
  WriteTestFile("test.csv", "b,a\n6,5\n8,7\n");
  WriteTestFile("odd.csv", "y,b,a\n?,6,5\n,8,7\n");
  WriteTestFile("train.svm", "0 1:1 2:2\n1 1:3 2:4\n");
  WriteTestFile("test.svm", "1:5 2:6\n? 1:7 2:8\n");
  WriteTestFile("train.npy",
                NpyBytes("<f4", "(2, 2)", ValueBytes<float>({1, 2, 3, 4})));
  WriteTestFile("test.npy",
                NpyBytes("<f4", "(2, 2)", ValueBytes<float>({5, 6, 7, 8})));
  WriteTestFile("y.npy", NpyBytes("<i4", "(2,)", ValueBytes<int32_t>({0, 1})));
  for (const bool labelled : {true, false}) {
    std::string records;
    for (const float first : {5.0f, 7.0f}) {
      std::vector<std::string> features = {
          FloatFeature("x", {first, first + 1})};
      if (labelled) features.push_back(Int64Feature("label", {1}));
      records += TfRecordBytes(TfExample(features));
    }
    WriteTestFile(labelled ? "train.tfrecord" : "test.tfrecord", records);
  }
  std::filesystem::create_directories(directory + "/images/dog");
  std::filesystem::create_directories(directory + "/loose");
  for (const char* path : {"images/dog/1.png", "loose/1.png", "loose/2.png"}) {
    std::ofstream(absl::StrCat(directory, "/", path), std::ios::binary)
        << PngBytes(1, 2, 1,
                    absl::StrContains(path, "2") ? std::vector<uint8_t>{7, 8}
                                                 : std::vector<uint8_t>{5, 6});
  }
  const std::string csv =
      "header: true separator: ',' label: 'y' class_names: ['no', 'yes']";
  const std::string array = "{name: 'label' file: 'D/nowhere.npy'}";
  const std::string x = "{name: 'x' type: TYPE_FLOAT32 dims: 2}";
  const std::string label = "{name: 'label' type: TYPE_INT32}";
  return {
      {absl::StrCat("csv { files: 'D/train.csv' group: 'g' ", csv, " }"),
       "csv { files: 'D/test.csv' header: true separator: ',' }"},
      {absl::StrCat("csv { files: 'D/train.csv' columns: ['a', 'b'] ", csv,
                    " }"),
       absl::StrCat("csv { files: 'D/odd.csv' ", csv, " }")},
      {"libsvm { files: 'D/train.svm' columns: 2 first_index: 1 classes: 2 "
       "name: 'x' }",
       "libsvm { files: 'D/test.svm' columns: 2 first_index: 1 classes: 2 "
       "name: 'x' }"},
      {"npy { arrays: [{name: 'x' file: 'D/train.npy'}, {name: 'label' file: "
       "'D/y.npy'}] }",
       absl::StrCat("npy { arrays: [{name: 'x' file: 'D/test.npy'}, ", array,
                    "] }")},
      {"npy { arrays: [{name: 'x' file: 'D/train.npy'}, {name: 'label' file: "
       "'D/y.npy'}] }",
       "npy { arrays: [{name: 'x' file: 'D/test.npy'}] }"},
      {absl::StrCat("tfrecord { files: 'D/train.tfrecord' features: [", x, ", ",
                    label, "] }"),
       absl::StrCat("tfrecord { files: 'D/test.tfrecord' features: [", x, ", ",
                    label, "] }")},
      {"directory: 'D/images' image_folders { channels: 1 }",
       "directory: 'D/loose' image_folders { channels: 1 }"},
  };
}

v1::InputSource ParsedSource(std::string text, const std::string& directory) {
  absl::StrReplaceAll({{"D/", directory + "/"}}, &text);
  v1::InputSource source;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &source))
      << text;
  return source;
}

TEST(OpenPipelineTest, WhereNobodyReadsLabelsTestDataNeedNone) {
  const std::string directory =
      std::filesystem::path(WriteTestFile("nothing", "")).parent_path();
  for (const Unlabelled& one : UnlabelledSources(directory)) {
    SCOPED_TRACE(one.test);
    v1::InputConfig config;
    *config.mutable_train() = ParsedSource(one.train, directory);
    *config.mutable_test() = ParsedSource(one.test, directory);
    // A map of what is not there.
    auto* cast = config.add_stages()->mutable_cast();
    cast->set_feature("label");
    cast->set_type(v1::InputFeature::TYPE_FLOAT32);
    cast->set_scale(1);
    const auto training = OpenTrainingData(config, 1);
    ASSERT_TRUE(training.ok()) << training.status();
    const std::vector<std::string> unread = {"label", "group"};
    const auto test = OpenTestData(config, **training, unread);
    ASSERT_TRUE(test.ok()) << test.status();
    Batch batch;
    const absl::Status read = (*test)->Read({1, 0, 2}, &batch);
    ASSERT_TRUE(read.ok()) << read;
    ASSERT_EQ(batch.columns.size(), 1u);
    std::vector<double> values;
    for (uint64_t i = 0; i < 4; ++i) {
      values.push_back(batch.columns[0].spec().dtype == DType::kUInt8
                           ? batch.columns[0].values<uint8_t>()[i]
                           : batch.columns[0].values<float>()[i]);
    }
    EXPECT_EQ(values, (std::vector<double>{5, 6, 7, 8}));
    EXPECT_EQ(CheckMeaning(**test, "c", (*training)->Describe(), unread),
              absl::OkStatus());
  }
}

TEST(OpenPipelineTest, ImagesOfIdxFilesNeedNoLabelsWhereNobodyReadsThem) {
  v1::InputConfig config = Config();
  config.set_test_labels("nowhere");
  const auto training = *OpenTrainingData(config, 1);
  EXPECT_FALSE(OpenTestData(config, *training).ok());
  const std::vector<std::string> unread = {"label"};
  const auto test = OpenTestData(config, *training, unread);
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ((*test)->size(), 2u);
  EXPECT_EQ((*test)->spec().features.size(), 1u);
}

TEST(OpenPipelineTest, ALabelThatAFilterReadsIsNeeded) {
  v1::InputConfig config = Config();
  config.set_test_labels("nowhere");
  config.add_stages()->mutable_filter()->set_feature("label");
  const auto training = *OpenTrainingData(config, 1);
  const std::vector<std::string> unread = {"label"};
  EXPECT_EQ(OpenTestData(config, *training, unread).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(OpenPipelineTest, AListOfIndicesMayHaveLargerOnesThanThatOfTraining) {
  v1::InputConfig config;
  auto* libsvm = config.mutable_train()->mutable_libsvm();
  libsvm->add_files(WriteTestFile("few.svm", "0 1:1 3:1\n"));
  libsvm->set_name("features");
  libsvm->set_list_length(4);
  libsvm->set_first_index(1);
  *config.mutable_test() = config.train();
  config.mutable_test()->mutable_libsvm()->set_files(
      0, WriteTestFile("more.svm", "0 31:1\n"));
  const auto training = *OpenTrainingData(config, 1);
  const auto test = OpenTestData(config, *training);
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ((*test)->spec().features[0].classes, 32u);
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

// ---- several sources --------------------------------------------------------

// D/ is the directory of the test's files.
v1::InputConfig ParsedInput(const std::string& text) {
  const std::string a = WriteTestFile("a.csv", "u,v,y\n1,2,0\n3,4,1\n");
  WriteTestFile("b.csv", "y,v,u\n1,6,5\n0,8,7\n1,10,9\n");
  WriteTestFile("other.csv", "u,w,y\n1,2,0\n");
  WriteTestFile("mask.npy",
                NpyBytes("<f4", "(4, 1)", ValueBytes<float>({1, 2, 3, 4})));
  v1::InputConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrReplaceAll(
          text,
          {{"D/", std::filesystem::path(a).parent_path().string() + "/"}}),
      &config))
      << text;
  return config;
}

std::string CsvText(const std::string& name) {
  return absl::StrCat("csv { files: '", name,
                      "' label: 'y' separator: ',' header: true classes: 2 "
                      "name: 'x' }");
}

// The values of a feature, example by example.
std::vector<float> ValuesOf(const Pipeline& pipeline, const std::string& name) {
  Batch batch;
  const absl::Status read = pipeline.Read({0, 0, pipeline.size()}, &batch);
  EXPECT_TRUE(read.ok()) << read;
  const auto values = batch.Find(name)->values<float>();
  return {values.begin(), values.end()};
}

TEST(OpenPipelineTest, ColumnsOfSeveralSourcesAreReadByTheNamesOfTheFirst) {
  const v1::InputConfig config = ParsedInput(absl::StrCat(
      "train { directory: 'D/' sample_from { sources: { ", CsvText("a.csv"),
      "} sources: {", CsvText("b.csv"), "} weights: [1, 2] } }"));
  const auto training = OpenTrainingData(config, 1);
  ASSERT_TRUE(training.ok()) << training.status();
  const auto test = OpenTestData(config, **training);
  ASSERT_TRUE(test.ok()) << test.status();
  std::vector<float> us, vs;
  const std::vector<float> values = ValuesOf(**test, "x");
  for (size_t i = 0; i < values.size(); i += 2) {
    us.push_back(values[i]);
    EXPECT_EQ(values[i + 1], values[i] + 1);
  }
  std::sort(us.begin(), us.end());
  EXPECT_EQ(us, (std::vector<float>{1, 3, 5, 7, 9}));
  // One of them alone is test data for it.
  v1::InputConfig alone = config;
  *alone.mutable_test() = config.train().sample_from().sources(1);
  alone.mutable_test()->set_directory(config.train().directory());
  const auto second = OpenTestData(alone, **training);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(ValuesOf(**second, "x"), (std::vector<float>{5, 6, 7, 8, 9, 10}));
}

TEST(OpenPipelineTest, SourcesThatAreReadInTwoWaysAreNotPutTogether) {
  const auto refusal = [](const std::string& second) {
    const v1::InputConfig config = ParsedInput(
        absl::StrCat("train { directory: 'D/' sample_from { sources: { ",
                     CsvText("a.csv"), "} sources: {", second, "} } }"));
    return std::string(OpenTrainingData(config, 1).status().message());
  };
  EXPECT_TRUE(absl::StrContains(refusal(CsvText("other.csv")),
                                "source 2 of sample_from: "))
      << refusal(CsvText("other.csv"));
  EXPECT_EQ(refusal(absl::StrCat(
                CsvText("b.csv"),
                " stages { normalise { feature: 'x' mean: 1 deviation: 2 } }")),
            "source 2 of sample_from: is read differently from source 1: it "
            "has stages of 'x' normalise mean 1 deviation 2, not none");
  EXPECT_EQ(refusal("npy { arrays { name: 'x' file: 'mask.npy' } }"),
            "source 2 of sample_from: has 'x' of float32 1; source 1 has 'x' "
            "of float32 2, 'label' of one int32");
}

TEST(OpenPipelineTest, SourcesOfSeveralKindsAreZipped) {
  const v1::InputConfig config = ParsedInput(absl::StrCat(
      "train { directory: 'D/' zip { sources: { ", CsvText("b.csv"),
      "} sources: { npy { arrays { name: 'mask' file: 'mask.npy' } } stages { "
      "skip { examples: 1 } } } } stages { skip { examples: 1 } } }"));
  const auto training = OpenTrainingData(config, 1);
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_EQ((*training)->size(), 2u);
  const auto test = OpenTestData(config, **training);
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ(ValuesOf(**test, "x"), (std::vector<float>{8, 7, 10, 9}));
  EXPECT_EQ(ValuesOf(**test, "mask"), (std::vector<float>{3, 4}));
  // Test files may have their columns in another order.
  v1::InputConfig other = config;
  *other.mutable_test() = config.train();
  other.mutable_test()
      ->mutable_zip()
      ->mutable_sources(0)
      ->mutable_csv()
      ->set_files(0, "a.csv");
  const auto read = OpenTestData(other, **training);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ValuesOf(**read, "x"), (std::vector<float>{4, 3}));
  other.mutable_test()
      ->mutable_zip()
      ->mutable_sources(0)
      ->mutable_csv()
      ->set_label("u");
  EXPECT_FALSE(OpenTestData(other, **training).ok());
}

TEST(OpenPipelineTest, WithoutLabelsSeveralSourcesAreReadToPredict) {
  const v1::InputConfig config = ParsedInput(
      absl::StrCat("train { directory: 'D/' sample_from { sources: { ",
                   CsvText("a.csv"), "} } }"));
  const auto training = OpenTrainingData(config, 1);
  ASSERT_TRUE(training.ok()) << training.status();
  v1::InputConfig unlabelled = config;
  WriteTestFile("unlabelled.csv", "u,v\n1,2\n");
  *unlabelled.mutable_test() = config.train();
  unlabelled.mutable_test()
      ->mutable_sample_from()
      ->mutable_sources(0)
      ->mutable_csv()
      ->set_files(0, "unlabelled.csv");
  EXPECT_FALSE(OpenTestData(unlabelled, **training).ok());
  const std::string label = "label";
  const auto test = OpenTestData(unlabelled, **training, {&label, 1});
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ(ValuesOf(**test, "x"), (std::vector<float>{1, 2}));
}

TEST(OpenPipelineTest, MoreReadersThanThreadsAreRefused) {
  v1::InputConfig config = Synthetic();
  config.add_stages()->mutable_interleave()->set_cycle_length(4);
  auto* const interleave = config.mutable_stages(0)->mutable_interleave();
  interleave->set_block_length(1);
  interleave->set_parallelism(2);
  config.set_parallelism("1");
  EXPECT_EQ(OpenTrainingData(config, 1).status(),
            absl::InvalidArgumentError(
                "stage 1 of the input, interleave: parallelism is 2, but "
                "input.parallelism gives 1 thread in all: set that to as many, "
                "or to \"auto\""));
  for (const char* const enough : {"2", "8", "auto"}) {
    config.set_parallelism(enough);
    EXPECT_TRUE(OpenTrainingData(config, 1).ok()) << enough;
  }
}

}  // namespace
}  // namespace paramd
