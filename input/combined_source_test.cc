#include "input/combined_source.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "input/testing/fake_source.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using AddStagesTo = std::function<void(v1::InputConfig* config)>;

// Examples first, first + 1 and so on, of features of these names.
class NumberedFrom : public FakeSource {
 public:
  NumberedFrom(uint64_t size, float first, const std::string& suffix = "")
      : FakeSource(size), first_(first), spec_(FakeSource::spec()) {
    for (FeatureSpec& feature : spec_.features) feature.name += suffix;
  }
  const InputSpec& spec() const override { return spec_; }
  absl::Status Read(uint64_t index, Example* example) const override {
    const absl::Status status = FakeSource::Read(index, example);
    if (status.ok()) example->values[0].values<float>()[0] += first_;
    return status;
  }

 private:
  const float first_;
  InputSpec spec_;
};

std::unique_ptr<Pipeline> PartOf(std::unique_ptr<ExampleSource> source,
                                 const AddStagesTo& stages = {},
                                 uint64_t seed = 4) {
  v1::InputConfig config;
  if (stages) stages(&config);
  auto part = Pipeline::Create(std::move(source), config,
                               {.seed = seed, .is_part = true});
  EXPECT_TRUE(part.ok()) << part.status();
  return *std::move(part);
}

void ShuffleAll(v1::InputConfig* config) {
  config->add_stages()->mutable_shuffle();
}

// Of so many examples each, the first of which are 0, 1000, 2000.
Parts Thousands(const std::vector<uint64_t>& sizes,
                const AddStagesTo& stages = {}) {
  Parts parts;
  for (const uint64_t size : sizes) {
    const float first = 1000.0f * static_cast<float>(parts.size());
    parts.push_back(PartOf(std::make_unique<NumberedFrom>(size, first), stages,
                           SeedOfPart(4, parts.size() + 1)));
  }
  return parts;
}

absl::StatusOr<std::unique_ptr<Pipeline>> Behind(
    absl::StatusOr<std::unique_ptr<ExampleSource>> source,
    const AddStagesTo& stages = {}) {
  if (!source.ok()) return source.status();
  v1::InputConfig config;
  config.add_stages()->mutable_prefetch()->set_batches(1);
  if (stages) stages(&config);
  return Pipeline::Create(*std::move(source), config, {.seed = 4});
}

std::vector<int> ReadAll(const Pipeline& pipeline, uint64_t epoch = 0,
                         size_t feature = 0) {
  Batch batch;
  const absl::Status status =
      pipeline.Read({epoch, 0, pipeline.size()}, &batch);
  EXPECT_TRUE(status.ok()) << status;
  const auto values = batch.columns[feature].values<float>();
  return {values.begin(), values.end()};
}

// ---- by weight --------------------------------------------------------------

TEST(CombinedSourceTest, EachExampleOfAllIsDrawnOnceAndInOrder) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream random(seed);
    std::vector<uint64_t> sizes;
    std::vector<double> weights;
    const uint64_t count = 1 + random.Below(4);
    for (uint64_t p = 0; p < count; ++p) {
      sizes.push_back(1 + random.Below(30));
      weights.push_back(0.01 + random.Uniform());
    }
    const auto pipeline =
        *Behind(MakeSampled(Thousands(sizes), weights, false, seed));
    std::vector<std::vector<int>> found(count);
    for (const int number : ReadAll(*pipeline)) {
      found[static_cast<size_t>(number / 1000)].push_back(number % 1000);
    }
    for (size_t p = 0; p < count; ++p) {
      ASSERT_EQ(found[p].size(), sizes[p]) << seed;
      EXPECT_TRUE(std::is_sorted(found[p].begin(), found[p].end()));
    }
    EXPECT_EQ(ReadAll(*pipeline, 3), ReadAll(*pipeline));
  }
}

TEST(CombinedSourceTest, AnEpochStopsWhenAnEmptySourceIsDrawn) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<uint64_t> sizes = {3, 7, 40};
    const std::vector<int> all = ReadAll(
        **Behind(MakeSampled(Thousands(sizes), {1, 2, 3}, false, seed)));
    const std::vector<int> some =
        ReadAll(**Behind(MakeSampled(Thousands(sizes), {1, 2, 3}, true, seed)));
    // The same draws, until one source is found empty.
    ASSERT_LE(some.size(), all.size());
    size_t first_empty = all.size();
    for (size_t p = 0; p < sizes.size(); ++p) {
      const int last = static_cast<int>(1000 * p + sizes[p] - 1);
      const auto at = std::find(all.begin(), all.end(), last) - all.begin();
      first_empty = std::min(first_empty, static_cast<size_t>(at) + 1);
    }
    EXPECT_GE(some.size(), first_empty);
    EXPECT_TRUE(std::equal(all.begin(),
                           all.begin() + static_cast<ptrdiff_t>(first_empty),
                           some.begin()));
  }
}

