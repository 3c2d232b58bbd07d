#ifndef PARAMD_CLIENT_CORE_SESSION_ANSWERS_H_
#define PARAMD_CLIENT_CORE_SESSION_ANSWERS_H_

#include "absl/status/status.h"

#include "client/core/session_operation.h"
#include "tensor/core.h"

namespace paramd {

// Takes in what a server answers to the request of a chunk: it is checked whole
// before the first element is copied. `*has_weights`: it brought some. With
// kUnavailable the same request may succeed later: another process than that of
// the terms has answered, or not for all blocks. kInvalidArgument if it is no
// answer to what was asked; SUPERSEDED if somebody else has sent the chunk.
absl::Status TakeAnswer(const Message& message, const SessionTerms& terms,
                        const SessionOperation& operation,
                        SessionOperation::Chunk* chunk, bool* has_weights);

// SUPERSEDED: the server has of this push what it can't have from here.
absl::Status NotSentByUs(const SessionTerms& terms,
                         const SessionOperation& operation,
                         const SessionOperation::Chunk& chunk);

}  // namespace paramd

#endif  // PARAMD_CLIENT_CORE_SESSION_ANSWERS_H_
