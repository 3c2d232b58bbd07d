#include "config/cluster_agreement.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> EntriesOf(absl::string_view cluster,
                                   absl::string_view type, int index) {
  const absl::StatusOr<ClusterSpec> spec = ParseTfConfig(
      absl::StrCat("{\"cluster\": ", cluster, ", \"task\": {\"type\": \"", type,
                   "\", \"index\": ", index, "}}"));
  EXPECT_TRUE(spec.ok()) << spec.status();
  return EntriesToAgree(*spec);
}

constexpr char kAll[] =
    R"({"chief": ["c:1"], "worker": ["a:1"], "ps": ["p:1", "q:1"]})";

TEST(ClusterAgreementTest, NobodysOwnEntryIsCompared) {
  EXPECT_THAT(EntriesOf(kAll, "worker", 0),
              ElementsAre("ps=2", "ps[0]=p:1", "ps[1]=q:1", "chief=c:1"));
  EXPECT_THAT(EntriesOf(kAll, "chief", 0),
              ElementsAre("ps=2", "ps[0]=p:1", "ps[1]=q:1"));
  EXPECT_THAT(EntriesOf(kAll, "ps", 1),
              ElementsAre("ps=2", "ps[0]=p:1", "chief=c:1"));
  EXPECT_THAT(EntriesToAgree(ClusterSpec()), IsEmpty());
}

TEST(ClusterAgreementTest, NobodyNamesAChiefThatIsElected) {
  const auto worker = ParseTfConfig(
      absl::StrCat("{\"cluster\": ", kAll,
                   ", \"task\": {\"type\": \"worker\", \"index\": 0}}"));
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_THAT(EntriesToAgree(*worker, /*chief_moves=*/true),
              ElementsAre("ps=2", "ps[0]=p:1", "ps[1]=q:1"));
}

// The cluster object legally differs between the tasks of one job.
TEST(ClusterAgreementTest, WhatProducersTellDifferentlyAgrees) {
  const std::vector<std::vector<std::string>> all = {
      EntriesOf(R"({"worker": {"0": "j-worker-0:1"}, "ps": ["p:1", "q:1"]})",
                "worker", 0),
      EntriesOf(R"({"worker": {"1": "j-worker-1:1"}, "ps": ["p:1", "q:1"]})",
                "worker", 1),
      EntriesOf(R"({"worker": {}, "ps": ["q:1"]})", "ps", 1),
      EntriesOf(R"({"worker": ["j-worker-0:1", "x:1"],
                    "ps": ["localhost:1", "q:1"], "evaluator": ["e:1"]})",
                "ps", 0),
  };
  for (const auto& ours : all) {
    for (const auto& theirs : all) {
      // A ps that calls itself localhost is called by its name elsewhere.
      EXPECT_FALSE(FirstDifference(ours, theirs).has_value());
    }
  }
}

TEST(ClusterAgreementTest, WorkersWithoutServersAgreeOnTheirNumber) {
  ClusterSpec cluster;
  cluster.standalone = false;
  cluster.workers = {"a:1", "b:1"};
  const auto two = EntriesToAgree(cluster);
  cluster.workers.push_back("c:1");
  cluster.self.index = 1;
  const auto three = EntriesToAgree(cluster);
  EXPECT_THAT(two, ElementsAre("number of workers=2"));
  EXPECT_THAT(three, ElementsAre("number of workers=3", "chief=a:1"));
  EXPECT_EQ(FirstDifference(two, three)->name, "number of workers");
  cluster.knows_all_workers = false;
  EXPECT_THAT(EntriesToAgree(cluster), ElementsAre("chief=a:1"));
}

TEST(ClusterAgreementTest, ADifferenceIsNamedWithBothValues) {
  const auto difference = [](absl::string_view theirs) {
    return *FirstDifference(EntriesOf(kAll, "worker", 0),
                            EntriesOf(theirs, "worker", 0));
  };
  const Difference order = difference(
      R"({"chief": ["c:1"], "worker": ["a:1"], "ps": ["q:1", "p:1"]})");
  EXPECT_EQ(order.name, "ps[0]");
  EXPECT_EQ(order.ours, "p:1");
  EXPECT_EQ(order.theirs, "q:1");
  EXPECT_EQ(difference(R"({"chief": ["c:1"], "worker": ["a:1"],
                           "ps": ["p:1"]})")
                .name,
            "ps");
  EXPECT_EQ(difference(R"({"chief": ["d:1"], "worker": ["a:1"],
                           "ps": ["p:1", "q:1"]})")
                .name,
            "chief");
}

TEST(ClusterAgreementTest, OfSettingsAlsoAMissingOneDiffers) {
  const std::vector<std::string> ours = {"name=\"a\"", "seed=1", "epochs=3"};
  EXPECT_FALSE(FirstDifferentSetting(ours, ours).has_value());
  const auto differs =
      FirstDifferentSetting(ours, {"name=\"a\"", "epochs=4", "seed=2", "x=1"});
  EXPECT_EQ(differs->name, "seed");
  EXPECT_EQ(differs->ours, "1");
  EXPECT_EQ(differs->theirs, "2");
  const auto ours_alone = FirstDifferentSetting(ours, {"name=\"a\"", "seed=1"});
  EXPECT_EQ(ours_alone->name, "epochs");
  EXPECT_EQ(ours_alone->ours, "3");
  EXPECT_EQ(ours_alone->theirs, "");
  const auto theirs_alone = FirstDifferentSetting({"seed=1"}, ours);
  EXPECT_EQ(theirs_alone->name, "epochs");
  EXPECT_EQ(theirs_alone->ours, "");
  EXPECT_EQ(theirs_alone->theirs, "3");
}

TEST(ClusterAgreementTest, WhatAStrangerSendsIsRead) {
  EXPECT_FALSE(FirstDifference({"ps=1"}, {"", "x", "=", "ps", "ps=1", "ps=2"})
                   .has_value());
  EXPECT_EQ(FirstDifference({"ps=1"}, {"ps="})->theirs, "");
}

}  // namespace
}  // namespace paramd
