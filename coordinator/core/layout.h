#ifndef PARAMD_COORDINATOR_CORE_LAYOUT_H_
#define PARAMD_COORDINATOR_CORE_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// What of a variable several servers may share.
enum class Pieces {
  kRows,
  // A dense variable's blocks are those that it has on one server: what is of a
  // block (a norm) does not depend on the number of servers.
  kBlocks,
};

// Those that the job needs: kBlocks where it takes norms, to clip or for LAMB,
// or refuses spikes.
Pieces PiecesOf(const v1::JobConfig& job);

// Cuts the variables into slices of whole rows and gives each, largest first,
// to the server with the fewest bytes; of equals, to the lowest. A slice has at
// most 4 MiB and, on several servers, a quarter of a server's share of the
// model, but need not have less than 16 KiB; a row is never cut, nor a block
// where pieces are blocks. So nobody holds more than 1.25 times its share where
// the model has 64 KiB for each server and no piece is longer than a quarter of
// that share. The same input gives the same layout everywhere.
// kInvalidArgument naming the variable whose name (1 to 512 bytes, once), type
// or shape is not valid, or if there are over 1,000,000.
// REQUIRES: servers > 0.
absl::StatusOr<v1::Layout> PlanLayout(
    const std::vector<v1::Variable>& variables, uint32_t servers,
    Pieces pieces = Pieces::kRows);

// The bytes of each value of a variable on servers and in checkpoints.
uint64_t ValueBytes(const v1::Variable& variable);

// The bytes of the values that each server holds.
std::vector<uint64_t> BytesOfServers(const v1::Layout& layout,
                                     uint32_t servers);

// How evenly, for people: "the layout has 3 slices with 1600000 bytes of values
// on 2 servers; ps-1 has the most, 1.02 times its share".
// REQUIRES: what PlanLayout made for so many servers.
std::string BalanceText(const v1::Layout& layout, uint32_t servers);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_LAYOUT_H_
