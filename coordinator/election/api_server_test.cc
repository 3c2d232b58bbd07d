#include "coordinator/election/api_server.h"

#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

// What a server answers by TLS has a test with one: tests/cluster/lease_test.
TEST(ApiServerTest, OneThatIsNotThereIsUnavailableByItsName) {
  std::string path = absl::StrCat(::testing::TempDir(), "/pod-XXXXXX");
  ApiServer::Options options;
  options.directory = mkdtemp(path.data());
  options.host = "::1";
  options.port = "1";
  for (const char* const name : {"ca.crt", "token"}) {
    std::ofstream(absl::StrCat(options.directory, "/", name)) << "x";
  }
  const auto server = ApiServer::Create(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto answer = (*server)->Call("GET", "/version", "");
  EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
  EXPECT_THAT(std::string(answer.status().message()),
              HasSubstr("the API server at [::1]:1: "));
  // The token is read for each call.
  ASSERT_EQ(unlink(absl::StrCat(options.directory, "/token").c_str()), 0);
  EXPECT_THAT(
      std::string((*server)->Call("GET", "/version", "").status().message()),
      HasSubstr("/token"));
}

}  // namespace
}  // namespace paramd
