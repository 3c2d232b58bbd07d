// Whatever servers answer a worker's pulls and pushes, these end, and what was
// pulled is held.

#include <cstdint>

#include "client/core/fuzz/session_core.h"
#include "tensor/fuzz/core_run.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paramd::fuzz::SessionCore core;
  paramd::fuzz::CoreRun(&core, {}).Run(
      {reinterpret_cast<const char*>(data), size});
  return 0;
}
