#include "input/pipeline.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "input/cache_stage.h"
#include "input/example_order.h"
#include "input/testing/fake_source.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

using Stages = std::function<void(v1::InputConfig* config)>;

absl::StatusOr<std::unique_ptr<Pipeline>> Make(
    std::unique_ptr<ExampleSource> source, const Stages& stages,
    Pipeline::Options options = {.seed = 3, .training = true}) {
  v1::InputConfig config;
  stages(&config);
  return Pipeline::Create(std::move(source), config, options);
}

std::unique_ptr<Pipeline> Numbers(uint64_t size, const Stages& stages,
                                  Pipeline::Options options = {
                                      .seed = 3, .training = true}) {
  auto pipeline = Make(std::make_unique<FakeSource>(size), stages, options);
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  return *std::move(pipeline);
}

std::string Refusal(const Stages& stages) {
  const auto pipeline = Make(std::make_unique<FakeSource>(10), stages);
  EXPECT_EQ(pipeline.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(pipeline.status().message());
}

std::vector<float> Read(const Pipeline& pipeline, const Portion& range) {
  Batch batch;
  const absl::Status status = pipeline.Read(range, &batch);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(batch.range, range);
  const absl::Span<const float> images = batch.columns[0].values<float>();
  EXPECT_EQ(images.size(), batch.size());
  return {images.begin(), images.end()};
}

TEST(PipelineTest, WithoutStagesTrainingExamplesComeInTheOrderOfTheSeed) {
  const auto pipeline = FakePipeline(100, /*seed=*/3);
  Batch batch;
  for (const uint64_t epoch : {0u, 1u, 0u}) {
    const Portion range{.epoch = epoch, .begin = 10, .end = 14};
    ASSERT_TRUE(pipeline->Read(range, &batch).ok());
    const std::vector<uint32_t> order = ExampleOrder(3, epoch, 100);
    EXPECT_THAT(batch.Find("image")->values<float>(),
                ElementsAre(order[10], order[11], order[12], order[13]));
    EXPECT_EQ(batch.Find("label")->values<int32_t>()[1],
              static_cast<int32_t>(order[11] % 10));
    EXPECT_EQ(batch.range, range);
    EXPECT_EQ(batch.size(), 4u);
  }
}

TEST(PipelineTest, InEvaluationExamplesComeInTheOrderOfTheSource) {
  const auto pipeline = FakePipeline(100);
  EXPECT_THAT(Read(*pipeline, {5, 97, 100}), ElementsAre(97, 98, 99));
}

TEST(PipelineTest, ARangeBeyondTheEpochIsOutOfRange) {
  const auto pipeline = FakePipeline(100, 1);
  EXPECT_TRUE(pipeline->Check({0, 0, 100}).ok());
  EXPECT_EQ(pipeline->Check({2, 90, 101}),
            absl::OutOfRangeError("portion [90, 101) of epoch 2 is not a range "
                                  "of the 100 examples"));
  EXPECT_FALSE(pipeline->Check({0, 5, 5}).ok());
  EXPECT_FALSE(pipeline->Check({0, 6, 5}).ok());
}

TEST(PipelineTest, TheErrorOfTheSourceIsReturnedWithItsPlace) {
  const auto pipeline = FakePipeline(100, absl::nullopt, /*unreadable=*/7);
  Batch batch;
  EXPECT_EQ(pipeline->Read({0, 5, 9}, &batch),
            absl::DataLossError("example 7: unreadable"));
}

TEST(PipelineTest, StagesStandInTheOrderOfTheJob) {
  const auto first = Numbers(10, [](v1::InputConfig* config) {
    config->add_stages()->mutable_skip()->set_examples(2);
    config->add_stages()->mutable_take()->set_examples(3);
    config->add_stages()->mutable_repeat()->set_times(2);
  });
  EXPECT_THAT(Read(*first, {0, 0, 6}), ElementsAre(2, 3, 4, 2, 3, 4));
  const auto second = Numbers(10, [](v1::InputConfig* config) {
    config->add_stages()->mutable_take()->set_examples(3);
    config->add_stages()->mutable_repeat()->set_times(2);
    config->add_stages()->mutable_skip()->set_examples(2);
  });
  EXPECT_THAT(Read(*second, {0, 0, 4}), ElementsAre(2, 0, 1, 2));
}

TEST(PipelineTest, AStageTakesPartWhereItIsOn) {
  const Stages stages = [](v1::InputConfig* config) {
    v1::InputStage* take = config->add_stages();
    take->mutable_take()->set_examples(8);
    take->set_on(v1::InputStage::ON_TRAINING);
    v1::InputStage* skip = config->add_stages();
    skip->mutable_skip()->set_examples(8);
    skip->set_on(v1::InputStage::ON_EVALUATION);
    config->add_stages()->mutable_repeat()->set_times(3);
  };
  EXPECT_EQ(Numbers(10, stages)->size(), 24u);
  EXPECT_EQ(Numbers(10, stages, {.seed = 0, .training = false})->size(), 2u);
}

// ---- filter -----------------------------------------------------------------

void AddFilter(double min, double max, v1::InputConfig* config) {
  auto* const filter = config->add_stages()->mutable_filter();
  filter->set_feature("label");
  filter->set_min(min);
  filter->set_max(max);
}

TEST(PipelineTest, BatchesBehindAFilterAreFull) {
  const auto pipeline = Numbers(20, [](v1::InputConfig* config) {
    auto* filter = config->add_stages()->mutable_filter();
    filter->set_feature("label");
    filter->set_min(3);
    filter->add_values(2);
    filter->add_values(3);
    filter->add_values(9);
  });
  EXPECT_EQ(pipeline->size(), 4u);
  EXPECT_THAT(Read(*pipeline, {0, 0, 2}), ElementsAre(3, 9));
  EXPECT_THAT(Read(*pipeline, {0, 2, 4}), ElementsAre(13, 19));
  EXPECT_FALSE(pipeline->Check({0, 3, 5}).ok());
}

TEST(PipelineTest, TakeBehindAFilterTakesWhatTheFilterKeeps) {
  const auto pipeline = Numbers(48, [](v1::InputConfig* config) {
    AddFilter(3, 6, config);
    config->add_stages()->mutable_take()->set_examples(5);
  });
  EXPECT_THAT(Read(*pipeline, {0, 0, 5}), ElementsAre(3, 4, 5, 6, 13));
}

// Examples of which label is the last digit, as tf.data gives them.
using List = std::vector<float>;

// Adds a stage, drawn by chance, and does to the list what it means.
void AddAnyStage(RandomStream* random, v1::InputConfig* config, List* list) {
  const uint64_t number = 1 + random->Below(list->size() + 3);
  List next;
  switch (random->Below(4)) {
    case 0: {
      const double min = static_cast<double>(random->Below(4));
      const double max = min + static_cast<double>(random->Below(8));
      for (const float x : *list) {
        const int label = static_cast<int>(x) % 10;
        if (label >= min && label <= max) next.push_back(x);
      }
      if (next.empty()) return;
      AddFilter(min, max, config);
      break;
    }
    case 1:
      config->add_stages()->mutable_take()->set_examples(number);
      next.assign(list->begin(),
                  list->begin() + std::min<size_t>(number, list->size()));
      break;
    case 2:
      if (number >= list->size()) return;
      config->add_stages()->mutable_skip()->set_examples(number);
      next.assign(list->begin() + number, list->end());
      break;
    default:
      if (list->size() > 200) return;
      config->add_stages()->mutable_repeat()->set_times(2);
      next = *list;
      next.insert(next.end(), list->begin(), list->end());
      break;
  }
  *list = next;
}

TEST(PipelineTest, StagesHaveTheOrderAndTheCountsOfAList) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    RandomStream random(seed);
    const uint64_t size = 1 + random.Below(60);
    List list(size);
    std::iota(list.begin(), list.end(), 0.0f);
    const auto pipeline = Numbers(size, [&](v1::InputConfig* config) {
      config->add_stages()->mutable_prefetch()->set_batches(1);
      for (int stages = 0; stages < 5; ++stages) {
        AddAnyStage(&random, config, &list);
      }
    });
    ASSERT_EQ(pipeline->size(), list.size()) << "seed " << seed;
    for (const uint64_t epoch : {0u, 3u}) {
      EXPECT_EQ(Read(*pipeline, {epoch, 0, list.size()}), list)
          << "seed " << seed;
    }
  }
}

