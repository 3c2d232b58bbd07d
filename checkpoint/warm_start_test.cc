#include "checkpoint/warm_start.h"

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/testing/sample.h"
#include "tensor/number_format.h"

namespace paramd {
namespace {

using testing::CommitSample;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::SampleBytes;
using testing::SampleVariable;

std::string NewDirectory(const std::string& name) {
  const std::string path =
      absl::StrCat(::testing::TempDir(), "/warm-", name, "-", getpid());
  EXPECT_TRUE(MakeDirectories(path).ok());
  return *AbsolutePath(path);  // TempDir() may end with a slash.
}

void WriteText(const std::string& path, const std::string& text) {
  auto file = *NewFile::Create(path);
  EXPECT_TRUE(file->Append(absl::string_view(text)).ok());
  EXPECT_TRUE(file->Finish().ok());
}

struct Tensor {
  std::string dtype;
  std::vector<uint64_t> shape;
  std::vector<float> values;
};

// A safetensors file with these tensors.
std::string WriteTensors(const std::string& path,
                         const std::map<std::string, Tensor>& tensors) {
  std::vector<TensorInfo> infos;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const NumberFormat format = tensor.dtype == "F16"    ? NumberFormat::kFp16
                                : tensor.dtype == "BF16" ? NumberFormat::kBf16
                                                         : NumberFormat::kFp32;
    const bool integers = tensor.dtype == "I64";
    const size_t width = integers ? sizeof(int64_t) : BytesOf(format);
    std::vector<std::byte> bytes(tensor.values.size() * width);
    if (integers) {
      const std::vector<int64_t> wide(tensor.values.begin(),
                                      tensor.values.end());
      std::memcpy(bytes.data(), wide.data(), bytes.size());
    } else {
      EncodeNumbers(format, tensor.values.data(), tensor.values.size(),
                    bytes.data());
    }
    infos.push_back({name, tensor.dtype, tensor.shape, data.size(),
                     data.size() + bytes.size()});
    data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  WriteText(path, absl::StrCat(*EncodeSafetensorsHeader(infos), data));
  return path;
}

v1::WarmStartConfig From(const std::string& path,
                         const std::string& variables = "*",
                         const std::string& from = "") {
  v1::WarmStartConfig config;
  config.set_path(path);
  config.set_variables(variables);
  config.set_from(from);
  return config;
}

std::string MistakeOf(const v1::WarmStartConfig& config,
                      const std::vector<v1::Variable>& variables) {
  return std::string(FindWarmStart(config, variables).status().message());
}

// Rows [begin, end) of a variable.
v1::ReadSlices::Want Rows(const v1::Variable& variable, uint64_t begin,
                          uint64_t end) {
  v1::ReadSlices::Want want;
  want.set_variable(variable.name());
  *want.mutable_shape() = variable.shape();
  want.set_row_begin(begin);
  want.set_row_end(end);
  want.set_keyed(variable.keyed());
  return want;
}

v1::Variable Keyed(const std::string& name, uint64_t rows, uint64_t width) {
  v1::Variable variable = SampleVariable(name, {rows, width});
  variable.set_sparse(true);
  variable.set_keyed(true);
  return variable;
}

// As an export has a keyed variable.
std::map<std::string, Tensor> ExportOf(const std::string& name,
                                       const Tensor& values,
                                       const std::vector<float>& keys,
                                       const std::vector<float>& used) {
  return {{name, values},
          {name + "/slot:key", {"I64", {keys.size()}, keys}},
          {name + "/slot:used", {"I64", {used.size()}, used}}};
}

struct Got {
  absl::Status status;
  std::vector<bool> found;
  std::vector<float> values;
};

Got Read(const v1::WarmStartConfig& config,
         const std::vector<v1::ReadSlices::Want>& wanted) {
  v1::ReadWarmStart request;
  *request.mutable_warm_start() = config;
  for (const auto& want : wanted) *request.add_slices() = want;
  v1::ReadWarmStartResult result;
  BufferChain payload;
  Got got;
  got.status = ReadWarmStart(request, &result, &payload);
  got.found.assign(result.found().begin(), result.found().end());
  got.values.resize(ChainSize(payload) / sizeof(float));
  ChainReader reader(payload);
  reader.Read(AsWritableBytes(absl::MakeSpan(got.values)));
  return got;
}

// Numbers of a keyed variable's `rows`, as they were read: each key with its
// row.
std::map<uint64_t, std::vector<float>> ByKey(const Got& got, size_t rows) {
  EXPECT_TRUE(got.status.ok()) << got.status;
  const size_t width = got.values.size() / rows - 4;  // Two integers a row.
  std::vector<uint64_t> integers(2 * rows);
  std::memcpy(integers.data(), got.values.data() + rows * width,
              integers.size() * sizeof(uint64_t));
  std::map<uint64_t, std::vector<float>> found;
  for (size_t row = 0; row < rows; ++row) {
    if (integers[rows + row] == 0) continue;
    const auto begin = got.values.begin() + row * width;
    found[integers[row]] = {begin, begin + width};
  }
  return found;
}

std::vector<float> Floats(const Buffer& buffer) {
  std::vector<float> values(buffer.size() / sizeof(float));
  std::memcpy(values.data(), buffer.bytes().data(), buffer.size());
  return values;
}

// ---- what is read -----------------------------------------------------------

TEST(WarmStartTest, ACheckpointGivesTheRowsThatAreWanted) {
  const std::string root = NewDirectory("checkpoint");
  const auto w = SampleVariable("w", {6, 2});
  const std::string path =
      *CommitSample(root, {w}, {"momentum"}, 1, 5, 70, 2, 16);
  const auto found = FindWarmStart(From(path), {w});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->path(), path);
  const Got got = Read(*found, {Rows(w, 1, 5)});
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.values, Floats(SampleBytes(w, "", {1, 5})));
}

