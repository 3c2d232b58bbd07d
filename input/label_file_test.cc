#include "input/label_file.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/crc32c.h"
#include "input/order_stages.h"
#include "input/testing/fake_source.h"
#include "input/testing/idx_test_files.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

uint32_t SumOf(const std::string& text) {
  return Crc32c(absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(text.data()), text.size()));
}

// Labels of examples 2 and 0 of three, of two classes.
std::string Records() {
  std::string records;
  AppendLabelRecord(2, 1, {0.25f, 0.75f}, &records);
  AppendLabelRecord(0, 0, {1.0f, 0.0f}, &records);
  return records;
}

LabelFileHeader HeaderOfRecords() {
  LabelFileHeader header;
  header.examples = 3;
  header.records = 2;
  header.classes = 2;
  header.data = "0123456789abcdef";
  header.model = "fedcba9876543210";
  header.class_names = "00000000000000aa";
  header.records_crc32c = SumOf(Records());
  return header;
}

class LabelFileTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& content) {
    return WriteTestFile(absl::StrCat(number_++, ".records"), content);
  }

  std::string ErrorOf(const std::string& content) {
    const auto file = LabelFile::Open(Write(content));
    EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(file.status().message());
  }

 private:
  int number_ = 0;
};

TEST_F(LabelFileTest, WhatIsWrittenIsRead) {
  const LabelFileHeader header = HeaderOfRecords();
  const std::string text = EncodeLabelHeader(header);
  EXPECT_EQ(text.size(), kLabelHeaderBytes);
  EXPECT_EQ(text.back(), '\n');
  const auto file = LabelFile::Open(Write(text + Records()));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->header().examples, 3u);
  EXPECT_EQ((*file)->header().classes, 2u);
  EXPECT_EQ((*file)->header().data, header.data);
  EXPECT_EQ((*file)->header().model, header.model);
  EXPECT_EQ((*file)->header().class_names, header.class_names);
  EXPECT_THAT((*file)->examples(), ElementsAre(2, 0));
  EXPECT_THAT((*file)->labels(), ElementsAre(1, 0));
  std::vector<float> probabilities(2);
  ASSERT_TRUE(
      (*file)->ReadProbabilities(0, absl::MakeSpan(probabilities)).ok());
  EXPECT_THAT(probabilities, ElementsAre(0.25f, 0.75f));
}

TEST_F(LabelFileTest, WhatIsNoneOrDamagedIsRefused) {
  const std::string good = EncodeLabelHeader(HeaderOfRecords()) + Records();
  EXPECT_THAT(ErrorOf(""), HasSubstr("is not what paramd label writes"));
  EXPECT_THAT(ErrorOf(std::string(2000, 'x')),
              HasSubstr("is not what paramd label writes"));
  EXPECT_THAT(ErrorOf(good.substr(0, good.size() - 1)),
              HasSubstr("has 1055 bytes, and its header 1056"));
  std::string turned = good;
  turned.back() ^= 1;
  EXPECT_THAT(ErrorOf(turned), HasSubstr("is damaged"));
  LabelFileHeader few = HeaderOfRecords();
  few.examples = 2;
  EXPECT_THAT(ErrorOf(EncodeLabelHeader(few) + Records()),
              HasSubstr("names examples or classes that there are not"));
  const auto missing = LabelFile::Open("/nowhere/labels.records");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("paramd label writes it"));
}

// An earlier version has not written down what they are called.
TEST_F(LabelFileTest, NamesOfClassesMayBeMissing) {
  LabelFileHeader header = HeaderOfRecords();
  header.class_names.clear();
  const auto file =
      LabelFile::Open(Write(EncodeLabelHeader(header) + Records()));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->header().class_names, "");
}

TEST(ClassNamesTest, AreOfTheLabelAndInTheirOrder) {
  const auto meaning = [](const std::string& fact, const std::string& label,
                          uint64_t hash) {
    v1::DataMeaning of;
    v1::DataMeaning::Fact* const columns = of.add_facts();
    columns->set_name("csv.label");
    columns->set_feature(label);
    columns->set_count(1);
    v1::DataMeaning::Fact* const names = of.add_facts();
    names->set_name(fact);
    names->set_feature(label);
    names->set_count(hash == 0 ? 0 : 2);
    names->set_hash(hash);
    return of;
  };
  const auto plain = meaning("csv.class_names", "label", 7);
  const std::string key = ClassNamesKey(plain, "");
  EXPECT_EQ(key, "0000000000000007");
  EXPECT_EQ(ClassNamesKey(plain, "label"), key);
  EXPECT_EQ(ClassNamesKey(plain, "kind"), "");
  EXPECT_EQ(ClassNamesKey(meaning("csv.class_names", "label", 0), ""), "");
  EXPECT_EQ(ClassNamesKey(meaning("source 2: csv.labels.class_names of 'kind'",
                                  "kind", 7),
                          "kind"),
            key);
  LabelFileHeader labels;
  EXPECT_TRUE(CheckClassNames(labels, "x", plain, "").ok()) << "nobody knows";
  labels.class_names = key;
  EXPECT_TRUE(CheckClassNames(labels, "x", plain, "").ok());
  EXPECT_TRUE(CheckClassNames(labels, "x", {}, "").ok());
  const absl::Status refused =
      CheckClassNames(labels, "x", meaning("csv.class_names", "label", 8), "");
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("'x' is of classes with other names than class_names"));
}

TEST(LabelledDataKeyTest, TellsExamplesAndTheirOrderApart) {
  const SourceStage source(std::make_unique<FakeSource>(10));
  const auto first = MakeSlice("take", source, 0, 5);
  const auto last = MakeSlice("skip", source, 5, 10);
  v1::DataSet data;
  data.set_examples_crc32c(7);
  const std::string key = LabelledDataKey(data, *first);
  EXPECT_EQ(key.size(), 16u);
  EXPECT_EQ(key, LabelledDataKey(data, *MakeSlice("take", source, 0, 5)));
  EXPECT_NE(key, LabelledDataKey(data, *last));
  data.set_examples_crc32c(8);
  EXPECT_NE(key, LabelledDataKey(data, *first));
}

}  // namespace
}  // namespace paramd