TEST(PipelineTest, ShuffledOnEitherSideAFilterKeepsTheSame) {
  for (const bool before : {false, true}) {
    const auto pipeline = Numbers(40, [before](v1::InputConfig* config) {
      if (before) config->add_stages()->mutable_shuffle();
      AddFilter(2, 4, config);
      if (!before) config->add_stages()->mutable_shuffle();
    });
    ASSERT_EQ(pipeline->size(), 12u);
    const List first = Read(*pipeline, {1, 0, 12});
    const List second = Read(*pipeline, {2, 0, 12});
    EXPECT_NE(first, second);
    const std::set<float> kept(first.begin(), first.end());
    EXPECT_EQ(kept.size(), 12u);
    EXPECT_EQ(kept, std::set<float>(second.begin(), second.end()));
    for (const float x : kept) {
      EXPECT_THAT(static_cast<int>(x) % 10, ::testing::AllOf(Ge(2), Le(4)));
    }
  }
}

TEST(PipelineTest, FilesBehindAFilterBeginWithWhatIsKeptOfThem) {
  auto source = std::make_unique<FakeSource>(30);
  source->set_file_starts({0, 8, 13, 16});
  const auto pipeline = *Make(std::move(source), [](v1::InputConfig* config) {
    AddFilter(2, 4, config);  // 2 3 4, 12, 13 14, 22 23 24.
    auto* const interleave = config->add_stages()->mutable_interleave();
    interleave->set_cycle_length(4);
    interleave->set_block_length(1);
  });
  EXPECT_THAT(Read(*pipeline, {0, 0, 9}),
              ElementsAre(2, 12, 13, 22, 3, 14, 23, 4, 24));
}

