#ifndef PARAMD_TESTS_SIM_STOP_WORKLOAD_H_
#define PARAMD_TESTS_SIM_STOP_WORKLOAD_H_

#include <cstdint>

#include "tests/sim/workload_report.h"

namespace paramd {

// An IntegerJob that an operator stops at any moment, in mode async, bounded or
// sync, in every fourth seed at once; in every second seed workers were killed
// before. Then it goes on in other processes, until it ends.
//
// Checked: every process ends because the job was stopped, none otherwise, and
// none of them stays. Unless it was stopped at once, nothing is pushed, and no
// step is decided, that the last checkpoint has not. Every checkpoint has each
// batch that its input says is used exactly once in every block; so has the
// last one of the job that went on, of all of them.
WorkloadReport RunStopWorkload(uint64_t seed, bool verbose);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_STOP_WORKLOAD_H_
