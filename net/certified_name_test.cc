#include "net/certified_name.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(CertifiedNameTest, AUriSaysJobRoleAndIndex) {
  for (const char* task :
       {"ps-0", "worker-12", "evaluator-0", "operator-3", "reader-1"}) {
    const auto name = NameOfTask("fashion", task);
    ASSERT_TRUE(name.ok()) << name.status();
    EXPECT_EQ(name->Task(), task);
    const auto again = NameAmong({name->Uri()});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(*again == *name);
  }
  EXPECT_EQ(NameOfTask("j", "ps/4")->Uri(), "spiffe://paramd/j/ps/4");
}

TEST(CertifiedNameTest, WhatIsNoNameOrMoreThanOneIsRefused) {
  const std::string good = "spiffe://paramd/j/ps/4";
  EXPECT_TRUE(NameAmong({"https://example.org", good}).ok());
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {""},
      {good, "spiffe://paramd/j/ps/5"},
      {"spiffe://other/j/ps/4"},
      {"spiffe://paramd/j/ps"},
      {"spiffe://paramd//ps/4"},
      {"spiffe://paramd/j/chief/0"},
      {"spiffe://paramd/j/ps/04"},
      {"spiffe://paramd/j/ps/-1"},
      {"spiffe://paramd/j/ps/4/"},
      {"spiffe://paramd/a/j/ps/4"},
      {"spiffe://paramd/j/ps/99999999999"}};
  for (const auto& uris : wrong) {
    EXPECT_EQ(NameAmong(uris).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(
      absl::StrContains(NameAmong({"spiffe://paramd/j/ps"}).status().message(),
                        "it has 'spiffe://paramd/j/ps'"));
}

TEST(CertifiedNameTest, WhatIsNoTaskIsNamed) {
  for (const char* task : {"", "ps", "ps-", "chief-0", "ps-0-1", "ps-x"}) {
    EXPECT_TRUE(absl::StrContains(NameOfTask("j", task).status().message(),
                                  "is not a task"))
        << task;
  }
}

}  // namespace
}  // namespace paramd
