#include "process/run_options.h"

#include "base/status_macros.h"
#include "process/incarnation.h"
#include "process/multi_worker.h"

namespace paramd {

void RunOptions::AddTo(Flags* flags) {
  flags->AddSwitch("insecure",
                   "also listen where other machines reach it, without TLS",
                   &insecure);
  flags->AddText("tls_dir", "DIR",
                 "connections are TLS, with ca.crt, tls.crt and tls.key of DIR "
                 "or of its folder named after the task, ps-0; watched",
                 &tls_dir);
  flags->AddText("health_address", "HOST:PORT",
                 "grpc.health.v1.Health there too, without TLS and with "
                 "nothing else, for probes",
                 &health_address);
  flags->AddText(
      "incarnation", "HEX",
      "the name that a supervisor gives this process; drawn if not given",
      &incarnation);
  flags->AddText("replaces", "HEX",
                 "the process of this worker before this one, which has ended: "
                 "its lease need not run out",
                 &replaces);
  flags->AddText("trace", "FILE", kTraceFlag, &trace_path);
  process.AddTo(flags);
}

absl::StatusOr<ProcessRole> RoleIn(const ClusterSpec& cluster,
                                   const v1::JobConfig& job,
                                   const RunOptions& options) {
  ProcessRole role;
  role.shards = job.shards_per_server();
  role.servers = role.shards;
  role.incarnation = DrawIncarnation();
  if (!options.incarnation.empty()) {
    ASSIGN_OR_RETURN(role.incarnation,
                     ParseIncarnation("--incarnation", options.incarnation));
  }
  if (!options.replaces.empty()) {
    ASSIGN_OR_RETURN(role.replaces,
                     ParseIncarnation("--replaces", options.replaces));
  }
  const bool is_member = MultiWorker::IsMeant(job, cluster);
  if (cluster.standalone || is_member) {
    role.server = 0;
    role.worker = 0;
    if (is_member) role.member = cluster.worker_index();
    return role;
  }
  role.servers = static_cast<uint32_t>(cluster.ps.size()) * role.shards;
  role.replication = job.replication();
  role.scalable = job.scalable() && job.replication() > 1;
  role.workers = static_cast<uint32_t>(cluster.workers.size());
  role.ps_addresses = cluster.ps;
  role.joined = cluster.joins();
  if (role.joined) role.address = cluster.self_address();
  role.stages_of_a_worker = cluster.stages_of_a_worker();
  if (cluster.is_stage()) {
    role.stage = cluster.self.index;
  } else if (cluster.is_ps()) {
    role.server = cluster.self.index;
  } else if (cluster.worker_index() >= 0) {
    role.worker = cluster.worker_index();
  } else {
    role.evaluator = cluster.self.index;
  }
  return role;
}

CertifiedName CertifiedNameOf(const ProcessRole& role,
                              const v1::JobConfig& job) {
  if (role.stage.has_value()) {
    return {job.name(), CertifiedName::Role::kStage, *role.stage};
  }
  return {job.name(),
          role.server.has_value() ? CertifiedName::Role::kPs
                                  : CertifiedName::Role::kWorker,
          role.server.has_value() ? *role.server
                                  : static_cast<uint32_t>(*role.worker)};
}

}  // namespace paramd
