#include "net/tls.h"

#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/security/tls_certificate_verifier.h"
#include "grpcpp/security/tls_credentials_options.h"

#include "base/status_macros.h"
#include "net/hand_over.h"

namespace paramd {
namespace {

constexpr unsigned kLookSeconds = 1;
// Stands in gRPC's text before the sentence of a NameVerifier.
constexpr absl::string_view kRefused = "the certificate of the process there";

// After the handshake, in which the certificate was verified: whether it is of
// whom is meant.
class NameVerifier : public grpc::experimental::ExternalCertificateVerifier {
 public:
  using Expects = std::function<bool(const CertifiedName&)>;

  NameVerifier(std::string expected, Expects expects)
      : expected_(std::move(expected)), expects_(std::move(expects)) {
    HandOver(this);  // gRPC's threads use and delete it.
  }
  ~NameVerifier() override { TakeOver(this); }

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>,
              grpc::Status* status) override {
    TakeOver(this);
    std::vector<std::string> uris;
    for (const grpc::string_ref& uri : request->uri_names()) {
      uris.emplace_back(uri.data(), uri.size());
    }
    const auto name = NameAmong(uris);
    *status = name.ok() && expects_(*name)
                  ? grpc::Status::OK
                  : grpc::Status(
                        grpc::StatusCode::UNAUTHENTICATED,
                        absl::StrCat(kRefused, " is for '",
                                     absl::StrJoin(uris, ", ").substr(0, 200),
                                     "'; expected ", expected_));
    return true;  // Done at once.
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {
  }

 private:
  const std::string expected_;
  const Expects expects_;
};

std::shared_ptr<grpc::ChannelCredentials> CredentialsThat(
    std::shared_ptr<grpc::experimental::CertificateProviderInterface> provider,
    std::string expected, NameVerifier::Expects expects) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::move(provider));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(NameVerifier::Create<NameVerifier>(
      std::move(expected), std::move(expects)));
  // A process is known by the URI, wherever it runs.
  options.set_check_call_host(false);
  return grpc::experimental::TlsCredentials(options);
}

// Somebody accepted the connection and closed it before it was of any use.
bool WasNeverConnected(absl::string_view grpc_message) {
  return absl::StrContains(grpc_message, "failed to connect") &&
         (absl::StrContains(grpc_message, "Socket closed") ||
          absl::StrContains(grpc_message, "reset by peer") ||
          absl::StrContains(grpc_message, "Broken pipe") ||
          absl::StrContains(grpc_message, "endpoint is not connected"));
}

struct Known {
  absl::string_view text;
  absl::string_view sentence;
};

// What gRPC 1.51 and OpenSSL 3 write; the first that occurs counts.
constexpr Known kFailures[] = {
    {"http request",
     "the caller speaks no TLS: give it --tls_dir; probes ask health_address"},
    {"wrong version number",
     "the other side speaks no TLS: give it --tls_dir; probes ask "
     "health_address"},
    {"peer did not return a certificate",
     "the caller shows no certificate: give it --tls_dir"},
    {"certificate expired", "a certificate has expired: renew it"},
    {"unknown ca",
     "the caller does not trust this process's certificate: both need "
     "certificates of one authority"},
    {"certificate verify failed",
     "the certificate of the other side has expired, or is not of an authority "
     "in ca.crt: renew it, or give both the same authority"},
    {"unsupported protocol", "the other side speaks no TLS 1.2 or newer"},
};

// The files' certificate, if it is that of `self`.
absl::StatusOr<OwnCertificate> OwnCertificateOf(const TlsFiles& files,
                                                const CertifiedName& self) {
  ASSIGN_OR_RETURN(OwnCertificate own, CheckTlsFiles(files, absl::Now()));
  const bool is_own =
      self.job.empty() ? own.name.Task() == self.Task() : own.name == self;
  if (!is_own) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the file '", files.certificate, "' of tls_dir is the certificate of ",
        own.name.Uri(), "; this process is ",
        self.job.empty() ? self.Task() : self.Uri(),
        ": give it its own (paramd tls init makes one for each)"));
  }
  return own;
}

}  // namespace

absl::Status Tls::Check(const std::string& directory,
                        const CertifiedName& self) {
  return OwnCertificateOf(TlsFilesOf(directory, self.Task()), self).status();
}

