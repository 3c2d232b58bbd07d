#ifndef PARAMD_TESTS_SIM_TOLD_CONFIGURATIONS_H_
#define PARAMD_TESTS_SIM_TOLD_CONFIGURATIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"

namespace paramd {

// Every configuration that servers are told, whole, for witnesses: most are
// told as what has changed. A configuration is the same for all servers,
// whether it is told whole or as changes, and since whichever earlier one.
//
// Not thread-safe.
class ToldConfigurations {
 public:
  using Head = google::protobuf::Message;

  // What is sent: a ConfigureRequest with the whole configuration, which lives
  // until the next call, or anything else as it is. kDataLoss if a server is
  // told something else than another one under the same version, or changes
  // since a configuration that nobody was told.
  absl::StatusOr<const Head*> Whole(const Head& sent);

 private:
  // By run, term and counter.
  using Id = std::tuple<std::string, uint64_t, uint64_t>;
  static Id IdOf(const std::string& run,
                 const v1::ConfigurationVersion& version) {
    return {run, version.term(), version.counter()};
  }

  std::map<Id, v1::Configuration> told_;
  std::unique_ptr<v1::ConfigureRequest> whole_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_TOLD_CONFIGURATIONS_H_
