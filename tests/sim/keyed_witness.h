#ifndef PARAMD_TESTS_SIM_KEYED_WITNESS_H_
#define PARAMD_TESTS_SIM_KEYED_WITNESS_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "google/protobuf/message.h"

#include "coordinator/core/server_places.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "tensor/message.h"
#include "tensor/outbox.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/push_ledger.h"
#include "tests/sim/simulation_watcher.h"
#include "tests/sim/storage.h"

namespace paramd {

// Which keys have rows in the end, and what these hold, where servers with
// backups apply pushes in any order: a push to a block comes after those that
// its server told its backup, or acknowledged alone, before it; what a backup
// had not taken when it took over was never done; and where all servers go back
// to a checkpoint, what comes after its cuts is done again.
//
// Not thread-safe. The job outlives it.
class KeyedWitness {
 public:
  KeyedWitness(const IntegerJob& job, std::vector<ServerPlaces> places)
      : job_(job),
        places_(std::move(places)),
        ledger_(job),
        applied_(job.blocks().size()) {}

  // Requests and answers of servers and workers; what is neither a push nor
  // what a server tells its backup changes nothing. kDataLoss as
  // PushLedger::See, or if a push is told or answered that nobody sent.
  absl::Status Sent(PeerId from, const google::protobuf::Message& request);
  absl::Status Answered(PeerId by, const google::protobuf::Message& request,
                        const google::protobuf::Message& reply);
  // The backup since then takes server `server` over.
  void TakenOver(uint32_t server, const v1::ConfigurationVersion& since);
  // The coordinator of that term has all servers begin with this checkpoint, or
  // without one. No worker has died.
  void WentBack(uint64_t term, const absl::optional<v1::Manifest>& checkpoint) {
    went_back_.emplace(term, checkpoint);
  }

  // OK if a checkpoint behind the last push has just these rows, and each block
  // each batch once; else kDataLoss.
  absl::Status Check(const SimStorage& storage,
                     const v1::Manifest& manifest) const;

 private:
  using Stream = std::pair<uint32_t, Number>;  // Server, since.
  struct Applied {
    PushLedger::PushIndex push;
    Stream stream;
    uint64_t number;  // In the stream; 0: acknowledged, so it is in.
  };
  // What a key's row holds: the sum of coefficients.
  struct Row {
    bool present = false;
    float sum = 0;
  };

  // Server `server` tells its backup something, for the first time or again,
  // and that answers.
  absl::Status Told(uint32_t server, const v1::ReplicateRequest& told);
  void Taken(uint32_t server, const v1::ReplicateRequest& told,
             const v1::ReplicateReply& taken);
  absl::Status Acknowledged(const v1::PushRequest& push,
                            const v1::PushReply& reply);
  uint32_t BlockOf(uint32_t slice, uint32_t block) const {
    return job_.slices()[slice].first_block + block;
  }
  // It is behind the cut of a checkpoint to which all went back later.
  bool IsUndone(const PushLedger::Push& push) const;
  // Pushes in a block, in their order.
  std::vector<PushLedger::PushIndex> PushesIn(size_t block) const;
  // Its keys, in the order of the job.
  std::vector<Row> RowsOf(
      size_t block, const std::vector<PushLedger::PushIndex>& pushes) const;

  const IntegerJob& job_;
  const std::vector<ServerPlaces> places_;
  PushLedger ledger_;
  std::vector<std::vector<Applied>> applied_;  // By block, as it was seen.
  std::map<Stream, uint64_t> told_;            // The newest number.
  std::map<Stream, uint64_t> taken_;
  std::set<Stream> took_over_;
  std::map<uint64_t, absl::optional<v1::Manifest>> went_back_;  // By term.
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_KEYED_WITNESS_H_
