#include "input/convert_input.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "input/open_pipeline.h"
#include "input/testing/fake_source.h"
#include "input/testing/idx_test_files.h"

namespace paramd {
namespace {

// Every kind of number that rows of text make.
constexpr char kClickLog[] = R"(
  train {
    csv {
      files: 'clicks.csv' separator: ',' header: true
      features { name: 'numbers' columns: 'age' columns: 'price' missing: 0.5 }
      features { name: 'day' columns: 'day' classes: 7 }
      features {
        name: 'keys' columns: 'user' columns: 'history' hash_keys: true
        list_column: 'history' list_separator: '|' list_length: 3
        list_of: 'user'
      }
      features { name: 'ids' columns: 'user' hash_buckets: 50 }
      labels { column: 'click' name: 'label' }
      labels { column: 'kind' class_names: 'a' class_names: 'b' }
      group: 'user' weight: 'shown'
    }
  }
)";

v1::InputConfig ConvertedConfig(const std::string& text) {
  v1::InputConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config))
      << text;
  return config;
}

// Rows of these columns, in a file that `config` then reads.
void WriteClickLog(v1::InputConfig* config) {
  std::string rows = "age,price,day,user,history,click,kind,shown\n";
  for (int i = 0; i < 97; ++i) {
    absl::StrAppend(&rows, i % 5 == 0 ? "" : absl::StrCat(i), ",", 0.1 * i - 3,
                    ",", i % 7, ",u", i % 11, ",u", i % 3, "|u", i % 13, ",",
                    i % 2, ",", i % 3 == 0 ? "b" : "a", ",", 0.5 + i, "\n");
  }
  config->mutable_train()->mutable_csv()->set_files(
      0, WriteTestFile("clicks.csv", rows));
}