absl::StatusOr<std::shared_ptr<Tls>> Tls::Make(const std::string& directory,
                                               const CertifiedName& self) {
  const TlsFiles files = TlsFilesOf(directory, self.Task());
  ASSIGN_OR_RETURN(OwnCertificate own, OwnCertificateOf(files, self));
  return std::shared_ptr<Tls>(new Tls(files, std::move(own)));
}

absl::StatusOr<std::shared_ptr<Tls>> Tls::MakeOperator(
    const std::string& directory) {
  const TlsFiles files = TlsFilesOf(directory, "operator-0");
  ASSIGN_OR_RETURN(OwnCertificate own, CheckTlsFiles(files, absl::Now()));
  return std::shared_ptr<Tls>(new Tls(files, std::move(own)));
}

Tls::Tls(TlsFiles files, OwnCertificate own)
    : files_(std::move(files)),
      self_(std::move(own.name)),
      until_(own.until),
      provider_(
          std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
              files_.key, files_.certificate, files_.authorities,
              kLookSeconds)) {}

std::shared_ptr<grpc::ServerCredentials> Tls::ServerCredentials() const {
  grpc::experimental::TlsServerCredentialsOptions options(provider_);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  // A name is compared where a sentence can be answered.
  options.set_certificate_verifier(
      std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> Tls::CredentialsFor(
    const CertifiedName& peer) const {
  return CredentialsThat(
      provider_, peer.Uri(),
      [peer](const CertifiedName& name) { return name == peer; });
}

std::shared_ptr<grpc::ChannelCredentials> Tls::CredentialsForJob() const {
  return CredentialsThat(
      provider_, absl::StrCat("a ps or worker of job '", self_.job, "'"),
      [job = self_.job](const CertifiedName& name) {
        return name.job == job && (name.role == CertifiedName::Role::kPs ||
                                   name.role == CertifiedName::Role::kWorker ||
                                   name.role == CertifiedName::Role::kStage);
      });
}

absl::Time Tls::NewestUntil() const {
  const auto own = CheckTlsFiles(files_, absl::Now());
  return own.ok() ? own->until : until_;
}

std::string Tls::WhyFailed(absl::string_view grpc_message) const {
  if (const size_t at = grpc_message.find(kRefused);
      at != absl::string_view::npos) {
    return std::string(
        grpc_message.substr(at, grpc_message.find('}', at) - at));
  }
  const bool is_tls = absl::StrContains(grpc_message, "SSL") ||
                      absl::StrContains(grpc_message, "andshake");
  if (!is_tls && !WasNeverConnected(grpc_message)) return "";
  const auto own = CheckTlsFiles(files_, absl::Now());
  if (!own.ok()) return std::string(own.status().message());
  if (is_tls) {
    for (const Known& known : kFailures) {
      if (absl::StrContains(grpc_message, known.text)) {
        return absl::StrCat("no TLS connection: ", known.sentence);
      }
    }
  }
  return absl::StrCat(
      "connection lost in or after the TLS handshake: it may not take the "
      "certificate of ",
      own->name.Uri(), " ('", files_.certificate,
      "'), or speak no TLS; its log says why");
}

std::string WhyFailedWithoutTls(absl::string_view grpc_message) {
  if (!WasNeverConnected(grpc_message)) return "";
  return "connection lost before anything was said: if it speaks TLS, give "
         "this process --tls_dir too";
}

bool IsTls(const grpc::AuthContext& context) {
  for (const grpc::string_ref& type :
       context.FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME)) {
    if (type == GRPC_SSL_TRANSPORT_SECURITY_TYPE ||
        type == GRPC_TLS_TRANSPORT_SECURITY_TYPE) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> UrisOf(const grpc::AuthContext& context) {
  std::vector<std::string> uris;
  for (const grpc::string_ref& uri :
       context.FindPropertyValues(GRPC_PEER_SPIFFE_ID_PROPERTY_NAME)) {
    uris.emplace_back(uri.data(), uri.size());
  }
  return uris;
}

std::string HandshakeFailure(absl::string_view grpc_log) {
  if (!absl::StrContains(grpc_log, "Handshake failed")) return "";
  for (const Known& known : kFailures) {
    if (absl::StrContains(grpc_log, known.text)) {
      return std::string(known.sentence);
    }
  }
  return std::string(grpc_log.substr(0, 200));
}

}  // namespace paramd
