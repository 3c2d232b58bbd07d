#include "cli/commands/operator_client.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "net/operator_socket.h"

namespace paramd {

absl::StatusOr<std::string> OnlyChiefSocket(const std::string& root) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
    const std::string run_dir = entry.path().string();
    const auto address = OperatorAddress::Of(ChiefSocket(run_dir));
    if (address.ok() && (*address)->IsAlive()) found.push_back(run_dir);
  }
  std::sort(found.begin(), found.end());
  if (found.size() == 1) return ChiefSocket(found[0]);
  if (found.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no run under '", root,
                     "' has a chief that listens here: "
                     "name the run's directory with --run_dir"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("several runs have a chief: ", absl::StrJoin(found, ", "),
                   "; name one with --run_dir"));
}

absl::StatusOr<std::shared_ptr<const Tls>> OperatorTls(
    const std::string& directory) {
  if (directory.empty()) return std::shared_ptr<const Tls>();
  ASSIGN_OR_RETURN(std::shared_ptr<const Tls> tls,
                   Tls::MakeOperator(directory));
  return tls;
}

void ChiefFlags::AddTo(Flags* flags) {
  flags->AddText("run_dir", "DIR",
                 "directory of the run; empty: the one run under runs/ whose "
                 "chief listens",
                 &run_dir);
  flags->AddText("chief", "HOST:PORT",
                 "from elsewhere: the chief's address; with --tls_dir",
                 &address);
  flags->AddText("tls_dir", "DIR", kAskTlsDir, &tls_dir);
  flags->AddCount("timeout_ms", "how long to wait for an answer", {1, 3600000},
                  &timeout_ms);
}

absl::StatusOr<ChiefAddress> ChiefFlags::Find() const {
  if (address.empty() != tls_dir.empty()) {
    return absl::InvalidArgumentError(
        "--chief and --tls_dir belong together: the chief's address, and the "
        "operator's certificate");
  }
  ChiefAddress chief;
  if (!address.empty()) {
    chief.address = address;
    ASSIGN_OR_RETURN(chief.tls, OperatorTls(tls_dir));
  } else if (!run_dir.empty()) {
    chief.socket = ChiefSocket(run_dir);
  } else {
    ASSIGN_OR_RETURN(chief.socket, OnlyChiefSocket("runs"));
  }
  return chief;
}

}  // namespace paramd
