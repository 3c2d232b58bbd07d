#include "proto/message_json.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

TEST(MessageJsonTest, IntegersOfSixtyFourBitsAreNumbersWhereverTheyLie) {
  v1::Manifest manifest;
  manifest.set_job_name("9");
  manifest.set_global_step(std::numeric_limits<uint64_t>::max());
  manifest.mutable_snapshot()->set_term(3);
  v1::Variable* const variable = manifest.add_variables();
  variable->set_name("w\x1b\xc2\x9b");
  variable->add_shape(7);
  variable->add_shape(uint64_t{1} << 40);
  (*manifest.add_files()->add_slices()->mutable_slot_tensors())["momentum"] =
      "12";
  const auto text = MessageJson(manifest);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto json = nlohmann::json::parse(*text);
  EXPECT_EQ(json["job_name"], "9");
  EXPECT_TRUE(json["global_step"].is_number());
  EXPECT_EQ(json["global_step"], std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(json["snapshot"]["term"], 3);
  EXPECT_EQ(json["variables"][0]["shape"][1], uint64_t{1} << 40);
  EXPECT_EQ(json["files"][0]["slices"][0]["slot_tensors"]["momentum"], "12");
  for (const char c : *text) {
    EXPECT_TRUE(c == '\n' || (c >= ' ' && c < 0x7f)) << *text;
  }
  // It is what was written.
  v1::Manifest again;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(*text, &again).ok());
  EXPECT_EQ(again.SerializeAsString(), manifest.SerializeAsString());
}

TEST(MessageJsonTest, ANameThatWasDrawnStaysAString) {
  v1::PrepareCheckpointResult result;
  result.set_nonce(12345678901234567890u);
  EXPECT_THAT(*MessageJson(result),
              HasSubstr("\"nonce\": \"12345678901234567890\""));
}

TEST(MessageJsonTest, ZeroIsSaid) {
  EXPECT_THAT(*MessageJson(v1::SnapshotNumber()), HasSubstr("\"term\": 0"));
}

}  // namespace
}  // namespace paramd
