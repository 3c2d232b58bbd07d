#ifndef PARAMD_WORKER_CORE_FUZZ_WORK_H_
#define PARAMD_WORKER_CORE_FUZZ_WORK_H_

#include "tensor/outbox.h"

namespace paramd::fuzz {

// Does what a worker's core wants computed: what this process computes is what
// was asked. False if the work is something else.
bool DoWork(const Outbox::IoItem& item, IoResult* result);

}  // namespace paramd::fuzz

#endif  // PARAMD_WORKER_CORE_FUZZ_WORK_H_
