#include "net/caller.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

std::string RoleName(v1::Role role) {
  return absl::AsciiStrToLower(absl::StripPrefix(v1::Role_Name(role), "ROLE_"));
}

// "ipv6:%5B::1%5D:80" → "[::1]:80"
std::string AddressOf(absl::string_view grpc_peer) {
  absl::string_view address = grpc_peer;
  if (!absl::ConsumePrefix(&address, "ipv4:")) {
    absl::ConsumePrefix(&address, "ipv6:");
  }
  if (!absl::StrContains(address, '%')) return std::string(address);
  return absl::StrReplaceAll(address, {{"%5B", "["}, {"%5D", "]"}});
}

absl::Status BadCaller(absl::string_view text) {
  return Refuse(
      v1::Refusal::INVALID, kCallerKey,
      absl::StrCat(kCallerKey, " is '", text.substr(0, 64),
                   "'; expected ps, worker, chief, operator or reader "
                   "with an index, as in worker/1"));
}

absl::Status NotProved(absl::string_view sentence) {
  return Refuse(v1::Refusal::NOT_ALLOWED, "certificate", sentence);
}

// As a certificate says. An evaluator has no methods of its own, and a stage
// calls nobody.
void SetRole(const CertifiedName& name, Caller* caller) {
  switch (name.role) {
    case CertifiedName::Role::kPs:
      caller->role = v1::ROLE_PS;
      caller->task = PeerId::Ps(name.index);
      break;
    case CertifiedName::Role::kWorker:
      caller->role = v1::ROLE_WORKER;
      caller->task = PeerId::Worker(name.index);
      break;
    case CertifiedName::Role::kOperator:
      caller->role = v1::ROLE_OPERATOR;
      break;
    case CertifiedName::Role::kReader:
      caller->role = v1::ROLE_READER;
      break;
    case CertifiedName::Role::kEvaluator:
    case CertifiedName::Role::kStage:
      break;
  }
}

}  // namespace

std::string CallerText(PeerId self) {
  switch (self.kind) {
    case PeerId::Kind::kPs:
      return absl::StrCat("ps/", self.index);
    case PeerId::Kind::kWorker:
      return absl::StrCat("worker/", self.index);
    case PeerId::Kind::kCoordinator:
      return "chief/0";
    case PeerId::Kind::kStage:  // It calls nobody.
    case PeerId::Kind::kOutside:
      return "";
  }
  return "";
}

absl::StatusOr<Caller> IdentifyCaller(absl::string_view text,
                                      absl::string_view grpc_peer) {
  Caller caller;
  caller.address = AddressOf(grpc_peer);
  caller.claimed = !absl::StartsWith(caller.address, "unix:");
  if (text.empty()) return caller;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('/', 1));
  uint32_t index;
  if (!absl::SimpleAtoi(parts.second, &index)) return BadCaller(text);
  if (parts.first == "ps") {
    caller.role = v1::ROLE_PS;
    caller.task = PeerId::Ps(index);
  } else if (parts.first == "worker") {
    caller.role = v1::ROLE_WORKER;
    caller.task = PeerId::Worker(index);
  } else if (parts.first == "chief") {
    caller.role = v1::ROLE_CHIEF;
    caller.task = PeerId::Coordinator();
  } else if (parts.first == "operator") {
    caller.role = v1::ROLE_OPERATOR;
  } else if (parts.first == "reader") {
    caller.role = v1::ROLE_READER;
  } else {
    return BadCaller(text);
  }
  return caller;
}

absl::StatusOr<Caller> ProveCaller(absl::string_view text,
                                   const Connection& connection,
                                   absl::string_view job) {
  ASSIGN_OR_RETURN(Caller caller, IdentifyCaller(text, connection.grpc_peer));
  const std::string at = absl::StrCat("the caller at ", caller.address);
  if (!connection.is_tls) {
    if (!caller.claimed && caller.task == PeerId()) return caller;
    return NotProved(
        absl::StrCat(at, " says it is ", text,
                     "; a task shows its certificate, and the Unix "
                     "socket is for operators"));
  }
  const auto name = NameAmong(connection.uris);
  if (!name.ok()) {
    return NotProved(absl::StrCat(at, " is nobody: ", name.status().message()));
  }
  if (name->job != job) {
    return NotProved(absl::StrCat(at, " has a certificate of another job, ",
                                  name->Uri(), "; this is job '", job,
                                  "': give it one of this job"));
  }
  const bool is_chief = caller.role == v1::ROLE_CHIEF &&
                        name->role == CertifiedName::Role::kWorker &&
                        name->index == 0;
  if (!text.empty() && !is_chief && text != name->RoleAndIndex()) {
    return NotProved(absl::StrCat(at, " says it is ", text.substr(0, 64),
                                  "; its certificate is that of ",
                                  name->Uri()));
  }
  caller.name = name->RoleAndIndex();
  if (text.empty()) SetRole(*name, &caller);
  caller.claimed = false;
  return caller;
}

