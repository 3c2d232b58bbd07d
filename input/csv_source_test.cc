#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "input/sources.h"
#include "input/testing/idx_test_files.h"
#include "input/text_lines.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::InputSource::Csv CsvConfig(const std::string& path) {
  v1::InputSource::Csv config;
  config.add_files(path);
  config.set_label("kind");
  config.set_name("features");
  config.set_separator(",");
  config.set_header(true);
  config.add_class_names("cat");
  config.add_class_names("dog, big");
  return config;
}

absl::Status ReadError(const v1::InputSource::Csv& config, uint64_t row) {
  const auto source = OpenCsv("", config);
  EXPECT_TRUE(source.ok()) << source.status();
  Example example;
  return (*source)->Read(row, &example);
}

TEST(CsvSourceTest, RowsAreReadByTheirColumns) {
  const std::string path = WriteTestFile(
      "a.csv", "x,kind,y\r\n1.5,cat, -2e3\r\n\r\n3,\"dog, big\",\"4\"\r\n");
  const auto source = OpenCsv("", CsvConfig(path));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->size(), 2u);
  EXPECT_EQ((*source)->spec().features[1].classes, 2u);
  Example example;
  ASSERT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(1.5, -2000));
  EXPECT_THAT(example.values[1].values<int32_t>(), ElementsAre(0));
  ASSERT_TRUE((*source)->Read(1, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(3, 4));
  EXPECT_THAT(example.values[1].values<int32_t>(), ElementsAre(1));
  EXPECT_EQ((*source)->Where(1), absl::StrCat("'", path, "' line 4"));
}

TEST(CsvSourceTest, ColumnsAreNumberedWithoutAHeader) {
  v1::InputSource::Csv config = CsvConfig(WriteTestFile("a.tsv", "1\t2\t3"));
  config.set_separator("tab");
  config.set_header(false);
  config.set_label("0");
  config.clear_class_names();
  config.add_columns("2");
  const auto source = OpenCsv("", config);
  ASSERT_TRUE(source.ok()) << source.status();
  Example example;
  ASSERT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(3));
  EXPECT_THAT(example.values[1].values<float>(), ElementsAre(1));
}

TEST(CsvSourceTest, TextsOfAnyKindBecomeNumbersBelowTheBuckets) {
  v1::InputSource::Csv config = CsvConfig(
      WriteTestFile("a.csv", "kind,site,ad\ncat,x,x\ncat,,x\ncat,x,-3.5\n"));
  config.set_hash_buckets(1000003);
  const auto source = OpenCsv("", config);
  ASSERT_TRUE(source.ok()) << source.status();
  const FeatureSpec& feature = (*source)->spec().features[0];
  EXPECT_EQ(feature.dtype, DType::kInt32);
  EXPECT_EQ(feature.classes, 1000003u);
  std::vector<std::vector<int32_t>> rows;
  for (uint64_t row = 0; row < 3; ++row) {
    Example example;
    ASSERT_TRUE((*source)->Read(row, &example).ok());
    const auto values = example.values[0].values<int32_t>();
    rows.emplace_back(values.begin(), values.end());
    EXPECT_THAT(rows.back(), ::testing::Each(::testing::AllOf(
                                 ::testing::Ge(0), ::testing::Lt(1000003))));
  }
  EXPECT_NE(rows[0][0], rows[0][1]) << "each column's are its own";
  EXPECT_NE(rows[0][0], rows[1][0]) << "nothing is a text, too";
  EXPECT_EQ(rows[0][1], rows[1][1]);
  EXPECT_EQ(rows[0][0], rows[2][0]);
  // What is in checkpoints depends on it.
  EXPECT_EQ(rows[0][0], static_cast<int32_t>(
                            StableHash("x", StableHash("site")) % 1000003));
}

TEST(CsvSourceTest, AKeyIsTheWholeHash) {
  v1::InputSource::Csv config =
      CsvConfig(WriteTestFile("a.csv", "kind,site,ad\ncat,x,x\ncat, x ,\n"));
  config.set_hash_keys(true);
  const auto source = OpenCsv("", config);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->spec().features[0].dtype, DType::kInt64);
  EXPECT_EQ((*source)->spec().features[0].classes, 0u);
  const auto key = [](const char* text, const char* column) {
    return static_cast<int64_t>(StableHash(text, StableHash(column)));
  };
  Example example;
  ASSERT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_THAT(example.values[0].values<int64_t>(),
              ElementsAre(key("x", "site"), key("x", "ad")));
  ASSERT_TRUE((*source)->Read(1, &example).ok());
  EXPECT_THAT(example.values[0].values<int64_t>(),
              ElementsAre(key("x", "site"), key("", "ad")));
  config.set_hash_buckets(10);
  EXPECT_THAT(OpenCsv("", config).status().message(),
              HasSubstr("csv.hash_buckets and hash_keys are both given"));
}

