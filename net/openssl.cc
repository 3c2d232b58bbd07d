#include "net/openssl.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <time.h>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

// gRPC's threads may close connections until the process has ended: OpenSSL is
// not to clean up before. Only its first initialization can say so.
[[maybe_unused]] const bool is_left_at_exit =
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;

int NoPassword(char*, int, int, void*) { return 0; }

OwnedBio ReaderOf(const std::string& pem) {
  return OwnedBio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

}  // namespace

OwnedKey ReadKey(const std::string& pem) {
  const OwnedBio reader = ReaderOf(pem);
  OwnedKey key(
      PEM_read_bio_PrivateKey(reader.get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  return key;
}

std::vector<OwnedCertificate> ReadCertificates(const std::string& pem) {
  const OwnedBio reader = ReaderOf(pem);
  std::vector<OwnedCertificate> all;
  while (X509* const read =
             PEM_read_bio_X509(reader.get(), nullptr, NoPassword, nullptr)) {
    all.emplace_back(read);
  }
  ERR_clear_error();  // Of the end.
  return all;
}

std::vector<std::string> UrisOf(const X509& certificate) {
  std::vector<std::string> uris;
  auto* const names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names, i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      ASN1_STRING_length(uri));
  }
  GENERAL_NAMES_free(names);
  return uris;
}

absl::Time TimeOf(const ASN1_TIME* time) {
  tm fields = {};
  ASN1_TIME_to_tm(time, &fields);
  return absl::FromTimeT(timegm(&fields));
}

absl::Status OpenSslError(absl::string_view what) {
  char words[256] = "";
  ERR_error_string_n(ERR_peek_last_error(), words, sizeof(words));
  ERR_clear_error();
  return absl::InternalError(absl::StrCat(what, ": ", words));
}

}  // namespace paramd