std::string ProcessText(uint64_t incarnation) {
  return incarnation == 0
             ? ""
             : absl::StrCat(absl::Hex(incarnation, absl::kZeroPad16));
}

absl::Status CheckMeant(absl::string_view meant, absl::string_view process,
                        const Caller& caller, const Method& method) {
  if (meant == process || process.empty()) return absl::OkStatus();
  if (!meant.empty()) {
    return Refuse(v1::Refusal::NOT_READY, kIncarnationKey,
                  absl::StrCat("a call of ", method.name, " is for process ",
                               meant.substr(0, 16), "; this is process ",
                               process, ": say Hello to it first"));
  }
  const bool is_task = caller.role == v1::ROLE_PS ||
                       caller.role == v1::ROLE_WORKER ||
                       caller.role == v1::ROLE_CHIEF;
  if (!is_task || method.served_by == PeerId::Kind::kOutside) {
    return absl::OkStatus();
  }
  return Refuse(v1::Refusal::INVALID, kIncarnationKey,
                absl::StrCat("a call of ", method.name, " by a ",
                             RoleName(caller.role), " has no ", kIncarnationKey,
                             ": say Hello, and with each call "
                             "the incarnation that answered it"));
}

absl::Status CheckHelloOf(const Caller& caller, const v1::HelloRequest& hello) {
  const bool is_task = caller.role == v1::ROLE_PS ||
                       caller.role == v1::ROLE_WORKER ||
                       caller.role == v1::ROLE_CHIEF;
  if (caller.claimed || !is_task) return absl::OkStatus();
  const v1::TaskType type = caller.role == v1::ROLE_PS ? v1::PS : v1::WORKER;
  if (hello.task().type() == type &&
      hello.task().index() == caller.task.index) {
    return absl::OkStatus();
  }
  return NotProved(absl::StrCat("the Hello of ", CallerText(caller.task),
                                " at ", caller.address, " says it is ",
                                v1::TaskType_Name(hello.task().type()), " ",
                                hello.task().index()));
}

bool IsForAnotherProcess(const absl::Status& status) {
  const v1::Refusal refusal = RefusalOf(status);
  return refusal.reason() == v1::Refusal::NOT_READY &&
         refusal.entity() == kIncarnationKey;
}

absl::Status CheckAllowed(const Caller& caller, const Method& method) {
  const std::vector<v1::Role>& callers = method.callers;
  const auto may = [&](v1::Role role) {
    return std::find(callers.begin(), callers.end(), role) != callers.end();
  };
  const bool is_reader = caller.role == v1::ROLE_READER;
  if (may(v1::ROLE_ANYONE) && !is_reader) return absl::OkStatus();
  if (!may(caller.role)) {
    const std::string names =
        absl::StrJoin(callers, " or ", [](std::string* out, v1::Role role) {
          out->append(role == v1::ROLE_ANYONE
                          ? "members of the job and operators"
                          : RoleName(role));
        });
    return Refuse(v1::Refusal::NOT_ALLOWED, method.name,
                  absl::StrCat(method.name, " is for ", names,
                               "; the caller is ", RoleName(caller.role)));
  }
  if (caller.role == v1::ROLE_OPERATOR && caller.claimed) {
    return Refuse(v1::Refusal::NOT_ALLOWED, method.name,
                  absl::StrCat(method.name,
                               " is for operators, who call over the process's "
                               "Unix socket (worker-0.sock in the run's "
                               "directory is the chief's); the caller is at ",
                               caller.address));
  }
  return absl::OkStatus();
}

}  // namespace paramd
