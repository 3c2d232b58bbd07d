#ifndef PARAMD_NET_IN_PROCESS_RUNTIME_H_
#define PARAMD_NET_IN_PROCESS_RUNTIME_H_

#include <memory>

#include "net/runtime.h"

namespace paramd {

// A runtime without any socket: its cores are the whole cluster. Messages go
// from core to core by reference, in the order of sending; a peer that is no
// core of it is UNAVAILABLE. Run loops in the calling thread.
std::unique_ptr<Runtime> MakeInProcessRuntime();

}  // namespace paramd

#endif  // PARAMD_NET_IN_PROCESS_RUNTIME_H_
