#include "net/tls_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "net/testing/certificates.h"
#include "net/tls.h"

namespace paramd {
namespace {

class TlsFilesTest : public ::testing::Test {
 protected:
  // What is said of them, now or that much later.
  std::string Said(absl::Duration later = absl::ZeroDuration()) const {
    return std::string(
        CheckTlsFiles(TlsFilesOf(directory_, "ps-0"), absl::Now() + later)
            .status()
            .message());
  }
  std::string File(const std::string& name) const {
    return directory_ + "/" + name;
  }

  const Authority authority_ = MakeAuthority("j");
  const std::string directory_ = CertificateDirectory(authority_, "j", "ps-0");
};

TEST_F(TlsFilesTest, GoodOnesAreGood) { EXPECT_EQ(Said(), ""); }

TEST_F(TlsFilesTest, EachThatIsMissingOrEmptyIsNamed) {
  for (const char* name : {"ca.crt", "tls.key", "tls.crt"}) {
    const std::string path = File(name);
    ASSERT_EQ(rename(path.c_str(), (path + ".away").c_str()), 0);
    EXPECT_EQ(Said(), "the file '" + path +
                          "' of tls_dir can't be read: No such "
                          "file or directory");
    WriteText(path, "");
    EXPECT_TRUE(absl::StrContains(Said(), "'" + path + "' of tls_dir has no "))
        << Said();
    ASSERT_EQ(rename((path + ".away").c_str(), path.c_str()), 0);
  }
}

TEST_F(TlsFilesTest, WhatIsNoFileIsRefusedAtOnce) {
  ASSERT_EQ(unlink(File("tls.key").c_str()), 0);
  ASSERT_EQ(mkfifo(File("tls.key").c_str(), 0600), 0);
  EXPECT_TRUE(
      absl::StrContains(Said(), "tls.key' of tls_dir is not a regular file"))
      << Said();
}

TEST_F(TlsFilesTest, AKeyThatDoesNotFitIsNamed) {
  WriteText(File("tls.key"),
            authority_
                .Issue(*NameOfTask("j", "ps-0"),
                       {absl::Now(), absl::Now() + absl::Hours(1)})
                ->key);
  EXPECT_EQ(Said(), "the file '" + File("tls.key") +
                        "' of tls_dir is not the key of '" + File("tls.crt") +
                        "': take both from one place");
}

TEST_F(TlsFilesTest, OneThatOutlivesItsAuthorityHoldsAsLongAsThat) {
  const std::string directory = CertificateDirectory(
      authority_, "j", "ps-0", absl::Now() + absl::Hours(9));
  const auto own = CheckTlsFiles(TlsFilesOf(directory, "ps-0"), absl::Now());
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_LE(own->until, absl::Now() + absl::Hours(1));
  EXPECT_GT(own->until, absl::Now() + absl::Minutes(30));
  const absl::Status later =
      CheckTlsFiles(TlsFilesOf(directory, "ps-0"), absl::Now() + absl::Hours(2))
          .status();
  EXPECT_TRUE(absl::IsUnavailable(later)) << later;
  EXPECT_TRUE(absl::StrContains(later.message(),
                                "an authority that does not hold now ("
                                "certificate has expired; it is "))
      << later;
}

TEST_F(TlsFilesTest, OneThatHasExpiredOrDoesNotHoldYetSaysWhen) {
  EXPECT_TRUE(absl::StrContains(Said(absl::Hours(2)),
                                "tls.crt' of tls_dir "
                                "expired at "))
      << Said(absl::Hours(2));
  EXPECT_TRUE(absl::StrContains(Said(absl::Hours(2)), "renew it"));
  EXPECT_TRUE(absl::StrContains(Said(-absl::Hours(30)), "holds from "))
      << Said(-absl::Hours(30));
  for (const absl::Duration away : {absl::Hours(2), -absl::Hours(30)}) {
    EXPECT_TRUE(absl::IsUnavailable(
        CheckTlsFiles(TlsFilesOf(directory_, "ps-0"), absl::Now() + away)
            .status()));
  }
}

TEST_F(TlsFilesTest, OneOfAnotherAuthorityIsNamed) {
  WriteText(File("ca.crt"), MakeAuthority("j").pem().certificate);
  EXPECT_TRUE(absl::StrContains(Said(),
                                "tls.crt' of tls_dir is not vouched for "
                                "by '" +
                                    File("ca.crt") + "'"))
      << Said();
}

TEST_F(TlsFilesTest, OneThatNamesNoProcessIsNamed) {
  // The authority's own has no URI.
  WriteText(File("tls.crt"), authority_.pem().certificate);
  WriteText(File("tls.key"), authority_.pem().key);
  EXPECT_TRUE(absl::StrContains(Said(),
                                "names no process: a certificate needs "
                                "exactly one URI name"))
      << Said();
}

TEST_F(TlsFilesTest, AProcessTakesItsOwnOutOfADirectoryForAll) {
  const std::string all = directory_ + "/all";
  ASSERT_EQ(mkdir(all.c_str(), 0700), 0);
  ASSERT_EQ(mkdir((all + "/ps-0").c_str(), 0700), 0);
  EXPECT_EQ(TlsFilesOf(all, "ps-0").key, all + "/ps-0/tls.key");
  EXPECT_EQ(TlsFilesOf(directory_, "ps-0").key, directory_ + "/tls.key");
  // Nothing is there: the directory that was given is what is talked about.
  EXPECT_EQ(TlsFilesOf(all, "ps-1").key, all + "/tls.key");
}

TEST_F(TlsFilesTest, AnotherTasksCertificateIsNotOnesOwn) {
  const auto tls = Tls::Make(directory_, *NameOfTask("j", "ps-1"));
  EXPECT_EQ(tls.status().message(),
            "the file '" + File("tls.crt") +
                "' of tls_dir is the certificate of spiffe://paramd/j/ps/0; "
                "this process is spiffe://paramd/j/ps/1: give it its own "
                "(paramd tls init makes one for each)");
  EXPECT_FALSE(Tls::Make(directory_, *NameOfTask("k", "ps-0")).ok());
}

TEST_F(TlsFilesTest, AServerThatKnowsNoJobIsOfTheCertificates) {
  const auto tls =
      Tls::Make(directory_, {"", CertifiedName::Role::kPs, /*index=*/0});
  ASSERT_TRUE(tls.ok()) << tls.status();
  EXPECT_EQ((*tls)->self().job, "j");
  EXPECT_TRUE(absl::StrContains(
      Tls::Make(directory_, {"", CertifiedName::Role::kPs, 1})
          .status()
          .message(),
      "is the certificate of spiffe://paramd/j/ps/0; this process is ps-1: "));
}

TEST_F(TlsFilesTest, HowLongARenewedOneHoldsIsSaid) {
  const auto tls = TlsOf(directory_, "j", "ps-0");
  EXPECT_EQ(tls->NewestUntil(), tls->until());
  const absl::Time now = absl::Now();
  // Its authority holds no longer than the first one.
  const absl::Time until = tls->until() - absl::Minutes(5);
  const auto newer = authority_.Issue(*NameOfTask("j", "ps-0"), {now, until});
  WriteText(File("tls.key"), newer->key);
  EXPECT_EQ(tls->NewestUntil(), tls->until());  // Half of it is there.
  WriteText(File("tls.crt"), newer->certificate);
  EXPECT_EQ(tls->NewestUntil(), until);
}

TEST_F(TlsFilesTest, AFailedHandshakeIsExplainedByOnesOwnFiles) {
  const auto tls = TlsOf(directory_, "j", "ps-0");
  const std::string lost =
      "failed to connect to all addresses; last error: UNAVAILABLE: "
      "ipv4:127.0.0.1:1: Socket closed";
  EXPECT_TRUE(absl::StrContains(tls->WhyFailed(lost),
                                "may not take the certificate of "
                                "spiffe://paramd/j/ps/0"));
  const CertifiedName name = *NameOfTask("j", "ps-0");
  const absl::Time past = absl::Now() - absl::Hours(1);
  const auto old = authority_.Issue(name, {past - absl::Hours(1), past});
  WriteText(File("tls.key"), old->key);
  WriteText(File("tls.crt"), old->certificate);
  EXPECT_TRUE(absl::StrContains(tls->WhyFailed(lost), "expired at "))
      << tls->WhyFailed(lost);
  // What has nothing to do with TLS is not said to.
  EXPECT_EQ(tls->WhyFailed("Connection refused"), "");
  EXPECT_EQ(tls->WhyFailed("Socket closed"), "");
}

TEST(HandshakeFailureTest, WhatTheLibraryLogsBecomesASentence) {
  const std::string failed =
      "Handshake failed with fatal error SSL_ERROR_SSL: error:0A00010B:SSL "
      "routines::";
  EXPECT_TRUE(absl::StrContains(
      HandshakeFailure(failed + "wrong version number."), "speaks no TLS"));
  EXPECT_TRUE(absl::StrContains(
      HandshakeFailure(failed + "peer did not return a certificate."),
      "shows no certificate"));
  EXPECT_TRUE(absl::StrContains(
      HandshakeFailure(failed + "certificate verify failed."), "has expired"));
  EXPECT_EQ(HandshakeFailure(failed + "something new."),
            failed + "something new.");
  EXPECT_EQ(HandshakeFailure("No match found for server name: 127.0.0.1."), "");
}

}  // namespace
}  // namespace paramd
