// Whatever a coordinator is called with and whatever servers answer it, it
// answers each call once, asks for no tick all the time, and can always say how
// the job stands.

#include <cstdint>

#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "tensor/fuzz/core_run.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const options = [] {
    auto* const made =
        new paramd::Coordinator::Options(paramd::testing::JobOptions());
    made->job.set_max_joined_workers(2);
    return made;
  }();
  paramd::Coordinator coordinator(*options);
  paramd::fuzz::CoreRun run(
      &coordinator,
      {"Join", "Heartbeat", "Portion", "Set", "Checkpoint", "StopJob",
       "GetConfiguration", "Drain", "Enlist", "Scale"});
  run.Run({reinterpret_cast<const char*>(data), size});
  paramd::v1::StatusReply status;
  coordinator.FillStatus(&status);
  return 0;
}
