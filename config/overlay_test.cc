#include "config/overlay.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "config/setting_value.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

class OverlayTest : public ::testing::Test {
 protected:
  void Read(absl::string_view text, const std::string& path,
            const std::string& file, v1::JobConfig* job) {
    const JsonSource source = {file};
    const absl::optional<JsonValue> value =
        ParseJson(text, source, {}, &mistakes_);
    ASSERT_TRUE(value.has_value());
    reader_.ReadMessage(*value, source, path, job);
    ASSERT_TRUE(mistakes_.empty()) << mistakes_.ToStatus();
  }
  // Lays `over` over `under`.
  void Lay(absl::string_view over, absl::string_view under) {
    v1::JobConfig upper;
    Read(under, "", "under", &job_);
    Read(over, "upper", "over", &upper);
    Overlay("upper", upper, &origins_, &job_);
  }
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const SettingValue& value : ValuesOf(job_)) {
      lines.push_back(value.path + "=" + value.json + " " +
                      OriginOf(origins_, value.path).source);
    }
    return lines;
  }

  Origins origins_;
  Mistakes mistakes_;
  SettingReader reader_{&origins_, &mistakes_};
  v1::JobConfig job_;
};

TEST_F(OverlayTest, AnObjectIsTakenKeyByKey) {
  Lay(R"({"epochs": 2, "optimizer": {"learning_rate": 0.5}})",
      R"({"seed": 3, "epochs": 1,
          "optimizer": {"adam": {"beta1": 0.5}, "learning_rate": 1}})");
  EXPECT_THAT(Lines(),
              ElementsAre("seed=3 under", "optimizer.adam.beta1=0.5 under",
                          "optimizer.learning_rate=0.5 over", "epochs=2 over"));
}

TEST_F(OverlayTest, AListIsTakenAsAWhole) {
  Lay(R"({"model": {"layers": [{"dense": 5}]}})",
      R"({"model": {"layers": ["flatten", {"dense": 9}],
                    "loss": "softmax_cross_entropy"}})");
  EXPECT_THAT(Lines(),
              ElementsAre("model.layers[0].dense.units=5 over",
                          "model.loss=\"softmax_cross_entropy\" under"));
}

TEST_F(OverlayTest, OneOfSeveralThatExcludeEachOtherTakesTheOthersPlace) {
  Lay(R"({"optimizer": {"sgd": {"momentum": 0.5}}})",
      R"({"optimizer": {"adam": {"beta1": 0.5}, "learning_rate": 1}})");
  EXPECT_THAT(Lines(), ElementsAre("optimizer.sgd.momentum=0.5 over",
                                   "optimizer.learning_rate=1 under"));
}

TEST_F(OverlayTest, TheSameOneIsTakenKeyByKey) {
  Lay(R"({"optimizer": {"adam": {"beta2": 0.25}}})",
      R"({"optimizer": {"adam": {"beta1": 0.5}}})");
  EXPECT_THAT(Lines(), ElementsAre("optimizer.adam.beta1=0.5 under",
                                   "optimizer.adam.beta2=0.25 over"));
}

TEST_F(OverlayTest, WhatIsNotGivenStays) {
  Lay("{}", R"({"seed": 3})");
  EXPECT_THAT(Lines(), ElementsAre("seed=3 under"));
}

}  // namespace
}  // namespace paramd
