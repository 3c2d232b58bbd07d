#include "input/growing_source.h"

#include <atomic>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/open_pipeline.h"
#include "input/testing/idx_test_files.h"
#include "input/testing/input_test_files.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GrowingSourceTest : public ::testing::Test {
 protected:
  GrowingSourceTest() {
    directory_ = std::filesystem::path(WriteTestFile("other.txt", ""))
                     .parent_path()
                     .string();
    config_.mutable_follow()->set_max_files(2);
    config_.mutable_follow()->set_end_file("_SUCCESS");
    config_.mutable_train()->set_directory(directory_);
    v1::InputSource::Csv* const csv = config_.mutable_train()->mutable_csv();
    csv->add_files("*.csv");
    csv->set_label("click");
    csv->add_columns("ad");
    csv->set_name("features");
    csv->set_separator(",");
    csv->set_header(true);
    csv->set_classes(2);
  }
  ~GrowingSourceTest() override {
    for (const auto& file : std::filesystem::directory_iterator(directory_)) {
      std::filesystem::remove(file.path());
    }
  }

  // A file of these values of `ad`.
  static void Write(const std::string& name, const std::vector<int>& ads) {
    std::string text = "ad,click\n";
    for (const int ad : ads) absl::StrAppend(&text, ad, ",1\n");
    WriteTestFile(name, text);
  }
  absl::StatusOr<v1::ScanInputResult> Scan(
      const std::vector<std::string>& known = {}) const {
    v1::ScanInput request;
    request.mutable_known()->Add(known.begin(), known.end());
    return ScanInput(config_, request);
  }
  static std::vector<std::string> NamesIn(const v1::ScanInputResult& result) {
    std::vector<std::string> names;
    for (const auto& file : result.found().files()) {
      names.push_back(file.name());
    }
    return names;
  }
  // What a scan finds now, as this epoch.
  v1::EpochFiles Epoch(uint32_t epoch,
                       const std::vector<std::string>& known = {}) const {
    v1::EpochFiles files = Scan(known)->found();
    files.set_epoch(epoch);
    return files;
  }

  v1::InputConfig config_;
  std::string directory_;
};

// ---- looking ----------------------------------------------------------------

TEST_F(GrowingSourceTest, NewFilesAreFoundInTheOrderOfTheirNames) {
  Write("b.csv", {1, 2});
  Write("a.csv", {3});
  const auto found = Scan();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(NamesIn(*found), ElementsAre("a.csv", "b.csv"));
  EXPECT_EQ(found->found().examples(), 3u);
  EXPECT_EQ(found->found().files(0).bytes(), 13u);
  EXPECT_FALSE(found->more());
  EXPECT_THAT(NamesIn(*Scan({"a.csv"})), ElementsAre("b.csv"));
  EXPECT_TRUE(Scan({"a.csv", "b.csv"})->found().files().empty());
}

TEST_F(GrowingSourceTest, AnEpochHasSoManyFilesAtMost) {
  for (const char* name : {"a.csv", "b.csv", "c.csv"}) Write(name, {1});
  EXPECT_THAT(NamesIn(*Scan()), ElementsAre("a.csv", "b.csv"));
  EXPECT_TRUE(Scan()->more());
  EXPECT_FALSE(Scan({"a.csv"})->more());
}

TEST_F(GrowingSourceTest, FilesWithoutExamplesAreNoEpoch) {
  Write("a.csv", {});
  WriteTestFile("b.csv", "");
  EXPECT_TRUE(Scan()->found().files().empty());
  Write("c.csv", {1});
  EXPECT_THAT(NamesIn(*Scan()), ElementsAre("c.csv"));
  Write("b.csv", {1});
  EXPECT_THAT(NamesIn(*Scan()), ElementsAre("a.csv", "b.csv"));
  EXPECT_EQ(Scan()->found().examples(), 1u);
}

TEST_F(GrowingSourceTest, TheMarkOfTheEndIsNoInput) {
  config_.mutable_train()->mutable_csv()->set_files(0, "*");
  std::filesystem::remove(directory_ + "/other.txt");
  EXPECT_FALSE(Scan()->ended());
  WriteTestFile("_SUCCESS", "");
  EXPECT_TRUE(Scan()->ended());
  EXPECT_TRUE(Scan()->found().files().empty());
}

TEST_F(GrowingSourceTest, ADirectoryThatIsNotThereIsEmpty) {
  config_.mutable_train()->set_directory(directory_ + "/nowhere");
  ASSERT_TRUE(Scan().ok());
  EXPECT_TRUE(Scan()->found().files().empty());
}

