#include "checkpoint/initial_values.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/safetensors.h"
#include "checkpoint/warm_start.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {
namespace {

std::vector<v1::Variable> Variables() {
  std::vector<v1::Variable> variables(2);
  variables[0].set_name("fc.weight");
  variables[0].add_shape(2);
  variables[0].add_shape(3);
  variables[1].set_name("fc.bias");
  variables[1].add_shape(2);
  return variables;
}

TEST(InitialValuesTest, AWarmStartReadsThem) {
  const std::string directory = ::testing::TempDir() + "/made/checkpoints";
  const auto path =
      WriteInitialValues(directory, Variables(), {{1, 2, 3, 4, 5, 6}, {7, 8}});
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_THAT(*path,
              ::testing::EndsWith("/made/checkpoints/initial.safetensors"));
  v1::WarmStartConfig config;
  config.set_path(*path);
  config.set_variables("*");
  const auto found = FindWarmStart(config, Variables());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->path(), *path);
}

TEST(InitialValuesTest, WhatAKilledProcessOfTheSameNumberHasLeftGoes) {
  const std::string directory = ::testing::TempDir() + "/killed";
  std::filesystem::create_directories(directory);
  std::ofstream(absl::StrCat(directory, "/initial.safetensors.tmp-", getpid()))
      << "half";
  const auto path =
      WriteInitialValues(directory, Variables(), {{1, 2, 3, 4, 5, 6}, {7, 8}});
  EXPECT_TRUE(path.ok()) << path.status();
}

TEST(InitialValuesTest, TheNewOnesReplaceTheOldOnes) {
  const std::string directory = ::testing::TempDir() + "/again";
  ASSERT_TRUE(
      WriteInitialValues(directory, Variables(), {{1, 2, 3, 4, 5, 6}, {7, 8}})
          .ok());
  const auto path =
      WriteInitialValues(directory, Variables(), {{1, 2, 3, 4, 5, 6}, {9, 10}});
  ASSERT_TRUE(path.ok()) << path.status();
  const auto file = *SafetensorsFile::Open(*path);
  std::vector<float> bias(2);
  ASSERT_TRUE(file->ReadInto(*file->Find("fc.bias"), 0,
                             {reinterpret_cast<std::byte*>(bias.data()), 8})
                  .ok());
  EXPECT_THAT(bias, ::testing::ElementsAre(9, 10));
}

}  // namespace
}  // namespace paramd
