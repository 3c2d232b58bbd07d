#include "process/trace/trace_collector.h"

#include <algorithm>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

#include "base/escape.h"
#include "base/status_macros.h"
#include "client/traced_process.h"

namespace paramd {
namespace {

// Calls in a row that look at the clock, before and after the recording.
constexpr int kClockCalls = 8;
// And between them, so that a trace that ends early is noticed.
constexpr absl::Duration kPoll = absl::Milliseconds(200);

// One process, and what became of it.
class Recorder {
 public:
  Recorder(std::string name, const TraceOptions& options) : options_(options) {
    trace_.process = std::move(name);
    request_.set_duration_ms(
        static_cast<uint32_t>(absl::ToInt64Milliseconds(options.duration)));
    request_.set_nonce(options.nonce);
  }

  // The process begins to record.
  absl::Status Begin(const ChiefAddress& address) {
    if (address.socket.empty() && address.address.empty()) {
      return absl::NotFoundError("the chief is not told where it listens");
    }
    ASSIGN_OR_RETURN(process_, TracedProcess::Connect(address));
    return Ask();
  }
  // Waits until it has recorded, and takes everything.
  absl::Status Finish() {
    const absl::Time latest =
        absl::Now() + options_.duration + options_.timeout;
    for (int calls = 1; recording_; ++calls) {
      if (absl::Now() > latest) {
        return absl::UnavailableError(
            absl::StrCat(trace_.process, " records longer than it was asked"));
      }
      if (calls >= kClockCalls) absl::SleepFor(kPoll);
      RETURN_IF_ERROR(Ask());
    }
    // Who has all says so once more, and the process lets go of it.
    while (request_.have() < total_) RETURN_IF_ERROR(Ask());
    // All is here: these calls look at the clock alone, and somebody else may
    // be recording by now.
    for (int i = 0; i < kClockCalls && !recording_; ++i) {
      if (!Ask().ok()) break;
    }
    return absl::OkStatus();
  }

  TracedProcess* process() { return process_.get(); }
  ProcessTrace& trace() { return trace_; }

 private:
  absl::Status Ask() {
    ASSIGN_OR_RETURN(const TracedProcess::Answer answer,
                     process_->Trace(request_, options_.timeout));
    const v1::TraceReply& reply = answer.reply;
    RETURN_IF_ERROR(AddPiece(reply, &trace_));
    trace_.clock.Add(answer.sent, answer.received, reply.clock_ns());
    if (!reply.process().empty()) trace_.process = EscapeLine(reply.process());
    recording_ = reply.recording();
    total_ = reply.total();
    const auto got = static_cast<uint64_t>(reply.events_size());
    if (got == 0 && request_.have() < total_) {
      return absl::DataLossError("its trace is damaged: events are missing");
    }
    request_.set_have(request_.have() + got);
    return absl::OkStatus();
  }

