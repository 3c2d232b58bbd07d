#ifndef PARAMD_SERVER_CORE_SESSION_GATE_H_
#define PARAMD_SERVER_CORE_SESSION_GATE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "server/core/shard_turn.h"
#include "server/core/shard_view.h"

namespace paramd {

// Whom a server obeys and whose pushes it takes: what coordinators have told
// it, and the checks that follow from that.
//
// Invariants:
//  - Nothing of a coordinator below the highest term heard is obeyed, and no
//    push is let in between the recall by a new one and its configuration: what
//    it was told of the pushes here stays true.
//  - What is meant for another process is refused before it is looked at, even
//    if that process is the same server of the same generation: two runs may
//    count alike.
//  - Only the sessions of the configuration push; an earlier generation never
//    does again. What was sent to an earlier life of the server is not let in.
//
// Not thread-safe: a part of a Shard.
class SessionGate : public CallChecks {
 public:
  // A stamp or a seal so far beyond the newest snapshot heard of waits until
  // the coordinator has told of it. Between two of its calls it opens fewer,
  // unless storage fails at once; when a seal is refused, it tells.
  static constexpr uint64_t kMostSnapshotsAhead = 16;

  explicit SessionGate(const ShardView& view) : view_(view) {}

  const uint64_t& term() const { return term_; }
  const v1::ServerLife& generation() const { return generation_; }
  const v1::Configuration& configuration() const { return configuration_; }
  const std::map<uint32_t, v1::SessionId>& sessions() const {
    return sessions_;
  }

  // ---- what coordinators tell

  // REQUIRES: CheckTerm(term) lets it pass.
  void HearTerm(uint64_t term) { term_ = term; }
  // The sessions are those of this configuration from now on. REQUIRES:
  // CheckMember lets it pass.
  void Accept(const v1::Configuration& configuration);
  // Marks in every slice which generations push no more.
  void FenceSessions(ShardContent* content) const;

  // ---- whether it may

  // NOT_READY if the call names another process of this server.
  absl::Status CheckProcess(const v1::Header& header) const;
  // OTHER_JOB unless it is the run, with the settings, of this server.
  absl::Status CheckRun(const std::string& run_id,
                        const std::string& job_digest) const;
  // Whether the caller may configure, with what is not older than known:
  // JOB_FINISHED, OTHER_JOB or OLD_TERM.
  absl::Status CheckConfigurer(const v1::ConfigureRequest& request) const;
  // INVALID if the version that is known was told with other content.
  absl::Status CheckRepeated(const v1::Configuration& told) const;
  // INVALID if a newer one changes the layout under this generation.
  absl::Status CheckLayout(const v1::Configuration& told) const;
  // Whether a newer configuration is for this process: INVALID if it makes no
  // sense, FENCED if another process has taken its place, which ends this one.
  absl::Status CheckMember(const v1::Configuration& told,
                           ShardTurn* turn) const;
  // It was made before this process started, or by a coordinator of a later
  // term that has not heard that an earlier one gave it its generation.
  bool IsOfAnEarlierProcess(const v1::Configuration& told) const;

  absl::Status CheckRunning() const override;
  absl::Status CheckTerm(uint64_t term) const override;
  absl::Status CheckKnown(const v1::Header& header) const override;
  absl::Status CheckFilled() const override;
  absl::Status CheckStaying() const override;
  absl::Status CheckSnapshot(const v1::SnapshotNumber& number) const override;
  absl::Status CheckContributors() const override;
  absl::Status CheckSession(PeerId from,
                            const v1::Header& header) const override;
  absl::Status CheckPusher(PeerId from,
                           const v1::Header& header) const override;

 private:
  absl::Status CheckConfigured() const;
  absl::Status CheckTakenOver(const v1::Header& header) const;
  absl::Status CheckMeant(const v1::Header& header) const;

  const ShardView& view_;
  uint64_t term_ = 0;
  v1::ServerLife generation_;
  v1::Configuration configuration_;
  std::map<uint32_t, v1::SessionId> sessions_;  // Bound: the configuration's.
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SESSION_GATE_H_