TEST_F(GrowingSourceTest, AFileOfOtherColumnsIsNamedBeforeItIsAnEpoch) {
  WriteTestFile("a.csv", "ad,clock\n1,1\n");
  EXPECT_EQ(
      Scan().status(),
      absl::InvalidArgumentError(absl::StrCat(
          "'", directory_, "/a.csv' has no column 'click'; it has ad, clock")));
  Write("a.csv", {1});
  WriteTestFile("b.csv", "click,ad\n1,1\n");
  EXPECT_TRUE(absl::IsDataLoss(Scan().status())) << Scan().status();
}

TEST_F(GrowingSourceTest, ARowThatCannotBeReadIsNamedBeforeItIsAnEpoch) {
  WriteTestFile("a.csv", "ad,click\n1,1\nx,1\n");
  const auto refused = Scan();
  EXPECT_TRUE(absl::IsDataLoss(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("a.csv"));
  config_.set_on_error(v1::InputConfig::ON_ERROR_SKIP);
  ASSERT_TRUE(Scan().ok());
  EXPECT_EQ(Scan()->found().examples(), 2u) << "it is left out as it is read";
}

TEST_F(GrowingSourceTest, AFileElsewhereKeepsItsWholeName) {
  Write("a.csv", {1});
  const std::string directory = directory_.substr(0, directory_.size() - 1);
  config_.mutable_train()->set_directory(directory);
  config_.mutable_train()->mutable_csv()->set_files(0, directory_ + "/*.csv");
  EXPECT_THAT(NamesIn(*Scan()), ElementsAre(directory_ + "/a.csv"));
}

TEST_F(GrowingSourceTest, AFileThatHasSeveralNamesIsFoundOnce) {
  Write("b.csv", {1});
  auto* const files = config_.mutable_train()->mutable_csv()->mutable_files();
  *files->Add() = directory_ + "/*.csv";
  *files->Add() = "./b.*";
  auto found = Scan();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(NamesIn(*found), ElementsAre("./b.csv"));
  EXPECT_EQ(found->found().examples(), 1u);
  // A run goes on with patterns that spell it otherwise.
  EXPECT_TRUE(NamesIn(*Scan({"b.csv"})).empty());
  files->DeleteSubrange(0, 1);
  EXPECT_TRUE(NamesIn(*Scan({"b.csv"})).empty());
  EXPECT_TRUE(NamesIn(*Scan({directory_ + "/b.csv"})).empty());
  EXPECT_TRUE(NamesIn(*Scan({"./b.csv"})).empty());
}

TEST_F(GrowingSourceTest, ALinkToAFileIsNotAnotherFile) {
  Write("b.csv", {1});
  std::filesystem::create_symlink("b.csv", directory_ + "/a.csv");
  EXPECT_THAT(NamesIn(*Scan()), ElementsAre("b.csv"));
  EXPECT_TRUE(NamesIn(*Scan({"b.csv"})).empty());
  // One to what no pattern means is a file like others.
  WriteTestFile("elsewhere", "ad,click\n1,1\n");
  std::filesystem::create_symlink("elsewhere", directory_ + "/c.csv");
  EXPECT_THAT(NamesIn(*Scan({"b.csv"})), ElementsAre("c.csv"));
}

TEST_F(GrowingSourceTest, TheMarkOfTheEndIsNoInputHoweverPatternsSpellIt) {
  Write("a.csv", {1});
  WriteTestFile("_SUCCESS", "");
  std::filesystem::remove(directory_ + "/other.txt");
  config_.mutable_train()->mutable_csv()->set_files(0, directory_ + "/*");
  EXPECT_THAT(NamesIn(*Scan()), ElementsAre(directory_ + "/a.csv"));
  WriteTestFile("_SUCCESS", "the end");
  EXPECT_THAT(NamesIn(*Scan()), ElementsAre(directory_ + "/a.csv"));
}

TEST_F(GrowingSourceTest, ALookEndsWhenItIsToldTo) {
  Write("a.csv", {1});
  const std::atomic<bool> stopped = true;
  EXPECT_TRUE(absl::IsCancelled(ScanInput(config_, {}, &stopped).status()));
}

TEST_F(GrowingSourceTest, ATFRecordAndRecordsAreFoundToo) {
  v1::InputFeature feature;
  feature.set_name("x");
  feature.set_type(v1::InputFeature::TYPE_INT32);
  auto* const records = config_.mutable_train()->mutable_records();
  records->add_files("*.bin");
  *records->add_features() = feature;
  WriteTestFile("a.bin", std::string(12, '\1'));
  EXPECT_EQ(Scan()->found().examples(), 3u);
  auto* const tfrecord = config_.mutable_train()->mutable_tfrecord();
  tfrecord->add_files("*.tfrecord");
  *tfrecord->add_features() = feature;
  EXPECT_TRUE(Scan()->found().files().empty());
  WriteTestFile("a.tfrecord",
                TfRecordBytes(TfExample({Int64Feature("x", {7})})));
  EXPECT_EQ(Scan()->found().examples(), 1u);
}

// ---- reading ----------------------------------------------------------------

TEST_F(GrowingSourceTest, WhatAnExampleHasIsKnownWithoutAFile) {
  const auto source = GrowingSource::Create(config_.train());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->spec().features[0].dims, Dims{1});
  EXPECT_EQ((*source)->spec().features[1].classes, 2u);
  EXPECT_EQ((*source)->size(), 0u);
  Write("a.csv", {1, 2, 3});
  EXPECT_EQ(
      (*GrowingSource::Create(config_.train()))->Describe().SerializeAsString(),
      (*source)->Describe().SerializeAsString())
      << "it is the same training set";
}

