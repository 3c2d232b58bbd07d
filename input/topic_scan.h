#ifndef PARAMD_INPUT_TOPIC_SCAN_H_
#define PARAMD_INPUT_TOPIC_SCAN_H_

#include <atomic>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "input/topic.h"
#include "proto/paramd/v1/input.pb.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

// Finds messages that the request does not know, as ScanInput does files. The
// first time that a partition is seen, the result only says where it begins,
// and where the input ends in it: an answer without examples.
//
// With a join, a message is found once its window has passed: at `now`, which
// is before the call, or by as many messages behind it as a window has. The
// result then says among which offsets its click is looked for.
//
// UNAVAILABLE and CANCELLED as Topic::FindEnds. FAILED_PRECONDITION if messages
// that are next were deleted, unless the job skips those; if the topic has
// fewer partitions than the request, or one that ends before what was found in
// it. INVALID_ARGUMENT if input.train.kafka.offsets do not suit the topic.
absl::StatusOr<v1::ScanInputResult> ScanTopic(
    const v1::InputSource::Kafka& config, const v1::ScanInput& request,
    absl::Time now, const std::atomic<bool>* stopped, Topic* topic);

}  // namespace paramd

#endif  // PARAMD_INPUT_TOPIC_SCAN_H_
