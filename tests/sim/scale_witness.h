#ifndef PARAMD_TESTS_SIM_SCALE_WITNESS_H_
#define PARAMD_TESTS_SIM_SCALE_WITNESS_H_

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "coordinator/core/server_places.h"
#include "proto/paramd/v1/configuration.pb.h"

namespace paramd {

// To how many of its tasks a job was scaled, and that nobody is anywhere else
// then. Of a job that is not scaled it says nothing.
class ScaleWitness {
 public:
  explicit ScaleWitness(std::vector<ServerPlaces> places)
      : places_(std::move(places)), all_(TasksOf(places_)), scaled_to_(all_) {}

  // An operator asks for so many, and hears that they hold everything.
  void Asked(uint32_t tasks);
  void Scaled(uint32_t tasks);
  // The first was heard, and the second was not.
  bool is_under_way() const { return is_under_way_; }
  // Its process may end before the job does.
  bool MayLeave(uint32_t task) const { return left_out_.contains(task); }
  // Somebody is told this, which nothing older follows. kDataLoss if a server
  // or its backup is beyond the tasks that the job was scaled to.
  absl::Status Check(const v1::Configuration& configuration) const;

 private:
  const std::vector<ServerPlaces> places_;
  const uint32_t all_;
  uint32_t scaled_to_;
  bool is_under_way_ = false;
  std::set<uint32_t> left_out_;  // Tasks, once, until they are back.
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_SCALE_WITNESS_H_