TEST_F(GrowingSourceTest, WhereTheJobDoesNotSayItIsRefused) {
  config_.mutable_train()->mutable_csv()->clear_columns();
  EXPECT_THAT(
      std::string(GrowingSource::Create(config_.train()).status().message()),
      HasSubstr("csv.columns is missing"));
  config_.mutable_train()->mutable_libsvm();
  EXPECT_THAT(
      std::string(GrowingSource::Create(config_.train()).status().message()),
      HasSubstr("libsvm.columns is missing"));
  config_.mutable_train()->mutable_npy();
  EXPECT_TRUE(
      absl::IsInvalidArgument(GrowingSource::Create(config_.train()).status()));
}

TEST_F(GrowingSourceTest, EachEpochHasItsOwnExamples) {
  const auto pipeline = OpenTrainingData(config_, /*seed=*/1);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  ASSERT_NE((*pipeline)->growing(), nullptr);
  Write("a.csv", {1, 2, 3});
  (*pipeline)->growing()->Tell(Epoch(1));
  Write("b.csv", {4, 5});
  (*pipeline)->growing()->Tell(Epoch(2, {"a.csv"}));
  const auto read = [&](const Portion& range) {
    Batch batch;
    const absl::Status status = (*pipeline)->Read(range, &batch);
    EXPECT_TRUE(status.ok()) << status;
    const auto values = batch.columns[0].values<float>();
    return std::multiset<float>(values.begin(), values.end());
  };
  EXPECT_THAT(read({2, 0, 2}), ElementsAre(4, 5));
  EXPECT_THAT(read({1, 0, 3}), ElementsAre(1, 2, 3));
  EXPECT_TRUE((*pipeline)->Check({1, 0, 3}).ok());
  EXPECT_TRUE(absl::IsOutOfRange((*pipeline)->Check({1, 0, 4})));
  EXPECT_TRUE(absl::IsOutOfRange((*pipeline)->Check({3, 0, 1})));
}

TEST_F(GrowingSourceTest, AnExampleIsNamedByItsFile) {
  Write("a.csv", {1});
  Write("b.csv", {2});
  const auto source = GrowingSource::Create(config_.train());
  (*source)->Tell(Epoch(7));
  const uint64_t index = (*source)->IndexOf(7, 1);
  EXPECT_EQ((*source)->Where(index), "example 1 of epoch 7");
  Example example;
  ASSERT_TRUE((*source)->Read(index, &example).ok());
  EXPECT_EQ((*source)->Where(index),
            absl::StrCat("'", directory_, "/b.csv' line 2"));
  EXPECT_THAT((*source)->FileStartsIn(7), ElementsAre(0, 1));
}

TEST_F(GrowingSourceTest, EpochsThatWereClosedAreOpenedAgain) {
  const auto source = GrowingSource::Create(config_.train());
  std::vector<std::string> known;
  for (uint32_t epoch = 1; epoch <= 9; ++epoch) {
    known.push_back(absl::StrCat(epoch, ".csv"));
    Write(known.back(), {static_cast<int>(epoch)});
    (*source)->Tell(Epoch(epoch, {known.begin(), known.end() - 1}));
  }
  Example example;
  for (uint32_t epoch : {1, 2, 3, 4, 5, 6, 7, 8, 9, 1}) {
    ASSERT_TRUE((*source)->Read((*source)->IndexOf(epoch, 0), &example).ok());
    EXPECT_EQ(example.values[0].values<float>()[0], epoch);
  }
}

