#include "client/core/session_calls.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

class SessionCallsTest : public ::testing::Test {
 protected:
  SessionCallsTest() { calls_.SetServers(2); }

  static SessionOptions Options() {
    SessionOptions options;
    options.chunk_bytes = 100;
    options.calls_per_server = 2;
    return options;
  }
  static BlockChunk ChunkOf(uint64_t bytes) {
    BlockChunk chunk;
    chunk.bytes = bytes;
    return chunk;
  }
  CallId Begin(uint64_t op, uint64_t bytes) {
    return calls_.Begin({op, /*chunk=*/0, /*server=*/0, bytes, Time()});
  }
  static Message AnswerTo(CallId call, bool in_shared_memory = false) {
    Message answer;
    answer.call = call;
    answer.is_reply = true;
    answer.in_shared_memory = in_shared_memory;
    return answer;
  }

  SessionCalls calls_{Options()};
};

TEST_F(SessionCallsTest, ACallIsAnsweredOnce) {
  const CallId call = Begin(7, 100);
  EXPECT_TRUE(SessionCalls::IsOne(call));
  EXPECT_FALSE(SessionCalls::IsOne(1));
  const auto ended = calls_.End(AnswerTo(call));
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->op, 7u);
  EXPECT_FALSE(calls_.End(AnswerTo(call)).has_value());
}

TEST_F(SessionCallsTest,
       Promise8_AServerHasSoManyCallsAndAnOperationSoManyBytes) {
  Begin(7, 150);
  EXPECT_TRUE(calls_.HasRoom(7, ChunkOf(50)));
  EXPECT_FALSE(calls_.HasRoom(7, ChunkOf(51)));
  EXPECT_TRUE(calls_.HasRoom(8, ChunkOf(51))) << "of another operation";
  Begin(8, 51);
  EXPECT_FALSE(calls_.HasRoom(8, ChunkOf(1)));
  BlockChunk elsewhere = ChunkOf(1);
  elsewhere.server = 1;
  EXPECT_TRUE(calls_.HasRoom(8, elsewhere));
}

TEST_F(SessionCallsTest, ThroughSharedMemoryChunksAreLonger) {
  EXPECT_EQ(calls_.MostBytes(), (std::vector<uint64_t>{100, 100}));
  calls_.End(AnswerTo(Begin(7, 1), /*in_shared_memory=*/true));
  EXPECT_EQ(calls_.MostBytes(), (std::vector<uint64_t>{400, 100}));
}

TEST_F(SessionCallsTest, WhoHasLeftItsPlaceAnswersNothing) {
  const CallId call = Begin(7, 200);
  Begin(7, 0);
  calls_.LeavePlace(0);
  EXPECT_TRUE(calls_.HasRoom(7, ChunkOf(200)));
  EXPECT_FALSE(calls_.End(AnswerTo(call)).has_value());
}

}  // namespace
}  // namespace paramd
