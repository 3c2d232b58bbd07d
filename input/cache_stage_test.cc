#include "input/cache_stage.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/cache_key.h"
#include "input/order_stages.h"
#include "input/testing/fake_source.h"
#include "input/testing/idx_test_files.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

constexpr uint64_t kCachedExamples = 8;

// Counts what is read of it.
class ReadSource : public FakeSource {
 public:
  explicit ReadSource(int* reads)
      : FakeSource(kCachedExamples), reads_(*reads) {}
  absl::Status Read(uint64_t index, Example* example) const override {
    ++reads_;
    return FakeSource::Read(index, example);
  }

 private:
  int& reads_;
};

class CacheStageTest : public ::testing::Test {
 protected:
  CacheStageTest() {
    const auto* const info =
        ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = ::testing::TempDir() + "/cache_" + info->name();
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }

  // A process that takes these examples through the cache: how many it had to
  // read.
  int Run(const std::vector<uint64_t>& offsets, uint64_t max_bytes = 1 << 20) {
    int reads = 0;
    const SourceStage source(std::make_unique<ReadSource>(&reads));
    const auto cache = CacheStage::Create(source, {.directory = directory_,
                                                   .max_bytes = max_bytes,
                                                   .key = "0123456789abcdef"});
    EXPECT_TRUE(cache.ok()) << cache.status();
    Example example;
    for (const uint64_t i : offsets) {
      const absl::Status status = (*cache)->Get({3, i}, &example);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(example.index, i);
      EXPECT_FALSE(example.dropped);
      EXPECT_EQ(example.values[0].values<float>()[0], static_cast<float>(i));
      EXPECT_EQ(example.values[1].values<int32_t>()[0],
                static_cast<int32_t>(i));
    }
    return reads;
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(directory_)) {
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    }
    return files;
  }

  std::string directory_;
};

const std::vector<uint64_t> kAll = {0, 1, 2, 3, 4, 5, 6, 7};

TEST_F(CacheStageTest, WhatOneProcessKeptAnotherOneFinds) {
  EXPECT_EQ(Run({1, 5, 1}), 2);
  EXPECT_EQ(Run({5, 1}), 0);
  EXPECT_EQ(Run(kAll), 6);
  EXPECT_EQ(Files().size(), 2u);
  EXPECT_EQ(Run(kAll), 0);
  EXPECT_EQ(Files().size(), 2u);  // Who has nothing to write makes none.
}

TEST_F(CacheStageTest, ProcessesSideBySideDoNotDisturbEachOther) {
  int reads = 0;
  const SourceStage source(std::make_unique<ReadSource>(&reads));
  const CacheStage::Options options = {
      .directory = directory_, .max_bytes = 1 << 20, .key = "0123456789abcdef"};
  const auto one = *CacheStage::Create(source, options);
  const auto other = *CacheStage::Create(source, options);
  Example example;
  for (const uint64_t i : {0, 1, 2, 3}) {
    ASSERT_TRUE(one->Get({0, i}, &example).ok());
    ASSERT_TRUE(other->Get({0, 5 - i}, &example).ok());
  }
  EXPECT_EQ(reads, 8);
  EXPECT_EQ(Run({0, 1, 2, 3, 4, 5}), 0);
}

TEST_F(CacheStageTest, WhatIsNotWholeIsReadAgain) {
  Run(kAll);
  ASSERT_EQ(Files().size(), 1u);
  const std::string path = Files()[0];
  const uint64_t size = fs::file_size(path);
  for (uint64_t bytes = size; bytes-- > 0;) {
    fs::resize_file(path, bytes);
    const int read = Run(kAll);
    EXPECT_GT(read, 0);
    for (const std::string& file : Files()) {
      if (file != path) fs::remove(file);
    }
  }
}

