#ifndef PARAMD_BENCH_LANES_LANE_H_
#define PARAMD_BENCH_LANES_LANE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/harness/child.h"
#include "tensor/number_format.h"

namespace paramd {

// kStep: all bytes are pushed and pulled, in whatever order or at once.
// kSmall: one number is pulled, many times, some at once.
enum class Transfer { kPush, kPull, kStep, kSmall };

// One way of moving the same bytes between two processes of this machine over
// loopback: a server that has them, a client that pushes to it or pulls from
// it. Not thread-safe.
class Lane {
 public:
  // The client answers "push TIMES UNDER_WAY" and so on with MovedLine. Lanes
  // may share a server.
  Lane(std::string name, std::shared_ptr<Child> server,
       std::unique_ptr<Child> client)
      : name_(std::move(name)),
        server_(std::move(server)),
        client_(std::move(client)) {}

  const std::string& name() const { return name_; }

  struct Moved {
    double seconds = 0;
    // Of both processes.
    double cpu_seconds = 0;
    double page_faults = 0;
    // Of one transfer of all bytes, or of one small request.
    double p50_seconds = 0;
    double p99_seconds = 0;
  };
  // Moves all bytes `times` times, one after the other; of small requests
  // `under_way` are.
  Moved Move(Transfer transfer, int times, int under_way = 1);

 private:
  double CpuSeconds() const;
  double PageFaults() const;

  const std::string name_;
  const std::shared_ptr<Child> server_;
  const std::unique_ptr<Child> client_;
};

// For clients: "push 5" taken apart, and its answer from the times it took.
struct MoveRequest {
  Transfer transfer = Transfer::kPush;
  int times = 0;
  int under_way = 1;
};
MoveRequest ParseMoveRequest(const std::string& line);
std::string MovedLine(double elapsed, const std::vector<double>& seconds);

// Small requests by the dozen need as many calls at once.
inline constexpr int kMostUnderWay = 64;

// No message is larger, and no more of them are under way at once.
inline constexpr uint64_t kChunkBytes = uint64_t{1} << 20;
inline constexpr int kCallsUnderWay = 4;

// Where the two processes run.
enum class CpuPlacement {
  kAnywhere,
  // The server on one CPU, the client on another.
  kApart,
};
// How a worker and a server of paramd reach each other.
enum class PayloadPath { kTcp, kTls, kSharedMemory };
// What may differ between lanes of paramd.
struct ParamdWay {
  CpuPlacement placement = CpuPlacement::kAnywhere;
  PayloadPath path = PayloadPath::kTcp;
  NumberFormat format = NumberFormat::kFp32;
};
// For a child: from now on it runs where it may, and nowhere else.
void Place(CpuPlacement placement, bool server);

// Variables of that many bytes on one server, moved by a worker's session.
// Without `apply` the server acknowledges pushes and changes nothing.
std::unique_ptr<Lane> MakeParamdLane(const std::vector<uint64_t>& variables,
                                     bool apply, const ParamdWay& way = {});
// A sparse variable on one server, of which a transfer moves so many rows,
// drawn at random anew: a push applies its gradients by Adagrad. Over TCP.
struct Table {
  uint64_t rows = 0;
  uint64_t width = 0;
  uint64_t rows_moved = 0;
  // Above 0: rows are named by keys, of which there are so many.
  uint64_t keys = 0;
  // Above 0: after a push of each key, rows_moved of them are drawn for each
  // transfer by Zipf's law with this exponent, repetitions included.
  double zipf = 0;
  // Above 0: the other rows lie in a file in `disk_directory`.
  uint64_t memory_rows = 0;
  std::string disk_directory = "";
  uint64_t memory_limit_bytes = 0;
};
std::unique_ptr<Lane> MakeRowsLane(const Table& table);
// Two clients of one server, which does not apply, over TCP.
std::pair<std::unique_ptr<Lane>, std::unique_ptr<Lane>> MakeTwoParamdLanes(
    const std::vector<uint64_t>& variables);
// Calls of gRPC whose messages are byte buffers over memory of the program:
// what is pushed is dropped, what is pulled is copied into memory of the
// program.
std::unique_ptr<Lane> MakeRawGrpcLane(uint64_t bytes, bool tls = false);
// One TCP connection, read and written in the same pieces.
std::unique_ptr<Lane> MakeTcpLane(
    uint64_t bytes, CpuPlacement placement = CpuPlacement::kAnywhere);

}  // namespace paramd

#endif  // PARAMD_BENCH_LANES_LANE_H_