  const TraceOptions options_;
  std::unique_ptr<TracedProcess> process_;
  ProcessTrace trace_;
  v1::TraceRequest request_;
  bool recording_ = false;
  uint64_t total_ = 0;
};

std::string Missing(const std::string& name, const absl::Status& why) {
  return absl::StrCat(name, " is missing: ", EscapeLine(why.message()));
}

// Where it takes calls, if its chief is called so.
ChiefAddress AddressBeside(const ChiefAddress& chief, const std::string& name,
                           const std::string& address) {
  ChiefAddress beside;
  if (chief.socket.empty()) {
    beside.address = address;
    beside.tls = chief.tls;
    return beside;
  }
  const size_t slash = chief.socket.rfind('/');
  beside.socket = absl::StrCat(
      slash == std::string::npos ? "" : chief.socket.substr(0, slash + 1), name,
      ".sock");
  return beside;
}

std::vector<const v1::Member*> ServersOf(const v1::JobStats& job) {
  std::vector<const v1::Member*> servers;
  for (const v1::Member& member : job.members()) {
    if (member.task().type() == v1::PS) servers.push_back(&member);
  }
  return servers;
}

// How many servers each ps has, without replication: all of a ps are at its
// address, if it is known.
uint32_t ShardsOfEach(const std::vector<const v1::Member*>& servers) {
  const auto known = std::find_if(
      servers.begin(), servers.end(),
      [](const v1::Member* server) { return !server->address().empty(); });
  if (known == servers.end()) return 1;
  return static_cast<uint32_t>(std::count_if(
      servers.begin(), servers.end(), [&](const v1::Member* server) {
        return server->address() == (*known)->address();
      }));
}

// Addresses of the ps that hold a server or a backup, by their index.
std::map<uint32_t, std::string> PsAddresses(const v1::JobStats& job) {
  std::map<uint32_t, std::string> addresses;
  const std::vector<const v1::Member*> servers = ServersOf(job);
  if (servers.empty()) return addresses;
  const uint32_t shards = ShardsOfEach(servers);
  // With replication; unknown: one server at home, and one away.
  const uint32_t places =
      job.places_of_a_ps() > 0 ? job.places_of_a_ps() : uint32_t{2};
  const auto add = [&](uint32_t ps, const std::string& address) {
    if (!address.empty()) addresses.emplace(ps, address);
  };
  for (const v1::Member* const server : servers) {
    add(server->has_peer() ? server->peer() / places
                           : server->task().index() / shards,
        server->address());
    add(server->backup_peer() / places, server->backup_address());
  }
  return addresses;
}

}  // namespace

std::vector<TraceTarget> TargetsOf(const v1::StatusReply& status,
                                   const ChiefAddress& chief) {
  std::vector<TraceTarget> targets;
  if (status.address().empty()) return targets;
  const auto add = [&](const std::string& name, const std::string& address) {
    targets.push_back({name, AddressBeside(chief, name, address)});
  };
  for (const v1::Member& member : status.job().members()) {
    if (member.task().type() != v1::WORKER || member.task().index() == 0) {
      continue;
    }
    add(absl::StrCat("worker-", member.task().index()), member.address());
  }
  for (const auto& [ps, address] : PsAddresses(status.job())) {
    add(absl::StrCat("ps-", ps), address);
  }
  return targets;
}

absl::StatusOr<ClusterTrace> CollectTrace(const ChiefAddress& chief,
                                          const TraceOptions& options) {
  std::vector<std::unique_ptr<Recorder>> recorders;
  recorders.push_back(std::make_unique<Recorder>("the chief", options));
  RETURN_IF_ERROR(recorders[0]->Begin(chief));
  TracedProcess* const process = recorders[0]->process();
  ASSIGN_OR_RETURN(const v1::StatusReply status,
                   process->Status(options.timeout));
  ClusterTrace cluster;
  // Without it blocks have numbers for names.
  auto layout = process->Layout(options.timeout);
  if (layout.ok()) cluster.layout = *std::move(layout);
  const std::vector<TraceTarget> targets = TargetsOf(status, chief);
  for (const TraceTarget& target : targets) {
    recorders.push_back(std::make_unique<Recorder>(target.name, options));
  }
  std::vector<absl::Status> ended(recorders.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < recorders.size(); ++i) {
    threads.emplace_back([&, i] {
      ended[i] = recorders[i]->Begin(targets[i - 1].address);
      if (ended[i].ok()) ended[i] = recorders[i]->Finish();
    });
  }
  ended[0] = recorders[0]->Finish();
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < recorders.size(); ++i) {
    ProcessTrace& trace = recorders[i]->trace();
    if (ended[i].ok()) {
      cluster.processes.push_back(std::move(trace));
    } else {
      cluster.missing.push_back(Missing(trace.process, ended[i]));
    }
  }
  if (cluster.processes.empty()) {
    return absl::UnavailableError(absl::StrCat(
        "there is no trace: ", absl::StrJoin(cluster.missing, "; ")));
  }
  return cluster;
}

}  // namespace paramd
