#include "coordinator/election/chief_record.h"

#include <cstdlib>
#include <utility>

#include "base/status_macros.h"
#include "coordinator/election/api_server.h"
#include "coordinator/election/etcd_record.h"
#include "coordinator/election/lease_record.h"

namespace paramd {
namespace {

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<std::unique_ptr<ChiefRecord>> OpenLease(
    const LeasePlace& place, const std::string& directory,
    absl::Duration look_again) {
  ApiServer::Options options;
  options.host = Environment("KUBERNETES_SERVICE_HOST");
  options.port = Environment("KUBERNETES_SERVICE_PORT");
  if (!directory.empty()) options.directory = directory;
  ASSIGN_OR_RETURN(auto server, ApiServer::Create(options));
  LeasePlace whole = place;
  if (whole.name_space.empty()) {
    ASSIGN_OR_RETURN(whole.name_space, server->OwnNamespace());
  }
  return std::make_unique<LeaseRecord>(whole, std::move(server), look_again);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChiefRecord>> OpenChiefRecord(
    const ElectionPlace& place, const std::string& directory,
    absl::Duration look_again) {
  const EtcdPlace* const etcd = absl::get_if<EtcdPlace>(&place);
  if (etcd == nullptr) {
    return OpenLease(absl::get<LeasePlace>(place), directory, look_again);
  }
  ASSIGN_OR_RETURN(auto client, EtcdClient::Create(*etcd, directory));
  return std::make_unique<EtcdRecord>(*etcd, std::move(client));
}

}  // namespace paramd
