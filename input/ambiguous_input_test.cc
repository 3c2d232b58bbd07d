// What could be meant in two ways is refused in a sentence, whatever the
// format: the wrong one of the two would give numbers, too.

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/sources.h"
#include "input/testing/idx_test_files.h"
#include "input/testing/input_test_files.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::InputSource::Csv AmbiguousCsv(
    const std::string& text, const std::vector<std::string>& columns = {}) {
  v1::InputSource::Csv config;
  config.add_files(WriteTestFile("a.csv", text));
  config.set_label("y");
  config.set_name("features");
  config.set_separator(",");
  config.set_header(true);
  for (const std::string& column : columns) config.add_columns(column);
  return config;
}

v1::InputSource::LibSvm AmbiguousLibSvm(const std::vector<std::string>& texts) {
  v1::InputSource::LibSvm config;
  for (size_t i = 0; i < texts.size(); ++i) {
    config.add_files(WriteTestFile(absl::StrCat(i, ".svm"), texts[i]));
  }
  config.set_columns(3);
  config.set_first_index(1);
  config.set_classes(2);
  config.set_name("features");
  return config;
}

// What opening the source says, or reading the first of its examples that can't
// be read.
std::string SaidOf(const OpenedSource& source) {
  if (!source.ok()) return std::string(source.status().message());
  Example example;
  for (uint64_t i = 0; i < (*source)->size(); ++i) {
    const absl::Status status = (*source)->Read(i, &example);
    if (!status.ok()) return std::string(status.message());
  }
  return "";
}

std::string SaidOfCsv(const v1::InputSource::Csv& config) {
  return SaidOf(OpenCsv("", config));
}
std::string SaidOfLibSvm(const std::vector<std::string>& texts) {
  return SaidOf(OpenLibSvm("", AmbiguousLibSvm(texts)));
}

TEST(AmbiguousInputTest, ALabelIsNoFeature) {
  const char kText[] = "x,y\n1,2\n";
  EXPECT_THAT(SaidOfCsv(AmbiguousCsv(kText, {"x", "y"})),
              HasSubstr("csv.columns names 'y', which is the label"));
  v1::InputSource::Csv config = AmbiguousCsv(kText);
  config.set_name("label");
  EXPECT_THAT(SaidOfCsv(config), HasSubstr("csv.name is 'label'"));
  config = AmbiguousCsv(kText);
  config.set_group("y");
  EXPECT_THAT(SaidOfCsv(config), HasSubstr("csv.group is 'y', which is the"));
  v1::InputSource::LibSvm lines = AmbiguousLibSvm({"1 1:1\n"});
  lines.set_name("label");
  EXPECT_THAT(SaidOf(OpenLibSvm("", lines)), HasSubstr("libsvm.name is"));
}

TEST(AmbiguousInputTest, ANameThatIsUsedIsOfOneColumn) {
  EXPECT_THAT(SaidOfCsv(AmbiguousCsv("y,x,y\n1,2,3\n")),
              HasSubstr("a.csv' has the column 'y' twice"));
  EXPECT_THAT(SaidOfCsv(AmbiguousCsv("x,x,y\n1,2,3\n")),
              HasSubstr("a.csv' has the column 'x' twice"));
  EXPECT_THAT(SaidOfCsv(AmbiguousCsv("x,x,z,y\n1,2,3,4\n", {"z", "x"})),
              HasSubstr("a.csv' has the column 'x' twice"));
  EXPECT_THAT(SaidOfCsv(AmbiguousCsv("x,z,y\n1,2,3\n", {"x", "z", "x"})),
              HasSubstr("csv.columns names 'x' twice"));
  // Nobody asks for these.
  EXPECT_EQ(SaidOfCsv(AmbiguousCsv("x,x,z,y\n1,2,3,4\n", {"z"})), "");
  v1::InputSource::Csv config = AmbiguousCsv("u,x,y\nu,2,3\n", {"u", "x"});
  config.set_hash_keys(true);
  config.set_group("u");
  EXPECT_EQ(SaidOfCsv(config), "");
}

