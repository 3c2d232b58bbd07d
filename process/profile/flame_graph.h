#ifndef PARAMD_PROCESS_PROFILE_FLAME_GRAPH_H_
#define PARAMD_PROCESS_PROFILE_FLAME_GRAPH_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// What is made of a profile for people.

// kDataLoss if names that stacks have are not there, or a stack is deeper than
// any that is sampled: whoever answered is a stranger. The functions below
// REQUIRE that it is OK.
absl::Status CheckProfile(const v1::ProfileReply& profile);

uint64_t SamplesIn(const v1::ProfileReply& profile);

// The functions that the most samples were in themselves, not in what they
// called, the first one the most; at most `most`.
std::vector<std::pair<std::string, uint64_t>> HottestFunctions(
    const v1::ProfileReply& profile, size_t most);

// A line for each stack, "thread;function;function 12", which tools for flame
// graphs read.
std::string FoldedStacks(const v1::ProfileReply& profile);

// A flame graph as an SVG file without scripts: a row for each depth, threads
// at the bottom; a function is as wide as the samples in it and in what it
// called, its whole name and share appear below the pointer. What is narrower
// than a third of a pixel is left out.
std::string FlameGraph(const v1::ProfileReply& profile);

}  // namespace paramd

#endif  // PARAMD_PROCESS_PROFILE_FLAME_GRAPH_H_