TEST(WarmStartTest, HalfPrecisionIsConverted) {
  const std::string path =
      WriteTensors(absl::StrCat(NewDirectory("half"), "/a.safetensors"),
                   {{"a", {"F16", {3}, {0.5, -2, 1024}}},
                    {"b", {"BF16", {2}, {1.5, -96}}},
                    {"c", {"F32", {1}, {0.1f}}}});
  const auto a = SampleVariable("a", {3});
  const auto b = SampleVariable("b", {2});
  const auto c = SampleVariable("c", {1});
  ASSERT_EQ(MistakeOf(From(path), {a, b, c}), "");
  const Got got =
      Read(From(path), {Rows(c, 0, 1), Rows(a, 1, 3), Rows(b, 0, 2)});
  EXPECT_THAT(got.values, ElementsAre(0.1f, -2, 1024, 1.5, -96));
}

TEST(WarmStartTest, AnIndexSaysInWhichFileATensorLies) {
  const std::string directory = NewDirectory("index");
  WriteTensors(absl::StrCat(directory, "/1.safetensors"),
               {{"x.weight", {"F32", {2}, {1, 2}}}});
  WriteTensors(absl::StrCat(directory, "/2.safetensors"),
               {{"y.weight", {"F32", {2}, {3, 4}}}});
  WriteText(absl::StrCat(directory, "/model.safetensors.index.json"),
            R"({"metadata": {}, "weight_map": {
                "x.weight": "1.safetensors", "y.weight": "2.safetensors"}})");
  const auto x = SampleVariable("x/kernel", {2});
  const auto y = SampleVariable("y/kernel", {2});
  const auto config = From(directory, "*/kernel", "*.weight");
  ASSERT_EQ(MistakeOf(config, {x, y, SampleVariable("y/bias", {1})}), "");
  const Got got =
      Read(config, {Rows(y, 0, 2), Rows(SampleVariable("y/bias", {1}), 0, 1),
                    Rows(x, 0, 2)});
  EXPECT_THAT(got.values, ElementsAre(3, 4, 1, 2));
  EXPECT_THAT(got.found, ElementsAre(true, false, true));
}

TEST(WarmStartTest, AScalarIsOneRow) {
  const std::string path =
      WriteTensors(absl::StrCat(NewDirectory("scalar"), "/a.safetensors"),
                   {{"s", {"F32", {}, {7}}}});
  const auto s = SampleVariable("s", {});
  ASSERT_EQ(MistakeOf(From(path), {s}), "");
  EXPECT_THAT(Read(From(path), {Rows(s, 0, 1)}).values, ElementsAre(7));
}

