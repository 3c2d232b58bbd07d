#ifndef PARAMD_COORDINATOR_CORE_RATE_SCALE_H_
#define PARAMD_COORDINATOR_CORE_RATE_SCALE_H_

#include "absl/status/status.h"
#include "absl/types/optional.h"

#include "coordinator/core/turn.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// What every learning rate of the job is multiplied by, as its program or an
// operator says while it runs.
//
//   asked ──► logging ──► logged ──► telling ──► answered
//                         sync: until all servers
//                         the steps    have it
//                         stand still
//
// Invariants: at most one change is under way. In sync mode no step is decided
// between logged and answered, so that a step has one rate on all servers.
//
// Not thread-safe: a part of the coordinator's core.
class RateScale {
 public:
  // The setting that OnSet is for.
  static constexpr char kKey[] = "learning_rate_scale";

  // ---- what the log says
  void Read(double logged) { logged_ = logged; }
  // Nothing: nobody has said any.
  const absl::optional<double>& logged() const { return logged_; }

  // ---- a change
  void OnSet(const Message& message, const v1::SetRequest& request, Turn* turn);
  // Goes on with the change, and answers.
  void Advance(Turn* turn);
  // No step is to be decided.
  bool HoldsSteps() const {
    return change_.has_value() && change_->stage != Stage::kLogging;
  }

 private:
  enum class Stage { kLogging, kLogged, kTelling };
  struct Change {
    CallId call = 0;
    double scale = 1;
    double old_scale = 1;
    v1::Origin origin = {};
    Stage stage = Stage::kLogging;
    v1::ConfigurationVersion version = {};  // Of kTelling.
  };

  absl::Status CheckMaySet(const JobView& job) const;
  void OnLogged(const IoResult& result, Turn* turn);

  absl::optional<double> logged_;
  absl::optional<Change> change_;
};

// That of a configuration or a manifest; 1 if it has none.
template <typename Owner>
double RateScaleOf(const Owner& owner) {
  return owner.has_learning_rate_scale() ? owner.learning_rate_scale() : 1;
}

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_RATE_SCALE_H_
