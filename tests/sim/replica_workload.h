#ifndef PARAMD_TESTS_SIM_REPLICA_WORKLOAD_H_
#define PARAMD_TESTS_SIM_REPLICA_WORKLOAD_H_

#include <cstdint>

#include "tests/sim/workload_report.h"

namespace paramd {

struct ReplicaReport : WorkloadReport {
  uint64_t kills = 0;      // Of processes with servers,
  uint64_t at_a_push = 0;  // of those in the middle of one.
  uint64_t pauses = 0;     // For longer than the lease.
  uint64_t cuts = 0;       // Off the network, for longer than that.
  uint64_t take_overs = 0;
  uint64_t of_steps = 0;    // Of those, in sync mode.
  uint64_t members = 0;     // Backups that came to have everything.
  uint64_t settings = 0;    // That an operator asked for.
  uint64_t keyed = 0;       // Jobs with rows by key.
  uint64_t compared = 0;    // Backups, with their servers in the end.
  uint64_t drains = 0;      // Of processes with servers,
  uint64_t hand_overs = 0;  // and servers that were handed over for it.
  uint64_t chief_kills = 0;
  uint64_t kept = 0;  // New coordinators whose servers keep what they hold.
  uint64_t scales_asked = 0;   // Numbers of ps that an operator asked for,
  uint64_t scales = 0;         // and of those, that were there in the end.
  uint64_t moves = 0;          // Servers that were handed over for it,
  uint64_t forgotten = 0;      // and places that dropped what nobody needed.
  uint64_t balanced = 0;       // Servers that a coordinator began to move by
  uint64_t balanced_done = 0;  // itself, and those that were there then.
  uint64_t elected = 0;        // Chiefs that an election had,
  uint64_t found_out = 0;      // those that were followed and ended by it,
  uint64_t resigned = 0;       // and those that ended in good order.
  uint64_t refused = 0;        // Works that one was too late for.
  uint64_t went_back = 0;      // New ones, all whose servers began anew.
};

// Servers with a backup each: processes that hold one server and the backup of
// another one are killed, at any moment of a push too, stopped and cut off,
// whenever each server has a backup, and drained, now and then while the link
// to its backup is cut or, outside of sync mode, before each server has one;
// the coordinator is killed too in two of five seeds outside of sync mode, once
// each server is known to hold its content: then there is no worker 0, which
// would die with it; the job trains on integers meanwhile, or in sync mode on
// numbers that are rounded; an operator may end that mode. In two of five seeds
// a variable's rows travel by themselves, and mostly have keys, which come and
// go.
//
// Checked: at the end every batch is in every block exactly once, and the
// checkpoints' accounts say so; rounded ones have the bits of one process that
// does the decided steps, each once; just those keys have rows that the pushes
// leave there, in the order in which servers did them (`keyed_witness`); no
// backup is ever found to have other bits than its server, nor has it in the
// end; one that was drained ends with 0, and no other one before the job does,
// and none of its steps is computed again; nor does a new coordinator go back
// to a checkpoint; what workers compute on is not torn;
// when a server has applied a push in another place, its last place answers no
// pull any more.
ReplicaReport RunReplicaWorkload(uint64_t seed, bool verbose);

// The same, where each server has a place in every process, and an operator
// has fewer processes hold everything, and more again, also while the last
// change is under way. A process that has ended for that comes back soon, and
// holds nothing until it is to. While it is under way processes are stopped and
// cut off, at any moment, and the coordinator is killed; others are killed, and
// drained, in between: a server that is being moved has no backup now and then.
//
// In three of five seeds rebalance moves servers too: each place reports a
// share of a processor that is drawn for it, so what a server spends elsewhere
// is never what was expected.
//
// Checked besides: once the operator hears that so many hold everything, no
// server and no backup is elsewhere until another number is asked for, whoever
// was killed meanwhile; rebalance moves one server at a time, and none again
// before it has rested, also by another coordinator.
ReplicaReport RunScalingWorkload(uint64_t seed, bool verbose);

// The same as the first, never in sync mode, where an arbiter elects the chief
// among candidates on three machines (`elected_chiefs`): the one that leads is
// killed, told to end, and paused, at any moment, when it asks the arbiter and
// before it writes; is cut off from the arbiter, in one direction or both, but
// not from servers and storage, and from servers, but not from the arbiter;
// nobody reaches the arbiter for a while. So one that was followed goes on for
// a while. All servers go back to the newest checkpoint if one was restored
// since, or is not there. A process is also drained just when the process with
// the server of its backup has vanished.
//
// Checked besides: what ElectedChiefs checks; no server obeys a coordinator of
// a lower term than one before; who was followed has ended in the end, by
// itself, as one that is to be started again.
ReplicaReport RunElectionWorkload(uint64_t seed, bool verbose);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_REPLICA_WORKLOAD_H_
