#include "proto/configuration_changes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::FieldDescriptor;
using Workers = google::protobuf::RepeatedPtrField<v1::WorkerMember>;

bool IsBefore(const v1::WorkerMember& a, const v1::WorkerMember& b) {
  return a.index() < b.index();
}

absl::Status CheckBase(const v1::Configuration& known,
                       const v1::Configuration& told) {
  const v1::ConfigurationVersion& since = told.changes_since();
  const v1::ConfigurationVersion& has = known.version();
  const uint64_t term = told.version().term();
  if (!IsZero(has) && since.term() == term && has.term() == term &&
      !(has < since) && !(told.version() < has)) {
    return absl::OkStatus();
  }
  const std::string name = VersionName(told.version());
  return Invalid(
      name, absl::StrCat("configuration ", name, " is told as changes since ",
                         VersionName(since), "; known is ",
                         IsZero(has) ? "none" : VersionName(has)));
}

absl::Status ChangeServers(const v1::Configuration& told,
                           v1::Configuration* whole) {
  for (const v1::ServerMember& server : told.servers()) {
    const uint32_t index = server.index();
    if (index >= static_cast<uint32_t>(whole->servers_size())) {
      return Invalid(absl::StrCat("ps-", index),
                     absl::StrCat("ps-", index, " has changed; there are ",
                                  whole->servers_size(), " servers"));
    }
    *whole->mutable_servers(static_cast<int>(index)) = server;
  }
  return absl::OkStatus();
}

// Both are in the order of the indices.
void ChangeWorkers(const v1::Configuration& told, Workers* workers) {
  if (told.workers().empty() && told.workers_left().empty()) return;
  const auto has_left = [&](uint32_t worker) {
    return std::binary_search(told.workers_left().begin(),
                              told.workers_left().end(), worker);
  };
  Workers changed;
  changed.Reserve(workers->size() + told.workers_size());
  auto next = told.workers().begin();
  for (v1::WorkerMember& member : *workers) {
    while (next != told.workers().end() && IsBefore(*next, member)) {
      *changed.Add() = *next++;
    }
    if (next != told.workers().end() && !IsBefore(member, *next)) {
      *changed.Add() = *next++;
    } else if (!has_left(member.index())) {
      changed.Add()->Swap(&member);
    }
  }
  for (; next != told.workers().end(); ++next) *changed.Add() = *next;
  workers->Swap(&changed);
}

absl::Status ChangeFields(const v1::Configuration& told,
                          v1::Configuration* whole) {
  std::vector<const FieldDescriptor*> fields;
  for (const uint32_t number : told.changed()) {
    const auto field = static_cast<int>(number);
    if (!IsWhollyTold(field)) {
      return Invalid("configuration",
                     absl::StrCat("field ", number,
                                  " of a configuration has changed, which is "
                                  "not known here"));
    }
    fields.push_back(v1::Configuration::descriptor()->FindFieldByNumber(field));
  }
  std::sort(fields.begin(), fields.end());
  fields.erase(std::unique(fields.begin(), fields.end()), fields.end());
  v1::Configuration changes = told;
  whole->GetReflection()->SwapFields(whole, &changes, fields);
  return absl::OkStatus();
}

}  // namespace

bool IsWhollyTold(int field) {
  switch (field) {
    case v1::Configuration::kVersionFieldNumber:
    case v1::Configuration::kRunIdFieldNumber:
    case v1::Configuration::kJobDigestFieldNumber:
    case v1::Configuration::kServersFieldNumber:
    case v1::Configuration::kWorkersFieldNumber:
    case v1::Configuration::kChangesSinceFieldNumber:
    case v1::Configuration::kChangedFieldNumber:
    case v1::Configuration::kWorkersLeftFieldNumber:
      return false;
    default:
      return v1::Configuration::descriptor()->FindFieldByNumber(field) !=
             nullptr;
  }
}

absl::StatusOr<v1::Configuration> Expand(const v1::Configuration& known,
                                         const v1::Configuration& told) {
  if (!told.has_changes_since()) return told;
  absl::Status status = CheckBase(known, told);
  if (!status.ok()) return status;
  const bool is_ordered =
      std::is_sorted(told.workers().begin(), told.workers().end(), IsBefore) &&
      std::is_sorted(told.workers_left().begin(), told.workers_left().end());
  if (!is_ordered) {
    return Invalid("configuration",
                   "the workers that have changed are out of order");
  }
  v1::Configuration whole = known;
  status = ChangeServers(told, &whole);
  if (status.ok()) status = ChangeFields(told, &whole);
  if (!status.ok()) return status;
  ChangeWorkers(told, whole.mutable_workers());
  *whole.mutable_version() = told.version();
  whole.set_run_id(told.run_id());
  whole.set_job_digest(told.job_digest());
  return whole;
}

// Most repeat the configuration that is known, and say nothing but who is
// called: then the whole is not looked at.
bool AgreesWith(const v1::Configuration& known, const v1::Configuration& told) {
  if (!CheckBase(known, told).ok()) return false;
  const bool says_more = !told.changed().empty() || !told.workers().empty() ||
                         !told.workers_left().empty();
  if (says_more) {
    const auto whole = Expand(known, told);
    return whole.ok() &&
           whole->SerializeAsString() == known.SerializeAsString();
  }
  return std::all_of(
      told.servers().begin(), told.servers().end(),
      [&](const v1::ServerMember& server) {
        const uint32_t index = server.index();
        return index < static_cast<uint32_t>(known.servers_size()) &&
               server.SerializeAsString() ==
                   known.servers(static_cast<int>(index)).SerializeAsString();
      });
}

}  // namespace paramd
