#ifndef PARAMD_TESTS_SIM_PUSH_LEDGER_H_
#define PARAMD_TESTS_SIM_PUSH_LEDGER_H_

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "proto/paramd/v1/data.pb.h"
#include "proto/refusal.h"
#include "tensor/message.h"
#include "tests/sim/integer_job.h"

namespace paramd {

// (term, counter), as a key.
using Number = std::pair<uint64_t, uint64_t>;
template <Numbered T>
Number NumberOf(const T& version) {
  return {version.term(), version.counter()};
}

// One life of a worker.
struct SessionKey {
  uint32_t worker = 0;
  Number generation;
  friend auto operator<=>(const SessionKey&, const SessionKey&) = default;
};
// Of a message's header.
inline SessionKey KeyOf(const v1::Header& header) {
  return {header.worker(), NumberOf(header.generation())};
}
// "worker-1 as generation 2-7".
std::string SessionName(const SessionKey& session);

// What a model finds that contradicts it.
template <typename... Parts>
absl::Status Wrong(const Parts&... parts) {
  return absl::DataLossError(absl::StrCat(parts...));
}

// Which batch every push was made of, overheard on the wire, so that what a
// block says it contains can be compared with what it contains. Pushes are
// numbered in the order in which they were first sent.
//
// Not thread-safe.
class PushLedger {
 public:
  using PushIndex = uint32_t;
  struct Push {
    SessionKey session;
    uint64_t sequence = 0;
    Number stamp;  // The snapshot after whose cut it comes.
    BatchPlace batch;
    std::vector<float> coefficients;  // By block.
    bool given_up = false;
  };

  explicit PushLedger(const IntegerJob& job) : job_(job) {}

  // A push as it is sent. kDataLoss if it says it is of another batch, or has
  // another stamp, than when it was first sent, if it is of no batch of the
  // job, or if its number leaves a gap.
  absl::StatusOr<PushIndex> See(PeerId from, const v1::PushRequest& request);
  // The one of this header. kDataLoss if it was never sent.
  absl::StatusOr<PushIndex> Find(const v1::Header& header) const;
  absl::StatusOr<PushIndex> Find(const SessionKey& session,
                                 uint64_t sequence) const;

  // Its worker waits for it no longer, and goes on with the next one.
  void GivesUp(PushIndex index) { pushes_[index].given_up = true; }

  const Push& push(PushIndex index) const { return pushes_[index]; }
  size_t pushes() const { return pushes_.size(); }
  // How many of them are of this session.
  uint64_t PushesOf(const SessionKey& session) const;
  std::string NameOf(PushIndex index) const;

 private:
  const IntegerJob& job_;
  std::vector<Push> pushes_;
  std::map<std::pair<SessionKey, uint64_t>, PushIndex> by_sequence_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_PUSH_LEDGER_H_
