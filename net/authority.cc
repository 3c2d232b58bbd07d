#include "net/authority.h"

#include <openssl/bn.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "net/openssl.h"

namespace paramd {
namespace {

constexpr int kSerialBits = 127;

std::string Written(const OwnedBio& out) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

absl::StatusOr<std::string> PemOf(EVP_PKEY* key) {
  const OwnedBio out(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PrivateKey(out.get(), key, nullptr, nullptr, 0, nullptr,
                               nullptr) != 1) {
    return OpenSslError("a key can't be written");
  }
  return Written(out);
}

absl::StatusOr<std::string> PemOf(X509* certificate) {
  const OwnedBio out(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(out.get(), certificate) != 1) {
    return OpenSslError("a certificate can't be written");
  }
  return Written(out);
}

bool SetSerial(X509* certificate) {
  const std::unique_ptr<BIGNUM, decltype(&BN_free)> drawn(BN_new(), &BN_free);
  return BN_rand(drawn.get(), kSerialBits, BN_RAND_TOP_ANY,
                 BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(drawn.get(), X509_get_serialNumber(certificate)) !=
             nullptr;
}

bool SetValidity(Validity validity, X509* certificate) {
  return ASN1_TIME_set(X509_getm_notBefore(certificate),
                       absl::ToTimeT(validity.from)) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate),
                       absl::ToTimeT(validity.until)) != nullptr;
}

bool SetSubject(const std::string& name, X509* certificate) {
  return X509_NAME_add_entry_by_txt(
             X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1,
             0) == 1;
}

struct Extension {
  int nid;
  std::string value;
};

bool AddExtension(const Extension& wanted, X509* issuer, X509* certificate) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const made =
      X509V3_EXT_conf_nid(nullptr, &context, wanted.nid, wanted.value.c_str());
  const bool added =
      made != nullptr && X509_add_ext(certificate, made, -1) == 1;
  X509_EXTENSION_free(made);
  return added;
}

struct Wanted {
  std::string subject;
  Validity validity;
  std::vector<Extension> extensions;
};

// Signed by the issuer; by itself if that is null.
absl::StatusOr<std::string> Sign(const Wanted& wanted, EVP_PKEY* key,
                                 X509* issuer, EVP_PKEY* issuer_key) {
  const OwnedCertificate made(X509_new());
  X509* const certificate = made.get();
  X509* const signer = issuer == nullptr ? certificate : issuer;
  bool is_good =
      X509_set_version(certificate, X509_VERSION_3) == 1 &&
      SetSerial(certificate) && SetValidity(wanted.validity, certificate) &&
      SetSubject(wanted.subject, certificate) &&
      X509_set_issuer_name(certificate, X509_get_subject_name(signer)) == 1 &&
      X509_set_pubkey(certificate, key) == 1;
  for (const Extension& extension : wanted.extensions) {
    is_good = is_good && AddExtension(extension, signer, certificate);
  }
  if (!is_good || X509_sign(certificate, issuer_key, EVP_sha256()) == 0) {
    return OpenSslError(
        absl::StrCat("a certificate for ", wanted.subject, " can't be made"));
  }
  return PemOf(certificate);
}

}  // namespace

absl::StatusOr<Authority> Authority::Make(const std::string& job,
                                          Validity validity) {
  const OwnedKey key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("a key can't be made");
  // A common name has 64 characters at most.
  const Wanted wanted = {absl::StrCat("paramd ", job).substr(0, 64),
                         validity,
                         {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                          {NID_key_usage, "critical,keyCertSign,cRLSign"},
                          {NID_subject_key_identifier, "hash"}}};
  KeyAndCertificate pem;
  ASSIGN_OR_RETURN(pem.key, PemOf(key.get()));
  ASSIGN_OR_RETURN(pem.certificate,
                   Sign(wanted, key.get(), nullptr, key.get()));
  return Authority(std::move(pem));
}

absl::StatusOr<Authority> Authority::Of(KeyAndCertificate pem) {
  const OwnedKey key = ReadKey(pem.key);
  const auto certificates = ReadCertificates(pem.certificate);
  if (key == nullptr || certificates.size() != 1) {
    return absl::InvalidArgumentError(
        "an authority is one key and one certificate, as PEM");
  }
  if (X509_check_private_key(certificates[0].get(), key.get()) != 1) {
    return absl::InvalidArgumentError(
        "the authority's key is not that of its certificate");
  }
  return Authority(std::move(pem));
}

absl::Time Authority::until() const {
  return TimeOf(
      X509_get0_notAfter(ReadCertificates(pem_.certificate)[0].get()));
}

absl::StatusOr<KeyAndCertificate> Authority::Issue(const CertifiedName& name,
                                                   Validity validity) const {
  const OwnedKey key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("a key can't be made");
  KeyAndCertificate pem;
  ASSIGN_OR_RETURN(pem.key, PemOf(key.get()));
  ASSIGN_OR_RETURN(pem.certificate, Renew(pem.key, name, validity));
  return pem;
}

absl::StatusOr<std::string> Authority::Renew(const std::string& key,
                                             const CertifiedName& name,
                                             Validity validity) const {
  const OwnedKey own = ReadKey(key);
  if (own == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the key of ", name.Task(), " can't be read"));
  }
  const OwnedKey authority_key = ReadKey(pem_.key);
  const auto authority = ReadCertificates(pem_.certificate);
  const Wanted wanted = {
      name.RoleAndIndex(),
      validity,
      {{NID_basic_constraints, "critical,CA:FALSE"},
       {NID_key_usage, "critical,digitalSignature"},
       {NID_ext_key_usage, "serverAuth,clientAuth"},
       {NID_subject_key_identifier, "hash"},
       {NID_authority_key_identifier, "keyid"},
       {NID_subject_alt_name, absl::StrCat("URI:", name.Uri())}}};
  return Sign(wanted, own.get(), authority[0].get(), authority_key.get());
}

}  // namespace paramd
