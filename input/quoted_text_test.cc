// A sentence quotes little of a file: one of a million bytes without a line end
// must not fill a screen, a log or a pod's last message.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/shorten.h"
#include "input/idx_file.h"
#include "input/sources.h"
#include "input/testing/idx_test_files.h"
#include "input/testing/input_test_files.h"

namespace paramd {
namespace {

// What files are full of here, and neither sentences nor paths have.
constexpr char kJunk = '^';

std::string Junk() { return std::string(1'000'000, kJunk); }

// Of opening the source and reading all of it.
std::vector<std::string> SentencesOf(const OpenedSource& source) {
  if (!source.ok()) return {std::string(source.status().message())};
  std::vector<std::string> all;
  for (uint64_t i = 0; i < (*source)->size(); ++i) {
    Example example;
    const absl::Status status = (*source)->Read(i, &example);
    if (!status.ok()) all.emplace_back(status.message());
  }
  return all;
}

void ExpectShort(const OpenedSource& source, const std::string& what) {
  const std::vector<std::string> sentences = SentencesOf(source);
  EXPECT_FALSE(sentences.empty()) << what.substr(0, 40);
  for (const std::string& sentence : sentences) {
    EXPECT_LE(std::count(sentence.begin(), sentence.end(), kJunk), 200)
        << sentence.substr(0, 500);
    EXPECT_LE(sentence.size(), 1000u) << sentence.substr(0, 500);
  }
}

TEST(QuotedTextTest, ATextIsCutBetweenCharacters) {
  EXPECT_EQ(Shortened("short"), "short");
  EXPECT_EQ(Shortened("123456", 6), "123456");
  EXPECT_EQ(Shortened("1234567", 6), "123456...");
  EXPECT_EQ(Shortened("12345\xc3\xa4", 6), "12345...");
  EXPECT_EQ(Shortened("123\xe2\x82\xac"
                      "7",
                      6),
            "123\xe2\x82\xac...");
  EXPECT_EQ(Shortened("\x80\x80\x80\x80\x80\x80\x80", 6),
            "\x80\x80...");  // No UTF-8: about so many.
}

TEST(QuotedTextTest, RowsOfAnyText) {
  const std::string junk = Junk();
  std::string many;
  for (int i = 0; i < 20000; ++i) absl::StrAppend(&many, i, "^^^^^^,");
  for (const std::string& text :
       {junk, absl::StrCat("x,y\n", junk), absl::StrCat("x,y\n", junk, ",1"),
        absl::StrCat("x,y\n1,", junk), absl::StrCat(junk, ",y\nz,1"),
        absl::StrCat("x,y\n\"", junk), absl::StrCat("x,y\n\"1\"", junk, ",2"),
        absl::StrCat(many, "x\n1,2"), absl::StrCat(many, "y\n1,2"),
        absl::StrCat("\"", junk), absl::StrCat("\"", junk, "\"x"),
        absl::StrCat(junk, ",", junk, ",y\n1,2,3")}) {
    for (const bool header : {true, false}) {
      for (const bool classes : {false, true}) {
        v1::InputSource::Csv config;
        config.add_files(WriteTestFile("a.csv", text));
        config.set_separator(",");
        config.set_header(header);
        config.set_label(header ? "y" : "1");
        config.set_name("features");
        if (classes) config.add_class_names("a");
        ExpectShort(OpenCsv("", config), text);
        // Beside one that has other columns.
        config.add_files(WriteTestFile("b.csv", "a,b,y\n1,2,x\n"));
        ExpectShort(OpenCsv("", config), text);
      }
    }
  }
}

TEST(QuotedTextTest, LinesOfAnyText) {
  const std::string junk = Junk();
  for (const std::string& text :
       {junk, "1 " + junk, "1 " + junk + ":1", "1 1:" + junk, junk + " 1:1"}) {
    for (const uint32_t classes : {0, 2}) {
      v1::InputSource::LibSvm config;
      config.add_files(WriteTestFile("a.svm", text));
      config.set_columns(2);
      config.set_first_index(1);
      config.set_classes(classes);
      config.set_name("features");
      ExpectShort(OpenLibSvm("", config), text);
    }
  }
}

TEST(QuotedTextTest, RecordsArraysAndImages) {
  const std::string junk = Junk();
  v1::InputSource::TfRecord records;
  records.add_features()->set_name("x");
  for (const std::string& text :
       {junk, TfRecordBytes(junk),
        TfRecordBytes(TfExample({BytesFeature("x", junk)}))}) {
    records.clear_files();
    records.add_files(WriteTestFile("a.tfrecord", text));
    ExpectShort(OpenTfRecord("", records), text);
  }
  v1::InputSource::Npy arrays;
  arrays.add_arrays()->set_name("x");
  const std::string name(60'000, kJunk);
  for (const std::string& text :
       {junk, NpyBytes(name, "(1,)", "abcd"), NpyBytes("<f4", name, "abcd"),
        NpyBytes("<f4", absl::StrCat("(1, ", name, ")"), "abcd"),
        NpyBytes("<f4", absl::StrCat("(1, 1", std::string(60'000, ' '), ")"),
                 ""),
        ZipBytes({{name, "?"}, {name, "?"}}, false)}) {
    arrays.mutable_arrays(0)->set_file(WriteTestFile("a.npy", text));
    arrays.mutable_arrays(0)->set_member(text[0] == 'P' ? "y" : "");
    ExpectShort(OpenNpy("", arrays), text.substr(0, 100));
  }
  const auto idx = ReadIdxFile(WriteTestFile("a.idx", junk), 1);
  EXPECT_LE(idx.status().message().size(), 500u);
}

}  // namespace
}  // namespace paramd
