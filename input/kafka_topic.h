#ifndef PARAMD_INPUT_KAFKA_TOPIC_H_
#define PARAMD_INPUT_KAFKA_TOPIC_H_

#include <memory>

#include "absl/status/statusor.h"

#include "input/topic.h"
#include "proto/paramd/v1/input.pb.h"

namespace paramd {

// A topic of Kafka, read by librdkafka. No consumer group is joined and no
// offset is committed: whoever asks knows where it stands. No broker need
// answer yet. INVALID_ARGUMENT, naming it but not its value, if librdkafka does
// not take one of the properties.
absl::StatusOr<std::unique_ptr<Topic>> OpenKafkaTopic(
    const v1::InputSource::Kafka& config);

}  // namespace paramd

#endif  // PARAMD_INPUT_KAFKA_TOPIC_H_