// The records of all examples.
std::string EncodedWhole(const ExampleEncoding& encoding) {
  std::string all;
  const absl::Status status = EncodeExamples(
      encoding, 0, encoding.pipeline.Behind(encoding.passed).size(),
      [&](absl::string_view records, uint64_t) {
        absl::StrAppend(&all, records);
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  return all;
}

// Every value of an epoch, in its order.
std::string WholeEpoch(const Pipeline& pipeline, uint64_t epoch) {
  Batch batch;
  const absl::Status status = pipeline.Read(
      {.epoch = epoch, .begin = 0, .end = pipeline.size()}, &batch);
  EXPECT_TRUE(status.ok()) << status;
  std::string all;
  for (const Column& column : batch.columns) {
    const ConstTensor tensor = column.tensor();
    all.append(static_cast<const char*>(tensor.data),
               tensor.size() * SizeOf(tensor.dtype));
  }
  return all;
}

TEST(ConvertInputTest, EveryEpochHasTheSameBitsAndOrder) {
  for (const char* stages :
       {"", "stages { shuffle {} }",
        "stages { filter { feature: 'day' min: 1 } }"
        "stages { log { feature: 'numbers' } } stages { skip { examples: 5 } }"
        "stages { shuffle { buffer: 10 } } stages { repeat { times: 2 } }",
        "stages { log { feature: 'numbers' } }"}) {
    SCOPED_TRACE(stages);
    v1::InputConfig config = ConvertedConfig(absl::StrCat(kClickLog, stages));
    WriteClickLog(&config);
    const auto text = OpenTrainingData(config, /*seed=*/7);
    ASSERT_TRUE(text.ok()) << text.status();
    const PassedStages passed = StagesToPass(config);
    ASSERT_TRUE(CheckSameInEachEpoch(**text).ok());
    const InputSpec& spec = (*text)->Behind(passed.shared).spec();
    ConvertedSources converted;
    auto records = DescribeRecords(spec, spec);
    ASSERT_TRUE(records.ok()) << records.status();
    const std::string bytes = EncodedWhole(
        {.pipeline = **text, .passed = passed.shared, .threads = 3});
    EXPECT_EQ(bytes.size(),
              (*text)->Behind(passed.shared).size() * RecordBytes(spec));
    records->add_files(WriteTestFile("train-000000.records", bytes));
    converted.train = *std::move(records);
    const auto read =
        OpenTrainingData(InputOfRecords(config, passed, converted), /*seed=*/7);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ((*read)->spec(), (*text)->spec());
    ASSERT_EQ((*read)->size(), (*text)->size());
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      EXPECT_EQ(WholeEpoch(**read, epoch), WholeEpoch(**text, epoch));
    }
  }
}

TEST(ConvertInputTest, RecordsDoNotDependOnThreads) {
  v1::InputConfig config = ConvertedConfig(R"(
    train { synthetic { examples: 3001 features { name: 'x' dims: 999 } } })");
  const auto pipeline = OpenTrainingData(config, /*seed=*/7);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  const std::string one = EncodedWhole({.pipeline = **pipeline});
  EXPECT_EQ(one.size(), 3001u * 999 * 4);
  EXPECT_EQ(EncodedWhole({.pipeline = **pipeline, .threads = 5}), one);
}

TEST(ConvertInputTest, StagesBeforeTheShuffleArePassed) {
  const auto passed = [](const std::string& stages) {
    return StagesToPass(ConvertedConfig(stages)).shared;
  };
  const std::string two =
      "stages { log { feature: 'x' } } stages { take { examples: 9 } }";
  EXPECT_EQ(passed(two), 2);
  EXPECT_EQ(passed(two + "stages { shuffle {} } stages { one_hot {} }"), 2);
  for (const char* kind :
       {"shuffle {}", "repeat { times: 2 }", "interleave {}", "cache {}",
        "batch {}", "padded_batch {}", "prefetch {}", "window { size: 2 }",
        "bucket_by_length { boundaries: 3 }", "normalise {} on: ON_TRAINING",
        "normalise {} on: ON_EVALUATION"}) {
    EXPECT_EQ(passed(absl::StrCat(two, "stages { ", kind,
                                  " } stages { tokenise {} }")),
              2)
        << kind;
  }
}

TEST(ConvertInputTest, NoStageIsPassedBeforeOneThatDrawsByItsPlace) {
  for (const char* kind : {"flip", "random_crop", "random_brightness",
                           "random_rotation", "rand_augment", "map"}) {
    EXPECT_EQ(StagesToPass(ConvertedConfig(
                               absl::StrCat("stages { skip { examples: 1 } }"
                                            "stages { shuffle {} } stages { ",
                                            kind, " {} }")))
                  .shared,
              0)
        << kind;
  }
}

TEST(ConvertInputTest, SharedStagesArePassedIfAllOwnOnesAre) {
  const std::string shared = "stages { log {} } stages { shuffle {} }";
  PassedStages passed = StagesToPass(ConvertedConfig(
      shared + "train { stages { take { examples: 3 } } } test {}"));
  EXPECT_EQ(passed.train, 1);
  EXPECT_EQ(passed.test, 0);
  EXPECT_EQ(passed.shared, 1);
  passed = StagesToPass(ConvertedConfig(
      shared +
      "train { stages { shuffle {} } }"
      "test { stages { skip { examples: 1 } } stages { cache {} } }"));
  EXPECT_EQ(passed.train, 0);
  EXPECT_EQ(passed.test, 1);
  EXPECT_EQ(passed.shared, 0);
}

// Stages of train, of test and of both.
struct Halves {
  std::string train;
  std::string test;
  std::string shared;
};

// Nine examples of 'x' in each half, behind such stages.
v1::InputConfig TwoHalves(const Halves& halves) {
  const std::string source = "synthetic { examples: 9 features { name: 'x' } }";
  return ConvertedConfig(absl::StrCat("train {", source, halves.train,
                                      "} test {", source, halves.test, "}",
                                      halves.shared));
}

// Records of zeros with the name of a half.
v1::InputSource::Records ZeroRecords(const std::string& half,
                                     const Stage& stage) {
  auto records = DescribeRecords(stage.spec(), stage.spec());
  EXPECT_TRUE(records.ok()) << records.status();
  records->add_files(WriteTestFile(
      absl::StrCat(half, ".records"),
      std::string(stage.size() * RecordBytes(stage.spec()), '\0')));
  return *std::move(records);
}

// What CheckReadAlike says of the input of records, and what a job says.
struct Verdicts {
  absl::Status check;
  absl::Status job;
};

Verdicts VerdictsOn(const v1::InputConfig& config) {
  const auto train = OpenTrainingData(config, /*seed=*/7);
  EXPECT_TRUE(train.ok()) << train.status();
  const auto test = OpenTestData(config, **train);
  EXPECT_TRUE(test.ok()) << test.status();
  const PassedStages passed = StagesToPass(config);
  ConvertedSources converted;
  converted.train =
      ZeroRecords("train", (*train)->Behind(passed.train + passed.shared));
  converted.test =
      ZeroRecords("test", (*test)->Behind(passed.test + passed.shared));
  const v1::InputConfig input = InputOfRecords(config, passed, converted);
  const auto training = OpenTrainingData(input, /*seed=*/7);
  EXPECT_TRUE(training.ok()) << training.status();
  return {.check = CheckReadAlike(input, **train, **test),
          .job = OpenTestData(input, **training).status()};
}

TEST(ConvertInputTest, AJobTakesBothHalvesOfWhatIsPrinted) {
  const std::string log = "stages { log { feature: 'x' } }";
  const std::string half =
      "stages { cast { feature: 'x' scale: 0.5 type: TYPE_FLOAT32 } }";
  const std::string shuffle = "stages { shuffle {} }";
  const std::string take = "stages { take { examples: 5 } }";
  for (const Halves& halves :
       std::vector<Halves>{{"", "", log + shuffle},
                           {take, "", log + shuffle + half},
                           {take + log, log, shuffle},
                           {shuffle + log, log, ""},
                           {take + log + shuffle + half, log + half, ""},
                           {log + shuffle, take + log + shuffle, half}}) {
    const v1::InputConfig config = TwoHalves(halves);
    SCOPED_TRACE(config.ShortDebugString());
    const Verdicts verdicts = VerdictsOn(config);
    EXPECT_TRUE(verdicts.check.ok()) << verdicts.check;
    EXPECT_TRUE(verdicts.job.ok()) << verdicts.job;
  }
}

TEST(ConvertInputTest, WhatAJobWouldRefuseIsRefusedBefore) {
  const Verdicts verdicts = VerdictsOn(
      TwoHalves({.train = "",
                 .test = "stages { log { feature: 'x' } }",
                 .shared = "stages { shuffle {} }"
                           "stages { log { feature: 'x' } on: ON_TRAINING }"}));
  EXPECT_EQ(verdicts.check.code(), absl::StatusCode::kInvalidArgument);
  const std::string said(verdicts.check.message());
  EXPECT_TRUE(absl::StrContains(
      said,
      "a job would refuse these records: those of input.test would have "
      "stages of 'x' none, not log"))
      << said;
  EXPECT_TRUE(absl::StrContains(
      said, "; put the stages that both pass into input.stages"))
      << said;
  EXPECT_TRUE(absl::StrContains(verdicts.job.message(),
                                "they have stages of 'x' none, not log"))
      << verdicts.job;
}

TEST(ConvertInputTest, StagesThatBothMustShareArePassedByBothOrNeither) {
  const std::string log = "stages { log { feature: 'x' } }";
  const std::string shuffle = "stages { shuffle {} }";
  const std::string take = "stages { take { examples: 5 } }";
  PassedStages passed =
      StagesToPass(TwoHalves({take + shuffle + log, take + log, ""}));
  EXPECT_EQ(passed.train, 1);
  EXPECT_EQ(passed.test, 1);
  passed = StagesToPass(TwoHalves({take + log + shuffle, log, ""}));
  EXPECT_EQ(passed.train, 2);
  EXPECT_EQ(passed.test, 1);
  // Evaluation reads the same as training.
  v1::InputConfig config = TwoHalves({take + log + shuffle, "", ""});
  config.clear_test();
  EXPECT_EQ(StagesToPass(config).train, 2);
}

TEST(ConvertInputTest, ExamplesInTheirOrderStayInIt) {
  const v1::InputConfig config = ConvertedConfig(R"(
    format: IDX directory: '/data' train_images: 'i' test_labels: 'l'
    stages { take { examples: 9 } })");
  ConvertedSources converted{.directory = "/out"};
  converted.train.add_files("train-*.records");
  converted.test.emplace().add_files("test-*.records");
  EXPECT_EQ(
      InputOfRecords(config, StagesToPass(config), converted).DebugString(),
      ConvertedConfig(R"(
    train { directory: '/out' records { files: 'train-*.records' } }
    test { directory: '/out' records { files: 'test-*.records' } }
    stages { prefetch { batches: 4 } })")
          .DebugString());
}

TEST(ConvertInputTest, FilesMatterToStagesThatGoByThem) {
  const auto by_files = [](const std::string& text) {
    const v1::InputConfig config = ConvertedConfig(text);
    return GoesByFiles(config, StagesToPass(config));
  };
  EXPECT_FALSE(by_files("stages { log {} } stages { shuffle {} }"));
  EXPECT_TRUE(by_files("stages { log {} } stages { shuffle { files: true } }"));
  EXPECT_TRUE(by_files("train { stages { interleave {} } }"));
  EXPECT_TRUE(by_files("test { stages { interleave {} } }"));
}

TEST(ConvertInputTest, WhatIsNotThereYetIsRefused) {
  const auto refusal = [](const std::string& text) {
    return std::string(CheckConvertible(ConvertedConfig(text)).message());
  };
  EXPECT_EQ(refusal("train { csv {} } test { csv {} }"), "");
  EXPECT_EQ(refusal("train { csv {} } follow {}"),
            "input.follow brings examples while the job runs; what is "
            "converted has to be there before: name files that are complete");
  EXPECT_EQ(refusal("train { csv {} kafka {} } follow {}").substr(0, 24),
            "input.train.kafka brings");
  EXPECT_EQ(refusal("train { indices {} }"),
            "the examples of indices are a program's own: here are only their "
            "numbers, and nothing to convert");
}

TEST(ConvertInputTest, ASourceThatDiffersFromEpochToEpochIsRefused) {
  const std::string source = R"(
    sources {
      synthetic { examples: 9 features { name: 'x' } }
      stages { STAGE }
    })";
  const auto refusal = [&](const std::string& stage) {
    v1::InputConfig config = ConvertedConfig(
        absl::StrCat("train { sample_from {",
                     absl::StrReplaceAll(source, {{"STAGE", stage}}), "} }"));
    const auto pipeline = OpenTrainingData(config, /*seed=*/7);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    return std::string(CheckSameInEachEpoch(**pipeline).message());
  };
  EXPECT_EQ(refusal("repeat { times: 2 }"), "");
  EXPECT_EQ(refusal("shuffle {}"),
            "records are the same in each epoch, and the source is not: one of "
            "its sources is shuffled; convert its sources one by one");
}