TEST(AmbiguousInputTest, AClassHasOneNumber) {
  v1::InputSource::Csv config = AmbiguousCsv("x,y\n1,a\n");
  for (const char* name : {"a", "b", "a"}) config.add_class_names(name);
  EXPECT_THAT(SaidOfCsv(config), HasSubstr("csv.class_names has 'a' twice"));
  config.mutable_class_names()->RemoveLast();
  config.set_classes(3);
  EXPECT_THAT(SaidOfCsv(config),
              HasSubstr("csv.classes is 3, and 2 class_names are given"));
  config.set_classes(2);
  EXPECT_EQ(SaidOfCsv(config), "");
}

TEST(AmbiguousInputTest, TwoClassesAreNotThree) {
  EXPECT_THAT(SaidOfLibSvm({"1 1:1\n-1 2:1\n# 0\n0 1:1\n"}),
              ::testing::AllOf(HasSubstr("0.svm' line 4: the label is 0, and"),
                               HasSubstr("0.svm' line 2 has -1")));
  EXPECT_THAT(SaidOfLibSvm({"+1 1:1\n0.0 2:1\n", "1 1:1\n\n-1#\n"}),
              ::testing::AllOf(HasSubstr("1.svm' line 3: the label is -1, and"),
                               HasSubstr("0.svm' line 2 has 0")));
  EXPECT_EQ(SaidOfLibSvm({"1 1:1\n-1 2:1\n", "-1 1:1\n+1\n"}), "");
  EXPECT_EQ(SaidOfLibSvm({"1 1:1\n0 2:1\n"}), "");
}

TEST(AmbiguousInputTest, AFeatureHasOneValue) {
  EXPECT_THAT(SaidOfLibSvm({"1 2:1 2:3\n"}),
              HasSubstr("has index 2 after 2; indices must ascend"));
  v1::InputSource::Npy arrays;
  for (const char* file : {"a.npy", "b.npy"}) {
    v1::InputSource::Npy::Array* const array = arrays.add_arrays();
    array->set_name("x");
    array->set_file(WriteTestFile(file, NpyBytes("|u1", "(2,)", "ab")));
  }
  EXPECT_EQ(SaidOf(OpenNpy("", arrays)), "two arrays have the name 'x'");
  const auto twice = [](auto* config) {
    for (int i = 0; i < 2; ++i) config->add_features()->set_name("x");
  };
  v1::InputSource::TfRecord tfrecord;
  v1::InputSource::Records records;
  v1::InputSource::Synthetic synthetic;
  twice(&tfrecord);
  twice(&records);
  twice(&synthetic);
  tfrecord.add_files(WriteTestFile("a", ""));
  records.add_files(WriteTestFile("a", ""));
  synthetic.set_examples(1);
  for (const OpenedSource& source :
       {OpenTfRecord("", tfrecord), OpenRecords("", records),
        OpenSynthetic(synthetic)}) {
    EXPECT_EQ(source.status().message(), "two features have the name 'x'");
  }
}

