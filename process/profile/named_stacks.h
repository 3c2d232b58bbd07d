#ifndef PARAMD_PROCESS_PROFILE_NAMED_STACKS_H_
#define PARAMD_PROCESS_PROFILE_NAMED_STACKS_H_

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "process/profile/stack_sampler.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// The function that has the code at an address, "paramd::Shard::Receive()", or
// the file that it came from, "[libc.so.6]", where that has no name for it; "?"
// if nobody knows. Takes up to a millisecond: the files are searched.
std::string FunctionAt(uintptr_t address);

// Puts the samples into `reply`, with names for addresses; stacks that differ
// in addresses alone are one. Beyond 5,000 stacks the rarest of a thread are
// one, so that a reply has a bound.
void AddNamedStacks(const StackSamples& samples, v1::ProfileReply* reply);

}  // namespace paramd

#endif  // PARAMD_PROCESS_PROFILE_NAMED_STACKS_H_