TEST(PipelineTest, AFilterThatCannotBeCountedIsRefused) {
  EXPECT_THAT(Refusal([](v1::InputConfig* config) {
                config->add_stages()->mutable_shuffle();
                config->add_stages()->mutable_take()->set_examples(5);
                AddFilter(2, 4, config);
              }),
              HasSubstr("stage 3 of the input, filter: comes after a take or "
                        "skip of shuffled examples"));
  EXPECT_THAT(Refusal([](v1::InputConfig* config) {
                config->add_stages()->mutable_batch();
                AddFilter(2, 4, config);
              }),
              HasSubstr("filter: must stand before batch"));
  EXPECT_THAT(
      Refusal([](v1::InputConfig* config) { AddFilter(11, 12, config); }),
      HasSubstr("filter: keeps none of the 10 examples"));
  // Kept for all epochs, they are the same.
  const auto pipeline = Numbers(40, [](v1::InputConfig* config) {
    config->add_stages()->mutable_shuffle();
    config->add_stages()->mutable_take()->set_examples(20);
    config->add_stages()->mutable_cache()->set_max_mb(1);
    AddFilter(0, 4, config);
  });
  const uint64_t size = pipeline->size();
  EXPECT_EQ(Read(*pipeline, {1, 0, size}), Read(*pipeline, {2, 0, size}));
}

TEST(PipelineTest, WhatAFilterCannotReadIsAnErrorOrSkippedInItsTurn) {
  const Stages stages = [](v1::InputConfig* config) {
    AddFilter(2, 4, config);
  };
  auto source = std::make_unique<FakeSource>(10);
  source->set_unreadable(7);
  EXPECT_EQ(Make(std::move(source), stages).status(),
            absl::DataLossError("example 7: unreadable"));
  source = std::make_unique<FakeSource>(10);
  source->set_unreadable(7);
  const auto pipeline =
      *Make(std::move(source), [&stages](v1::InputConfig* config) {
        stages(config);
        config->set_on_error(v1::InputConfig::ON_ERROR_SKIP);
      });
  EXPECT_EQ(pipeline->size(), 4u);
  EXPECT_THAT(Read(*pipeline, {0, 0, 4}), ElementsAre(2, 3, 4));
  EXPECT_EQ(pipeline->skipped(), 1u);
}

// ---- drop_remainder, reshuffle ----------------------------------------------

const Stages kDropped = [](v1::InputConfig* config) {
  config->add_stages()->mutable_shuffle();
  config->add_stages()->mutable_batch()->set_drop_remainder(true);
};

TEST(PipelineTest, TheRemainderOfATrainingEpochIsDropped) {
  for (uint64_t size = 4; size < 30; ++size) {
    for (const uint64_t batch : {1u, 2u, 3u, 4u}) {
      const auto pipeline = Numbers(
          size, kDropped, {.seed = 3, .training = true, .batch = batch});
      ASSERT_EQ(pipeline->size(), size / batch * batch);
      for (const uint64_t epoch : {0u, 1u}) {
        const std::vector<uint32_t> order = ExampleOrder(3, epoch, size);
        EXPECT_EQ(Read(*pipeline, {epoch, 0, pipeline->size()}),
                  List(order.begin(), order.begin() + pipeline->size()));
      }
    }
  }
  const auto whole =
      Numbers(10, [](auto* config) { config->add_stages()->mutable_batch(); },
              {.seed = 3, .training = true, .batch = 4});
  EXPECT_EQ(whole->size(), 10u);
}

TEST(PipelineTest, AllExamplesAreEvaluatedWhateverIsDropped) {
  EXPECT_EQ(Numbers(10, kDropped, {.training = false, .batch = 4})->size(),
            10u);
}

TEST(PipelineTest, AnEpochWithoutAWholeBatchIsRefused) {
  EXPECT_EQ(Make(std::make_unique<FakeSource>(10), kDropped,
                 {.seed = 3, .training = true, .batch = 11})
                .status(),
            absl::InvalidArgumentError(
                "stage 2 of the input, batch: with drop_remainder no example "
                "is left: there are 10, and a batch has 11"));
}

