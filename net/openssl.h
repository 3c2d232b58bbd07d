#ifndef PARAMD_NET_OPENSSL_H_
#define PARAMD_NET_OPENSSL_H_

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace paramd {

// What of OpenSSL is owned, freed as it goes.
struct OpenSslDelete {
  void operator()(BIO* p) const { BIO_free(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(X509* p) const { X509_free(p); }
};
using OwnedBio = std::unique_ptr<BIO, OpenSslDelete>;
using OwnedKey = std::unique_ptr<EVP_PKEY, OpenSslDelete>;
using OwnedCertificate = std::unique_ptr<X509, OpenSslDelete>;

// Null, or empty, if `pem` holds none that can be read. A key that is encrypted
// can't be: nobody is asked for a password.
OwnedKey ReadKey(const std::string& pem);
std::vector<OwnedCertificate> ReadCertificates(const std::string& pem);

// The URI names of a certificate.
std::vector<std::string> UrisOf(const X509& certificate);

absl::Time TimeOf(const ASN1_TIME* time);

// kInternal with OpenSSL's own words for what failed last.
absl::Status OpenSslError(absl::string_view what);

}  // namespace paramd

#endif  // PARAMD_NET_OPENSSL_H_