TEST(CombinedSourceTest, WeightsSayHowOftenASourceIsDrawn) {
  const auto pipeline = *Behind(
      MakeSampled(Thousands({900, 900, 900}), {1, 6, 3}, true, /*seed=*/1));
  const std::vector<int> numbers = ReadAll(*pipeline);
  ASSERT_GT(numbers.size(), 1000u);
  std::vector<double> counts(3);
  for (const int number : numbers) ++counts[static_cast<size_t>(number / 1000)];
  const double all = static_cast<double>(numbers.size());
  EXPECT_NEAR(counts[0] / all, 0.1, 0.04);
  EXPECT_NEAR(counts[1] / all, 0.6, 0.06);
  EXPECT_NEAR(counts[2] / all, 0.3, 0.06);
}

TEST(CombinedSourceTest, StagesOfASourceBelongToItsExamplesAlone) {
  Parts parts;
  parts.push_back(
      PartOf(std::make_unique<NumberedFrom>(5, 0), [](v1::InputConfig* config) {
        ShuffleAll(config);
        config->add_stages()->mutable_repeat()->set_times(2);
      }));
  parts.push_back(PartOf(
      std::make_unique<NumberedFrom>(9, 1000), [](v1::InputConfig* config) {
        config->add_stages()->mutable_skip()->set_examples(6);
      }));
  const auto pipeline = *Behind(MakeSampled(std::move(parts), {}, false, 1));
  ASSERT_EQ(pipeline->size(), 13u);
  std::vector<int> first = ReadAll(*pipeline, 0);
  std::vector<int> second = ReadAll(*pipeline, 1);
  EXPECT_NE(first, second);  // The first is shuffled anew.
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i] >= 1000, second[i] >= 1000);
  }
  std::sort(first.begin(), first.end());
  EXPECT_THAT(first,
              ElementsAre(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 1006, 1007, 1008));
}

TEST(CombinedSourceTest, AnErrorNamesTheExampleOfTheSourceItIsIn) {
  auto second = std::make_unique<NumberedFrom>(5, 1000);
  second->set_unreadable(3);
  Parts parts = Thousands({4});
  parts.push_back(PartOf(std::move(second)));
  const auto pipeline = *Behind(MakeSampled(std::move(parts), {}, false, 1));
  Batch batch;
  EXPECT_EQ(pipeline->Read({0, 0, 9}, &batch),
            absl::DataLossError("example 3: unreadable"));
  EXPECT_EQ(pipeline->source().numbers(), 9u);
  EXPECT_EQ(pipeline->source().Where(8), "example 4");
}

TEST(CombinedSourceTest, WeightsThatAreMissingAreCounted) {
  EXPECT_EQ(MakeSampled(Thousands({3, 3}), {1}, false, 1).status(),
            absl::InvalidArgumentError(
                "has 1 weights for 2 sources; give one for each, or none"));
}

// ---- side by side -----------------------------------------------------------

Parts TwoSides(uint64_t first, uint64_t second, const AddStagesTo& one = {},
               const AddStagesTo& other = {}) {
  Parts parts;
  parts.push_back(PartOf(std::make_unique<NumberedFrom>(first, 0), one));
  parts.push_back(
      PartOf(std::make_unique<NumberedFrom>(second, 1000, "_2"), other));
  return parts;
}

TEST(CombinedSourceTest, ZippedExamplesStandSideBySide) {
  const auto pipeline = *Behind(MakeZipped(TwoSides(7, 5)));
  ASSERT_EQ(pipeline->size(), 5u);
  std::vector<std::string> names;
  for (const FeatureSpec& feature : pipeline->spec().features) {
    names.push_back(feature.name);
  }
  EXPECT_THAT(names, ElementsAre("image", "label", "image_2", "label_2"));
  for (const uint64_t epoch : {0u, 2u}) {
    EXPECT_THAT(ReadAll(*pipeline, epoch, 0), ElementsAre(0, 1, 2, 3, 4));
    EXPECT_THAT(ReadAll(*pipeline, epoch, 2),
                ElementsAre(1000, 1001, 1002, 1003, 1004));
  }
}