TEST(ConvertInputTest, WhatIsOfNoOneSizeIsRefused) {
  const InputSpec spec = {
      {{.name = "image", .dtype = DType::kUInt8, .dims = {0, 0, 3}}}};
  EXPECT_EQ(DescribeRecords(spec, spec).status(),
            absl::InvalidArgumentError(
                "feature 'image' is uint8 ?x?x3; all records have the same "
                "size: bring examples to one shape by resize, crop or pad "
                "before any stage that shuffles, and put no stage that draws "
                "random numbers after it"));
  InputSpec many;
  for (int i = 0; i < 65; ++i) {
    many.features.push_back({.name = absl::StrCat("x", i), .dims = {}});
  }
  EXPECT_EQ(DescribeRecords(many, many).status(),
            absl::InvalidArgumentError(
                "examples have 65 features; records have at most 64"));
  const InputSpec deep = {{{.name = "x", .dims = {1, 1, 1, 1, 1, 1, 2}}}};
  EXPECT_EQ(DescribeRecords(deep, deep).status(),
            absl::InvalidArgumentError(
                "feature 'x' is float32 1x1x1x1x1x1x2; in a record it has at "
                "most 6 dimensions"));
}

TEST(ConvertInputTest, TestDataHaveTheClassesOfTraining) {
  const auto spec = [](uint32_t classes) -> InputSpec {
    return {{{.name = "ids",
              .dtype = DType::kInt32,
              .dims = {4},
              .classes = classes}}};
  };
  const auto records = DescribeRecords(spec(64), spec(128));
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(records->features(0).classes(), 128u);
  EXPECT_EQ(DescribeRecords(spec(256), spec(128)).status(),
            absl::InvalidArgumentError(
                "the test data have 256 classes of 'ids'; those to train on "
                "have 128: records say one number for both"));
}

