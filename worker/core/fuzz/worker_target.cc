// Whatever a worker's coordinator and servers answer, it goes on or ends by a
// sentence that says why, and can always say what it does.

#include <cstdint>

#include "tensor/fuzz/core_run.h"
#include "worker/core/fuzz/work.h"
#include "worker/core/testing/joined_worker.h"
#include "worker/core/worker.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const options =
      new paramd::Worker::Options(paramd::testing::WorkerOptions());
  paramd::Worker worker(*options);
  paramd::fuzz::CoreRun run(&worker, {});
  run.set_work(paramd::fuzz::DoWork);
  run.Run({reinterpret_cast<const char*>(data), size});
  worker.waiting_for();
  return 0;
}
