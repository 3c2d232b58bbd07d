#include "input/decode_image.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/exif.h"
#include "input/testing/input_test_files.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

std::vector<int> PixelsOf(const std::string& file, uint32_t channels,
                          bool upright = false) {
  OwnedTensor out;
  const auto decode = upright ? DecodeUpright : DecodeImage;
  const absl::Status status =
      decode({reinterpret_cast<const std::byte*>(file.data()), file.size()},
             channels, &out);
  EXPECT_TRUE(status.ok()) << status;
  if (!status.ok()) return {};
  return {out.values<uint8_t>().begin(), out.values<uint8_t>().end()};
}

std::string Big16(std::vector<int> samples) {
  std::string bytes;
  for (const int sample : samples) {
    bytes.push_back(static_cast<char>(sample >> 8));
    bytes.push_back(static_cast<char>(sample));
  }
  return bytes;
}

std::string Bytes8(std::vector<int> samples) {
  std::string bytes;
  for (const int sample : samples) bytes.push_back(static_cast<char>(sample));
  return bytes;
}

TEST(DecodeImageTest, OfSixteenBitsTheUpperEightStay) {
  const PngForm grey = {.height = 1, .width = 3, .bits = 16};
  const std::string file = PngOfForm(grey, {Big16({20000, 255, 65535})});
  EXPECT_THAT(PixelsOf(file, 1), ElementsAre(78, 0, 255));
  EXPECT_THAT(PixelsOf(file, 3),
              ElementsAre(78, 78, 78, 0, 0, 0, 255, 255, 255));
  const PngForm colour = {.height = 1, .width = 1, .bits = 16, .colour = 2};
  EXPECT_THAT(PixelsOf(PngOfForm(colour, {Big16({20000, 300, 0xabff})}), 3),
              ElementsAre(78, 1, 0xab));
}

TEST(DecodeImageTest, AlphaIsDroppedAndWhatItHidesStays) {
  const PngForm colour = {.height = 1, .width = 2, .colour = 6};
  EXPECT_THAT(
      PixelsOf(PngOfForm(colour, {Bytes8({10, 20, 30, 0, 1, 2, 3, 128})}), 3),
      ElementsAre(10, 20, 30, 1, 2, 3));
  const PngForm grey = {.height = 1, .width = 2, .colour = 4};
  EXPECT_THAT(PixelsOf(PngOfForm(grey, {Bytes8({200, 0, 7, 255})}), 1),
              ElementsAre(200, 7));
  EXPECT_THAT(PixelsOf(PngOfForm({.width = 1, .bits = 16, .colour = 4},
                                 {Big16({20000, 9})}),
                       1),
              ElementsAre(78));
  // A grey level that stands for what is not there.
  EXPECT_THAT(
      PixelsOf(
          PngOfForm({.width = 2}, {Bytes8({9, 8})}, {{"tRNS", Big16({9})}}), 1),
      ElementsAre(9, 8));
}

TEST(DecodeImageTest, GammaAndProfilesChangeNothing) {
  const auto big = [](uint32_t number) {
    return Big16(
        {static_cast<int>(number >> 16), static_cast<int>(number & 0xffff)});
  };
  for (const uint32_t gamma : {100000u, 45455u, 30000u}) {
    const std::pair<std::string, std::string> chunk = {"gAMA", big(gamma)};
    EXPECT_THAT(
        PixelsOf(PngOfForm({.width = 2}, {Bytes8({10, 20})}, {chunk}), 1),
        ElementsAre(10, 20));
    EXPECT_THAT(PixelsOf(PngOfForm({.width = 1, .colour = 2},
                                   {Bytes8({10, 20, 30})}, {chunk}),
                         3),
                ElementsAre(10, 20, 30));
    EXPECT_THAT(PixelsOf(PngOfForm({.width = 1, .bits = 16, .colour = 6},
                                   {Big16({20000, 20000, 20000, 1})}, {chunk}),
                         1),
                ElementsAre(78));
  }
}

