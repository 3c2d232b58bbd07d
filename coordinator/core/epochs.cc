#include "coordinator/core/epochs.h"

namespace paramd {

bool IsEnd(const v1::EpochFiles& found) {
  return found.files().empty() && found.partitions().empty();
}

Epochs::Epochs(uint64_t examples, uint32_t epochs)
    : examples_(examples), number_(epochs) {}

Epochs Epochs::Growing(uint32_t most) { return Epochs(most); }

uint64_t Epochs::ExamplesOf(uint32_t epoch) const {
  if (epoch == 0 || epoch > number_) return 0;
  return grows_ ? found_[epoch - 1].examples() : examples_;
}

const v1::EpochFiles* Epochs::FilesOf(uint32_t epoch) const {
  if (!grows_ || epoch == 0 || epoch > number_) return nullptr;
  return &found_[epoch - 1];
}

bool Epochs::Add(const v1::EpochFiles& found) {
  if (complete() || found.epoch() != number_ + 1) return false;
  if (IsEnd(found)) {
    ended_ = true;
    return true;
  }
  if (found.examples() == 0) return false;
  found_.push_back(found);
  ++number_;
  return true;
}

}  // namespace paramd
