#ifndef PARAMD_NET_TLS_FILES_H_
#define PARAMD_NET_TLS_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "net/certified_name.h"

namespace paramd {

// What a process shows to others and trusts, as files of one directory.
struct TlsFiles {
  std::string authorities;  // ca.crt
  std::string certificate;  // tls.crt
  std::string key;          // tls.key
};

// Those of `directory` if it has a tls.crt, else those of `directory`/`task`
// ("ps-0"), as `paramd tls init` makes them.
TlsFiles TlsFilesOf(const std::string& directory, absl::string_view task);

struct OwnCertificate {
  CertifiedName name;
  absl::Time until;  // The certificate holds, and the authorities above it.
};

// Whether a process can use them at `now`: each can be read, the key is that of
// the certificate, it holds, is signed by one of the authorities and names a
// process. Otherwise kInvalidArgument with the one file that is at fault, what
// was found and what is needed; UNAVAILABLE if it holds at another time, since
// certificates are renewed.
absl::StatusOr<OwnCertificate> CheckTlsFiles(const TlsFiles& files,
                                             absl::Time now);

}  // namespace paramd

#endif  // PARAMD_NET_TLS_FILES_H_
