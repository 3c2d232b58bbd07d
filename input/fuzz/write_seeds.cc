// Writes the corpora of the targets beside it: small files of each kind.

#include <string>
#include <vector>

#include "base/fuzz/pieces.h"
#include "base/fuzz/seeds.h"
#include "input/testing/idx_test_files.h"
#include "input/testing/input_test_files.h"

namespace paramd {
namespace {

using fuzz::WriteSeeds;

std::string With(uint8_t choice, const std::string& content) {
  return std::string(1, static_cast<char>(choice)) + content;
}

std::string Messages(uint8_t choice, const std::vector<std::string>& messages) {
  std::string out = With(choice, "");
  for (const std::string& message : messages) fuzz::AddSized(message, &out);
  return out;
}

// NumPy's other order of values.
std::string InFortransOrder(std::string npy) {
  return npy.replace(npy.find("False"), 5, "True ");
}

void WriteArrays(const std::string& directory) {
  const std::string image = IdxBytes({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  WriteSeeds(directory, "idx",
             {{"images", image},
              {"labels", IdxBytes({3}, {0, 1, 2})},
              {"packed", Gzipped(image)},
              {"longer_than_it_says", IdxBytes({1}, {0, 1})},
              {"shorter_than_it_says", IdxBytes({1u << 31}, {0, 1})}});
  const std::string reals =
      NpyBytes("<f4", "(3, 2)", ValueBytes<float>({1, 2, 3, 4, 5, 6}));
  const std::string whole =
      NpyBytes(">i2", "(3,)", std::string("\0\1\0\2\0\3", 6));
  WriteSeeds(
      directory, "npy",
      {{"reals", With(0, reals)},
       {"big_endian", With(1, whole)},
       {"doubles",
        With(1, NpyBytes("<f8", "(2,)", ValueBytes<double>({1, 2})))},
       {"half", With(0, NpyBytes("<f2", "(1, 2)", std::string(4, '\x3c')))},
       {"fortran", With(0, InFortransOrder(reals))},
       {"stored", With(0, ZipBytes({{"x.npy", reals}}, /*deflated=*/false))},
       {"deflated", With(0, ZipBytes({{"y", "no"}, {"x.npy", reals}},
                                     /*deflated=*/true))}});
}

void WriteRecords(const std::string& directory) {
  const std::string example =
      TfExample({Int64Feature("label", {1}), BytesFeature("text", "one"),
                 FloatFeature("x", {1, 2}), FloatFeature("list", {1, 2, 3, 4}),
                 Int64Feature("keys", {7, -1})});
  const std::string some = TfExample({FloatFeature("x", {1, 2})});
  WriteSeeds(directory, "tf_example",
             {{"all", example},
              {"some_are_missing", some},
              {"no_features", TfExample({})},
              {"wrong_type", TfExample({Int64Feature("x", {1, 2})})},
              {"too_few", TfExample({FloatFeature("x", {1})})}});
  WriteSeeds(
      directory, "kafka_message",
      {{"csv", Messages(2, {"1,2,0", "3,4.5,2"})},
       {"csv_names", Messages(2 | 4 | 8, {"1\t2\t0", "3\t\t1"})},
       {"csv_quotes",
        Messages(2 | 16 | 32, {"\"a \"\"b\"\"\",\"c\nd\",1", "e,f,2\n"})},
       {"libsvm", Messages(4, {"1 1:0.5 3:-2e1", "2 8:1 # comment"})},
       {"tf_example", Messages(1, {some, some})},
       {"empty", Messages(2, {"", "1,2,0"})},
       {"two_rows", Messages(2 | 64, {"1,2,0\n3,4,1", ",,0"})}});
  WriteSeeds(directory, "tf_record",
             {{"one", TfRecordBytes(some)},
              {"two", TfRecordBytes(example) + TfRecordBytes(some)},
              {"packed", Gzipped(TfRecordBytes(some))},
              {"packed_by_zlib", ZlibBytes(TfRecordBytes(some))},
              {"cut_off", TfRecordBytes(some).substr(0, 30)}});
  WriteSeeds(directory, "unpack",
             {{"gzip", With(0, Gzipped("some text"))},
              {"twice", With(0, Gzipped("one") + Gzipped("two"))},
              {"zlib", With(1, ZlibBytes("some text"))},
              {"zeros", With(0, Gzipped(std::string(5000, '\0')))},
              {"bzip2", With(0, "BZh91AY&SY")}});
}

void WriteTexts(const std::string& directory) {
  WriteSeeds(directory, "csv",
             {{"numbers", With(2, "1,2.5,3\n4,5,6\n")},
              {"header", With(1 | 2 | 8 | 32, "x,y\n1,2\n3,0\n")},
              {"quotes", With(2 | 4 | 16, "\"a \"\"b\"\",\n\",c\nd,e\n")},
              {"tabs", With(8, "1\t2\t3\n0\t-1\t1e3\n")},
              {"lists", With(1 | 2 | 64, "x,z\na,b|c|d\n,\n")},
              {"ranges", With(2 | 32 | 128, "1,2,3,,5\r\n6,7,8,9,0")}});
  WriteSeeds(directory, "libsvm",
             {{"vectors", With(1 | 2 | 4, "+1 1:0.5 3:-2e1\r\n-1 qid:7 2:1\n")},
              {"lists", With(8, "3 0:1 7:1 1000:1 # comment\n2\n")},
              {"reals", With(1, "-2.5 0:1 2:1\n3e2 1:1\n")},
              {"without_labels", With(1 | 2 | 16, "1:1 2:3\n\n4:1\n")},
              {"both_kinds_of_labels", With(1 | 2 | 4, "0 1:1\n-1 1:1\n")}});
}

void WriteImages(const std::string& directory) {
  const std::vector<uint8_t> grey = {0, 64, 128, 255};
  const std::vector<uint8_t> colours = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const std::string turned(
      "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06", 20);
  WriteSeeds(directory, "image",
             {{"png_grey", PngBytes(2, 2, 1, grey)},
              {"png_colour", PngBytes(2, 2, 3, colours)},
              {"png_16_bits", PngOfForm({.height = 1, .width = 1, .bits = 16},
                                        {std::string("\x12\x34", 2)})},
              {"png_turned",
               PngOfForm({.height = 1, .width = 2, .bits = 8},
                         {std::string("\x01\x02", 2)}, {{"eXIf", turned}})},
              {"jpeg_grey", JpegBytes(2, 2, 1, grey)},
              {"jpeg_colour", JpegBytes(2, 2, 3, colours)},
              {"jpeg_inks", JpegBytes(1, 1, 4, {1, 2, 3, 4})},
              {"jpeg_scans", JpegOfScans(3)}});
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  paramd::WriteArrays(argv[1]);
  paramd::WriteRecords(argv[1]);
  paramd::WriteTexts(argv[1]);
  paramd::WriteImages(argv[1]);
  return 0;
}
