#include "server/core/quarantine_count.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

v1::Header PushOf(uint32_t worker, uint64_t sequence, uint64_t generation = 1) {
  v1::Header header;
  header.set_worker(worker);
  header.mutable_generation()->set_term(1);
  header.mutable_generation()->set_counter(generation);
  header.set_sequence(sequence);
  return header;
}

TEST(QuarantineCountTest, WorkersAreCountedEachForItself) {
  QuarantineCount count;
  count.Add(PushOf(1, 7), "x");
  count.Add(PushOf(1, 8), "x");
  count.Add(PushOf(2, 7), "x");
  EXPECT_EQ(count.pushes(1), 2u);
  EXPECT_EQ(count.pushes(2), 1u);
  EXPECT_EQ(count.pushes(3), 0u);
  EXPECT_EQ(count.total(), 3u);
}

TEST(QuarantineCountTest, OtherChunksOfThePushAndRepeatsDoNotCount) {
  QuarantineCount count;
  count.Add(PushOf(1, 7), "x");
  count.Add(PushOf(1, 7), "y");
  EXPECT_EQ(count.pushes(1), 1u);
  count.Add(PushOf(1, 7, /*generation=*/2), "x");
  EXPECT_EQ(count.pushes(1), 2u);
}

TEST(QuarantineCountTest, ItSaysTheFirstSecondFourthEighthTime) {
  QuarantineCount count;
  count.Add(PushOf(3, 1), "gradient for 'w' is not finite");
  EXPECT_EQ(count.TakeNotes(),
            std::vector<std::string>{"push 1 of worker-3 refused (1 of that "
                                     "worker so far): gradient for 'w' is not "
                                     "finite"});
  EXPECT_TRUE(count.TakeNotes().empty());
  for (uint64_t n = 2; n <= 10; ++n) count.Add(PushOf(3, n), "x");
  EXPECT_EQ(count.TakeNotes().size(), 3u);
}

}  // namespace
}  // namespace paramd
