#include "worker/input_scanner.h"

#include <memory>
#include <utility>

#include "worker/input/growing_source.h"

namespace paramd {

void InputScanner::AddTo(Runtime* runtime) {
  runtime->HandleIo(v1::ScanInput::descriptor(), [this](Outbox::IoItem item,
                                                        Runtime::IoDone done) {
    const auto request = static_cast<const v1::ScanInput&>(*item.head);
    thread_.Post([this, request, done = std::move(done)] {
      IoResult result;
      auto scanned = ScanInput(config_, request, &stopped_);
      result.status = scanned.status();
      if (scanned.ok()) {
        result.head =
            std::make_unique<v1::ScanInputResult>(*std::move(scanned));
      }
      done(std::move(result));
    });
  });
}

}  // namespace paramd
