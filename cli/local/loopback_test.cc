#include "cli/local/loopback.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST(LoopbackTest, EveryTaskGetsAPortOfItsOwnAtOneAddress) {
  RandomStream random(7);
  const LoopbackCluster cluster = DrawLoopbackCluster(2, 3, 0, &random);
  ASSERT_THAT(cluster.servers, SizeIs(2));
  ASSERT_THAT(cluster.workers, SizeIs(3));
  const std::string host =
      cluster.servers[0].substr(0, cluster.servers[0].find(':'));
  EXPECT_THAT(host, StartsWith("127."));
  EXPECT_THAT(cluster.servers, ElementsAre(host + ":2222", host + ":2223"));
  EXPECT_THAT(cluster.workers,
              ElementsAre(host + ":2224", host + ":2225", host + ":2226"));
  EXPECT_NE(DrawLoopbackCluster(2, 3, 0, &random).servers, cluster.servers);
}

TEST(LoopbackTest, TfConfigIsWhatAClusterWouldGive) {
  const LoopbackCluster cluster = {{"a:1"}, {"a:2", "a:3"}};
  EXPECT_EQ(cluster.TfConfig("worker", 1),
            R"({"cluster":{"ps":["a:1"],"worker":["a:2","a:3"]},)"
            R"("task":{"type":"worker","index":1}})");
}

TEST(LoopbackTest, StagesHaveThePortsAfterTheWorkers) {
  RandomStream random(7);
  const LoopbackCluster cluster = DrawLoopbackCluster(1, 2, 4, &random);
  ASSERT_THAT(cluster.stages, SizeIs(4));
  EXPECT_THAT(cluster.stages[3], ::testing::EndsWith(":2228"));
  const LoopbackCluster small = {{"a:1"}, {"a:2"}, {"a:3"}};
  EXPECT_EQ(small.TfConfig("stage", 0),
            R"({"cluster":{"ps":["a:1"],"worker":["a:2"],"stage":["a:3"]},)"
            R"("task":{"type":"stage","index":0}})");
}

TEST(LoopbackTest, AnAddressIsTakenWhileSomebodyListensThere) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&name), sizeof(name)),
            0);
  ASSERT_EQ(listen(listener, 1), 0);
  socklen_t length = sizeof(name);
  getsockname(listener, reinterpret_cast<sockaddr*>(&name), &length);
  const std::string address = absl::StrCat("127.0.0.1:", ntohs(name.sin_port));
  EXPECT_TRUE(IsTaken(address));
  close(listener);
  EXPECT_FALSE(IsTaken(address));
  EXPECT_FALSE(IsTaken("nonsense"));
}

TEST(LoopbackTest, APortIsCountedUpWhereThereIsOne) {
  EXPECT_EQ(LaterAddress("[::1]:9090", 3), "[::1]:9093");
  EXPECT_EQ(LaterAddress("127.0.0.1:0", 3), "127.0.0.1:0");
  EXPECT_EQ(LaterAddress("nonsense", 3), "nonsense");
}

}  // namespace
}  // namespace paramd
