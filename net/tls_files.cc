#include "net/tls_files.h"

#include <fcntl.h>
#include <openssl/x509.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "net/openssl.h"

namespace paramd {
namespace {

constexpr off_t kMostBytes = 1 << 20;
constexpr char kRenew[] = "; renew it (paramd tls renew, or cert-manager)";

absl::Status Wrong(const std::string& file, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("the file '", file, "' of tls_dir ", why));
}

absl::Status NotNow(const std::string& file, absl::string_view why) {
  return absl::UnavailableError(Wrong(file, why).message());
}

absl::StatusOr<std::string> ReadTlsFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return Wrong(path, absl::StrCat("can't be read: ", strerror(errno)));
  }
  struct stat status = {};
  const bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                       status.st_size <= kMostBytes;
  std::string bytes(is_file ? static_cast<size_t>(status.st_size) : 0, '\0');
  const ssize_t count = is_file ? read(fd, bytes.data(), bytes.size()) : -1;
  close(fd);
  if (count < 0 || static_cast<size_t>(count) != bytes.size()) {
    return Wrong(path, "is not a regular file of at most 1 MiB");
  }
  return bytes;
}

std::string Day(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
}

absl::Status CheckTime(const std::string& file, X509* certificate,
                       absl::Time now) {
  const absl::Time from = TimeOf(X509_get0_notBefore(certificate));
  const absl::Time until = TimeOf(X509_get0_notAfter(certificate));
  if (now > until) {
    return NotNow(file, absl::StrCat("expired at ", Day(until), "; it is ",
                                     Day(now), kRenew));
  }
  if (now < from) {
    return NotNow(file, absl::StrCat("holds from ", Day(from), " on; it is ",
                                     Day(now), ": set the clock, or wait"));
  }
  return absl::OkStatus();
}

// That the authorities vouch for the first of the certificates, the others of
// which may be in between: until when all of these hold.
absl::StatusOr<absl::Time> CheckSigned(
    const TlsFiles& files, const std::vector<OwnedCertificate>& authorities,
    const std::vector<OwnedCertificate>& certificates, absl::Time now) {
  const std::unique_ptr<X509_STORE, decltype(&X509_STORE_free)> store(
      X509_STORE_new(), &X509_STORE_free);
  for (const auto& authority : authorities) {
    X509_STORE_add_cert(store.get(), authority.get());
  }
  STACK_OF(X509)* const between = sk_X509_new_null();
  for (size_t i = 1; i < certificates.size(); ++i) {
    sk_X509_push(between, certificates[i].get());
  }
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> context(
      X509_STORE_CTX_new(), &X509_STORE_CTX_free);
  X509_STORE_CTX_init(context.get(), store.get(), certificates[0].get(),
                      between);
  X509_STORE_CTX_set_time(context.get(), 0, absl::ToTimeT(now));
  const bool is_signed = X509_verify_cert(context.get()) == 1;
  const int error = X509_STORE_CTX_get_error(context.get());
  sk_X509_free(between);
  // Its own time is checked before.
  if (error == X509_V_ERR_CERT_HAS_EXPIRED ||
      error == X509_V_ERR_CERT_NOT_YET_VALID) {
    return NotNow(
        files.certificate,
        absl::StrCat("is vouched for by an authority that does not "
                     "hold now (",
                     X509_verify_cert_error_string(error), "; it is ", Day(now),
                     "): let another issue it, with ca.crt"));
  }
  if (!is_signed) {
    return Wrong(files.certificate,
                 absl::StrCat("is not vouched for by '", files.authorities,
                              "' (", X509_verify_cert_error_string(error),
                              "): take all three files of one authority"));
  }
  absl::Time until = absl::InfiniteFuture();
  STACK_OF(X509)* const chain = X509_STORE_CTX_get0_chain(context.get());
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    const X509* const link = sk_X509_value(chain, i);
    until = std::min(until, TimeOf(X509_get0_notAfter(link)));
  }
  return until;
}

}  // namespace

TlsFiles TlsFilesOf(const std::string& directory, absl::string_view task) {
  std::string in = directory;
  if (access(absl::StrCat(directory, "/tls.crt").c_str(), F_OK) != 0) {
    const std::string of_task = absl::StrCat(directory, "/", task);
    if (access(of_task.c_str(), F_OK) == 0) in = of_task;
  }
  return {absl::StrCat(in, "/ca.crt"), absl::StrCat(in, "/tls.crt"),
          absl::StrCat(in, "/tls.key")};
}

absl::StatusOr<OwnCertificate> CheckTlsFiles(const TlsFiles& files,
                                             absl::Time now) {
  ASSIGN_OR_RETURN(const std::string authority_pem,
                   ReadTlsFile(files.authorities));
  ASSIGN_OR_RETURN(const std::string certificate_pem,
                   ReadTlsFile(files.certificate));
  ASSIGN_OR_RETURN(const std::string key_pem, ReadTlsFile(files.key));
  const auto authorities = ReadCertificates(authority_pem);
  const auto certificates = ReadCertificates(certificate_pem);
  const OwnedKey key = ReadKey(key_pem);
  if (authorities.empty()) {
    return Wrong(files.authorities, "has no certificate; expected PEM");
  }
  if (certificates.empty()) {
    return Wrong(files.certificate, "has no certificate; expected PEM");
  }
  if (key == nullptr) {
    return Wrong(files.key, "has no key; expected PEM, not encrypted");
  }
  X509* const own = certificates[0].get();
  if (X509_check_private_key(own, key.get()) != 1) {
    return Wrong(files.key,
                 absl::StrCat("is not the key of '", files.certificate,
                              "': take both from one place"));
  }
  RETURN_IF_ERROR(CheckTime(files.certificate, own, now));
  ASSIGN_OR_RETURN(const absl::Time until,
                   CheckSigned(files, authorities, certificates, now));
  const auto name = NameAmong(UrisOf(*own));
  if (!name.ok()) {
    return Wrong(files.certificate,
                 absl::StrCat("names no process: ", name.status().message()));
  }
  return OwnCertificate{*name, until};
}

}  // namespace paramd
