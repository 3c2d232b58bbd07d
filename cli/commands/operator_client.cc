#include "cli/commands/operator_client.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "net/operator_socket.h"
#include "process/observe/status_client.h"

namespace paramd {
namespace {

constexpr absl::Duration kAskPatience = absl::Seconds(5);

}  // namespace

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

namespace {

// Who can't be asked is called all the same, and then it is said why.
std::string ChiefKnownAt(const std::string& address,
                         const std::shared_ptr<const Tls>& tls) {
  StatusClient client({address}, tls);
  const auto answers =
      client.Ask(kAskPatience, StatusClient::Patience::kFailAtOnce);
  if (!answers[0].ok() || answers[0]->chief_address().empty()) return address;
  return answers[0]->chief_address();
}

// With the place as the flag that it stands for.
absl::StatusOr<ChiefFlags> WithPlace(ChiefFlags flags) {
  const std::string place = std::exchange(flags.place, "");
  if (place.empty()) return flags;
  if (!flags.run_dir.empty() || !flags.address.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("both '", place, "' and a flag say which job is meant"));
  }
  std::error_code error;
  if (std::filesystem::is_directory(place, error)) {
    flags.run_dir = place;
  } else if (absl::StrContains(place, ':')) {
    flags.address = place;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("'", place,
                     "' is neither the address of a process, as in "
                     "10.0.0.7:2222, nor the directory of a run"));
  }
  return flags;
}

}  // namespace

void ChiefFlags::AddTo(Flags* flags) {
  flags->AddText("run_dir", "DIR",
                 "directory of the run; empty: the one run under runs/ whose "
                 "chief listens",
                 &run_dir);
  flags->AddText("chief", "HOST:PORT",
                 "from elsewhere: the chief's address, or that of any process "
                 "of the job; with --tls_dir",
                 &address);
  flags->AddText("tls_dir", "DIR", kAskTlsDir, &tls_dir);
  flags->AddCount("timeout_ms", "how long to wait for an answer", {1, 3600000},
                  &timeout_ms);
  flags->OnlyWith("run_dir", "a job that is named by its run, without --chief",
                  [this] { return address.empty(); });
}

absl::StatusOr<ChiefAddress> ChiefFlags::Find() const {
  ASSIGN_OR_RETURN(const ChiefFlags said, WithPlace(*this));
  if (said.address.empty() != said.tls_dir.empty()) {
    return absl::InvalidArgumentError(
        "--chief and --tls_dir belong together: the chief's address, and the "
        "operator's certificate; without TLS, name the run's directory with "
        "--run_dir, on the chief's machine");
  }
  ChiefAddress chief;
  if (!said.address.empty()) {
    ASSIGN_OR_RETURN(chief.tls, OperatorTls(said.tls_dir));
    chief.address = ChiefKnownAt(said.address, chief.tls);
  } else if (!said.run_dir.empty()) {
    chief.socket = ChiefSocket(said.run_dir);
  } else {
    ASSIGN_OR_RETURN(chief.socket, OnlyChiefSocket("runs"));
  }
  return chief;
}

}  // namespace paramd
