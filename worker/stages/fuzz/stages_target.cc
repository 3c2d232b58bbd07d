// Whatever a stage process is sent by its worker, it computes it or refuses it
// by a sentence, and answers each call once.

#include <cstdint>

#include "tensor/fuzz/core_run.h"
#include "worker/stages/fuzz/fuzzed_stage.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paramd::fuzz::FuzzedStage stage;
  const auto methods = paramd::fuzz::StageMethods();
  paramd::fuzz::CoreRun run(stage.core(), {methods.begin(), methods.end()});
  run.set_work(
      [&](const paramd::Outbox::IoItem& item, paramd::IoResult* result) {
        return stage.Work(item, result);
      });
  run.Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
