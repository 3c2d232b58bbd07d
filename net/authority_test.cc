#include "net/authority.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "net/testing/certificates.h"

namespace paramd {
namespace {

TEST(AuthorityTest, ItSignsAgainAfterItWasRead) {
  const Authority made = MakeAuthority("j");
  const auto read = Authority::Of(made.pem());
  ASSERT_TRUE(read.ok()) << read.status();
  const std::string directory = CertificateDirectory(*read, "j", "ps-0");
  const auto own = CheckTlsFiles(TlsFilesOf(directory, "ps-0"), absl::Now());
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->name.Uri(), "spiffe://paramd/j/ps/0");
}

TEST(AuthorityTest, ARenewedCertificateFitsTheKeyThatIsThere) {
  const Authority authority = MakeAuthority("j");
  const CertifiedName name = *NameOfTask("j", "worker-1");
  const absl::Time now = absl::Now();
  const auto pair = authority.Issue(name, {now - absl::Hours(2), now});
  ASSERT_TRUE(pair.ok());
  const std::string directory = CertificateDirectory(authority, "j", "ps-0");
  WriteText(directory + "/tls.key", pair->key);
  const absl::Time until = now + absl::Minutes(7);
  const auto renewed = authority.Renew(pair->key, name, {now, until});
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  WriteText(directory + "/tls.crt", *renewed);
  const auto own = CheckTlsFiles(TlsFilesOf(directory, ""), now);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(absl::ToUnixSeconds(own->until), absl::ToUnixSeconds(until));
}

TEST(AuthorityTest, AKeyOfAnotherAuthorityIsRefused) {
  const Authority one = MakeAuthority("j");
  const Authority other = MakeAuthority("j");
  EXPECT_TRUE(
      absl::StrContains(Authority::Of({other.pem().key, one.pem().certificate})
                            .status()
                            .message(),
                        "not that of its certificate"));
  EXPECT_FALSE(Authority::Of({"", one.pem().certificate}).ok());
  EXPECT_FALSE(Authority::Of({one.pem().key, "no PEM"}).ok());
}

}  // namespace
}  // namespace paramd