TEST(DecodeImageTest, FewBitsAndPalettesAreSpreadOut) {
  EXPECT_THAT(
      PixelsOf(PngOfForm({.width = 4, .bits = 2}, {std::string(1, '\x1b')}), 1),
      ElementsAre(0, 85, 170, 255));
  EXPECT_THAT(
      PixelsOf(PngOfForm({.width = 3, .bits = 1}, {std::string(1, '\xa0')}), 1),
      ElementsAre(255, 0, 255));
  const std::string palette = Bytes8({1, 2, 3, 200, 100, 50});
  const PngForm form = {.width = 2, .bits = 4, .colour = 3};
  EXPECT_THAT(
      PixelsOf(PngOfForm(form, {std::string(1, '\x10')}, {{"PLTE", palette}}),
               3),
      ElementsAre(200, 100, 50, 1, 2, 3));
  EXPECT_THAT(PixelsOf(PngOfForm(form, {std::string(1, '\x10')},
                                 {{"PLTE", palette}, {"tRNS", Bytes8({0, 9})}}),
                       3),
              ElementsAre(200, 100, 50, 1, 2, 3));
  // As PIL: 124.2 and 1.8.
  EXPECT_THAT(
      PixelsOf(PngOfForm(form, {std::string(1, '\x10')}, {{"PLTE", palette}}),
               1),
      ElementsAre(124, 2));
}

TEST(DecodeImageTest, APngWithoutItsEndIsRefused) {
  const std::string file = PngOfForm({.width = 2}, {Bytes8({9, 8})});
  OwnedTensor out;
  EXPECT_THAT(
      std::string(DecodeImage({reinterpret_cast<const std::byte*>(file.data()),
                               file.size() - 12},
                              1, &out)
                      .message()),
      HasSubstr("libpng finds \"the file ends too early\""));
}

// A few bytes take no memory for what they only speak of.
TEST(DecodeImageTest, MoreThanTheBytesCanStandForIsRefusedBeforeItTakesMemory) {
  const auto refusal = [](const std::string& file) {
    OwnedTensor out;
    const absl::Status refused = DecodeImage(
        {reinterpret_cast<const std::byte*>(file.data()), file.size()}, 1,
        &out);
    EXPECT_EQ(out.dims().size(), 0u) << "it has become an image";
    return std::string(refused.message());
  };
  EXPECT_THAT(refusal(PngOfForm({.height = 16000, .width = 16000}, {})),
              HasSubstr("libpng finds \"the file ends too early\""));
  std::string chunk = PngOfForm({}, {Bytes8({9})}, {{"eXIf", "MM"}});
  chunk[chunk.find("eXIf") - 4] = 0x79;
  EXPECT_THAT(refusal(chunk),
              HasSubstr("libpng finds \"the file ends too early\""));
  std::string jpeg = JpegBytes(1, 1, 1, {7});
  const size_t size = jpeg.find("\xff\xc0") + 5;
  jpeg.replace(size, 4, "\x3e\x80\x3e\x80");
  EXPECT_THAT(refusal(jpeg),
              HasSubstr("libjpeg finds \"the file ends too early\""));
}

// As TensorFlow: what is left of light in both of an ink and black.
TEST(DecodeImageTest, InksBecomeColours) {
  std::vector<uint8_t> inks;
  // In Adobe's files 255 is none of an ink.
  for (int i = 0; i < 64; ++i) {
    for (const int ink : {255, 128, 0, 200}) {
      inks.push_back(static_cast<uint8_t>(ink));
    }
  }
  const std::string file = JpegBytes(8, 8, 4, inks);
  const std::vector<int> pixels = PixelsOf(file, 3);
  ASSERT_EQ(pixels.size(), 8u * 8 * 3);
  EXPECT_NEAR(pixels[0], 200, 3);
  EXPECT_NEAR(pixels[1], 128 * 200 / 255, 3);
  EXPECT_NEAR(pixels[2], 0, 3);
  const std::vector<int> grey = PixelsOf(file, 1);
  ASSERT_EQ(grey.size(), 64u);
  EXPECT_NEAR(grey[9], 0.299 * 200 + 0.587 * 100, 3);
  // Without Adobe's mark 255 is all of it.
  std::string plain = file;
  const size_t mark = plain.find("\xff\xee");
  ASSERT_NE(mark, std::string::npos);
  plain.erase(mark, 2 + 14);
  const std::vector<int> other = PixelsOf(plain, 3);
  ASSERT_EQ(other.size(), 8u * 8 * 3);
  EXPECT_NEAR(other[0], 0, 3);
  EXPECT_NEAR(other[1], 127 * 55 / 255, 3);
  EXPECT_NEAR(other[2], 55, 3);
}