void AddFixedShuffle(v1::InputConfig* config) {
  config->add_stages()->mutable_shuffle()->set_reshuffle(false);
}

TEST(PipelineTest, WithoutReshufflingEveryEpochHasTheOrderOfTheFirst) {
  const auto pipeline = Numbers(40, AddFixedShuffle);
  const auto reshuffled = Numbers(
      40, [](auto* config) { config->add_stages()->mutable_shuffle(); });
  const List first = Read(*reshuffled, {0, 0, 40});
  for (const uint64_t epoch : {0u, 1u, 7u}) {
    EXPECT_EQ(Read(*pipeline, {epoch, 0, 40}), first);
  }
  // As shuffle(reshuffle_each_iteration=False).repeat(2).
  const auto repeated = Numbers(40, [](v1::InputConfig* config) {
    AddFixedShuffle(config);
    config->add_stages()->mutable_repeat()->set_times(2);
  });
  EXPECT_EQ(Read(*repeated, {5, 40, 80}), first);
}

TEST(PipelineTest, FilesAndRunsThatAreNotReshuffledStayAsTheyAreToo) {
  auto source = std::make_unique<FakeSource>(30);
  source->set_file_starts({0, 8, 13, 16});
  const auto pipeline = *Make(std::move(source), [](v1::InputConfig* config) {
    AddFixedShuffle(config);
    config->mutable_stages(0)->mutable_shuffle()->set_files(true);
    config->mutable_stages(0)->mutable_shuffle()->set_buffer(4);
  });
  const List first = Read(*pipeline, {0, 0, 30});
  EXPECT_EQ(Read(*pipeline, {3, 0, 30}), first);
  EXPECT_EQ(std::set<float>(first.begin(), first.end()).size(), 30u);
}

// Every epoch has the same ones.
TEST(PipelineTest, WhatIsTakenOfAFixedOrderMayBeFiltered) {
  const auto pipeline = Numbers(40, [](v1::InputConfig* config) {
    AddFixedShuffle(config);
    config->add_stages()->mutable_take()->set_examples(20);
    AddFilter(0, 4, config);
  });
  const uint64_t size = pipeline->size();
  EXPECT_EQ(Read(*pipeline, {1, 0, size}), Read(*pipeline, {2, 0, size}));
}

// Whatever stands in the pipeline, each example comes once an epoch.
TEST(PipelineTest, EveryExampleComesOnceAnEpoch) {
  const std::vector<Stages> pipelines = {
      [](v1::InputConfig*) {},
      [](v1::InputConfig* config) {
        config->add_stages()->mutable_shuffle()->set_buffer(7);
      },
      [](v1::InputConfig* config) {
        config->add_stages()->mutable_cache()->set_max_mb(1);
        config->add_stages()->mutable_shuffle();
        config->add_stages()->mutable_batch();
        config->add_stages()->mutable_cast()->set_feature("label");
      },
      [](v1::InputConfig* config) {
        config->add_stages()->mutable_shuffle()->set_files(true);
        auto* interleave = config->add_stages()->mutable_interleave();
        interleave->set_cycle_length(3);
        interleave->set_block_length(2);
        config->add_stages()->mutable_shuffle()->set_buffer(10);
      }};
  for (size_t p = 0; p < pipelines.size(); ++p) {
    auto source = std::make_unique<FakeSource>(101);
    source->set_file_starts({0, 20, 21, 60, 80});
    const auto pipeline = *Make(std::move(source), pipelines[p]);
    for (const uint64_t epoch : {0u, 1u}) {
      std::set<float> seen;
      for (uint64_t begin = 0; begin < 101; begin += 8) {
        const auto batch =
            Read(*pipeline, {epoch, begin, std::min<uint64_t>(101, begin + 8)});
        seen.insert(batch.begin(), batch.end());
      }
      EXPECT_EQ(seen.size(), 101u) << "pipeline " << p;
    }
  }
}

TEST(PipelineTest, ACachedExampleIsReadOnce) {
  for (const bool in_file : {false, true}) {
    auto source = std::make_unique<FakeSource>(10);
    FakeSource* fake = source.get();
    const auto pipeline =
        *Make(std::move(source), [in_file](v1::InputConfig* config) {
          auto* cache = config->add_stages()->mutable_cache();
          cache->set_max_mb(1);
          if (in_file) cache->set_directory(::testing::TempDir());
          config->add_stages()->mutable_shuffle();
        });
    const std::vector<float> before = Read(*pipeline, {0, 0, 10});
    const std::vector<float> other = Read(*pipeline, {1, 0, 10});
    // Whoever read example 5 again would fail.
    fake->set_unreadable(5);
    EXPECT_EQ(Read(*pipeline, {0, 0, 10}), before);
    EXPECT_EQ(Read(*pipeline, {1, 0, 10}), other);
    EXPECT_NE(before, other);
  }
}