TEST_F(CacheStageTest, WhateverByteIsDamagedTheExamplesAreRight) {
  Run(kAll);
  const std::string path = Files()[0];
  std::string bytes;
  {
    std::ifstream in(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    fs::remove_all(fs::path(path).parent_path());
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << damaged;
    EXPECT_GT(Run(kAll), 0) << i;
  }
}

TEST_F(CacheStageTest, AllProcessesKeepNoMoreThanTheBound) {
  const int read = Run(kAll, /*max_bytes=*/200);
  EXPECT_EQ(read, 8);
  const int again = Run(kAll, 200);
  EXPECT_GT(again, 0);
  EXPECT_LT(again, 8);
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(CacheStageTest, ADirectoryThatIsNotThereIsNamed) {
  int reads = 0;
  const SourceStage source(std::make_unique<ReadSource>(&reads));
  EXPECT_THAT(std::string(CacheStage::Create(source, {.directory = "/no/such",
                                                      .max_bytes = 1,
                                                      .key = "k"})
                              .status()
                              .message()),
              HasSubstr("cannot write to '/no/such' for the cache"));
}

// ---- what a key depends on --------------------------------------------------

v1::InputConfig CsvInput() {
  v1::InputConfig config;
  auto* const csv = config.mutable_train()->mutable_csv();
  csv->add_files(WriteTestFile("cached.csv", "1,2\n3,4\n"));
  csv->set_separator(",");
  config.add_stages()->mutable_skip()->set_examples(1);
  config.add_stages()->mutable_cache()->set_max_mb(1);
  config.add_stages()->mutable_take()->set_examples(1);
  return config;
}

std::string KeyOf(const v1::InputConfig& config, bool training = true,
                  absl::optional<uint64_t> seed = absl::nullopt) {
  const FakeSource source(4);
  const auto key = CacheKey({.config = config,
                             .training = training,
                             .stages = 1,
                             .source = source,
                             .seed = seed});
  EXPECT_TRUE(key.ok()) << key.status();
  return key.value_or("");
}

TEST(CacheKeyTest, WhatChangesAnExampleChangesTheKey) {
  const v1::InputConfig config = CsvInput();
  const std::string key = KeyOf(config);
  EXPECT_EQ(key.size(), 16u);
  EXPECT_EQ(KeyOf(config), key);
  EXPECT_NE(KeyOf(config, /*training=*/false), key);
  EXPECT_NE(KeyOf(config, true, 1), key);
  EXPECT_NE(KeyOf(config, true, 1), KeyOf(config, true, 2));
  v1::InputConfig other = config;
  other.mutable_train()->mutable_csv()->set_separator("tab");
  EXPECT_NE(KeyOf(other), key);
  other = config;
  other.mutable_stages(0)->mutable_skip()->set_examples(2);
  EXPECT_NE(KeyOf(other), key);
  other = config;
  other.mutable_stages(0)->set_on(v1::InputStage::ON_TRAINING);
  EXPECT_NE(KeyOf(other), key);
  // Behind it, or of the cache itself.
  other = config;
  other.mutable_stages(1)->mutable_cache()->set_max_mb(9);
  other.mutable_stages(2)->mutable_take()->set_examples(2);
  EXPECT_EQ(KeyOf(other), key);
}

TEST(CacheKeyTest, AnotherFileOfTheSameSizeChangesTheKey) {
  const v1::InputConfig config = CsvInput();
  const std::string key = KeyOf(config);
  const std::string& path = config.train().csv().files(0);
  const auto time = fs::last_write_time(path);
  std::ofstream(path) << "1,2\n3,5\n";
  fs::last_write_time(path, time + std::chrono::milliseconds(1));
  EXPECT_NE(KeyOf(config), key);
  // Of a source within another one, too.
  v1::InputConfig zipped = config;
  *zipped.mutable_train()->mutable_zip()->add_sources() = config.train();
  const std::string of_zip = KeyOf(zipped);
  fs::last_write_time(path, time + std::chrono::milliseconds(2));
  EXPECT_NE(KeyOf(zipped), of_zip);
}

TEST(CacheKeyTest, OtherLabelsChangeTheKey) {
  v1::InputConfig config = CsvInput();
  const std::string path = WriteTestFile("labels", "1");
  // Of the input, and of a source within another one.
  config.mutable_stages(0)->mutable_relabel()->set_file(path);
  v1::InputConfig zipped = CsvInput();
  v1::InputSource* const one =
      zipped.mutable_train()->mutable_zip()->add_sources();
  *one = config.train();
  one->add_stages()->mutable_relabel()->set_file(path);
  const std::string key = KeyOf(config), of_zip = KeyOf(zipped);
  std::ofstream(path) << "12";
  EXPECT_NE(KeyOf(config), key);
  EXPECT_NE(KeyOf(zipped), of_zip);
  // To look at what examples are like, there need be none.
  config.mutable_stages(0)->mutable_relabel()->clear_file();
  EXPECT_EQ(KeyOf(config).size(), 16u);
}

TEST(CacheKeyTest, PicturesOfAFolderAreLookedAt) {
  const std::string first = WriteTestFile("a.png", "1");
  const fs::path root = fs::path(first).parent_path() / "pictures";
  fs::create_directories(root / "cat");
  std::ofstream(root / "cat" / "1.png") << "one";
  v1::InputConfig config;
  config.mutable_train()->set_directory(root);
  config.mutable_train()->mutable_image_folders()->set_channels(1);
  config.add_stages()->mutable_flip();
  const std::string key = KeyOf(config);
  std::ofstream(root / "cat" / "2.png") << "two";
  EXPECT_NE(KeyOf(config), key);
}

TEST(CacheKeyTest, APipelineKeepsWhatStandsBeforeItsCache) {
  const fs::path directory = fs::path(::testing::TempDir()) / "pipeline_cache";
  fs::remove_all(directory);
  fs::create_directories(directory);
  const auto count = [&directory] {
    const fs::directory_iterator all(directory);
    return std::distance(fs::begin(all), fs::end(all));
  };
  v1::InputConfig config;
  config.add_stages()->mutable_skip()->set_examples(1);
  auto* const cache = config.add_stages()->mutable_cache();
  cache->set_max_mb(1);
  cache->set_keep(true);
  EXPECT_THAT(std::string(Pipeline::Create(std::make_unique<FakeSource>(9),
                                           config, {.seed = 1})
                              .status()
                              .message()),
              HasSubstr("stage 2 of the input, cache: with keep needs a "
                        "directory"));
  cache->set_directory(directory);
  Batch batch;
  // The seed draws nothing before the cache.
  for (const uint64_t seed : {1u, 2u}) {
    auto source = std::make_unique<FakeSource>(9);
    if (seed == 2) source->set_unreadable(4);
    const auto pipeline =
        Pipeline::Create(std::move(source), config, {.seed = seed});
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    EXPECT_TRUE((*pipeline)->Read({1, 0, 8}, &batch).ok());
    EXPECT_EQ(batch.columns[0].values<float>()[3], 4);
  }
  EXPECT_EQ(count(), 1);
  config.mutable_stages(0)->mutable_shuffle();
  for (const uint64_t seed : {1u, 2u}) {
    const auto pipeline = Pipeline::Create(std::make_unique<FakeSource>(9),
                                           config, {.seed = seed});
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    EXPECT_EQ(count(), 1 + static_cast<int>(seed) - 1);
    ASSERT_TRUE((*pipeline)->Read({1, 0, 9}, &batch).ok());
  }
  EXPECT_EQ(count(), 3);
}

}  // namespace
}  // namespace paramd
