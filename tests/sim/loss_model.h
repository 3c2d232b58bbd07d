#ifndef PARAMD_TESTS_SIM_LOSS_MODEL_H_
#define PARAMD_TESTS_SIM_LOSS_MODEL_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "tests/sim/content_model.h"
#include "tests/sim/push_ledger.h"
#include "tests/sim/session_model.h"
#include "tests/sim/storage.h"

namespace paramd {

// What each file of a checkpoint must list as lost: the pushes that their
// worker held acknowledged when the snapshot was sealed and that the content
// lacks, and what the checkpoint listed with which that content began. Of a
// session that ended and never pushed to the restored server it may be less: at
// least what the coordinator had heard of it.
//
// Not thread-safe. Content, sessions, ledger and storage outlive it.
class LossModel {
 public:
  LossModel(const PushLedger& ledger, const ContentModel& content,
            const SessionModel& sessions, const SimStorage& storage)
      : ledger_(ledger),
        content_(content),
        sessions_(sessions),
        storage_(storage) {}

  // A coordinator has taken note of what the header says.
  void Noted(const v1::Header& header);
  // A worker's heartbeat reaches a coordinator.
  void Cut(const v1::HeartbeatRequest& request);
  // A coordinator takes over servers that keep what they hold: what is whole
  // there of sessions that end with that counts as acknowledged.
  void TakenOver(const v1::Configuration& configuration);
  // A server has answered a push.
  void Pushed(uint32_t server, const v1::PushRequest& request,
              const v1::PushReply& reply);
  // A coordinator seals a snapshot.
  void Sealing(const v1::SealRequest& request);

  // The lists of a checkpoint, against what is lost.
  absl::Status CheckCheckpoint(const v1::Manifest& manifest);
  // That the newest checkpoint lists; what several servers lost counts once.
  uint64_t pushes() const { return pushes_; }
  // How often a file listed one more, and how often of a session that the
  // server had not heard since it was restored.
  uint64_t reported() const { return reported_; }
  uint64_t reported_unheard() const { return reported_unheard_; }

 private:
  // A push, by number.
  using PushKey = std::pair<SessionKey, uint64_t>;
  using Pushes = std::set<PushKey>;
  struct Sealed {
    std::map<SessionKey, uint64_t> whole;
    std::map<SessionKey, uint64_t> noted;
    std::set<SessionKey> live;
  };

  absl::StatusOr<Pushes> Listed(const v1::ShardFile& file) const;
  Pushes ListedBefore(const v1::ShardFile& file) const;
  // What must be listed beside that, and what may be.
  absl::Status AddLost(const v1::Manifest& manifest, const v1::ShardFile& file,
                       Pushes* must, Pushes* may) const;
  bool HasSpoken(const v1::ShardFile& file, const SessionKey& session) const;
  static std::string NameOf(const v1::ShardFile& file, const PushKey& push);

  const PushLedger& ledger_;
  const ContentModel& content_;
  const SessionModel& sessions_;
  const SimStorage& storage_;
  std::map<SessionKey, uint64_t> noted_;
  std::map<SessionKey, uint64_t> taken_over_;
  std::map<Number, std::map<SessionKey, uint64_t>> cuts_;  // By snapshot.
  std::map<Number, Sealed> sealed_;                        // By snapshot.
  // Who pushed to which life of which server.
  std::set<std::pair<std::pair<uint32_t, Number>, SessionKey>> spoke_;
  uint64_t pushes_ = 0;
  uint64_t reported_ = 0;
  uint64_t reported_unheard_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_LOSS_MODEL_H_