TEST(PipelineTest, WhatExceedsTheCacheIsReadAgain) {
  auto source = std::make_unique<FakeSource>(10);
  FakeSource* fake = source.get();
  const SourceStage first(std::move(source));
  // Enough for some of the examples.
  const auto cache = *CacheStage::Create(first, {.max_bytes = 300});
  Example example;
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(cache->Get({0, i}, &example).ok());
  }
  int read = 0;
  for (uint64_t i = 0; i < 10; ++i) {
    fake->set_unreadable(i);
    if (!cache->Get({4, i}, &example).ok()) {
      ++read;
    } else {
      EXPECT_EQ(example.values[0].values<float>()[0], static_cast<float>(i));
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_LT(read, 10);
}

TEST(PipelineTest, ACacheThatCannotHaveItsFileIsRefused) {
  EXPECT_THAT(
      std::string(Make(std::make_unique<FakeSource>(10),
                       [](v1::InputConfig* config) {
                         config->add_stages()->mutable_cache()->set_directory(
                             "/no/such");
                       })
                      .status()
                      .message()),
      HasSubstr("cannot make a file of the cache in '/no/such'"));
}

TEST(PipelineTest, WhatAMapFindsInAnExampleIsWrongWithTheData) {
  const auto pipeline =
      *Make(std::make_unique<FakeSource>(10), [](v1::InputConfig* config) {
        auto* one_hot = config->add_stages()->mutable_one_hot();
        one_hot->set_feature("label");
        one_hot->set_classes(4);
      });
  Batch batch;
  EXPECT_TRUE(pipeline->Read({0, 0, 4}, &batch).ok());
  EXPECT_EQ(
      pipeline->Read({0, 2, 6}, &batch),
      absl::DataLossError("example 4: one_hot of 'label': value 4 is not a "
                          "class; classes are whole numbers below 4"));
}

TEST(PipelineTest, ABatchSaysWhereItsExamplesComeFrom) {
  const auto pipeline =
      *Make(std::make_unique<FakeSource>(10), [](v1::InputConfig* config) {
        config->add_stages()->mutable_skip()->set_examples(2);
        AddFilter(4, 9, config);
      });
  Batch batch;
  ASSERT_TRUE(pipeline->Read({0, 1, 4}, &batch).ok());
  EXPECT_THAT(batch.offsets, ElementsAre(1, 2, 3));
  EXPECT_THAT(batch.indices, ElementsAre(5, 6, 7));
  EXPECT_EQ(batch.Where(2), "example 7");
}

TEST(PipelineTest, SkippedExamplesAreLeftOutAndCounted) {
  auto source = std::make_unique<FakeSource>(10);
  source->set_unreadable(3);
  const auto pipeline = *Make(std::move(source), [](v1::InputConfig* config) {
    config->set_on_error(v1::InputConfig::ON_ERROR_SKIP);
    config->add_stages()->mutable_prefetch()->set_batches(9);
  });
  EXPECT_THAT(Read(*pipeline, {0, 2, 6}), ElementsAre(2, 4, 5));
  EXPECT_EQ(pipeline->skipped(), 1u);
  EXPECT_EQ(pipeline->prefetch(), 9u);
}

TEST(PipelineTest, StagesThatDoNotSuitAreRefused) {
  EXPECT_EQ(Refusal([](v1::InputConfig* config) {
              config->add_stages()->mutable_take()->set_examples(5);
              config->add_stages()->mutable_skip()->set_examples(5);
            }),
            "stage 2 of the input, skip: leaves out 5 examples; there are 5");
  EXPECT_EQ(Refusal([](v1::InputConfig* config) {
              config->add_stages()->mutable_batch();
              config->add_stages()->mutable_shuffle();
            }),
            "stage 2 of the input, shuffle: must stand before batch: batches "
            "are ranges of examples");
  EXPECT_EQ(Refusal([](v1::InputConfig* config) {
              config->add_stages()->mutable_flip()->set_feature("picture");
            }),
            "stage 1 of the input, flip: needs the feature 'picture'; here "
            "examples have 'image', 'label'");
  EXPECT_EQ(Refusal([](v1::InputConfig* config) {
              config->add_stages()->mutable_repeat()->set_times(1u << 31);
            }),
            "stage 1 of the input, repeat: 2147483648 times 10 examples are "
            "more than 4294967295");
  EXPECT_EQ(Refusal([](v1::InputConfig* config) {
              auto* pad = config->add_stages()->mutable_pad();
              pad->set_feature("image");
              pad->add_dims(~0u);
            }),
            "stage 1 of the input, pad: feature 'image' is float32 4294967295; "
            "an example may have at most 2147483648 values of it");
  EXPECT_EQ(Refusal([](v1::InputConfig* config) { config->add_stages(); }),
            "stage 1 of the input, ?: says nothing to do");
}

TEST(PipelineTest, MoreExamplesThanAnOrderNamesAreNotPutInOrder) {
  const auto make = [](const Stages& stages) {
    return Make(std::make_unique<FakeSource>(uint64_t{1} << 32), stages)
        .status();
  };
  const std::string sentence =
      "there are 4294967296 examples; at most 4294967295 can be shuffled, "
      "interleaved or filtered: read fewer files, or keep fewer by the stage "
      "\"take\"";
  EXPECT_EQ(make([](v1::InputConfig*) {}),
            absl::InvalidArgumentError(sentence));
  for (const Stages& stages : std::vector<Stages>{
           [](auto* config) { config->add_stages()->mutable_shuffle(); },
           [](auto* config) {
             config->add_stages()->mutable_shuffle()->set_files(true);
           },
           [](auto* config) { config->add_stages()->mutable_interleave(); }}) {
    EXPECT_THAT(std::string(make(stages).message()), HasSubstr(sentence));
  }
  EXPECT_TRUE(make([](v1::InputConfig* config) {
                config->add_stages()->mutable_take()->set_examples(5);
                config->add_stages()->mutable_shuffle();
              }).ok());
}

// Vectors of i % 4 values; every fifth is a matrix.
class UnevenSource : public FakeSource {
 public:
  explicit UnevenSource(bool fixed) : FakeSource(20), fixed_(fixed) {
    spec_.features.push_back(
        {.name = "x", .dims = fixed ? Dims{0, 2} : Dims{0}});
  }
  const InputSpec& spec() const override { return spec_; }
  absl::Status Read(uint64_t index, Example* example) const override {
    example->values.resize(1);
    const Dims dims = fixed_ ? Dims{index < 5 ? 3u : 4u, 2} : Dims{index % 4};
    example->values[0].Reset(DType::kFloat32, dims);
    for (float& v : example->values[0].values<float>()) {
      v = static_cast<float>(index);
    }
    return absl::OkStatus();
  }

 private:
  const bool fixed_;
  InputSpec spec_;
};

TEST(PipelineTest, VectorsOfSeveralLengthsMakeARaggedColumn) {
  const auto pipeline = *Make(std::make_unique<UnevenSource>(false),
                              [](v1::InputConfig*) {}, {.training = false});
  EXPECT_TRUE(pipeline->spec().features[0].ragged);
  Batch batch;
  ASSERT_TRUE(pipeline->Read({0, 1, 6}, &batch).ok());
  EXPECT_THAT(batch.columns[0].offsets(), ElementsAre(0, 1, 3, 6, 6, 7));
  EXPECT_THAT(batch.columns[0].values<float>(),
              ElementsAre(1, 2, 2, 3, 3, 3, 5));
}

TEST(PipelineTest, APaddedBatchIsAsLongAsItsLongestExample) {
  const auto pipeline =
      *Make(std::make_unique<UnevenSource>(false),
            [](v1::InputConfig* config) {
              config->add_stages()->mutable_padded_batch()->set_value(-1);
            },
            {.training = false});
  EXPECT_FALSE(pipeline->spec().features[0].ragged);
  EXPECT_THAT(pipeline->spec().features[0].dims, ElementsAre(0));
  Batch batch;
  ASSERT_TRUE(pipeline->Read({0, 1, 4}, &batch).ok());
  EXPECT_THAT(batch.columns[0].tensor().dims, ElementsAre(3, 3));
  EXPECT_THAT(batch.columns[0].values<float>(),
              ElementsAre(1, -1, -1, 2, 2, -1, 3, 3, 3));
  ASSERT_TRUE(pipeline->Read({0, 4, 6}, &batch).ok());
  EXPECT_THAT(batch.columns[0].tensor().dims, ElementsAre(2, 1));
  EXPECT_THAT(batch.columns[0].values<float>(), ElementsAre(-1, 5));
}

TEST(PipelineTest, APaddedBatchOfOneLengthRefusesLongerExamples) {
  const auto with = [](uint32_t length) {
    return *Make(
        std::make_unique<UnevenSource>(false),
        [length](v1::InputConfig* config) {
          config->add_stages()->mutable_padded_batch()->set_length(length);
        },
        {.training = false});
  };
  EXPECT_THAT(with(4)->spec().features[0].dims, ElementsAre(4));
  Batch batch;
  ASSERT_TRUE(with(4)->Read({0, 2, 4}, &batch).ok());
  EXPECT_THAT(batch.columns[0].values<float>(),
              ElementsAre(2, 2, 0, 0, 3, 3, 3, 0));
  EXPECT_EQ(with(2)->Read({0, 0, 4}, &batch),
            absl::DataLossError(
                "example 3: 'x' is float32 3; padded_batch makes float32 2 of "
                "it: give it a larger length, or cut it by pad"));
}

TEST(PipelineTest, APaddedBatchPadsEachDimensionThatDiffers) {
  const auto pipeline = *Make(std::make_unique<UnevenSource>(true),
                              [](v1::InputConfig* config) {
                                config->add_stages()->mutable_padded_batch();
                              },
                              {.training = false});
  Batch batch;
  ASSERT_TRUE(pipeline->Read({0, 4, 6}, &batch).ok());
  EXPECT_THAT(batch.columns[0].tensor().dims, ElementsAre(2, 4, 2));
  EXPECT_THAT(batch.columns[0].values<float>(),
              ElementsAre(4, 4, 4, 4, 4, 4, 0, 0, 5, 5, 5, 5, 5, 5, 5, 5));
}

TEST(PipelineTest, WindowsOfFewerExamplesNeedOneLength) {
  const auto window = [](v1::InputConfig* config) {
    config->add_stages()->mutable_window()->set_size(4);
  };
  EXPECT_EQ(Refusal(window),
            "window: the last 1 of 3 windows have fewer than 4 examples: leave "
            "them out by \"drop_remainder\": true, or bring all to one length "
            "by pad or padded_batch");
  const auto padded = Numbers(10, [&window](v1::InputConfig* config) {
    window(config);
    config->add_stages()->mutable_padded_batch();
  });
  Batch batch;
  ASSERT_TRUE(padded->Read({0, 2, 3}, &batch).ok());
  EXPECT_THAT(batch.columns[0].values<float>(), ElementsAre(8, 9));
  ASSERT_TRUE(padded->Read({0, 1, 3}, &batch).ok());
  EXPECT_THAT(batch.columns[0].values<float>(),
              ElementsAre(4, 5, 6, 7, 8, 9, 0, 0));
}

// ---- buckets ----------------------------------------------------------------

// What tf.data's bucket_by_sequence_length gives, of batches the examples.
List Bucketed(const List& list, const std::vector<uint64_t>& boundaries,
              size_t batch, bool drop_remainder) {
  std::map<size_t, List> buckets;
  List order;
  for (const float x : list) {
    size_t bucket = 0;
    while (bucket < boundaries.size() &&
           static_cast<uint64_t>(x) % 10 >= boundaries[bucket]) {
      ++bucket;
    }
    List& waiting = buckets[bucket];
    waiting.push_back(x);
    if (waiting.size() < batch) continue;
    order.insert(order.end(), waiting.begin(), waiting.end());
    waiting.clear();
  }
  for (const auto& [bucket, waiting] : buckets) {
    if (drop_remainder) break;
    order.insert(order.end(), waiting.begin(), waiting.end());
  }
  return order;
}

TEST(PipelineTest, BucketsHaveTheOrderOfTfData) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream random(seed);
    const uint64_t size = 20 + random.Below(60);
    const uint64_t batch = 1 + random.Below(3);
    const bool drop_remainder = random.Chance(0.5);
    std::vector<uint64_t> boundaries;
    for (uint64_t b = 1; b < 10; ++b) {
      if (random.Chance(0.3)) boundaries.push_back(b);
    }
    const Stages shuffle = [](v1::InputConfig* config) {
      config->add_stages()->mutable_shuffle();
    };
    const auto before = Numbers(size, shuffle);
    // The label is the length.
    const auto pipeline =
        Numbers(size,
                [&](v1::InputConfig* config) {
                  shuffle(config);
                  auto* const buckets =
                      config->add_stages()->mutable_bucket_by_length();
                  buckets->set_feature("label");
                  for (const uint64_t b : boundaries)
                    buckets->add_boundaries(b);
                  buckets->set_drop_remainder(drop_remainder);
                },
                {.seed = 3, .training = true, .batch = batch});
    for (const uint64_t epoch : {0u, 1u}) {
      EXPECT_EQ(Read(*pipeline, {epoch, 0, pipeline->size()}),
                Bucketed(Read(*before, {epoch, 0, size}), boundaries, batch,
                         drop_remainder))
          << seed;
    }
  }
}

