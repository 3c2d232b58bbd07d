#ifndef PARAMD_PROCESS_OBSERVE_BALANCE_TEXT_H_
#define PARAMD_PROCESS_OBSERVE_BALANCE_TEXT_H_

#include <string>

#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// What rebalance moves, for people: lines about the move under way, the newest
// ones that have ended, and a server that is too hot to be moved. Empty if
// there is nothing to say.
std::string MovesText(const v1::Balance& balance);

// A sentence about the newest move that has ended between two reports of one
// chief, or about a server that has become too hot to be moved; empty: neither.
std::string MovesNews(const v1::Balance& was, const v1::Balance& is);

}  // namespace paramd

#endif  // PARAMD_PROCESS_OBSERVE_BALANCE_TEXT_H_
