#ifndef PARAMD_NET_GRPC_RUNTIME_H_
#define PARAMD_NET_GRPC_RUNTIME_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/chrome_trace.h"
#include "net/operator_calls.h"
#include "net/process_calls.h"
#include "net/runtime.h"
#include "net/tls.h"
#include "proto/paramd/v1/types.pb.h"
#include "tensor/message.h"

namespace paramd {

// One process of a cluster, as its peers see it.
struct GrpcRuntimeOptions {
  std::string listen_address;  // "host:port"; empty: at the socket below alone.
  // What connections to and from other processes are made with; null: no TLS,
  // and callers are who they say they are.
  std::shared_ptr<const Tls> tls;
  // Without TLS, also listen where others than this machine can reach it; and
  // everywhere, if the host of listen_address has no address here.
  bool insecure = false;
  // Where probes that speak no TLS ask for its health; empty: nowhere but at
  // listen_address.
  std::string health_address;
  // Where operators call this process, see OperatorSocket; empty: nowhere. If
  // that can't be, it is logged, and nobody is an operator.
  std::string operator_socket;
  // What operators ask is told to it; null: to the log alone.
  std::shared_ptr<OperatorCalls> operator_calls;
  // Records the calls that come, as long as that wants it; null: nothing does.
  // Not owned.
  ChromeTrace* trace = nullptr;
  v1::Task self;
  // Each ps task has so many servers: their peers are ps t * N to t * N + N
  // - 1.
  uint32_t shards_per_server = 1;
  // That call this process: there is room for the connections and calls of all
  // of them, and MakeGrpcRuntime fails where there cannot be.
  uint32_t workers = 0;
  uint64_t incarnation = 0;
  // Compared in Hello with those of every peer; empty: not compared.
  std::string job_name;
  std::string job_digest;
  std::vector<std::string> job_settings;  // The lines of its job_wide_text.
  std::vector<std::string> cluster;       // As of EntriesToAgree.
  std::string build;
  // Where each peer listens. Coordinator() is the chief.
  std::map<PeerId, std::string> peers;
  // Where Coordinator() is now, for a chief that is elected; null: where
  // `peers` says. Called on the loop thread, and waits for nobody.
  std::function<std::string()> find_coordinator;
  // Answers what is for the process itself, but Control; null: nobody does.
  ProcessCalls process_calls;
  // Payloads to and from processes of this machine go through shared memory,
  // if the other side agrees and it can be had; else, as ever, in messages.
  bool shared_memory = true;
  // Of what is being received, or was and is held: callers that make it more
  // lose their connections. At least 256 MiB; 0: no limit.
  uint64_t memory_limit_bytes = 0;
  absl::Duration hello_deadline = absl::Seconds(5);
  // A peer that has been asked, and has answered nothing for so long, is
  // dialled anew beside the connection that there is: its name may lead
  // elsewhere by now. Longer than a server keeps a pull, unless told.
  absl::Duration longest_silence = absl::Seconds(6);
  // A caller that has not taken an answer by then loses its call: as long as
  // the end of a stream, see StreamServer.
  absl::Duration longest_unread = absl::Seconds(60);
  // How long the end of Run waits until answers given are sent.
  absl::Duration drain_deadline = absl::Seconds(2);
};

// A runtime whose cores talk to other processes over gRPC and to each other by
// reference. One completion queue, read by the thread in Run; a second thread
// does nothing but accept connections, and a parameter server has a third that
// takes over memory to share. Listens from now on; requests wait until Run.
//
// kAlreadyExists if the port is in use; kInvalidArgument if the address cannot
// be bound, or not without TLS, or if the process may not open as many files as
// it needs, after its limit was raised as far as it may be. Each is one
// sentence that names the address.
absl::StatusOr<std::unique_ptr<Runtime>> MakeGrpcRuntime(
    GrpcRuntimeOptions options);

}  // namespace paramd

#endif  // PARAMD_NET_GRPC_RUNTIME_H_