TEST(PipelineTest, ABatchOfABucketIsPaddedToItsLongest) {
  const auto pipeline = *Make(
      std::make_unique<UnevenSource>(false),
      [](v1::InputConfig* config) {
        auto* const buckets = config->add_stages()->mutable_bucket_by_length();
        buckets->set_feature("x");
        buckets->add_boundaries(2);
        buckets->set_value(-1);
      },
      {.seed = 3, .training = true, .batch = 4});
  Batch batch;
  for (uint64_t begin = 0; begin < 20; begin += 4) {
    ASSERT_TRUE(pipeline->Read({0, begin, begin + 4}, &batch).ok());
    // Of 0 and 1 values, or of 2 and 3; at the end, of what is left of both.
    const std::vector<uint64_t> lengths = {1, 3, 1, 3, 3};
    EXPECT_THAT(batch.columns[0].tensor().dims,
                ElementsAre(4, lengths[begin / 4]));
  }
}

TEST(PipelineTest, BucketsThatCannotBeFilledAreRefused) {
  const auto refusal = [](const std::vector<uint64_t>& boundaries,
                          bool drop_remainder, uint64_t batch) {
    return std::string(
        Make(std::make_unique<FakeSource>(10),
             [&](v1::InputConfig* config) {
               auto* const buckets =
                   config->add_stages()->mutable_bucket_by_length();
               buckets->set_feature("label");
               for (const uint64_t b : boundaries) buckets->add_boundaries(b);
               buckets->set_drop_remainder(drop_remainder);
             },
             {.seed = 3, .training = true, .batch = batch})
            .status()
            .message());
  };
  EXPECT_EQ(refusal({2, 2}, false, 4),
            "stage 1 of the input, bucket_by_length: boundaries must ascend; "
            "found 2, 2");
  EXPECT_EQ(refusal({5}, true, 6),
            "stage 1 of the input, bucket_by_length: with drop_remainder no "
            "example is left: none of 2 buckets has the 6 examples of a batch");
  EXPECT_EQ(refusal({5}, false, 6), "");
}