// A click: what was shown, and what was chosen before.
v1::InputSource::Csv ListConfig(const std::string& path) {
  v1::InputSource::Csv config;
  config.add_files(path);
  config.set_label("click");
  config.set_name("features");
  config.set_separator(",");
  config.set_header(true);
  for (const char* column : {"hour", "item", "history"}) {
    config.add_columns(column);
  }
  config.set_hash_buckets(1000003);
  config.set_list_column("history");
  config.set_list_separator("|");
  config.set_list_length(3);
  config.set_list_of("item");
  config.set_group("user");
  return config;
}

constexpr char kClicks[] =
    "user,click,hour,item,history\n"
    "ann,1,9,x,y|x\n"
    "bob,0,x,y,\n"
    " ann,0,9,z,\"a| y ||x|b\"\n";

TEST(CsvSourceTest, AListIsItsFirstTextsAndPadding) {
  const auto source = OpenCsv("", ListConfig(WriteTestFile("a.csv", kClicks)));
  ASSERT_TRUE(source.ok()) << source.status();
  const FeatureSpec& feature = (*source)->spec().features[0];
  EXPECT_EQ(feature.dims, Dims({5}));
  EXPECT_EQ(feature.dtype, DType::kInt32);
  EXPECT_EQ(feature.classes, 1000003u);
  const auto item = [](const char* text) {
    return static_cast<int32_t>(StableHash(text, StableHash("item")) % 1000003);
  };
  const auto hour = [](const char* text) {
    return static_cast<int32_t>(StableHash(text, StableHash("hour")) % 1000003);
  };
  Example example;
  ASSERT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_THAT(example.values[0].values<int32_t>(),
              ElementsAre(hour("9"), item("x"), item("y"), item("x"), -1));
  ASSERT_TRUE((*source)->Read(1, &example).ok());
  EXPECT_THAT(example.values[0].values<int32_t>(),
              ElementsAre(hour("x"), item("y"), -1, -1, -1));
  ASSERT_TRUE((*source)->Read(2, &example).ok());
  EXPECT_THAT(
      example.values[0].values<int32_t>(),
      ElementsAre(hour("9"), item("z"), item("a"), item("y"), item("x")));
}

TEST(CsvSourceTest, AListOfItsOwnHasKeysOfItsOwn) {
  v1::InputSource::Csv config = ListConfig(WriteTestFile("a.csv", kClicks));
  config.clear_list_of();
  config.clear_hash_buckets();
  config.set_hash_keys(true);
  config.clear_columns();
  config.add_columns("history");
  const auto source = OpenCsv("", config);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto key = [](const char* text) {
    return static_cast<int64_t>(StableHash(text, StableHash("history")));
  };
  Example example;
  ASSERT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_THAT(example.values[0].values<int64_t>(),
              ElementsAre(key("y"), key("x"), -1));
}

TEST(CsvSourceTest, AGroupIsTheHashOfItsColumn) {
  v1::InputSource::Csv config = ListConfig(WriteTestFile("a.csv", kClicks));
  const auto source = OpenCsv("", config);
  ASSERT_TRUE(source.ok()) << source.status();
  const FeatureSpec* group = (*source)->spec().Find("group");
  ASSERT_NE(group, nullptr);
  EXPECT_EQ(group->dtype, DType::kInt64);
  EXPECT_EQ(group->dims, Dims());
  std::vector<int64_t> groups;
  for (uint64_t row = 0; row < 3; ++row) {
    Example example;
    ASSERT_TRUE((*source)->Read(row, &example).ok());
    ASSERT_EQ(example.values.size(), 3u);
    groups.push_back(example.values[2].values<int64_t>()[0]);
  }
  EXPECT_EQ(groups[0],
            static_cast<int64_t>(StableHash("ann", StableHash("user"))));
  EXPECT_EQ(groups[2], groups[0]);
  EXPECT_NE(groups[1], groups[0]);
  // It is no other feature's unless it is named.
  config.clear_columns();
  EXPECT_EQ((*OpenCsv("", config))->spec().features[0].dims, Dims({5}));
  config.add_columns("user");
  config.add_columns("history");
  EXPECT_EQ((*OpenCsv("", config))->spec().features[0].dims, Dims({4}));
  config.set_name("group");
  EXPECT_THAT(OpenCsv("", config).status().message(),
              HasSubstr("csv.group makes a feature 'group', and csv.name"));
  config.set_group("nobody");
  EXPECT_THAT(OpenCsv("", config).status().message(),
              HasSubstr("has no column 'nobody'"));
}

