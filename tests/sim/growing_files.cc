#include "tests/sim/growing_files.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paramd {

v1::EpochFiles GrowingFiles::FilesOf(uint32_t epoch) const {
  v1::EpochFiles files;
  files.set_epoch(epoch);
  files.set_examples(job_.ExamplesOf(epoch));
  v1::EpochFiles::File* const file = files.add_files();
  file->set_name(absl::StrCat(epoch));
  file->set_bytes(1000 + epoch);
  return files;
}

IoResult GrowingFiles::Scan(const v1::ScanInput& request) {
  IoResult result;
  if (random_.Chance(0.05)) {
    result.status = absl::UnavailableError("the directory is away");
    return result;
  }
  appeared_ = std::min(job_.epochs(),
                       appeared_ + static_cast<uint32_t>(random_.Below(3)));
  const std::set<std::string> known(request.known().begin(),
                                    request.known().end());
  auto head = std::make_unique<v1::ScanInputResult>();
  head->set_ended(appeared_ == job_.epochs());
  for (uint32_t epoch = 1; epoch <= appeared_; ++epoch) {
    if (known.contains(absl::StrCat(epoch))) continue;
    head->set_more(head->has_found());
    if (head->more()) break;
    *head->mutable_found() = FilesOf(epoch);
    head->mutable_found()->clear_epoch();
  }
  ++(head->has_found() ? found_ : in_vain_);
  result.head = std::move(head);
  return result;
}

absl::Status GrowingFiles::CheckGiven(const v1::FetchPortion& fetch) const {
  const uint32_t epoch = fetch.portion().epoch();
  for (const v1::LogEntry& entry : storage_.log()) {
    const v1::EpochFiles& logged = entry.epoch_files();
    if (logged.epoch() != epoch || logged.files().empty()) continue;
    if (logged.SerializeAsString() != fetch.files().SerializeAsString()) {
      return absl::DataLossError(absl::StrCat(
          "a portion of epoch ", epoch, " is said to be of the files of epoch ",
          fetch.files().epoch()));
    }
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      "a portion of epoch ", epoch, " is handed out, which no log knows"));
}

absl::Status GrowingFiles::CheckLog() const {
  uint32_t epochs = 0;
  bool ended = false;
  for (const v1::LogEntry& entry : storage_.log()) {
    if (!entry.has_epoch_files()) continue;
    const v1::EpochFiles& logged = entry.epoch_files();
    if (ended || logged.epoch() != epochs + 1) {
      return absl::DataLossError(
          absl::StrCat("the log has epoch ", logged.epoch(), " behind epoch ",
                       epochs, ended ? ", the last" : ""));
    }
    ended = logged.files().empty();
    if (ended) continue;
    ++epochs;
    if (logged.SerializeAsString() == FilesOf(epochs).SerializeAsString()) {
      continue;
    }
    return absl::DataLossError(absl::StrCat(
        "epoch ", epochs, " of the log is file ", logged.files(0).name(),
        ", of ", logged.examples(), " examples"));
  }
  return absl::OkStatus();
}

}  // namespace paramd
