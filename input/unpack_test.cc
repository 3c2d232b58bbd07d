#include "input/unpack.h"

#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/sources.h"
#include "input/testing/idx_test_files.h"
#include "input/testing/input_test_files.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::string> ContentOf(const std::string& bytes,
                                      bool or_zlib = false) {
  auto file = InputFile::Open(WriteTestFile("packed", bytes));
  EXPECT_TRUE(file.ok()) << file.status();
  file = Unpacked(*std::move(file), or_zlib);
  if (!file.ok()) return file.status();
  std::string content((*file)->size(), '\0');
  EXPECT_EQ((*file)->Read(
                0, absl::MakeSpan(reinterpret_cast<std::byte*>(content.data()),
                                  content.size())),
            absl::OkStatus());
  return content;
}

// Sets TMPDIR for as long as it lives.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::string& path) {
    const char* const before = getenv("TMPDIR");
    if (before != nullptr) before_ = before;
    setenv("TMPDIR", path.c_str(), 1);
  }
  ~TemporaryDirectory() {
    if (before_.empty()) {
      unsetenv("TMPDIR");
    } else {
      setenv("TMPDIR", before_.c_str(), 1);
    }
  }

 private:
  std::string before_;
};

TEST(UnpackTest, WhatGzipAndZlibMakeIsRead) {
  std::string text;
  for (int i = 0; text.size() < 3'000'000; ++i) absl::StrAppend(&text, i, ",");
  for (const std::string& content : {std::string(), std::string("a"), text}) {
    EXPECT_EQ(*ContentOf(Gzipped(content)), content);
    EXPECT_EQ(*ContentOf(ZlibBytes(content), /*or_zlib=*/true), content);
    // As `cat a.gz b.gz` and bgzip make it, and as tapes fill it up.
    EXPECT_EQ(*ContentOf(Gzipped(content) + Gzipped("bc") + Gzipped("") +
                         std::string(700, '\0')),
              content + "bc");
  }
  EXPECT_EQ(*ContentOf("plain"), "plain");
  EXPECT_EQ(*ContentOf(""), "");
  // A text may begin as zlib's bytes do.
  EXPECT_EQ(*ContentOf("x^2,y\n"), "x^2,y\n");
}

TEST(UnpackTest, WhatIsDamagedOrCutOffIsRefused) {
  const std::string packed = Gzipped("some text, some text, some other text");
  for (size_t size = 3; size < packed.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(ContentOf(packed.substr(0, size)).status()))
        << size;
  }
  EXPECT_THAT(ContentOf(packed.substr(0, 20)).status().message(),
              HasSubstr("packed' is truncated: what is packed in it has no"));
  std::string changed = packed;
  changed[packed.size() - 6] ^= 1;  // Of its sum.
  EXPECT_THAT(ContentOf(changed).status().message(),
              HasSubstr("zlib finds \"incorrect data check\""));
  EXPECT_THAT(ContentOf(packed + "more").status().message(),
              HasSubstr("zlib finds \"incorrect header check\""));
}

TEST(UnpackTest, OtherFormatsAreNamed) {
  for (const auto& [begin, name] :
       {std::pair<std::string, std::string>{"BZh91AY&SY", "bzip2"},
        {{"\xfd"
          "7zXZ\0",
          6},
         "xz"},
        {"\x28\xb5\x2f\xfd", "zstd"},
        {"\x04\x22\x4d\x18", "lz4"},
        {"PK\x03\x04", "zip"}}) {
    EXPECT_THAT(std::string(ContentOf(begin + "...").status().message()),
                HasSubstr("packed' is compressed by " + name +
                          "; unpack it, or compress it by gzip"));
  }
  EXPECT_EQ(*ContentOf("BZh,y\n1,2\n"), "BZh,y\n1,2\n");
}

TEST(UnpackTest, NothingIsLeftAndMemoryIsTakenWhereNoFileCanBeMade) {
  const std::string directory =
      std::filesystem::path(WriteTestFile("x", "")).parent_path().string() +
      "/temporary";
  std::filesystem::create_directories(directory);
  for (const std::string& path : {directory, std::string("/no/such")}) {
    const TemporaryDirectory temporary(path);
    auto file = Unpacked(*InputFile::Open(WriteTestFile("a", Gzipped("text"))));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->size(), 4u);
    EXPECT_THAT((*file)->path(), ::testing::EndsWith("/a"));
    EXPECT_TRUE(std::filesystem::is_empty(directory));
  }
}