// ---- what a path stands for -------------------------------------------------

TEST(WarmStartTest, ADirectoryStandsForItsNewestCheckpointThatVerifies) {
  const std::string run = NewDirectory("run");
  const std::string root = absl::StrCat(run, "/checkpoints");
  const auto w = SampleVariable("w", {6, 2});
  const std::string good = *CommitSample(root, {w}, {}, 1, 5, 70, 1, 1 << 20);
  const std::string torn = *CommitSample(root, {w}, {}, 1, 6, 80, 1, 1 << 20);
  ASSERT_TRUE(
      RemoveTree(absl::StrCat(torn, "/ps-00001-of-00001.safetensors")).ok());
  EXPECT_EQ(FindWarmStart(From(root), {w})->path(), good);
  EXPECT_EQ(FindWarmStart(From(run), {w})->path(), good);
  EXPECT_EQ(FindWarmStart(From(torn), {w}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// The file at `path` with a bit of its last byte turned.
void FlipLastByte(const std::string& path) {
  std::string text = *ReadWholeFile(path, 1'000'000);
  text.back() ^= 1;
  std::ofstream(path, std::ios::binary) << text;
}

TEST(WarmStartTest, OneFileOfACheckpointIsVerifiedByTheManifestBesideIt) {
  const std::vector<v1::Variable> variables = {SampleVariable("w", {6, 2})};
  const std::string root = NewDirectory("one-file");
  const std::string path =
      *CommitSample(root, variables, {}, 1, 1, 10, 1, 4096);
  const std::string file = path + "/ps-00001-of-00001.safetensors";
  v1::WarmStartConfig config = From(file);
  config.set_allow_missing("*");  // The file has slices by other names.
  EXPECT_THAT(MistakeOf(config, variables), Not(HasSubstr("crc32c")));
  FlipLastByte(file);
  EXPECT_THAT(MistakeOf(config, variables),
              HasSubstr(file + "' has the crc32c "));
}

TEST(WarmStartTest, ACheckpointWithoutItsManifestIsNotTakenForAnotherModel) {
  const std::vector<v1::Variable> variables = {SampleVariable("w", {6, 2})};
  const std::string path = *CommitSample(NewDirectory("no-manifest"), variables,
                                         {}, 1, 1, 10, 1, 4096);
  std::filesystem::remove(path + "/manifest.json");
  EXPECT_THAT(MistakeOf(From(path), variables), HasSubstr("manifest.json"));
}

TEST(WarmStartTest, ADirectoryOfOneFileStandsForIt) {
  const std::string directory = NewDirectory("one");
  const std::string path = WriteTensors(
      absl::StrCat(directory, "/model.safetensors"), {{"s", {"F32", {}, {7}}}});
  EXPECT_EQ(FindWarmStart(From(directory), {SampleVariable("s", {})})->path(),
            path);
}

TEST(WarmStartTest, WhatIsNothingOfTheKindIsNamed) {
  const std::string empty = NewDirectory("empty");
  const auto s = SampleVariable("s", {});
  EXPECT_EQ(MistakeOf(From(empty), {s}),
            absl::StrCat("warm_start.path: '", empty,
                         "' holds no checkpoint, no model.safetensors and no "
                         "model.safetensors.index.json"));
  EXPECT_THAT(MistakeOf(From("/no/such"), {s}),
              HasSubstr("warm_start.path: cannot open '/no/such'"));
  WriteText(absl::StrCat(empty, "/text"), "no tensors at all");
  EXPECT_EQ(
      FindWarmStart(From(absl::StrCat(empty, "/text")), {s}).status().code(),
      absl::StatusCode::kDataLoss);
  WriteText(absl::StrCat(empty, "/model.safetensors.index.json"),
            R"({"weight_map": {"s": "../s.safetensors"}})");
  EXPECT_THAT(MistakeOf(From(empty), {s}),
              HasSubstr("does not say in which file beside it 's' lies"));
}

// ---- rows by key ------------------------------------------------------------

TEST(WarmStartTest, ACheckpointGivesItsRowsByKeyToATableOfAnotherCapacity) {
  const v1::Variable there = Keyed("table", 40, 4);
  const std::string path =
      *CommitSample(NewDirectory("keyed"), {there, SampleVariable("w", {2})},
                    {"key", "used", "momentum"}, 1, 1, 10, 2, 1 << 20);
  const v1::Variable here = Keyed("embedding/table", 50, 4);
  const auto config = From(path, "embedding/table,w", "table,w");
  EXPECT_EQ(MistakeOf(config, {here, SampleVariable("w", {2})}), "");
  const auto found = ByKey(Read(config, {Rows(here, 0, 50)}), 50);
  const std::vector<float> values = Floats(SampleBytes(there, "", {0, 40}));
  // The sample's row r has the key 3r, but for row 0.
  ASSERT_EQ(found.size(), 39u);
  for (size_t row = 1; row < 40; ++row) {
    EXPECT_EQ(found.at(3 * row),
              std::vector<float>(values.begin() + row * 4,
                                 values.begin() + row * 4 + 4));
  }
  // With rows of others before and after.
  const Got all =
      Read(config, {Rows(SampleVariable("w", {2}), 0, 2), Rows(here, 0, 50),
                    Rows(SampleVariable("w", {2}), 0, 1)});
  EXPECT_THAT(all.found, ElementsAre(true, true, true));
  EXPECT_EQ(all.values.size(), 2u + 50 * 8 + 1);
}

TEST(WarmStartTest, AnExportGivesItsRowsByKey) {
  const std::string path = WriteTensors(
      absl::StrCat(NewDirectory("exported"), "/model.safetensors"),
      ExportOf("t", {"F16", {3, 2}, {1, 2, 3, 4, 5, 6}}, {7, 0, 9}, {5, 0, 4}));
  const v1::Variable t = Keyed("t", 5, 2);
  EXPECT_EQ(MistakeOf(From(path), {t}), "");
  const auto found = ByKey(Read(From(path), {Rows(t, 0, 5)}), 5);
  const std::map<uint64_t, std::vector<float>> wanted = {{7, {1, 2}},
                                                         {9, {5, 6}}};
  EXPECT_EQ(found, wanted);
}

TEST(WarmStartTest, RowsByKeyThatDoNotFitAreNamedBeforeTheJobStarts) {
  const std::string path = WriteTensors(
      absl::StrCat(NewDirectory("misfits"), "/model.safetensors"),
      ExportOf("t", {"F32", {3, 2}, {1, 2, 3, 4, 5, 6}}, {7, 8, 9}, {5, 3, 4}));
  const auto in_file = absl::StrCat("' in '", path, "' ");
  EXPECT_THAT(MistakeOf(From(path), {Keyed("t", 2, 2)}),
              HasSubstr("'t' has 3 rows with a key; variable 't' has room for "
                        "2: give it a capacity of 3; it has: "));
  EXPECT_THAT(MistakeOf(From(path), {Keyed("t", 3, 4)}),
              HasSubstr(absl::StrCat("'t", in_file,
                                     "has rows of 2 values; those of variable "
                                     "'t' have 4")));
  EXPECT_THAT(MistakeOf(From(path), {SampleVariable("t", {3, 2})}),
              HasSubstr(absl::StrCat("'t", in_file,
                                     "has its rows by key; variable 't' (3x2) "
                                     "has not")));
  EXPECT_THAT(MistakeOf(From(path, "*", "*x"), {Keyed("t", 3, 2)}),
              HasSubstr("there is no 'tx' for variable 't' (3x2 by key)"));
  v1::WarmStartConfig config = From(path);
  config.set_transpose("t");
  EXPECT_THAT(MistakeOf(config, {Keyed("t", 3, 2)}),
              HasSubstr("variable 't' is keyed: its rows are not transposed"));
  // What may be missing may have rows of another width.
  config = From(path);
  config.set_allow_missing("t");
  EXPECT_THAT(Read(config, {Rows(Keyed("t", 3, 4), 0, 3)}).found,
              ElementsAre(false));
}

TEST(WarmStartTest, RowsWithoutKeysAreNoRowsByKey) {
  const std::string directory = NewDirectory("keyless");
  const std::string path =
      WriteTensors(directory + "/model.safetensors",
                   {{"t", {"F32", {3, 2}, std::vector<float>(6)}}});
  EXPECT_THAT(MistakeOf(From(path), {Keyed("t", 3, 2)}),
              HasSubstr(absl::StrCat("'t' in '", path,
                                     "' has no keys beside its rows "
                                     "('t/slot:key' and 't/slot:used'); "
                                     "variable 't' has its rows by key")));
  const std::string short_path = WriteTensors(
      directory + "/short.safetensors",
      ExportOf("t", {"F32", {3, 2}, std::vector<float>(6)}, {1, 2}, {1, 1}));
  EXPECT_THAT(MistakeOf(From(short_path), {Keyed("t", 3, 2)}),
              HasSubstr("is I64 2; beside the rows of 't' it must be I64 3"));
}

// ---- what does not fit ------------------------------------------------------

TEST(WarmStartTest, AllThatDoesNotFitIsSaidAtOnce) {
  const std::string path =
      WriteTensors(absl::StrCat(NewDirectory("fit"), "/a.safetensors"),
                   {{"a", {"F32", {3, 2}, std::vector<float>(6)}},
                    {"c", {"I32", {1}, {0}}}});
  EXPECT_EQ(
      MistakeOf(From(path),
                {SampleVariable("a", {2, 3}), SampleVariable("b", {4}),
                 SampleVariable("c", {1})}),
      absl::StrCat("warm_start: '", path, "' does not fit: 'a' in '", path,
                   "' has the shape 3x2; variable 'a' has 2x3 (it fits "
                   "transposed: name it in warm_start.transpose); there is no "
                   "'b' for variable 'b' (4); 'c' in '",
                   path, "' is I32; F32, F16 and BF16 are read; it has: a, c"));
}

TEST(WarmStartTest, WhatIsMissingMayKeepItsOrdinaryValues) {
  const std::string path =
      WriteTensors(absl::StrCat(NewDirectory("missing"), "/a.safetensors"),
                   {{"a", {"F32", {1}, {5}}}});
  const auto a = SampleVariable("a", {1});
  const auto b = SampleVariable("b", {1});
  v1::WarmStartConfig config = From(path);
  EXPECT_THAT(MistakeOf(config, {a, b}),
              HasSubstr("there is no 'b' for variable 'b' (1)"));
  EXPECT_THAT(Read(config, {Rows(b, 0, 1)}).status.message(),
              HasSubstr("there is no 'b' for variable 'b' (1)"));
  config.set_allow_missing("c,x*");
  EXPECT_THAT(MistakeOf(config, {a, b}), HasSubstr("there is no 'b'"));
  config.set_allow_missing("c,b*");
  EXPECT_EQ(MistakeOf(config, {a, b}), "");
  const Got got = Read(config, {Rows(b, 0, 1), Rows(a, 0, 1)});
  EXPECT_THAT(got.found, ElementsAre(false, true));
  EXPECT_THAT(got.values, ElementsAre(5));
  // Nothing at all is a mistake all the same.
  EXPECT_THAT(MistakeOf(config, {b}), HasSubstr("none of the 1 variables"));
}

TEST(WarmStartTest, WhatMayBeMissingMayHaveAnotherShape) {
  const std::string path =
      WriteTensors(absl::StrCat(NewDirectory("reshaped"), "/a.safetensors"),
                   {{"a", {"F32", {1}, {5}}}, {"b", {"F32", {2}, {6, 7}}}});
  const auto a = SampleVariable("a", {1});
  const auto b = SampleVariable("b", {3});
  v1::WarmStartConfig config = From(path);
  EXPECT_THAT(MistakeOf(config, {a, b}), HasSubstr("has the shape 2"));
  config.set_allow_missing("b");
  EXPECT_EQ(MistakeOf(config, {a, b}), "");
  const Got got = Read(config, {Rows(a, 0, 1), Rows(b, 0, 3)});
  EXPECT_THAT(got.found, ElementsAre(true, false));
  EXPECT_THAT(got.values, ElementsAre(5));
}

TEST(WarmStartTest, SeveralPatternsNameSeveralKindsOfVariables) {
  const std::string path =
      WriteTensors(absl::StrCat(NewDirectory("patterns"), "/model.safetensors"),
                   {{"1.weight", {"F32", {2, 1}, {1, 2}}},
                    {"1.bias", {"F32", {2}, {3, 4}}}});
  const v1::Variable kernel = SampleVariable("dense_1/kernel", {2, 1});
  const v1::Variable bias = SampleVariable("dense_1/bias", {2});
  const v1::Variable other = SampleVariable("other", {2});
  const v1::WarmStartConfig config =
      From(path, "dense_*/kernel,dense_*/bias", "*.weight,*.bias");
  EXPECT_EQ(MistakeOf(config, {kernel, bias, other}), "");
  const Got got =
      Read(config, {Rows(kernel, 0, 2), Rows(bias, 0, 2), Rows(other, 0, 2)});
  EXPECT_THAT(got.found, ElementsAre(true, true, false));
  EXPECT_THAT(got.values, ElementsAre(1, 2, 3, 4));
}

TEST(WarmStartTest, AMatrixIsTransposedIfThatIsSaid) {
  const std::string path = WriteTensors(
      absl::StrCat(NewDirectory("transposed"), "/model.safetensors"),
      {{"square", {"F32", {2, 2}, {1, 2, 3, 4}}},
       {"wide", {"F16", {2, 3}, {1, 2, 3, 4, 5, 6}}},
       {"bias", {"F32", {2}, {7, 8}}}});
  const v1::Variable square = SampleVariable("square", {2, 2});
  const v1::Variable wide = SampleVariable("wide", {3, 2});
  const v1::Variable bias = SampleVariable("bias", {2});
  v1::WarmStartConfig config = From(path);
  EXPECT_THAT(MistakeOf(config, {square, wide, bias}),
              HasSubstr("'wide' has 3x2 (it fits transposed: name it in "
                        "warm_start.transpose)"));
  config.set_transpose("*");
  EXPECT_EQ(MistakeOf(config, {square, wide, bias}), "");
  // Slices of one variable one after the other, and the other way round.
  const Got got =
      Read(config, {Rows(square, 0, 2), Rows(wide, 0, 1), Rows(wide, 1, 3),
                    Rows(bias, 0, 2), Rows(wide, 2, 3), Rows(square, 1, 2)});
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_THAT(got.values,
              ElementsAre(1, 3, 2, 4, 1, 4, 2, 5, 3, 6, 7, 8, 3, 6, 2, 4));
  EXPECT_THAT(
      MistakeOf(config, {SampleVariable("wide", {2, 3})}),
      HasSubstr("has 2x3, transposed 3x2 (it fits as it is: take it out "
                "of warm_start.transpose)"));
}

TEST(WarmStartTest, AMatrixThatIsTransposedIsReadInWindows) {
  // Of 4 MiB: three rows of the tensor each.
  constexpr uint64_t kRows = 300'000;
  std::vector<float> values(kRows * 7);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const std::string path =
      WriteTensors(absl::StrCat(NewDirectory("windows"), "/model.safetensors"),
                   {{"w", {"F32", {7, kRows}, values}}});
  v1::WarmStartConfig config = From(path);
  config.set_transpose("w");
  const Got got =
      Read(config, {Rows(SampleVariable("w", {kRows, 7}), 299'998, kRows)});
  ASSERT_TRUE(got.status.ok()) << got.status;
  ASSERT_EQ(got.values.size(), 14u);
  for (uint64_t column = 0; column < 7; ++column) {
    EXPECT_EQ(got.values[column], column * kRows + 299'998);
    EXPECT_EQ(got.values[7 + column], column * kRows + 299'999);
  }
}

TEST(WarmStartTest, ASquareMatrixOfAnotherNameIsTakenAsItLiesWithAWarning) {
  const std::string path =
      WriteTensors(absl::StrCat(NewDirectory("square"), "/model.safetensors"),
                   {{"1.weight", {"F32", {2, 2}, {1, 2, 3, 4}}}});
  const v1::Variable kernel = SampleVariable("dense_1/kernel", {2, 2});
  v1::WarmStartConfig config = From(path, "dense_*/kernel", "*.weight");
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(FindWarmStart(config, {kernel}).ok());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("name the variable in warm_start.transpose variable="
                        "dense_1/kernel from=1.weight"));
  config.set_transpose("dense_*/kernel");
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(FindWarmStart(config, {kernel}).ok());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(WarmStartTest, APatternThatIsNoVariableIsAMistake) {
  const std::string path =
      WriteTensors(absl::StrCat(NewDirectory("pattern"), "/a.safetensors"),
                   {{"a", {"F32", {1}, {5}}}});
  EXPECT_THAT(MistakeOf(From(path, "b*"), {SampleVariable("a", {1})}),
              HasSubstr("variables \"b*\" is none of the job's: a"));
}

TEST(WarmStartTest, AFileThatAnIndexNamesAndThatIsMissingIsNamedOnce) {
  const std::string directory = NewDirectory("shard");
  WriteText(absl::StrCat(directory, "/model.safetensors.index.json"),
            R"({"weight_map": {"x": "2.safetensors", "y": "2.safetensors"}})");
  EXPECT_THAT(MistakeOf(From(directory),
                        {SampleVariable("x", {1}), SampleVariable("y", {1})}),
              HasSubstr(absl::StrCat(
                  "does not fit: '", directory,
                  "/2.safetensors' is missing, in which '", directory,
                  "/model.safetensors.index.json' says tensors to be; it")));
}

TEST(WarmStartTest, AFileOfTorchSaveIsNoSafetensorsFile) {
  const std::string directory = NewDirectory("torch");
  int n = 0;
  for (const std::string& text :
       {absl::StrCat("PK\x03\x04", std::string(60, '\0')),
        absl::StrCat("\x80\x02", std::string(60, '.'))}) {
    const std::string path = absl::StrCat(directory, "/", ++n, ".pt");
    WriteText(path, text);
    const auto found = FindWarmStart(From(path), {SampleVariable("x", {1})});
    EXPECT_TRUE(absl::IsInvalidArgument(found.status())) << found.status();
    EXPECT_THAT(std::string(found.status().message()),
                HasSubstr(absl::StrCat("'", path,
                                       "' is not a safetensors file but "
                                       "one of torch.save")));
  }
}

TEST(WarmStartTest, APointerOfGitLfsIsNamedAsThat) {
  const std::string directory = NewDirectory("lfs");
  for (const char* name :
       {"base.safetensors", "model.safetensors.index.json"}) {
    const std::string path = absl::StrCat(directory, "/", name);
    WriteText(path,
              "version https://git-lfs.github.com/spec/v1\n"
              "oid sha256:4d7a2146\nsize 12345\n");
    const bool is_index = absl::EndsWith(name, ".json");
    EXPECT_EQ(MistakeOf(From(is_index ? directory : path),
                        {SampleVariable("x", {1})}),
              absl::StrCat("warm_start.path: '", path,
                           "' is a Git LFS pointer, "
                           "not the file: run git lfs pull"));
  }
}

TEST(WarmStartTest, AWeightThatIsNotANumberIsNamedWithItsPlace) {
  const std::string path =
      WriteTensors(absl::StrCat(NewDirectory("nan"), "/a.safetensors"),
                   {{"a", {"F32", {3, 2}, {1, 2, 3, 4, 5, std::nanf("")}}},
                    {"b", {"BF16", {2}, {1, INFINITY}}}});
  const auto a = SampleVariable("a", {3, 2});
  const auto b = SampleVariable("b", {2});
  EXPECT_TRUE(Read(From(path), {Rows(a, 0, 2), Rows(b, 0, 1)}).status.ok());
  const Got nan = Read(From(path), {Rows(b, 0, 1), Rows(a, 1, 3)});
  EXPECT_TRUE(absl::IsInvalidArgument(nan.status));
  EXPECT_THAT(std::string(nan.status.message()),
              HasSubstr("a.safetensors' is not a number at row 2, element 1"));
  EXPECT_THAT(std::string(Read(From(path), {Rows(b, 0, 2)}).status.message()),
              HasSubstr("'b' in '"));
}

}  // namespace
}  // namespace paramd
