#include "net/testing/certificates.h"

#include <stdlib.h>

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace paramd {

Authority MakeAuthority(const std::string& job) {
  const absl::Time now = absl::Now();
  auto made =
      Authority::Make(job, {now - absl::Hours(48), now + absl::Hours(1)});
  CHECK(made.ok(), "an authority is made");
  return *std::move(made);
}

std::string CertificateDirectory(const Authority& authority,
                                 const std::string& job,
                                 const std::string& task, absl::Time until) {
  const char* const root = getenv("TEST_TMPDIR");
  std::string directory =
      absl::StrCat(root == nullptr ? "/tmp" : root, "/tls-XXXXXX");
  CHECK(mkdtemp(directory.data()) != nullptr, "a directory is made");
  const auto pair =
      authority.Issue(*NameOfTask(job, task), {until - absl::Hours(24), until});
  CHECK(pair.ok(), "a certificate is made");
  WriteText(directory + "/ca.crt", authority.pem().certificate);
  WriteText(directory + "/tls.crt", pair->certificate);
  WriteText(directory + "/tls.key", pair->key);
  return directory;
}

std::shared_ptr<Tls> TlsOf(const std::string& directory, const std::string& job,
                           const std::string& task) {
  auto tls = Tls::Make(directory, *NameOfTask(job, task));
  if (!tls.ok()) std::fprintf(stderr, "%s\n", tls.status().ToString().c_str());
  CHECK(tls.ok(), "the certificate can be used");
  return *std::move(tls);
}

void WriteText(const std::string& path, const std::string& text) {
  const std::string next = path + ".next";
  std::ofstream(next) << text;
  CHECK(rename(next.c_str(), path.c_str()) == 0, "the file takes its place");
}

}  // namespace paramd