TEST(ConvertInputTest, ExamplesThatCannotBeReadAreAnErrorOrLeftOut) {
  for (const bool skip : {false, true}) {
    auto source = std::make_unique<FakeSource>(5);
    source->set_unreadable(3);
    v1::InputConfig config;
    config.set_on_error(skip ? v1::InputConfig::ON_ERROR_SKIP
                             : v1::InputConfig::ON_ERROR_FAIL);
    const auto pipeline =
        Pipeline::Create(std::move(source), config, {.seed = 1});
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    uint64_t read = 0;
    std::string all;
    const absl::Status status =
        EncodeExamples({.pipeline = **pipeline, .threads = 2}, 0, 5,
                       [&](absl::string_view records, uint64_t examples) {
                         read += examples;
                         absl::StrAppend(&all, records);
                         return absl::OkStatus();
                       });
    if (!skip) {
      EXPECT_EQ(status, absl::DataLossError("example 3: unreadable"));
      continue;
    }
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(read, 5u);
    ASSERT_EQ(all.size(), 4u * 8);
    float last = 0;
    std::memcpy(&last, &all[3 * 8], sizeof(last));
    EXPECT_EQ(last, 4);
    EXPECT_EQ((*pipeline)->skipped(), 1u);
  }
}

TEST(ConvertInputTest, ExamplesOfAnotherShapeAreAnErrorOrLeftOut) {
  for (const bool skip : {false, true}) {
    auto source = std::make_unique<FakeSource>(5);
    source->set_misshapen(3);
    v1::InputConfig config;
    config.set_on_error(skip ? v1::InputConfig::ON_ERROR_SKIP
                             : v1::InputConfig::ON_ERROR_FAIL);
    const auto pipeline =
        Pipeline::Create(std::move(source), config, {.seed = 1});
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    std::string all;
    const absl::Status status =
        EncodeExamples({.pipeline = **pipeline, .threads = 2}, 0, 5,
                       [&](absl::string_view records, uint64_t) {
                         absl::StrAppend(&all, records);
                         return absl::OkStatus();
                       });
    if (!skip) {
      EXPECT_EQ(status, absl::DataLossError(
                            "example 3: 'image' is float32 2; a record has "
                            "float32 1"));
      continue;
    }
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(all.size(), 4u * 8);
    EXPECT_EQ((*pipeline)->skipped(), 1u);
  }
}

TEST(ConvertInputTest, AnErrorOfWhoTakesRecordsEndsIt) {
  const auto pipeline = FakePipeline(5);
  EXPECT_EQ(EncodeExamples({.pipeline = *pipeline}, 0, 5,
                           [](absl::string_view, uint64_t) {
                             return absl::ResourceExhaustedError("full");
                           }),
            absl::ResourceExhaustedError("full"));
}

}  // namespace
}  // namespace paramd
