#ifndef PARAMD_NET_CERTIFIED_NAME_H_
#define PARAMD_NET_CERTIFIED_NAME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paramd {

// Whom a certificate is for, as its one URI name says:
// spiffe://paramd/JOB/ROLE/INDEX. The chief is worker 0.
struct CertifiedName {
  enum class Role { kPs, kWorker, kEvaluator, kOperator, kReader, kStage };

  std::string job;
  Role role = Role::kPs;
  uint32_t index = 0;

  // "spiffe://paramd/fashion/ps/0"
  std::string Uri() const;
  // "ps/0"
  std::string RoleAndIndex() const;
  // "ps-0", the name of its directory.
  std::string Task() const;

  bool operator==(const CertifiedName& other) const {
    return job == other.job && role == other.role && index == other.index;
  }
};

// The name among the URI names of a certificate. kInvalidArgument, naming what
// was found, unless exactly one begins with spiffe://paramd/ and it is one that
// Uri() makes.
absl::StatusOr<CertifiedName> NameAmong(const std::vector<std::string>& uris);

// "ps-0" or "ps/0" of a job. kInvalidArgument if it is neither.
absl::StatusOr<CertifiedName> NameOfTask(absl::string_view job,
                                         absl::string_view task);

}  // namespace paramd

#endif  // PARAMD_NET_CERTIFIED_NAME_H_
