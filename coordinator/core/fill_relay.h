#ifndef PARAMD_COORDINATOR_CORE_FILL_RELAY_H_
#define PARAMD_COORDINATOR_CORE_FILL_RELAY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/buffer.h"

namespace paramd {

// Slices for servers that do not see the checkpoint which they are to restore,
// or the file that initial values come out of, on their way through the
// coordinator's process: for each server, one slice after the other is read and
// then sent in pieces.
//
//   to be read ──work──► read ──call──► a piece is there ──┬─ the last ──► done
//       ▲                  ▲                               │
//       └─ a whole slice ──┴───────────────────────────────┘
//
// A server says what it wants next, so that what was lost on the way is sent
// again and nothing twice. The last slice is read together with the check of
// the files that are this server's to check: it is not sent before that.
//
// Bound: of each such server one slice.
//
// Not thread-safe: lives inside the coordinator's core, which starts the work
// and makes the calls.
class FillRelay {
 public:
  // At most so much of a slice travels at once.
  explicit FillRelay(uint64_t piece_bytes) : piece_bytes_(piece_bytes) {}

  // Server `server` of the configuration needs what `servers(server)` of it
  // says; nothing changes if that is known of this generation.
  void Begin(const v1::Configuration& configuration, uint32_t server);
  // What the server said of a configuration: it begins if the server does not
  // see what this one tells it to restore, and ends if it is restored.
  void Told(const v1::Configuration& configuration, uint32_t server,
            const v1::ConfigureReply& reply);
  // It needs nothing more.
  void End(uint32_t server) { ways_.erase(server); }

  bool NeedsRead(uint32_t server) const;
  // REQUIRES: NeedsRead(server). From here on it is being read.
  std::unique_ptr<v1::ReadForServer> Read(uint32_t server);
  // What was read for this generation of the server, a ReadSlicesResult or a
  // ReadWarmStartResult; what is for another one is dropped. kDataLoss if it is
  // not what was asked for.
  absl::Status Done(uint32_t server, const v1::ServerLife& generation,
                    const google::protobuf::Message* result,
                    BufferChain payload);

  bool NeedsFill(uint32_t server) const;
  // The next piece, its bytes in `payload`; of the header nothing.
  // REQUIRES: NeedsFill(server).
  v1::FillRequest FillFor(uint32_t server, BufferChain* payload) const;
  // What the server answered.
  void Filled(uint32_t server, const v1::FillReply& reply);

 private:
  enum class Stage { kToRead, kReading, kToSend, kSent };
  struct Way {
    v1::ServerLife generation;
    v1::ReadSlices all;  // Every slice that the server owns.
    // Where there is no checkpoint to restore: what initial values come out of.
    absl::optional<v1::WarmStartConfig> initial;
    Stage stage = Stage::kToRead;
    int slice = 0;
    uint64_t offset = 0;
    uint64_t total = 0;
    v1::FillRequest head;  // Of the slice's first piece.
    BufferChain bytes;
  };

  static absl::Status TakeRead(const v1::ReadSlicesResult& result, Way* way);
  static absl::Status TakeInitial(const v1::ReadWarmStartResult& result,
                                  const Way& way);

  const uint64_t piece_bytes_;
  std::map<uint32_t, Way> ways_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_FILL_RELAY_H_