TEST(CombinedSourceTest, ToLabelItAZipIsWhatStandsSideBySide) {
  const auto sum_behind = [](uint64_t skipped) {
    const auto zipped =
        *MakeZipped(TwoSides(7, 9, {}, [&](v1::InputConfig* config) {
          if (skipped == 0) return;
          config->add_stages()->mutable_skip()->set_examples(skipped);
        }));
    // What a checkpoint says of it is the same.
    EXPECT_EQ(zipped->Describe().examples_crc32c(),
              (*MakeZipped(TwoSides(7, 9)))->Describe().examples_crc32c());
    return zipped->DescribeToLabel().examples_crc32c();
  };
  const uint32_t plain = sum_behind(0);
  EXPECT_EQ(plain, (*MakeZipped(TwoSides(7, 9)))->Describe().examples_crc32c());
  EXPECT_NE(sum_behind(1), plain);
  EXPECT_NE(sum_behind(2), plain);
  EXPECT_NE(sum_behind(2), sum_behind(1));
  EXPECT_EQ(sum_behind(2), sum_behind(2));
}

// Of a sample_from, or of a zip.
TEST(CombinedSourceTest, ToLabelItAZipWithinAnotherSourceIsToldApartToo) {
  const auto zip_behind = [](uint64_t skipped) {
    auto zipped = *MakeZipped(TwoSides(7, 9, {}, [&](v1::InputConfig* config) {
      if (skipped == 0) return;
      config->add_stages()->mutable_skip()->set_examples(skipped);
    }));
    Parts parts;
    parts.push_back(PartOf(std::move(zipped)));
    return parts;
  };
  const auto sampled = [&](uint64_t skipped) {
    return *MakeSampled(zip_behind(skipped), {}, false, 1);
  };
  const auto zipped = [&](uint64_t skipped) {
    Parts parts = zip_behind(skipped);
    parts.push_back(PartOf(std::make_unique<NumberedFrom>(7, 2000, "_3")));
    return *MakeZipped(std::move(parts));
  };
  const auto sum = [](const ExampleSource& source) {
    return source.DescribeToLabel().examples_crc32c();
  };
  EXPECT_EQ(sum(*sampled(0)), sampled(0)->Describe().examples_crc32c());
  EXPECT_NE(sum(*sampled(1)), sum(*sampled(0)));
  EXPECT_NE(sum(*sampled(1)), sum(*sampled(2)));
  EXPECT_EQ(sampled(1)->Describe().examples_crc32c(),
            sampled(2)->Describe().examples_crc32c());
  EXPECT_EQ(sum(*zipped(0)), zipped(0)->Describe().examples_crc32c());
  EXPECT_NE(sum(*zipped(1)), sum(*zipped(0)));
}

TEST(CombinedSourceTest, EachSideOfAZipIsShuffledByItself) {
  const auto pipeline = *Behind(MakeZipped(TwoSides(30, 30, ShuffleAll)));
  const std::vector<int> first = ReadAll(*pipeline, 0, 0);
  EXPECT_NE(first, ReadAll(*pipeline, 1, 0));
  EXPECT_EQ(std::set<int>(first.begin(), first.end()).size(), 30u);
  EXPECT_EQ(ReadAll(*pipeline, 0, 2), ReadAll(*pipeline, 1, 2));
}

TEST(CombinedSourceTest, AnErrorInAZipNamesTheExampleOfItsSource) {
  Parts parts;
  parts.push_back(PartOf(std::make_unique<NumberedFrom>(6, 0)));
  auto second = std::make_unique<NumberedFrom>(6, 1000, "_2");
  second->set_unreadable(3);
  parts.push_back(PartOf(std::move(second), [](v1::InputConfig* config) {
    config->add_stages()->mutable_skip()->set_examples(1);
  }));
  const auto pipeline = *Behind(MakeZipped(std::move(parts)));
  Batch batch;
  EXPECT_EQ(pipeline->Read({0, 0, 5}, &batch),
            absl::DataLossError("example 3: unreadable"));
  EXPECT_TRUE(pipeline->Read({0, 3, 5}, &batch).ok());
}

TEST(CombinedSourceTest, TwoFeaturesOfOneNameAreNotZipped) {
  EXPECT_EQ(MakeZipped(Thousands({3, 3})).status(),
            absl::InvalidArgumentError(
                "source 2 has a feature 'image', as one before it has: give it "
                "another name, or leave it out"));
}

// ---- stages behind ----------------------------------------------------------

