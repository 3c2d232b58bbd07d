#ifndef PARAMD_BENCH_OVERLOAD_OVERLOADED_SERVER_H_
#define PARAMD_BENCH_OVERLOAD_OVERLOADED_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "bench/harness/child.h"
#include "proto/paramd/v1/data.pb.h"
#include "tensor/buffer.h"

namespace paramd {

inline constexpr char kPull[] = "/paramd.v1.ParameterServer/Pull";
inline constexpr char kPush[] = "/paramd.v1.ParameterServer/Push";

// The job: so many workers, and one variable of 16 blocks of 1 MiB, by Adam.
inline constexpr uint32_t kWorkers = 256;
inline constexpr uint32_t kBlocks = 16;
inline constexpr uint32_t kBlocksOfASlice = 4;
inline constexpr uint32_t kBlockElements = 262144;

// What the server may hold: the variable and its two slots, 50 MB, and as much
// again. What it may have received and not taken is the least that there is.
inline constexpr uint64_t kHeldBytes = uint64_t{96} << 20;
inline constexpr uint64_t kReceivedBytes = uint64_t{256} << 20;

// For a child: from now on it runs on the first of the CPUs that it may use; or
// on the others, so many, or on the only one.
void PlaceServer();
int PlaceClients();

// A parameter server at `address`, a process of its own on one CPU, not
// configured.
std::unique_ptr<Child> MakeOverloadedServer(const std::string& address);

// What it says of itself.
struct ServerReport {
  uint64_t peak_bytes = 0;  // Resident, at most, since it began.
  uint64_t blocks_applied = 0;
};
ServerReport ReportOf(Child* server);

// For a child: configures the server, as a chief does, and waits until it
// serves.
void ConfigureServer(const std::string& address);

// Push `sequence` of one block by a worker; the payload is Gradient().
v1::PushRequest PushOf(uint32_t worker, uint64_t sequence, uint32_t block);
// The numbers of one block in bf16.
Buffer Gradient();
// Of `count` blocks from `block` on.
v1::PullRequest PullOf(uint32_t block, uint32_t count);

}  // namespace paramd

#endif  // PARAMD_BENCH_OVERLOAD_OVERLOADED_SERVER_H_