TEST(CsvSourceTest, WhatDoesNotGoWithAListIsNamed) {
  const std::string path = WriteTestFile("a.csv", kClicks);
  const auto refused = [&](auto change) {
    v1::InputSource::Csv config = ListConfig(path);
    change(&config);
    const absl::Status status = OpenCsv("", config).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  using Csv = v1::InputSource::Csv;
  EXPECT_EQ(refused([](Csv* csv) { csv->set_list_column("item"); }),
            "csv.list_column is 'item'; it must be the last of the columns, "
            "which is 'history'");
  EXPECT_EQ(refused([](Csv* csv) { csv->clear_hash_buckets(); }),
            "csv.list_column needs hash_buckets or hash_keys");
  EXPECT_EQ(refused([](Csv* csv) { csv->set_list_separator("||"); }),
            "csv.list_separator must be one character; found '||'");
  EXPECT_THAT(refused([](Csv* csv) { csv->set_list_of("thing"); }),
              HasSubstr("has no column 'thing'; it has user, click"));
  EXPECT_EQ(refused([](Csv* csv) { csv->clear_list_column(); }),
            "csv.list_of is 'item', but no list_column is given");
  for (const char* column : {"item", "history"}) {
    EXPECT_THAT(refused([&](Csv* csv) { csv->add_log_columns(column); }),
                HasSubstr(absl::StrCat("csv.log_columns has '", column, "'")));
  }
}

// As in Criteo's log: a label, counts, and keys, without names.
TEST(CsvSourceTest, CountsAreHashedByTheirLogarithm) {
  v1::InputSource::Csv config = CsvConfig(WriteTestFile(
      "a.tsv", "1\t1000\tab\n0\t1010\tcd\n0\t2\t\n1\t1\tab\n0\t\tab\n"));
  config.set_separator("tab");
  config.set_header(false);
  config.set_label("0");
  config.clear_class_names();
  config.set_classes(2);
  config.set_hash_buckets(1000003);
  config.add_log_columns("1");
  const auto source = OpenCsv("", config);
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<int32_t> counts;
  for (uint64_t row = 0; row < 5; ++row) {
    Example example;
    ASSERT_TRUE((*source)->Read(row, &example).ok());
    counts.push_back(example.values[0].values<int32_t>()[0]);
  }
  // 47.7 and 47.9; 2 and 1 are themselves, and nothing is another.
  EXPECT_EQ(counts[0], counts[1]);
  EXPECT_EQ(counts[0], static_cast<int32_t>(
                           StableHash("log 47", StableHash("1")) % 1000003));
  EXPECT_EQ(counts[2],
            static_cast<int32_t>(StableHash("2", StableHash("1")) % 1000003));
  EXPECT_NE(counts[2], counts[3]);
  EXPECT_NE(counts[3], counts[4]);
}

TEST(CsvSourceTest, ColumnsOfCountsAreChecked) {
  v1::InputSource::Csv config =
      CsvConfig(WriteTestFile("a.csv", "kind,x\ncat,many\n"));
  config.add_log_columns("y");
  config.set_hash_buckets(10);
  EXPECT_THAT(OpenCsv("", config).status().message(),
              HasSubstr("has no column 'y'; it has kind, x"));
  config.set_log_columns(0, "x");
  Example example;
  EXPECT_THAT((*OpenCsv("", config))->Read(0, &example).message(),
              HasSubstr("line 2: column 'x' needs a number; found 'many'"));
  config.clear_hash_buckets();
  EXPECT_THAT(OpenCsv("", config).status().message(),
              HasSubstr("csv.log_columns need hash_buckets"));
}

TEST(CsvSourceTest, ANumberThatIsNotFiniteIsRefusedWhereItStands) {
  const auto refused = [](const std::string& row) {
    v1::InputSource::Csv config =
        CsvConfig(WriteTestFile("a.csv", absl::StrCat("x,y\n1,1\n", row)));
    config.set_label("y");
    config.clear_class_names();
    Example example;
    return std::string((*OpenCsv("", config))->Read(1, &example).message());
  };
  EXPECT_THAT(refused("nan,1\n"),
              HasSubstr("line 3: column 'x' needs a number that is finite in "
                        "float32; found 'nan'"));
  EXPECT_THAT(refused("1e39,1\n"), HasSubstr("found '1e39'"));
  EXPECT_THAT(refused("1,-inf\n"), HasSubstr("column 'y' needs a number that"));
  EXPECT_EQ(refused("1e38,1\n"), "");
}

// The rows of a file without a header, as their texts.
std::vector<std::vector<std::string>> RowsOf(const std::string& text,
                                             const ColumnFormat& format) {
  InputFiles files;
  files.push_back(*InputFile::Open(WriteTestFile("rows.csv", text)));
  TextLines lines(std::move(files), {.columns = format});
  EXPECT_EQ(lines.AddFile(0), absl::OkStatus());
  std::vector<std::vector<std::string>> rows(lines.size());
  for (uint64_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(SplitColumns(*lines.Read(i), format, &rows[i]), absl::OkStatus());
  }
  return rows;
}

using Rows = std::vector<std::vector<std::string>>;

TEST(CsvSourceTest, LinesEndInAnyOfThreeWays) {
  const Rows rows = {{"a", "b"}, {"c", "d"}, {"e", "f"}};
  for (const char* end : {"\n", "\r\n", "\r"}) {
    for (const char* last : {"", end}) {
      EXPECT_EQ(
          RowsOf(absl::StrCat("a,b", end, "c,d", end, end, "e,f", last), {}),
          rows);
    }
  }
  EXPECT_EQ(RowsOf("a,b\r\r\nc,d\n\re,f\r", {}), rows);
}

// A piece of a file that is read at a time ends anywhere.
TEST(CsvSourceTest, LinesLieAcrossWhatIsReadAtATime) {
  constexpr size_t kPiece = size_t{1} << 20;
  for (size_t before = kPiece - 3; before <= kPiece + 1; ++before) {
    for (const char* end : {"\n", "\r\n", "\r"}) {
      const std::string first(before - 2, 'x');
      const std::string more(kPiece, 'y');
      EXPECT_EQ(
          RowsOf(absl::StrCat(first, ",1", end, "\"", more, end, "\",2", end,
                              "c,3"),
                 {}),
          (Rows{{first, "1"}, {absl::StrCat(more, end), "2"}, {"c", "3"}}));
    }
  }
}

// RFC 4180, and separators that it does not know.
TEST(CsvSourceTest, WhateverAQuotedColumnHoldsIsReadAsItIs) {
  RandomStream random(7);
  const std::string alphabet = "ab\"\"\r\n,:| \t";
  for (const char* separator : {",", "\t", "::", " | ", ":,:"}) {
    for (int round = 0; round < 40; ++round) {
      Rows rows(random.Below(5) + 1);
      std::string text;
      for (std::vector<std::string>& row : rows) {
        row.resize(random.Below(3) + 2);
        for (std::string& value : row) {
          for (uint64_t n = random.Below(6); n > 0; --n) {
            value.push_back(alphabet[random.Below(alphabet.size())]);
          }
          if (value == "") value = "x";
          absl::StrAppend(&text, &value == &row[0] ? "" : separator, "\"",
                          absl::StrReplaceAll(value, {{"\"", "\"\""}}), "\"");
        }
        text += round % 3 == 0 ? "\n" : round % 3 == 1 ? "\r\n" : "\r";
      }
      EXPECT_EQ(RowsOf(text, {.separator = separator}), rows) << text;
    }
  }
}

TEST(CsvSourceTest, QuotesMayBeCharactersAsOthers) {
  const std::string text = "\"new shoes\t1\n5\" disk\t0\n\"x\" y\t1\n";
  EXPECT_EQ(RowsOf(text, {.separator = "\t", .quotes = false}),
            (Rows{{"\"new shoes", "1"}, {"5\" disk", "0"}, {"\"x\" y", "1"}}));
  v1::InputSource::Csv config =
      CsvConfig(WriteTestFile("a.tsv", "kind\tx\n\"cat\t1\ndog\t5\n"));
  config.set_separator("tab");
  config.set_hash_buckets(10);
  EXPECT_THAT(OpenCsv("", config).status().message(),
              HasSubstr("a.tsv' line 2: a quote has no end; if \" is a "
                        "character as others there, give \"quotes\": false"));
  config.set_quotes(false);
  EXPECT_TRUE(OpenCsv("", config).ok());
  std::string rows = "kind,x\n\"cat,1\n";
  while (rows.size() < size_t{17} << 20) rows += "dog and many others,5\n";
  config = CsvConfig(WriteTestFile("d.csv", rows));
  EXPECT_THAT(OpenCsv("", config).status().message(),
              HasSubstr("d.csv' line 2 has more than the 16777216 bytes that "
                        "are admitted; if \" is a character"));
  config = CsvConfig(WriteTestFile("c.csv", "kind,x\n\"cat,1\ndog,5\"\n"));
  EXPECT_THAT(ReadError(config, 0).message(),
              HasSubstr("line 2: has 1 columns; 2 are needed; if \" is a"));
  config = CsvConfig(WriteTestFile("b.csv", "kind,x\n\"cat\" here,1\n"));
  EXPECT_THAT(ReadError(config, 0).message(),
              HasSubstr("line 2: column 1 has ' here,1' after the quote that "
                        "ends it; if"));
  config.set_separator("\"");
  EXPECT_THAT(OpenCsv("", config).status().message(),
              HasSubstr("csv.separator has a quote"));
  for (const char* wrong : {"", "a separator so long", "\n"}) {
    config.set_separator(wrong);
    EXPECT_THAT(OpenCsv("", config).status().message(),
                HasSubstr("csv.separator must be one to 16 characters"));
  }
}

TEST(CsvSourceTest, AMissingNumberHasTheValueThatTheJobGives) {
  v1::InputSource::Csv config =
      CsvConfig(WriteTestFile("a.csv", "x,kind,z\n,cat, \n1,cat,2\n3,,4\n"));
  EXPECT_THAT(ReadError(config, 0).message(),
              HasSubstr("line 2: column 'x' needs a number; found ''; "
                        "\"missing\": 0 would read that as 0"));
  config.add_missing(-0.5);
  Example example;
  const auto source = OpenCsv("", config);
  ASSERT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(-0.5, -0.5));
  ASSERT_TRUE((*source)->Read(1, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(1, 2));
  // A label is never guessed.
  EXPECT_THAT(ReadError(config, 2).message(), HasSubstr("has the class ''"));
  config.clear_class_names();
  EXPECT_THAT(std::string(ReadError(config, 2).message()),
              ::testing::EndsWith("column 'kind' needs a number; found ''"));
  config.set_hash_buckets(10);
  EXPECT_THAT(OpenCsv("", config).status().message(),
              HasSubstr("csv.missing is of columns of numbers"));
}

TEST(CsvSourceTest, AByteOrderMarkIsNoPartOfTheFirstName) {
  const auto source = OpenCsv(
      "", CsvConfig(WriteTestFile("a.csv", "\xef\xbb\xbfkind,x\ncat,1\n")));
  EXPECT_TRUE(source.ok()) << source.status();
  v1::InputSource::Csv config = CsvConfig(WriteTestFile("b.csv",
                                                        "\xef\xbb\xbf"
                                                        "7,8\n"));
  config.set_header(false);
  config.clear_label();
  Example example;
  ASSERT_TRUE((*OpenCsv("", config))->Read(0, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(7, 8));
}

TEST(CsvSourceTest, AMissingColumnIsNamedWithThoseThereAre) {
  const std::string path = WriteTestFile("a.csv", "x,y\n1,2\n");
  EXPECT_EQ(OpenCsv("", CsvConfig(path)).status(),
            absl::InvalidArgumentError(absl::StrCat(
                "'", path, "' has no column 'kind'; it has x, y")));
}

TEST(CsvSourceTest, WrongRowsAreNamedByLineAndColumn) {
  const std::string path = WriteTestFile(
      "a.csv", "x,kind\none,cat\n1,cow\n1\n\"1\"x,cat\n1,cat,2\n");
  const auto error = [&](uint64_t row) {
    return std::string(ReadError(CsvConfig(path), row).message());
  };
  EXPECT_EQ(error(0), absl::StrCat("'", path,
                                   "' line 2: column 'x' needs a "
                                   "number; found 'one'"));
  EXPECT_EQ(error(1), absl::StrCat("'", path,
                                   "' line 3: column 'kind' has the class "
                                   "'cow'; the job knows cat, dog, big"));
  EXPECT_EQ(error(2), absl::StrCat("'", path,
                                   "' line 4: has 1 columns; 2 are "
                                   "needed"));
  EXPECT_THAT(error(3), HasSubstr("line 5: column 1 has 'x,cat' after the"));
  EXPECT_EQ(error(4), absl::StrCat("'", path,
                                   "' line 6: has 3 columns; 2 are "
                                   "needed"));
}

TEST(CsvSourceTest, ALabelOutOfRangeIsRefused) {
  const std::string path =
      WriteTestFile("a.csv", "x,kind\n1,3\n1,1.5\n1,2.0\n");
  v1::InputSource::Csv config = CsvConfig(path);
  config.clear_class_names();
  config.set_classes(3);
  EXPECT_EQ(ReadError(config, 0),
            absl::DataLossError(absl::StrCat(
                "'", path,
                "' line 2: column 'kind' needs a whole number from 0 to 2; "
                "found '3'")));
  EXPECT_EQ(ReadError(config, 1),
            absl::DataLossError(
                absl::StrCat("'", path,
                             "' line 3: column 'kind' needs a whole number "
                             "from 0 to 2; found '1.5'")));
  EXPECT_EQ(ReadError(config, 2), absl::OkStatus());
}

// As Criteo's files are: a label, counts and keys, of which some are missing.
v1::InputSource::Csv MixedConfig(const std::string& path) {
  v1::InputSource::Csv config;
  config.add_files(path);
  config.set_separator("tab");
  config.set_header(false);
  config.set_name("features");
  config.set_label("0");
  config.set_group("6");
  v1::InputSource::Csv::Feature* const numbers = config.add_features();
  numbers->set_name("numbers");
  numbers->add_columns("1-2");
  numbers->add_missing(0);
  numbers->add_missing(-1);
  v1::InputSource::Csv::Feature* const keys = config.add_features();
  keys->set_name("keys");
  keys->add_columns("4-5");
  keys->set_hash_keys(true);
  v1::InputSource::Csv::Feature* const day = config.add_features();
  day->set_name("day");
  day->add_columns("3");
  day->set_classes(7);
  day->add_missing(6);
  return config;
}

constexpr char kMixedRows[] = "1\t5\t-2\t3\t68fd1e64\tx\tann\n0\t\t\t\t\t\t\n";

std::string RefusedMixed(const v1::InputSource::Csv& config) {
  const absl::Status status = OpenCsv("", config).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(CsvSourceTest, ARowHasColumnsOfSeveralKinds) {
  const std::string path = WriteTestFile("a.tsv", kMixedRows);
  const auto source = OpenCsv("", MixedConfig(path));
  ASSERT_TRUE(source.ok()) << source.status();
  const std::vector<FeatureSpec> expected = {
      {.name = "numbers", .dims = {2}},
      {.name = "keys", .dtype = DType::kInt64, .dims = {2}},
      {.name = "day", .dtype = DType::kInt32, .dims = {1}, .classes = 7},
      {.name = "label", .dims = {}},
      {.name = "group", .dtype = DType::kInt64, .dims = {}}};
  EXPECT_EQ((*source)->spec().features, expected);
  EXPECT_EQ((*source)->Names().columns, (std::vector<std::vector<std::string>>{
                                            {"1", "2"}, {"4", "5"}, {"3"}}));
  const auto key = [](const char* text, const char* column) {
    return static_cast<int64_t>(StableHash(text, StableHash(column)));
  };
  Example example;
  ASSERT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(5, -2));
  EXPECT_THAT(example.values[1].values<int64_t>(),
              ElementsAre(key("68fd1e64", "4"), key("x", "5")));
  EXPECT_THAT(example.values[2].values<int32_t>(), ElementsAre(3));
  EXPECT_THAT(example.values[3].values<float>(), ElementsAre(1));
  EXPECT_THAT(example.values[4].values<int64_t>(),
              ElementsAre(key("ann", "6")));
  ASSERT_TRUE((*source)->Read(1, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(0, -1));
  EXPECT_THAT(example.values[1].values<int64_t>(),
              ElementsAre(key("", "4"), key("", "5")));
  EXPECT_THAT(example.values[2].values<int32_t>(), ElementsAre(6));
}

TEST(CsvSourceTest, AFeatureOfManyReadsItsColumnsAsItWouldAlone) {
  v1::InputSource::Csv alone = ListConfig(WriteTestFile("a.csv", kClicks));
  v1::InputSource::Csv several = alone;
  v1::InputSource::Csv::Feature* const feature = several.add_features();
  feature->set_name("features");
  *feature->mutable_columns() = alone.columns();
  feature->set_hash_buckets(alone.hash_buckets());
  feature->set_list_column(alone.list_column());
  feature->set_list_separator(alone.list_separator());
  feature->set_list_length(alone.list_length());
  feature->set_list_of(alone.list_of());
  feature->add_log_columns("hour");
  alone.add_log_columns("hour");
  several.clear_columns();
  several.clear_hash_buckets();
  several.clear_list_column();
  several.clear_list_of();
  const auto one = OpenCsv("", alone);
  const auto other = OpenCsv("", several);
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ((*one)->spec(), (*other)->spec());
  Example a;
  Example b;
  ASSERT_TRUE((*one)->Read(0, &a).ok());
  ASSERT_TRUE((*other)->Read(0, &b).ok());
  for (size_t f = 0; f < a.values.size(); ++f) {
    EXPECT_EQ(a.values[f].bytes(), b.values[f].bytes());
  }
}

TEST(CsvSourceTest, WhereThereIsNoFileYetTheJobSaysWhatARowHas) {
  const v1::InputSource::Csv config =
      MixedConfig(WriteTestFile("a.tsv", kMixedRows));
  const auto none = ReadCsv({}, config);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ((*none)->size(), 0u);
  EXPECT_EQ((*none)->spec(), (*OpenCsv("", config))->spec());
}

TEST(CsvSourceTest, AColumnIsOfOneKind) {
  v1::InputSource::Csv config = MixedConfig(WriteTestFile("a.tsv", kMixedRows));
  config.mutable_features(1)->add_columns("2");
  EXPECT_EQ(RefusedMixed(config),
            "csv.features[1].columns reads '2' as texts, and "
            "csv.features[0].columns as numbers; a column is of one kind");
  config = MixedConfig(config.files(0));
  config.mutable_features(2)->set_columns(0, "1");
  EXPECT_THAT(RefusedMixed(config),
              HasSubstr("csv.features[2].columns reads '1' as classes"));
  // Evaluations may be sliced by the classes that a column of keys has, too.
  config = MixedConfig(config.files(0));
  config.mutable_features(1)->add_columns(config.features(2).columns(0));
  const auto shared = OpenCsv("", config);
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_EQ((*shared)->spec().features[1].dims, Dims{3});
  EXPECT_EQ((*shared)->spec().features[2].dtype, DType::kInt32);
  // Two tables may have the same keys.
  config = MixedConfig(config.files(0));
  *config.add_features() = config.features(1);
  config.mutable_features(3)->set_name("wide");
  EXPECT_TRUE(OpenCsv("", config).ok());
}

TEST(CsvSourceTest, WhatDoesNotGoWithSeveralFeaturesIsNamed) {
  const std::string path = WriteTestFile("a.tsv", kMixedRows);
  using Csv = v1::InputSource::Csv;
  const auto refused = [&](auto change) {
    Csv config = MixedConfig(path);
    change(&config);
    return RefusedMixed(config);
  };
  EXPECT_EQ(refused([](Csv* csv) { csv->set_hash_buckets(5); }),
            "csv.features and csv.hash_buckets are both given; say it of each "
            "of the features");
  EXPECT_THAT(refused([](Csv* csv) { csv->add_columns("1"); }),
              HasSubstr("csv.features and csv.columns are both given"));
  EXPECT_THAT(refused([](Csv* csv) { csv->set_name("x"); }),
              HasSubstr("csv.features and csv.name are both given"));
  EXPECT_THAT(
      refused(
          [](Csv* csv) { csv->mutable_features(0)->set_columns(0, "0-2"); }),
      HasSubstr("csv.features[0].columns names '0', which is the label"));
  EXPECT_THAT(
      refused([](Csv* csv) { csv->mutable_features(0)->set_columns(0, "9"); }),
      HasSubstr("a.tsv' has no column '9'; it has 0, 1, 2"));
  EXPECT_THAT(
      refused(
          [](Csv* csv) { csv->mutable_features(0)->set_columns(0, "2-1"); }),
      HasSubstr("csv.features[0].columns has '2-1'; a range goes from"));
  EXPECT_EQ(
      refused([](Csv* csv) { csv->mutable_features(1)->set_name("day"); }),
      "csv.features[2].name and csv.features[1].name are 'day'; give "
      "each feature a name of its own");
  EXPECT_THAT(
      refused([](Csv* csv) { csv->mutable_features(1)->set_name("label"); }),
      HasSubstr("csv.features[1].name is 'label', as the label is called"));
  EXPECT_THAT(
      refused([](Csv* csv) { csv->mutable_features(1)->set_name("group"); }),
      HasSubstr("csv.group makes a feature 'group', and csv.features[1].name"));
  EXPECT_THAT(
      refused([](Csv* csv) { csv->mutable_features(1)->set_classes(2); }),
      HasSubstr("csv.features[1].classes and hashes are both given"));
  EXPECT_EQ(refused([](Csv* csv) { csv->mutable_features(0)->add_missing(1); }),
            "csv.features[0].missing has 3 numbers for 2 columns; give one, or "
            "one for each");
  EXPECT_THAT(
      refused([](Csv* csv) { csv->mutable_features(1)->add_missing(1); }),
      HasSubstr("csv.features[1].missing is of columns of numbers"));
  EXPECT_THAT(
      refused([](Csv* csv) { csv->mutable_features(2)->set_missing(0, 7); }),
      HasSubstr("csv.features[2].missing is 7; it must be a whole number from "
                "0 to 6"));
}

TEST(CsvSourceTest, WhatDoesNotSuitItsKindIsNamedByLineAndColumn) {
  v1::InputSource::Csv config = MixedConfig(WriteTestFile(
      "a.tsv", absl::StrCat(kMixedRows, "1\tmany\t2\t3\tx\tx\ty\n",
                            "1\t1\t2\t7\tx\tx\ty\n")));
  EXPECT_THAT(ReadError(config, 2).message(),
              HasSubstr("a.tsv' line 3: column '1' needs a number; found "
                        "'many'"));
  EXPECT_THAT(ReadError(config, 3).message(),
              HasSubstr("a.tsv' line 4: column '3' needs a whole number from 0 "
                        "to 6; found '7'"));
  config.mutable_features(0)->clear_missing();
  EXPECT_THAT(ReadError(config, 1).message(),
              HasSubstr("line 2: column '1' needs a number; found ''; "
                        "\"missing\": 0 would read that as 0"));
}

// ---- weights, and several labels --------------------------------------------

constexpr char kTasksFile[] =
    "age,click,w,buy,stars\n30,1,0.5,0,two\n41,0,2,1,one\n";

v1::InputSource::Csv TasksConfig(const std::string& path) {
  v1::InputSource::Csv config;
  config.add_files(path);
  config.set_name("features");
  config.set_separator(",");
  config.set_header(true);
  config.set_weight("w");
  config.add_labels()->set_column("click");
  v1::InputSource::Csv::Label* label = config.add_labels();
  label->set_column("buy");
  label->set_name("bought");
  label->set_classes(2);
  label = config.add_labels();
  label->set_column("stars");
  label->add_class_names("one");
  label->add_class_names("two");
  return config;
}

TEST(CsvSourceTest, LabelsAndWeightAreFeaturesOfTheirOwn) {
  v1::InputSource::Csv config = TasksConfig(WriteTestFile("t.csv", kTasksFile));
  const InputSpec wanted{{FeatureSpec{"features", DType::kFloat32, {1}},
                          FeatureSpec{"click", DType::kFloat32, {}},
                          FeatureSpec{"bought", DType::kInt32, {}, 2},
                          FeatureSpec{"stars", DType::kInt32, {}, 2},
                          FeatureSpec{"weight", DType::kFloat32, {}}}};
  // The short form takes all other columns; else the job names them.
  for (const bool named : {false, true}) {
    if (named) {
      config.clear_name();
      v1::InputSource::Csv::Feature* const feature = config.add_features();
      feature->set_name("features");
      feature->add_columns("age");
    }
    const auto source = OpenCsv("", config);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ((*source)->spec(), wanted);
    Example example;
    ASSERT_TRUE((*source)->Read(1, &example).ok());
    EXPECT_THAT(example.values[0].values<float>(), ElementsAre(41));
    EXPECT_THAT(example.values[1].values<float>(), ElementsAre(0));
    EXPECT_THAT(example.values[2].values<int32_t>(), ElementsAre(1));
    EXPECT_THAT(example.values[3].values<int32_t>(), ElementsAre(0));
    EXPECT_THAT(example.values[4].values<float>(), ElementsAre(2));
  }
  // Files that are to come look the same.
  const auto none = ReadCsv({}, config);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ((*none)->spec(), wanted);
}

TEST(CsvSourceTest, AWeightStandsBesideOneLabelToo) {
  v1::InputSource::Csv config = TasksConfig(WriteTestFile("t.csv", kTasksFile));
  config.clear_labels();
  config.set_label("click");
  config.add_columns("age");
  const auto source = OpenCsv("", config);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->spec().features[1].name, "label");
  EXPECT_EQ((*source)->spec().features[2].name, "weight");
}

TEST(CsvSourceTest, LabelsThatCouldBeMeantInTwoWaysAreRefused) {
  using Csv = v1::InputSource::Csv;
  const std::string path = WriteTestFile("t.csv", kTasksFile);
  const auto refused = [&](auto change) {
    Csv config = TasksConfig(path);
    change(&config);
    return std::string(OpenCsv("", config).status().message());
  };
  EXPECT_EQ(refused([](Csv* csv) { csv->set_label("click"); }),
            "csv.labels and csv.label are both given; say it of each of the "
            "labels");
  EXPECT_EQ(refused([](Csv* csv) { csv->set_classes(2); }),
            "csv.labels and csv.classes are both given; say it of each of the "
            "labels");
  EXPECT_EQ(
      refused([](Csv* csv) { csv->mutable_labels(1)->set_column("click"); }),
      "csv.labels[1] and csv.labels[0] are both 'click'; leave one out");
  EXPECT_EQ(
      refused([](Csv* csv) { csv->mutable_labels(1)->set_name("click"); }),
      "csv.labels[1].name and csv.labels[0].name are 'click'; give each "
      "feature a name of its own");
  EXPECT_EQ(refused([](Csv* csv) { csv->set_weight("buy"); }),
            "csv.weight is 'buy', which is a label");
  EXPECT_EQ(refused([](Csv* csv) { csv->set_group("buy"); }),
            "csv.group is 'buy', which is a label");
  EXPECT_EQ(refused([](Csv* csv) { csv->add_columns("buy"); }),
            "csv.columns names 'buy', which is a label: the model would be "
            "told what it is to predict");
  EXPECT_EQ(refused([](Csv* csv) { csv->set_name("bought"); }),
            "csv.name is 'bought', as a label is called; choose another one");
  EXPECT_EQ(refused([](Csv* csv) { csv->set_name("weight"); }),
            "csv.weight makes a feature 'weight', and csv.name gives the "
            "columns this name, too; choose another one");
  EXPECT_EQ(
      refused([](Csv* csv) { csv->mutable_labels(2)->add_class_names("one"); }),
      "csv.labels[2].class_names has 'one' twice: which of the two is meant?");
  EXPECT_EQ(refused([](Csv* csv) { csv->mutable_labels(2)->set_classes(3); }),
            "csv.labels[2].classes is 3, and 2 class_names are given; leave "
            "one out");
  EXPECT_THAT(
      refused([](Csv* csv) { csv->mutable_labels(0)->set_column("tap"); }),
      HasSubstr("t.csv' has no column 'tap'; it has age, click"));
  EXPECT_THAT(refused([](Csv* csv) { csv->set_weight("v"); }),
              HasSubstr("t.csv' has no column 'v'; it has age, click"));
}

TEST(CsvSourceTest, LabelsAndWeightsWithoutTextAreNeverMissing) {
  v1::InputSource::Csv config = TasksConfig(WriteTestFile(
      "t.csv", "age,click,w,buy,stars\n1,,1,1,one\n1,1,,1,one\n"));
  EXPECT_THAT(std::string(ReadError(config, 0).message()),
              ::testing::EndsWith(
                  "t.csv' line 2: column 'click' needs a number; found ''"));
  EXPECT_THAT(std::string(ReadError(config, 1).message()),
              ::testing::EndsWith(
                  "t.csv' line 3: column 'w' needs a number; found ''"));
}

TEST(CsvSourceTest, AFileWithoutRowsIsRefused) {
  const std::string path = WriteTestFile("a.csv", "x,kind\n\n");
  EXPECT_EQ(
      OpenCsv("", CsvConfig(path)).status(),
      absl::InvalidArgumentError(absl::StrCat("'", path, "' holds no row")));
}

TEST(CsvSourceTest, FilesWithOtherColumnsAreRefused) {
  const std::string first = WriteTestFile("a.csv", "x,kind\n1,cat\n");
  v1::InputSource::Csv config = CsvConfig(first);
  const std::string second = WriteTestFile("b.csv", "y,kind\n1,cat\n");
  config.add_files(second);
  EXPECT_EQ(OpenCsv("", config).status(),
            absl::DataLossError(absl::StrCat("'", second,
                                             "' has the columns y, kind; '",
                                             first, "' has x, kind")));
}

}  // namespace
}  // namespace paramd
