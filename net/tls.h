#ifndef PARAMD_NET_TLS_H_
#define PARAMD_NET_TLS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/security/auth_context.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"

#include "net/certified_name.h"
#include "net/tls_files.h"

namespace paramd {

// TLS with certificates on both sides, of at least version 1.2. The files are
// looked at every second: what replaces them holds for connections made after
// that; those that are open stay, so that no call is lost.
//
// Thread-safe.
class Tls {
 public:
  // As CheckTlsFiles; also kInvalidArgument, with both names, if the
  // certificate is of another job or task than `self`. A server without a job
  // file knows no job: with an empty one that of the certificate is its own.
  static absl::StatusOr<std::shared_ptr<Tls>> Make(const std::string& directory,
                                                   const CertifiedName& self);
  // The errors that Make has.
  static absl::Status Check(const std::string& directory,
                            const CertifiedName& self);
  // Of somebody who only calls: whoever the certificate names, an operator or a
  // reader, or operator-0 of a directory for all.
  static absl::StatusOr<std::shared_ptr<Tls>> MakeOperator(
      const std::string& directory);

  const CertifiedName& self() const { return self_; }
  // Of the certificate that was there at the start.
  absl::Time until() const { return until_; }
  // Of the one that is there now; until() if it can't be used. Reads the files.
  absl::Time NewestUntil() const;

  // Takes only callers whose certificates are of the authorities.
  std::shared_ptr<grpc::ServerCredentials> ServerCredentials() const;
  // Connects only to the process of that name.
  std::shared_ptr<grpc::ChannelCredentials> CredentialsFor(
      const CertifiedName& peer) const;
  // Connects to any ps or worker of the job.
  std::shared_ptr<grpc::ChannelCredentials> CredentialsForJob() const;

  // Why a handshake that this process began may have failed, by gRPC's text: a
  // sentence with what to do. Empty: not for a reason of TLS. Reads the files.
  std::string WhyFailed(absl::string_view grpc_message) const;

 private:
  Tls(TlsFiles files, OwnCertificate own);

  const TlsFiles files_;
  const CertifiedName self_;
  const absl::Time until_;
  const std::shared_ptr<grpc::experimental::CertificateProviderInterface>
      provider_;
};

// The same for a process without TLS.
std::string WhyFailedWithoutTls(absl::string_view grpc_message);

// Whether a call came over TLS, and the URI names of the caller's certificate.
bool IsTls(const grpc::AuthContext& context);
std::vector<std::string> UrisOf(const grpc::AuthContext& context);

// What gRPC logs when a handshake failed, in a sentence for whoever reads the
// log of the process that was called. Empty: that is not what it says.
std::string HandshakeFailure(absl::string_view grpc_log);

}  // namespace paramd

#endif  // PARAMD_NET_TLS_H_
