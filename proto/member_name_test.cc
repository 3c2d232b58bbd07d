#include "proto/member_name.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(MemberNameTest, Promise4_AMemberIsNamedWithItsGeneration) {
  v1::Version generation;
  generation.set_term(1);
  generation.set_counter(4);
  EXPECT_EQ(WorkerName(3, generation), "worker-3 generation 1.4");
  EXPECT_EQ(ServerName(0, generation), "ps-0 generation 1.4");
}

TEST(MemberNameTest, OneWithoutAGenerationIsNamedByItsIndex) {
  EXPECT_EQ(WorkerName(3, v1::Version()), "worker-3");
  EXPECT_EQ(ServerName(0, v1::Version()), "ps-0");
}

}  // namespace
}  // namespace paramd
