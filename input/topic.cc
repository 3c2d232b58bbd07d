#include "input/topic.h"

#include <string>

#include "absl/strings/str_cat.h"

#include "base/log.h"

namespace paramd {

absl::Status CheckGone(const v1::InputSource::Kafka& config, const Topic& topic,
                       uint32_t partition, const Topic::Messages& messages) {
  const uint64_t gone = messages.gone_end - messages.gone_begin;
  if (gone == 0) return absl::OkStatus();
  const std::string what =
      absl::StrCat(topic.name(), " has deleted offsets ", messages.gone_begin,
                   " to ", messages.gone_end - 1, " of partition ", partition,
                   " before they were read");
  if (config.on_gone() == v1::InputSource::Kafka::ON_GONE_SKIP) {
    Log(LogLevel::kWarning, what, {{"messages", gone}});
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      what,
      "; to go on without them, give input.train.kafka \"on_gone\": "
      "\"skip\""));
}

}  // namespace paramd