TEST(AmbiguousInputTest, AFileIsReadOnce) {
  const std::string path = WriteTestFile("a.txt", "x,y\n1,2\n");
  WriteTestFile("b.txt", "x,y\n1,2\n");
  const std::string directory = std::filesystem::path(path).parent_path();
  const std::string link = directory + "/link.dat";
  std::filesystem::remove(link);
  std::filesystem::create_symlink("a.txt", link);
  const auto said = [&](const std::vector<std::string>& patterns) {
    // Every format opens its files by this.
    return std::string(OpenFiles(directory, patterns).status().message());
  };
  const std::string twice = "a.txt' is named twice by ";
  EXPECT_THAT(said({"a.txt", "*.txt"}),
              HasSubstr(twice + "a.txt, *.txt: it would be read twice"));
  EXPECT_THAT(said({"b.txt", "a*", "*a.txt"}), HasSubstr(twice));
  EXPECT_THAT(said({"a.txt", "./a.txt"}), HasSubstr("are one file"));
  EXPECT_THAT(said({"*"}), HasSubstr("a.txt' and '" + link + "' are one file"));
  EXPECT_THAT(said({"b.txt", "a.txt"}), IsEmpty());

  v1::InputSource::Csv csv = AmbiguousCsv("x,y\n1,2\n");
  v1::InputSource::LibSvm libsvm;
  v1::InputSource::TfRecord tfrecord;
  v1::InputSource::Records records;
  v1::InputSource::Text text;
  csv.clear_files();
  text.set_context(1);
  tfrecord.add_features()->set_name("x");
  records.add_features()->set_name("x");
  for (const char* pattern : {"a.txt", "[ab].txt"}) {
    csv.add_files(pattern);
    libsvm.add_files(pattern);
    tfrecord.add_files(pattern);
    records.add_files(pattern);
    text.add_files(pattern);
  }
  for (const OpenedSource& source :
       {OpenCsv(directory, csv), OpenLibSvm(directory, libsvm),
        OpenTfRecord(directory, tfrecord), OpenRecords(directory, records),
        OpenText(directory, text)}) {
    EXPECT_TRUE(absl::IsInvalidArgument(source.status()));
    EXPECT_THAT(std::string(source.status().message()), HasSubstr(twice));
  }
}

TEST(AmbiguousInputTest, EachFolderIsAClassWithImages) {
  const std::string directory =
      std::filesystem::path(WriteTestFile("not-an-image", "?")).parent_path();
  const auto write = [&](const std::string& folder, const std::string& name) {
    std::filesystem::create_directories(directory + "/" + folder);
    std::ofstream(absl::StrCat(directory, "/", folder, "/", name))
        << PngBytes(1, 1, 1, {7});
  };
  v1::InputSource::ImageFolders config;
  config.set_channels(1);
  write("apple", "1.png");
  write("leaf", "1.webp");
  write("stone/deep", "1.png");
  EXPECT_EQ(SaidOf(OpenImageFolders(directory, config)),
            absl::StrCat("each folder in '", directory,
                         "' is a class, and leaf, stone have no PNG or JPEG "
                         "file (folders within it do not count); move it away, "
                         "or give it images"));
  write("leaf", "2.png");
  write("stone", "2.jpg");
  // Of a notebook and of a Mac.
  write(".ipynb_checkpoints", "1.png");
  write("apple", "._1.png");
  const auto source = OpenImageFolders(directory, config);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->size(), 3u);
  EXPECT_EQ((*source)->spec().features[1].classes, 3u);
  EXPECT_EQ(SaidOf(source), "");
}

// Predictions are row for row: a row of empty columns is one.
TEST(AmbiguousInputTest, ARowOfEmptyColumnsIsARow) {
  struct Case {
    const char* separator;
    const char* text;
  };
  for (const auto& [separator, text] :
       {Case{"tab", "a\tb\tc\nx\ty\tz\n\t\t\n\n"},
        Case{",", "a,b,c\nx,y,z\n,,\n"}, Case{" ", "a b c\nx y z\n  \n"},
        Case{" | ", "a | b | c\n | y | \n |  | "},
        Case{"::", "a::b::c\r\nx::y::z\r\n::::\r\n  \r\n"}}) {
    v1::InputSource::Csv config = AmbiguousCsv(text);
    config.set_separator(separator);
    config.set_label("");
    config.set_hash_buckets(1000);
    const auto source = OpenCsv("", config);
    ASSERT_TRUE(source.ok()) << separator << source.status();
    EXPECT_EQ((*source)->size(), 2u) << separator;
    EXPECT_EQ(SaidOf(source), "") << separator;
  }
}

}  // namespace
}  // namespace paramd
