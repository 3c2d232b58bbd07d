#include <filesystem>
#include <fstream>
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

// A directory of the test's own, with these files in it.
class ImageFolderSourceTest : public ::testing::Test {
 protected:
  ImageFolderSourceTest()
      : directory_(std::filesystem::path(WriteTestFile("not-an-image", "?"))
                       .parent_path()) {
    config_.set_channels(1);
  }
  void Write(const std::string& folder, const std::string& name,
             const std::string& bytes) {
    std::filesystem::create_directories(directory_ + "/" + folder);
    std::ofstream(absl::StrCat(directory_, "/", folder, "/", name),
                  std::ios::binary)
        << bytes;
  }

  const std::string directory_;
  v1::InputSource::ImageFolders config_;
};

TEST_F(ImageFolderSourceTest, FoldersAreTheClasses) {
  Write("dog", "2.JPG", JpegBytes(2, 3, 1, std::vector<uint8_t>(6, 9)));
  Write("cat", "b.png", PngBytes(1, 2, 1, {4, 5}));
  Write("cat", "a.png", PngBytes(1, 2, 1, {6, 7}));
  Write("cat", "readme.txt", "?");
  const auto source = OpenImageFolders(directory_, config_);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->size(), 3u);
  EXPECT_EQ((*source)->spec().features[1].classes, 2u);
  Example example;
  ASSERT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_THAT(example.values[0].values<uint8_t>(), ElementsAre(6, 7));
  EXPECT_THAT(example.values[1].values<int32_t>(), ElementsAre(0));
  ASSERT_TRUE((*source)->Read(2, &example).ok());
  EXPECT_THAT(example.values[0].dims(), ElementsAre(2, 3, 1));
  EXPECT_THAT(example.values[1].values<int32_t>(), ElementsAre(1));
}

TEST_F(ImageFolderSourceTest, ATruncatedImageIsNamed) {
  const std::string jpeg = JpegBytes(16, 16, 1, std::vector<uint8_t>(256, 100));
  Write("cat", "a.jpg", jpeg.substr(0, jpeg.size() - 30));
  Example example;
  const absl::Status status =
      (*OpenImageFolders(directory_, config_))->Read(0, &example);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              ::testing::StartsWith(
                  absl::StrCat("'", directory_, "/cat/a.jpg': libjpeg finds")));
}

// Each is gone through for the whole image, however few bytes it has.
TEST_F(ImageFolderSourceTest, AnImageOfTooManyScansIsNamed) {
  Write("cat", "a.jpg", JpegOfScans(100));
  Write("cat", "b.jpg", JpegOfScans(101));
  const auto source = OpenImageFolders(directory_, config_);
  Example example;
  EXPECT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_EQ((*source)->Read(1, &example),
            absl::DataLossError(absl::StrCat(
                "'", directory_,
                "/cat/b.jpg': libjpeg finds \"more than 100 scans\"")));
}

TEST_F(ImageFolderSourceTest, ADirectoryWithoutImagesIsRefused) {
  EXPECT_EQ(OpenImageFolders(directory_, config_).status(),
            absl::InvalidArgumentError(absl::StrCat(
                "'", directory_, "' has no folders with PNG or JPEG files")));
  EXPECT_THAT(
      std::string(OpenImageFolders("/no/such", config_).status().message()),
      HasSubstr("cannot read directory '/no/such'"));
}

}  // namespace
}  // namespace paramd
