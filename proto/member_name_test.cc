#include "proto/member_name.h"

#include "gtest/gtest.h"

#include "proto/testing/pair.h"

namespace paramd {
namespace {

using testing::Pair;

TEST(MemberNameTest, Promise4_AMemberIsNamedWithItsGeneration) {
  EXPECT_EQ(WorkerName(3, Pair(1, 4)), "worker-3 generation 1.4");
  EXPECT_EQ(ServerName(0, Pair(1, 4)), "ps-0 generation 1.4");
}

TEST(MemberNameTest, OneWithoutAGenerationIsNamedByItsIndex) {
  EXPECT_EQ(WorkerName(3, v1::SessionId()), "worker-3");
  EXPECT_EQ(ServerName(0, v1::ServerLife()), "ps-0");
}

TEST(MemberNameTest, AServerIsCalledByItsIndexOrItsPlace) {
  v1::ServerMember server;
  server.set_index(3);
  EXPECT_EQ(PeerOf(server), 3);
  server.set_peer(0);
  EXPECT_EQ(PeerOf(server), 0);
}

}  // namespace
}  // namespace paramd
