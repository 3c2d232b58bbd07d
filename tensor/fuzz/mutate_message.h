#ifndef PARAMD_TENSOR_FUZZ_MUTATE_MESSAGE_H_
#define PARAMD_TENSOR_FUZZ_MUTATE_MESSAGE_H_

#include <memory>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

#include "base/random.h"

namespace paramd::fuzz {

// An empty message of a type of paramd.v1; null if there is none, or if it is
// not linked.
std::unique_ptr<google::protobuf::Message> NewMessage(absl::string_view type);

// Changes one field of the message, or of one within it: to a number at a
// bound, near what it was or drawn, to another name of the enum, to bytes more
// or less; has one more of what is repeated, or one less; leaves it out.
void MutateMessage(RandomStream* random, google::protobuf::Message* message);

}  // namespace paramd::fuzz

#endif  // PARAMD_TENSOR_FUZZ_MUTATE_MESSAGE_H_