TEST_F(GrowingSourceTest, AFileThatHasGoneOrChangedIsRefusedAndNotSkipped) {
  Write("a.csv", {1, 2});
  const v1::EpochFiles files = Epoch(1);
  config_.set_on_error(v1::InputConfig::ON_ERROR_SKIP);
  const auto error = [&]() {
    const auto pipeline = OpenTrainingData(config_, 1);
    (*pipeline)->growing()->SetPatience(absl::ZeroDuration());
    (*pipeline)->growing()->Tell(files);
    Batch batch;
    return (*pipeline)->Read({1, 0, 1}, &batch);
  };
  EXPECT_TRUE(error().ok());
  Write("a.csv", {1, 2, 3});
  const auto changed = [&](int bytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", directory_, "/a.csv' has ", bytes, " bytes; it had 17 when the ",
        "chief found it: a file may not change once it has its name"));
  };
  EXPECT_EQ(error(), changed(21));
  Write("a.csv", {1});
  EXPECT_EQ(error(), changed(13));
  Write("a.csv", {12345});
  EXPECT_THAT(std::string(error().message()),
              HasSubstr("hold 1 examples; the chief found 2 in them"));
  std::filesystem::remove(directory_ + "/a.csv");
  EXPECT_EQ(error().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(error().message()),
              HasSubstr("every worker needs the chief's directory"));
}

// Whoever claims to be the chief must not have any file read.
TEST_F(GrowingSourceTest, OnlyFilesThatTheJobNamesAreOpened) {
  Write("a.csv", {1});
  std::filesystem::create_directory(directory_ + "/sub");
  for (const char* const name : {"other.txt", "sub/a.csv", ".a.csv"}) {
    Write(name, {1});
  }
  const auto read = [&](const std::string& name) {
    v1::EpochFiles files = Epoch(1);
    files.mutable_files(0)->set_name(name);
    const auto source = GrowingSource::Create(config_.train());
    (*source)->SetPatience(absl::ZeroDuration());
    (*source)->Tell(files);
    Example example;
    return (*source)->Read((*source)->IndexOf(1, 0), &example);
  };
  EXPECT_TRUE(read("a.csv").ok());
  const std::string above =
      std::filesystem::path(directory_).filename().string();
  for (const std::string& name :
       {std::string("other.txt"), std::string("sub/a.csv"),
        std::string(".a.csv"), absl::StrCat("../", above, "/a.csv"),
        absl::StrCat(directory_, "/other.txt")}) {
    EXPECT_THAT(std::string(read(name).message()),
                HasSubstr("which is none of input.train's files"))
        << name;
  }
  config_.mutable_train()->mutable_csv()->add_files("sub/?.csv");
  EXPECT_TRUE(read("sub/a.csv").ok());
  std::filesystem::remove_all(directory_ + "/sub");
}

TEST_F(GrowingSourceTest, WhatIsSeenLateIsWaitedFor) {
  Write("a.csv", {1});
  const v1::EpochFiles files = Epoch(1);
  const std::string path = directory_ + "/a.csv";
  std::filesystem::rename(path, path + ".tmp");
  const auto source = GrowingSource::Create(config_.train());
  (*source)->Tell(files);
  std::thread late([&] { std::filesystem::rename(path + ".tmp", path); });
  Example example;
  EXPECT_TRUE((*source)->Read((*source)->IndexOf(1, 0), &example).ok());
  late.join();
}

TEST_F(GrowingSourceTest, ThreadsReadSeveralEpochsAtOnce) {
  const auto source = GrowingSource::Create(config_.train());
  std::vector<std::string> known;
  for (uint32_t epoch = 1; epoch <= 6; ++epoch) {
    known.push_back(absl::StrCat(epoch, ".csv"));
    Write(known.back(), {static_cast<int>(epoch), 0});
    (*source)->Tell(Epoch(epoch, {known.begin(), known.end() - 1}));
  }
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      Example example;
      for (uint32_t i = 0; i < 60; ++i) {
        const uint32_t epoch = 1 + (i / 10 + thread) % 6;
        const uint64_t index = (*source)->IndexOf(epoch, 0);
        EXPECT_TRUE((*source)->Read(index, &example).ok());
        EXPECT_EQ(example.values[0].values<float>()[0], epoch);
        EXPECT_EQ((*source)->SizeIn(epoch), 2u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(GrowingSourceTest, StagesThatNeedAllExamplesAreRefused) {
  config_.add_stages()->mutable_repeat()->set_times(3);
  EXPECT_EQ(OpenTrainingData(config_, 1).status(),
            absl::InvalidArgumentError(
                "stage 1 of the input, repeat: does not go with input.follow, "
                "where each file is trained on once, as it comes; leave it "
                "out"));
}

}  // namespace
}  // namespace paramd
