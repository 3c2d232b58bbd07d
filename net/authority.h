#ifndef PARAMD_NET_AUTHORITY_H_
#define PARAMD_NET_AUTHORITY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "net/certified_name.h"

namespace paramd {

// A key and its certificate, as PEM.
struct KeyAndCertificate {
  std::string key;
  std::string certificate;
};

// From when until when a certificate holds.
struct Validity {
  absl::Time from;
  absl::Time until;
};

// A job's own certificate authority: signs the certificates of its processes.
// Keys are on the curve P-256; signatures use SHA-256. Immutable, hence
// thread-safe.
class Authority {
 public:
  // A new one. kInternal with OpenSSL's words if it can't be made, as all here.
  static absl::StatusOr<Authority> Make(const std::string& job,
                                        Validity validity);
  // One that was made before. kInvalidArgument if that is not what `pem` holds,
  // or if the key is not the certificate's.
  static absl::StatusOr<Authority> Of(KeyAndCertificate pem);

  const KeyAndCertificate& pem() const { return pem_; }
  // What it signs is of no use after that.
  absl::Time until() const;

  // A certificate with a new key, for both ends of a connection.
  absl::StatusOr<KeyAndCertificate> Issue(const CertifiedName& name,
                                          Validity validity) const;
  // Another certificate for the `key` of one that was issued before.
  absl::StatusOr<std::string> Renew(const std::string& key,
                                    const CertifiedName& name,
                                    Validity validity) const;

 private:
  explicit Authority(KeyAndCertificate pem) : pem_(std::move(pem)) {}

  KeyAndCertificate pem_;
};

}  // namespace paramd

#endif  // PARAMD_NET_AUTHORITY_H_
