#include "net/certified_name.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace paramd {
namespace {

constexpr absl::string_view kPrefix = "spiffe://paramd/";
constexpr size_t kMostQuoted = 200;

constexpr std::pair<CertifiedName::Role, absl::string_view> kRoles[] = {
    {CertifiedName::Role::kPs, "ps"},
    {CertifiedName::Role::kWorker, "worker"},
    {CertifiedName::Role::kEvaluator, "evaluator"},
    {CertifiedName::Role::kOperator, "operator"},
    {CertifiedName::Role::kReader, "reader"},
    {CertifiedName::Role::kStage, "stage"},
};

absl::string_view TextOf(CertifiedName::Role role) {
  for (const auto& [known, text] : kRoles) {
    if (known == role) return text;
  }
  return "";
}

bool SetRole(absl::string_view text, CertifiedName* name) {
  for (const auto& [role, known] : kRoles) {
    if (text != known) continue;
    name->role = role;
    return true;
  }
  return false;
}

}  // namespace

std::string CertifiedName::Uri() const {
  return absl::StrCat(kPrefix, job, "/", RoleAndIndex());
}

std::string CertifiedName::RoleAndIndex() const {
  return absl::StrCat(TextOf(role), "/", index);
}

std::string CertifiedName::Task() const {
  return absl::StrCat(TextOf(role), "-", index);
}

absl::StatusOr<CertifiedName> NameAmong(const std::vector<std::string>& uris) {
  std::vector<absl::string_view> ours;
  for (const std::string& uri : uris) {
    if (absl::StartsWith(uri, kPrefix)) ours.push_back(uri);
  }
  CertifiedName name;
  if (ours.size() == 1) {
    const std::vector<absl::string_view> parts =
        absl::StrSplit(absl::StripPrefix(ours[0], kPrefix), '/');
    if (parts.size() == 3 && !parts[0].empty() && SetRole(parts[1], &name) &&
        absl::SimpleAtoi(parts[2], &name.index)) {
      name.job = std::string(parts[0]);
      // Written in another way (ps/00) it would be another name of the same.
      if (name.Uri() == ours[0]) return name;
    }
  }
  const std::string found = absl::StrJoin(uris, ", ");
  return absl::InvalidArgumentError(absl::StrCat(
      "a certificate needs exactly one URI name ", kPrefix,
      "JOB/ROLE/INDEX with a role ps, worker, evaluator, stage, operator or "
      "reader; it has ",
      found.empty() ? "none"
                    : absl::StrCat("'", found.substr(0, kMostQuoted), "'")));
}

absl::StatusOr<CertifiedName> NameOfTask(absl::string_view job,
                                         absl::string_view task) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(task, absl::ByAnyChar("-/"));
  CertifiedName name;
  name.job = std::string(job);
  if (parts.size() == 2 && SetRole(parts[0], &name) &&
      absl::SimpleAtoi(parts[1], &name.index)) {
    return name;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", task,
      "' is not a task; expected ps, worker, evaluator, stage, operator or "
      "reader with an index, as in ps-0"));
}

}  // namespace paramd
