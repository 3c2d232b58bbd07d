#include "checkpoint/own_directories.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

constexpr char kPrepared[] = ".tmp-000001-00000006-00000000000000a7";
constexpr char kCommitted[] = "000001-00000005.step-9370";

class OwnDirectoriesTest : public ::testing::Test {
 protected:
  OwnDirectoriesTest()
      : home_(std::filesystem::path(
                  absl::StrCat(::testing::TempDir(), "/own_directories/",
                               ::testing::UnitTest::GetInstance()
                                   ->current_test_info()
                                   ->name()))
                  .lexically_normal()),
        root_(home_ + "/checkpoints"),
        models_(home_ + "/models"),
        own_({root_, models_}) {
    std::filesystem::remove_all(home_);
    for (const std::string& directory :
         {root_ + "/" + kPrepared, root_ + "/" + kCommitted,
          models_ + "/" + kCommitted,
          models_ + "/checkpoints/000001-00000007.step-3"}) {
      std::filesystem::create_directories(directory);
    }
  }

  const std::string home_;
  const std::string root_;
  const std::string models_;
  const OwnDirectories own_;
};

TEST_F(OwnDirectoriesTest, OnlyTheNameOfWhatIsToldCounts) {
  for (const std::string& where :
       {root_, std::string("/etc"), std::string("/a/../.."), std::string()}) {
    EXPECT_EQ(*own_.Prepared(absl::StrCat(where, "/", kPrepared)),
              absl::StrCat(root_, "/", kPrepared));
    EXPECT_EQ(*own_.Committed(absl::StrCat(where, "/", kCommitted)),
              absl::StrCat(root_, "/", kCommitted));
  }
}

TEST_F(OwnDirectoriesTest, NamesThatParamdDoesNotGiveAreRefused) {
  for (const char* const told :
       {"/etc", "/etc/..", "..", "", "/", "/etc/.ssh", "/x/nonce",
        "/x/.tmp-000001-00000006", "/x/.tmp-000001-00000006-A7",
        "/x/.tmp-1-6-00000000000000a7", "/x/.trash-000001-00000006-0"}) {
    EXPECT_EQ(own_.Prepared(told).status().code(),
              absl::StatusCode::kInvalidArgument)
        << told;
    EXPECT_EQ(own_.Committed(told).status().code(),
              absl::StatusCode::kInvalidArgument)
        << told;
  }
  EXPECT_EQ(own_.Committed(absl::StrCat("/x/", kPrepared)).status().message(),
            absl::StrCat("'/x/", kPrepared,
                         "' does not have the name of a checkpoint"));
  EXPECT_FALSE(own_.Prepared(absl::StrCat("/x/", kCommitted)).ok());
}

TEST_F(OwnDirectoriesTest, WhatIsNotHereIsNowhere) {
  EXPECT_EQ(*own_.Committed("/x/000001-00000009.step-1"), "");
  const OwnDirectories none({});
  EXPECT_EQ(*none.Committed(absl::StrCat(root_, "/", kCommitted)), "");
  EXPECT_EQ(*none.Prepared(absl::StrCat(root_, "/", kPrepared)), "");
}

TEST_F(OwnDirectoriesTest, ALinkIsNotFollowed) {
  std::filesystem::create_directory_symlink("/etc",
                                            root_ + "/000001-00000009.step-1");
  const absl::Status refused =
      own_.Committed("/x/000001-00000009.step-1").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is a link"));
  // Where the configuration itself names one, it is meant.
  std::filesystem::create_directory_symlink(root_, home_ + "/link");
  const OwnDirectories linked({home_ + "/link", ""});
  EXPECT_EQ(*linked.Committed(kCommitted),
            absl::StrCat(home_, "/link/", kCommitted));
}

TEST_F(OwnDirectoriesTest, InitialValuesAreReadWhereTheOwnSettingSays) {
  for (const std::string& told :
       {models_, models_ + "/model.safetensors", models_ + "/" + kCommitted,
        models_ + "/checkpoints/000001-00000007.step-3"}) {
    EXPECT_EQ(*own_.WarmStart(told), told);
  }
  // The run's own checkpoint, whose variables are others.
  std::filesystem::create_directory(root_ + "/000001-00000008.step-4");
  EXPECT_EQ(*own_.WarmStart("/of/the/chief/000001-00000008.step-4"),
            root_ + "/000001-00000008.step-4");
}

TEST_F(OwnDirectoriesTest, TheChiefsInitialValuesLieBesideTheCheckpoints) {
  EXPECT_EQ(*own_.WarmStart("/of/the/chief/initial.safetensors"), "");
  std::ofstream(root_ + "/initial.safetensors") << "x";
  EXPECT_EQ(*own_.WarmStart("/of/the/chief/initial.safetensors"),
            root_ + "/initial.safetensors");
  EXPECT_EQ(*OwnDirectories({}).WarmStart("/x/initial.safetensors"), "");
}

TEST_F(OwnDirectoriesTest, InitialValuesOfAnotherPathAreRefusedNamingBoth) {
  for (const std::string& told :
       {std::string("/etc/passwd"), models_ + "/../secret",
        models_ + "/other.safetensors", models_ + "2", std::string(),
        std::string("/other/000001-00000007.step-3")}) {
    const absl::Status refused = own_.WarmStart(told).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << told;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(models_)) << told;
  }
  EXPECT_FALSE(OwnDirectories({}).WarmStart("").ok());
}

}  // namespace
}  // namespace paramd