// A format, and a file in it that has several examples.
struct Packable {
  std::string name;
  std::string content;
  std::function<OpenedSource(const std::string& path)> open;
};

std::vector<Packable> AllPackable() {
  return {
      {"a.csv", "x,y\n1,2\n3,4\n",
       [](const std::string& path) {
         v1::InputSource::Csv config;
         config.add_files(path);
         config.set_label("y");
         config.set_name("x");
         config.set_separator(",");
         config.set_header(true);
         return OpenCsv("", config);
       }},
      {"a.tsv", "1\t2\n3\t4\n",
       [](const std::string& path) {
         v1::InputSource::Csv config;
         config.add_files(path);
         config.set_name("x");
         config.set_separator("tab");
         return OpenCsv("", config);
       }},
      {"a.svm", "1 1:2\n0 2:3\n",
       [](const std::string& path) {
         v1::InputSource::LibSvm config;
         config.add_files(path);
         config.set_columns(2);
         config.set_classes(2);
         config.set_first_index(1);
         config.set_name("x");
         return OpenLibSvm("", config);
       }},
      {"a.tfrecord",
       TfRecordBytes(TfExample({FloatFeature("x", {1})})) +
           TfRecordBytes(TfExample({FloatFeature("x", {2})})),
       [](const std::string& path) {
         v1::InputSource::TfRecord config;
         config.add_files(path);
         config.add_features()->set_name("x");
         return OpenTfRecord("", config);
       }},
      {"a.bin", "abcdefgh",
       [](const std::string& path) {
         v1::InputSource::Records config;
         config.add_files(path);
         config.add_features()->set_name("x");
         return OpenRecords("", config);
       }},
      {"a.txt", "abcdefgh",
       [](const std::string& path) {
         v1::InputSource::Text config;
         config.add_files(path);
         config.set_context(3);
         return OpenText("", config);
       }},
  };
}

std::vector<std::string> ExamplesOf(const ExampleSource& source) {
  std::vector<std::string> all;
  for (uint64_t i = 0; i < source.size(); ++i) {
    Example example;
    EXPECT_EQ(source.Read(i, &example), absl::OkStatus());
    all.emplace_back();
    for (const OwnedTensor& value : example.values) {
      all.back().append(reinterpret_cast<const char*>(value.bytes().data()),
                        value.bytes().size());
    }
  }
  return all;
}

TEST(UnpackTest, EveryFormatThatIsReadFromEndToEndMayBePacked) {
  for (const Packable& one : AllPackable()) {
    const auto plain = one.open(WriteTestFile(one.name, one.content));
    ASSERT_TRUE(plain.ok()) << one.name << plain.status();
    ASSERT_GE((*plain)->size(), 2u) << one.name;
    const std::string path =
        WriteTestFile(one.name + ".gz", Gzipped(one.content));
    const auto packed = one.open(path);
    ASSERT_TRUE(packed.ok()) << one.name << packed.status();
    EXPECT_EQ(ExamplesOf(**packed), ExamplesOf(**plain)) << one.name;
    EXPECT_THAT((*packed)->Where(1), HasSubstr("'" + path + "'"));
    // The same data to others who have them unpacked.
    EXPECT_EQ((*packed)->Describe().examples_crc32c(),
              (*plain)->Describe().examples_crc32c());
  }
}

TEST(UnpackTest, TfRecordsMayBePackedByZlib) {
  const Packable one = AllPackable()[3];
  const auto packed =
      one.open(WriteTestFile("a.tfrecord", ZlibBytes(one.content)));
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ((*packed)->size(), 2u);
  // A record whose length is gzip's first bytes is no packed file.
  const auto long_one = one.open(
      WriteTestFile("b.tfrecord", TfRecordBytes(std::string(0x088b1f, 'x'))));
  EXPECT_TRUE(long_one.ok()) << long_one.status();
}

}  // namespace
}  // namespace paramd
