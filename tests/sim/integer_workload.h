#ifndef PARAMD_TESTS_SIM_INTEGER_WORKLOAD_H_
#define PARAMD_TESTS_SIM_INTEGER_WORKLOAD_H_

#include <cstdint>

#include "tests/sim/workload_report.h"

namespace paramd {

// At least three servers and four workers train an IntegerJob of at least 300
// pushes of several chunks, on the network and under the faults that the seed
// draws (see Chaos). On the way one worker joins, one leaves, the chief dies
// while a join or a snapshot is open, and everything is killed at once; others,
// of other numbers, go on from what is on storage.
//
// What must hold stands at IntegerWitness: in short, what a block's values,
// counts and records say is what its servers answered; a push that was
// acknowledged is in, unless the memory of a server was lost since; a batch is
// in more often than once only where it was handed out again because its
// worker was killed.
//
// Every eighth seed is gentle: nobody is killed, and every batch is in every
// block exactly once at the end, whatever the network does and whoever drains.
bool IsGentle(uint64_t seed);
WorkloadReport RunIntegerWorkload(uint64_t seed, bool verbose);

// The same of a job whose training set grows: its epochs are files of unlike
// size, which appear while it runs. Besides, the log must have each once,
// before anybody is given some of it.
WorkloadReport RunGrowingWorkload(uint64_t seed, bool verbose);

// The same of workers that compute two to four steps at the same time.
WorkloadReport RunOverlappingWorkload(uint64_t seed, bool verbose);

// The same with two workers that the job's list does not name: they come and go
// as all do, and each index has several lives.
WorkloadReport RunJoiningWorkload(uint64_t seed, bool verbose);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_INTEGER_WORKLOAD_H_
