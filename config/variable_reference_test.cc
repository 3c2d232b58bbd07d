#include "config/variable_reference.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(VariableReferenceTest, EveryNotationIsFound) {
  EXPECT_EQ(UnexpandedReference("a $(TASK_INDEX) b"), "$(TASK_INDEX)");
  EXPECT_EQ(UnexpandedReference("${TASK_INDEX}"), "${TASK_INDEX}");
  EXPECT_EQ(UnexpandedReference("x$TASK_INDEX,"), "$TASK_INDEX");
  EXPECT_EQ(UnexpandedReference("%task%"), "%task%");
  EXPECT_EQ(UnexpandedReference("5% of $X"), "$X");
}

TEST(VariableReferenceTest, WhatIsNoReferenceIsLeftAlone) {
  for (const char* text : {"", "$", "100%", "50%of", "$()", "$(A",
                           "[fe80::1%eth0]:80", "%a)", "$-", "{\"a\": 1}"}) {
    EXPECT_EQ(UnexpandedReference(text), "") << text;
  }
}

TEST(VariableReferenceTest, TheSentenceNamesReferenceAndSource) {
  EXPECT_THAT(UnexpandedSentence("$(X)", "TF_CONFIG"),
              ::testing::StartsWith("the variable reference `$(X)` was not "
                                    "expanded; define that variable before "
                                    "TF_CONFIG"));
}

}  // namespace
}  // namespace paramd
