#include "worker/input_scanner.h"

#include <memory>
#include <utility>

#include "absl/time/clock.h"

#include "base/status_macros.h"
#include "input/growing_source.h"
#include "input/kafka_topic.h"
#include "input/topic_scan.h"

namespace paramd {

void InputScanner::AddTo(Runtime* runtime) {
  runtime->HandleIo(v1::ScanInput::descriptor(), [this](Outbox::IoItem item,
                                                        Runtime::IoDone done) {
    const auto request = static_cast<const v1::ScanInput&>(*item.head);
    thread_.Post([this, request, done = std::move(done)] {
      IoResult result;
      auto scanned = Scan(request);
      result.status = scanned.status();
      if (scanned.ok()) {
        result.head =
            std::make_unique<v1::ScanInputResult>(*std::move(scanned));
      }
      done(std::move(result));
    });
  });
}

// On the thread alone.
absl::StatusOr<v1::ScanInputResult> InputScanner::Scan(
    const v1::ScanInput& request) {
  if (!config_.train().has_kafka()) {
    return ScanInput(config_, request, &stopped_);
  }
  const v1::InputSource::Kafka& kafka = config_.train().kafka();
  if (topic_ == nullptr) {
    ASSIGN_OR_RETURN(topic_, OpenKafkaTopic(kafka));
  }
  return ScanTopic(kafka, request, absl::Now(), &stopped_, topic_.get());
}

}  // namespace paramd
