#include "coordinator/election/chief_record.h"

#include <stdlib.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

class ChiefRecordTest : public ::testing::Test {
 protected:
  ChiefRecordTest() {
    std::string path = absl::StrCat(::testing::TempDir(), "/account-XXXXXX");
    directory_ = mkdtemp(path.data());
    setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "1", 1);
  }
  ~ChiefRecordTest() override {
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("KUBERNETES_SERVICE_PORT");
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(absl::StrCat(directory_, "/", name)) << text;
  }
  std::string WhyNot(const ElectionPlace& place) {
    const auto record = OpenChiefRecord(place, directory_, absl::Seconds(1));
    EXPECT_TRUE(absl::IsInvalidArgument(record.status())) << record.status();
    return std::string(record.status().message());
  }

  std::string directory_;
};

TEST_F(ChiefRecordTest, AnEtcdsFileThatIsMissingIsNamed) {
  EXPECT_THAT(WhyNot(EtcdPlace{{"127.0.0.1:1"}, "/x"}),
              HasSubstr(absl::StrCat(directory_, "/ca.crt")));
}

TEST_F(ChiefRecordTest, ALeaseNeedsAPodWithAServiceAccount) {
  const LeasePlace place{"", "mnist"};
  EXPECT_THAT(WhyNot(place), HasSubstr(absl::StrCat(directory_, "/ca.crt")));
  Write("ca.crt", "a certificate\n");
  Write("token", "\n");
  EXPECT_THAT(WhyNot(place),
              HasSubstr(absl::StrCat("'", directory_,
                                     "/token' is empty; mount "
                                     "the files of a service account there")));
  Write("token", "a token\n");
  EXPECT_THAT(WhyNot(place), HasSubstr(absl::StrCat(directory_, "/namespace")));
  Write("namespace", "research\n");
  const auto record = OpenChiefRecord(place, directory_, absl::Seconds(1));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ((*record)->place(), "kubernetes://research/mnist");
  unsetenv("KUBERNETES_SERVICE_HOST");
  EXPECT_THAT(WhyNot(place), HasSubstr("a Lease needs a pod of Kubernetes"));
}

}  // namespace
}  // namespace paramd