void KeepLabels(const std::string& name, double min, v1::InputConfig* config) {
  auto* const filter = config->add_stages()->mutable_filter();
  filter->set_feature(name);
  filter->set_min(min);
}

TEST(CombinedSourceTest, AFilterBehindThemKeepsWhatItKeepsInEachEpoch) {
  const auto keep = [](v1::InputConfig* config) {
    KeepLabels("label", 7, config);
  };
  const auto sampled =
      *Behind(MakeSampled(Thousands({20, 10}, ShuffleAll), {}, false, 1), keep);
  ASSERT_EQ(sampled->size(), 9u);
  for (const uint64_t epoch : {0u, 1u}) {
    std::vector<int> kept = ReadAll(*sampled, epoch);
    std::sort(kept.begin(), kept.end());
    EXPECT_THAT(kept, ElementsAre(7, 8, 9, 17, 18, 19, 1007, 1008, 1009));
  }
  const auto zipped = *Behind(
      MakeZipped(TwoSides(20, 20, {},
                          [](v1::InputConfig* config) {
                            config->add_stages()->mutable_skip()->set_examples(
                                5);
                          })),
      [](v1::InputConfig* config) { KeepLabels("label_2", 8, config); });
  EXPECT_THAT(ReadAll(*zipped, 1, 0), ElementsAre(3, 4, 13, 14));
  EXPECT_THAT(ReadAll(*zipped, 1, 2), ElementsAre(1008, 1009, 1018, 1019));
}

TEST(CombinedSourceTest, WhatNobodyCanCountIsNotFiltered) {
  const auto keep = [](v1::InputConfig* config) {
    KeepLabels("label", 7, config);
  };
  EXPECT_THAT(
      std::string(
          Behind(MakeSampled(Thousands({20, 10}, ShuffleAll), {}, true, 1),
                 keep)
              .status()
              .message()),
      HasSubstr("filter: comes after a sample_from with stop_on_empty of "
                "shuffled sources, which gives other examples in each epoch, "
                "so nobody knows how many it keeps"));
  for (const AddStagesTo& side : std::vector<AddStagesTo>{
           ShuffleAll, [](v1::InputConfig* config) {
             config->add_stages()->mutable_repeat()->set_times(2);
           }}) {
    EXPECT_THAT(std::string(Behind(MakeZipped(TwoSides(20, 20, {}, side)), keep)
                                .status()
                                .message()),
                HasSubstr("filter: comes after a zip of shuffled or repeated"));
  }
  // Neither a cache nor a fixed order leaves any doubt.
  const auto cached =
      *Behind(MakeZipped(TwoSides(20, 20, {}, ShuffleAll)),
              [](v1::InputConfig* config) {
                config->add_stages()->mutable_cache()->set_max_mb(1);
                KeepLabels("label_2", 7, config);
              });
  EXPECT_EQ(cached->size(), 6u);
  EXPECT_EQ(ReadAll(*cached, 0, 0), ReadAll(*cached, 1, 0));
}

TEST(CombinedSourceTest, WhatIsOfBatchesDoesNotStandInAPart) {
  for (const AddStagesTo& stages : std::vector<AddStagesTo>{
           [](auto* config) { config->add_stages()->mutable_batch(); },
           [](auto* config) { config->add_stages()->mutable_prefetch(); }}) {
    v1::InputConfig config;
    stages(&config);
    EXPECT_THAT(std::string(Pipeline::Create(std::make_unique<FakeSource>(3),
                                             config, {.is_part = true})
                                .status()
                                .message()),
                HasSubstr("put it into input.stages"));
  }
}

TEST(CombinedSourceTest, AZipReadsEachExampleWhereverItsRangeBegins) {
  const auto pipeline =
      *Behind(MakeZipped(TwoSides(23, 29, ShuffleAll, ShuffleAll)), ShuffleAll);
  const std::vector<int> first = ReadAll(*pipeline, 1, 0);
  const std::vector<int> second = ReadAll(*pipeline, 1, 2);
  Batch batch;
  for (uint64_t begin = 0; begin < 23; begin += 4) {
    const uint64_t end = std::min<uint64_t>(23, begin + 4);
    ASSERT_TRUE(pipeline->Read({1, begin, end}, &batch).ok());
    for (uint64_t i = begin; i < end; ++i) {
      EXPECT_EQ(batch.columns[0].values<float>()[i - begin],
                static_cast<float>(first[i]));
      EXPECT_EQ(batch.columns[2].values<float>()[i - begin],
                static_cast<float>(second[i]));
    }
  }
}

}  // namespace
}  // namespace paramd
