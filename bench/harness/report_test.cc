#include "bench/harness/report.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

Figure Alone() {
  Figure figure;
  figure.metric = "push.cpu_s_per_gb";
  figure.unit = "CPU-s/GB";
  for (const double value : {0.5, 0.25, 1.0}) figure.values.Add(value);
  return figure;
}

Figure BesidePeer() {
  Figure figure = Alone();
  figure.peer.emplace();
  figure.peer->name = "raw gRPC";
  figure.peer->values.Add(0.4);
  return figure;
}

TEST(ReportTest, ALineOfJsonHasMedianAndRange) {
  EXPECT_EQ(Report::JsonLine("dense", Alone()),
            R"({"bench": "dense", "metric": "push.cpu_s_per_gb", )"
            R"("value": 0.5, "low": 0.25, "high": 1, "unit": "CPU-s/GB"})");
}

TEST(ReportTest, ALineOfJsonHasThePeerAndTheRatioToIt) {
  EXPECT_EQ(Report::JsonLine("dense", BesidePeer()),
            R"({"bench": "dense", "metric": "push.cpu_s_per_gb", )"
            R"("value": 0.5, "low": 0.25, "high": 1, "unit": "CPU-s/GB", )"
            R"("peer": "raw gRPC", "peer_value": 0.4, "ratio": 1.250})");
}

TEST(ReportTest, BesideAPeerOfZeroThereIsNoRatio) {
  Figure figure = BesidePeer();
  figure.peer->values = Samples();
  figure.peer->values.Add(0);
  EXPECT_NE(Report::JsonLine("dense", figure).find(R"("ratio": null})"),
            std::string::npos);
  EXPECT_EQ(Report::TableLine(figure).find("inf"), std::string::npos);
}

TEST(ReportTest, ALineOfTheTableNamesMetricPeerAndRatio) {
  const std::string line = Report::TableLine(BesidePeer());
  EXPECT_NE(line.find("push.cpu_s_per_gb"), std::string::npos);
  EXPECT_NE(line.find("(0.25 to 1)"), std::string::npos);
  EXPECT_NE(line.find("raw gRPC"), std::string::npos);
  EXPECT_NE(line.find("1.250"), std::string::npos);
}

}  // namespace
}  // namespace paramd