// ---- Exif -------------------------------------------------------------------

// A directory with another entry and the orientation.
std::string TiffOf(int orientation, bool is_big) {
  const auto number = [is_big](int value, int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) {
      const int shift = 8 * (is_big ? count - 1 - i : i);
      bytes.push_back(static_cast<char>(value >> shift));
    }
    return bytes;
  };
  const auto entry = [&](int tag, int value) {
    return number(tag, 2) + number(3, 2) + number(1, 4) + number(value, 2) +
           number(0, 2);
  };
  return (is_big ? "MM" : "II") + number(42, 2) + number(8, 4) + number(2, 2) +
         entry(0x0100, 640) + entry(0x0112, orientation) + number(0, 4);
}

// Stored as  1 2 3
//            4 5 6
const std::vector<std::vector<int>>& SeenAs() {
  static const auto* const all = new std::vector<std::vector<int>>{
      {1, 2, 3, 4, 5, 6},   // 1: as it is stored.
      {3, 2, 1, 6, 5, 4},   // 2: its rows begin at the right,
      {6, 5, 4, 3, 2, 1},   // 3: and are seen from below;
      {4, 5, 6, 1, 2, 3},   // 4: only that.
      {1, 4, 2, 5, 3, 6},   // 5: rows are columns from the left,
      {4, 1, 5, 2, 6, 3},   // 6: from the right,
      {6, 3, 5, 2, 4, 1},   // 7: and begin at the bottom;
      {3, 6, 2, 5, 1, 4}};  // 8: that, from the left.
  return *all;
}

TEST(DecodeImageTest, ExifTurnsAnImageIfItIsAskedFor) {
  const PngForm form = {.height = 2, .width = 3};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const bool is_big : {false, true}) {
      const std::string file =
          PngOfForm(form, {Bytes8({1, 2, 3}), Bytes8({4, 5, 6})},
                    {{"eXIf", TiffOf(orientation, is_big)}});
      EXPECT_THAT(
          PixelsOf(file, 1, /*upright=*/true),
          ElementsAreArray(SeenAs()[static_cast<size_t>(orientation - 1)]))
          << orientation;
      EXPECT_THAT(PixelsOf(file, 1), ElementsAre(1, 2, 3, 4, 5, 6));
    }
  }
}

TEST(DecodeImageTest, ExifIsFoundInAJpegFile) {
  const std::string plain = JpegBytes(2, 3, 1, {9, 9, 9, 9, 9, 9});
  const auto orientation = [&](const std::string& exif) {
    const std::string segment = std::string("Exif\0\0", 6) + exif;
    const std::string file = plain.substr(0, 2) + "\xff\xe1" +
                             Big16({static_cast<int>(segment.size() + 2)}) +
                             segment + plain.substr(2);
    OwnedTensor out;
    EXPECT_TRUE(DecodeUpright({reinterpret_cast<const std::byte*>(file.data()),
                               file.size()},
                              3, &out)
                    .ok());
    EXPECT_THAT(out.dims(), ElementsAre(out.dims()[0], 5 - out.dims()[0], 3));
    return ExifOrientation(
        {reinterpret_cast<const std::byte*>(file.data()), file.size()});
  };
  for (const bool is_big : {false, true}) {
    for (int i = 1; i <= 8; ++i) EXPECT_EQ(orientation(TiffOf(i, is_big)), i);
    for (const int wrong : {0, 9, 65535}) {
      EXPECT_EQ(orientation(TiffOf(wrong, is_big)), 1);
    }
    const std::string whole = TiffOf(6, is_big);
    for (size_t size = 0; size < whole.size() - 8; ++size) {
      EXPECT_EQ(orientation(whole.substr(0, size)), 1) << size;
    }
  }
  EXPECT_EQ(orientation("no TIFF"), 1);
  EXPECT_EQ(ExifOrientation({reinterpret_cast<const std::byte*>(plain.data()),
                             plain.size()}),
            1);
}

}  // namespace
}  // namespace paramd
