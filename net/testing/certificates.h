#ifndef PARAMD_NET_TESTING_CERTIFICATES_H_
#define PARAMD_NET_TESTING_CERTIFICATES_H_

#include <memory>
#include <string>

#include "absl/time/time.h"

#include "net/authority.h"
#include "net/tls.h"

namespace paramd {

// An authority of a job that holds for an hour yet.
Authority MakeAuthority(const std::string& job);

// A new directory with a certificate of `authority` for "ps-0" of `job`, until
// then, and with the authority to trust.
std::string CertificateDirectory(const Authority& authority,
                                 const std::string& job,
                                 const std::string& task,
                                 absl::Time until = absl::Now() +
                                                    absl::Hours(1));

// Of such a directory. REQUIRES: it can be used.
std::shared_ptr<Tls> TlsOf(const std::string& directory, const std::string& job,
                           const std::string& task);

void WriteText(const std::string& path, const std::string& text);

}  // namespace paramd

#endif  // PARAMD_NET_TESTING_CERTIFICATES_H_