TEST(PipelineTest, AnExampleOfAnotherShapeThanTheFirstIsRefused) {
  const auto pipeline = *Make(std::make_unique<UnevenSource>(true),
                              [](v1::InputConfig*) {}, {.training = false});
  EXPECT_THAT(pipeline->spec().features[0].dims, ElementsAre(3, 2));
  Batch batch;
  EXPECT_TRUE(pipeline->Read({0, 0, 5}, &batch).ok());
  EXPECT_EQ(pipeline->Read({0, 4, 6}, &batch),
            absl::DataLossError(
                "example 5: 'x' is float32 4x2; the batch has float32 3x2: "
                "bring all to one shape by resize, crop or pad"));
}

TEST(PipelineTest, TheTimeOfEachStageIsMeasured) {
  const auto pipeline = Numbers(20, [](v1::InputConfig* config) {
    config->add_stages()->mutable_shuffle();
    config->add_stages()->mutable_batch();
    config->add_stages()->mutable_cast()->set_feature("label");
  });
  ChromeTrace trace("input");
  pipeline->Measure(&trace);
  Read(*pipeline, {0, 0, 5});
  std::vector<std::string> names;
  std::vector<uint64_t> calls;
  for (const Pipeline::StageTime& time : pipeline->StageTimes()) {
    names.push_back(time.name);
    calls.push_back(time.calls);
  }
  EXPECT_THAT(names, ElementsAre("read", "shuffle", "cast", "batch"));
  EXPECT_THAT(calls, ElementsAre(5, 5, 5, 1));
  EXPECT_THAT(trace.ToJson(), HasSubstr("\"name\":\"shuffle\""));
  EXPECT_THAT(trace.ToJson(), HasSubstr("\"name\":\"disk\""));
  EXPECT_EQ(trace.left_out(), 0u);
}

TEST(PipelineTest, WhatIsMeasuredOnSomeExamplesIsOfAll) {
  const auto pipeline = Numbers(20, [](v1::InputConfig* config) {
    config->add_stages()->mutable_cast()->set_feature("label");
    config->add_stages()->mutable_cast()->set_feature("label");
    config->add_stages()->mutable_batch();
    config->add_stages()->mutable_cast()->set_feature("label");
  });
  pipeline->Measure(nullptr, /*every=*/4);
  Read(*pipeline, {0, 0, 8});
  std::vector<std::string> names;
  std::vector<uint64_t> calls;
  for (const Pipeline::StageTime& time : pipeline->StageTimes()) {
    names.push_back(time.name);
    calls.push_back(time.calls);
    EXPECT_GE(time.time, absl::ZeroDuration());
  }
  EXPECT_THAT(names, ElementsAre("read", "cast", "cast_2", "cast_3", "batch"));
  EXPECT_THAT(calls, ElementsAre(8, 8, 8, 8, 1));
}

}  // namespace
}  // namespace paramd
