#include "process/enlist.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "config/batch_rule.h"
#include "config/environment.h"
#include "config/strategy.h"
#include "config/task_address.h"
#include "net/grpc_runtime.h"
#include "net/tls.h"
#include "net/tls_files.h"
#include "process/version.h"
#include "worker/core/enlisting.h"

namespace paramd {
namespace {

// One that listens nowhere and calls the chief alone.
absl::StatusOr<GrpcRuntimeOptions> OptionsToEnlist(
    const RunOptions& run, const PreparedProcess& prepared) {
  const LoadedJob& job = prepared.job;
  GrpcRuntimeOptions options;
  options.self.set_type(v1::WORKER);
  options.self.set_index(PeerId::AnyWorker().index);
  if (!run.tls_dir.empty()) {
    ASSIGN_OR_RETURN(const CertifiedName name,
                     NameToJoinWith(run.tls_dir, job.config));
    ASSIGN_OR_RETURN(options.tls, Tls::Make(run.tls_dir, name));
    options.self.set_index(name.index);
  }
  options.incarnation = prepared.role.incarnation;
  options.job_name = job.config.name();
  options.job_digest = job.digest;
  options.job_settings =
      absl::StrSplit(job.job_wide_text, '\n', absl::SkipEmpty());
  options.build = absl::StrCat(ParamdVersion(), " ", ParamdCommit());
  options.peers[PeerId::Coordinator()] = prepared.cluster.chief_address();
  options.shared_memory = false;
  return options;
}

bool MakesSense(const v1::EnlistReply& reply) {
  return reply.index() >= 1 &&
         reply.index() < static_cast<uint32_t>(kMostTasks) &&
         reply.workers() >= 1 && reply.ps_size() >= 1 &&
         std::none_of(reply.ps().begin(), reply.ps().end(),
                      [](const std::string& address) {
                        return WrongAddress(address, "").has_value();
                      });
}

absl::Status TakeUp(const v1::EnlistReply& reply, PreparedProcess* prepared) {
  ClusterSpec& cluster = prepared->cluster;
  ProcessRole& role = prepared->role;
  v1::JobConfig& job = prepared->job.config;
  if (!MakesSense(reply)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the chief at ", cluster.join, " gives index ", reply.index(), " and ",
        reply.ps_size(), " ps, with which no worker can begin"));
  }
  cluster.SetEnlisted(static_cast<int>(reply.index()),
                      {reply.ps().begin(), reply.ps().end()});
  role.worker = reply.index();
  role.workers = reply.workers();
  role.servers = static_cast<uint32_t>(cluster.ps.size()) * role.shards;
  return DeriveBatch(reply.workers() * ReplicasOf(job), &job);
}

// What the chief answers; unset: the job has finished.
absl::StatusOr<absl::optional<v1::EnlistReply>> Ask(
    const RunOptions& run, const PreparedProcess& prepared, bool gives_up,
    absl::Duration patience) {
  ASSIGN_OR_RETURN(GrpcRuntimeOptions options, OptionsToEnlist(run, prepared));
  const PeerId self = PeerId::Worker(options.self.index());
  v1::EnlistRequest request;
  request.set_incarnation(options.incarnation);
  request.set_host(ReadHostName());
  request.set_pid(static_cast<uint32_t>(getpid()));
  request.set_gives_up(gives_up);
  Enlisting enlisting(std::move(request), patience);
  ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> runtime,
                   MakeGrpcRuntime(std::move(options)));
  runtime->AddCore(self, &enlisting);
  RETURN_IF_ERROR(runtime->Run());
  return enlisting.reply();
}

}  // namespace

absl::StatusOr<CertifiedName> NameToJoinWith(const std::string& tls_dir,
                                             const v1::JobConfig& job) {
  std::error_code error;
  if (!std::filesystem::exists(absl::StrCat(tls_dir, "/tls.crt"), error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tls_dir: '", tls_dir,
                     "' has no tls.crt; with --join it is the directory of one "
                     "worker's certificate, which names its index"));
  }
  const TlsFiles files = TlsFilesOf(tls_dir, /*task=*/"");
  ASSIGN_OR_RETURN(const OwnCertificate own, CheckTlsFiles(files, absl::Now()));
  if (own.name.role == CertifiedName::Role::kWorker &&
      own.name.job == job.name()) {
    return own.name;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the file '", files.certificate, "' of tls_dir is the certificate of ",
      own.name.Uri(), "; to join job '", job.name(),
      "' takes one of its workers (paramd tls init makes them)"));
}

absl::Status Enlist(const RunOptions& run, PreparedProcess* prepared) {
  Log(LogLevel::kInfo, "asking the chief for an index",
      {{"chief", prepared->cluster.join}});
  ASSIGN_OR_RETURN(
      const absl::optional<v1::EnlistReply> reply,
      Ask(run, *prepared, /*gives_up=*/false,
          absl::Milliseconds(prepared->job.config.start_timeout_ms())));
  if (!reply.has_value()) {
    prepared->nothing_to_do = "the job is finished: there is nothing to join";
    return absl::OkStatus();
  }
  return TakeUp(*reply, prepared);
}

void GiveUpIndex(const RunOptions& run, const PreparedProcess& prepared) {
  const absl::Status told =
      Ask(run, prepared, /*gives_up=*/true, absl::ZeroDuration()).status();
  if (told.ok()) return;
  Log(LogLevel::kWarning, "the chief keeps an index for this process",
      {{"why", told.message()}});
}

}  // namespace paramd
