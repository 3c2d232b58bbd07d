#include "checkpoint/held_directory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "checkpoint/read_again.h"

namespace paramd {
namespace {

constexpr uint64_t kMostBytes = uint64_t{4} << 10;

// A marker is "<run> <16 hex digits>\n".
absl::string_view RunOf(absl::string_view marker) {
  return marker.substr(0, marker.rfind(' '));
}

std::string MarkerIn(const std::string& directory) {
  return absl::StrCat(directory, "/", kMarkerFile);
}

}  // namespace

HeldDirectory::HeldDirectory(std::string path, uint64_t nonce)
    : path_(std::move(path)), nonce_(nonce) {}

absl::Status HeldDirectory::Open() {
  RETURN_IF_ERROR(ReadAgain([&]() -> absl::Status {
    ASSIGN_OR_RETURN(held_, StorageOf(path_).Hold(path_));
    return absl::OkStatus();
  }));
  auto marker = ReadWholeFile(MarkerIn(path_), kMostBytes);
  if (marker.ok()) {
    marker_ = *std::move(marker);
  } else if (!absl::IsNotFound(marker.status())) {
    held_ = nullptr;
    return marker.status();
  }
  return absl::OkStatus();
}

absl::Status HeldDirectory::Look() {
  const absl::Status same = ReadAgain([&] { return held_->Check(); });
  if (marker_.empty()) return same;
  const auto there = ReadWholeFile(MarkerIn(path_), kMostBytes);
  if (there.ok() && *there == marker_ && !same.ok()) {
    ASSIGN_OR_RETURN(held_, StorageOf(path_).Hold(path_));
    Log(LogLevel::kInfo, "the checkpoint directory is known by its marker",
        {{"reason", same.message()}});
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(same);
  if (absl::IsNotFound(there.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", MarkerIn(path_), "' is gone"));
  }
  RETURN_IF_ERROR(there.status());
  if (RunOf(*there) != RunOf(marker_)) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", MarkerIn(path_), "' says that it is of run ",
                     RunOf(*there), "; this is run ", RunOf(marker_)));
  }
  marker_ = *there;
  return absl::OkStatus();
}

absl::Status HeldDirectory::Check() {
  if (held_ == nullptr) return Open();
  const absl::Status found = Look();
  const bool is_another =
      absl::IsNotFound(found) || absl::IsFailedPrecondition(found);
  if (!is_another) {
    if (found.ok() && std::exchange(lost_, false)) {
      Log(LogLevel::kInfo, "the checkpoint directory is there again",
          {{"path", path_}});
    }
    return found;
  }
  const absl::Status told(
      found.code(),
      absl::StrCat(
          "the checkpoint directory that this run had is not there any more: ",
          found.message(), "; mount it again",
          marker_.empty()
              ? ""
              : absl::StrCat(", or let '", MarkerIn(path_), "' say '",
                             absl::StripSuffix(marker_, "\n"),
                             "' to go on in another one")));
  if (!std::exchange(lost_, true)) {
    Log(LogLevel::kError, "no checkpoint is committed",
        {{"reason", told.message()}});
  }
  return told;
}

absl::Status HeldDirectory::Make(const std::string& run_id) {
  if (held_ == nullptr) RETURN_IF_ERROR(MakeDirectories(path_));
  RETURN_IF_ERROR(Check());
  const bool is_marked = !marker_.empty() && RunOf(marker_) == run_id;
  return run_id.empty() || is_marked ? absl::OkStatus() : WriteMarker(run_id);
}

absl::Status HeldDirectory::WriteMarker(const std::string& run_id) {
  const std::string marker =
      absl::StrCat(run_id, " ", absl::Hex(nonce_, absl::kZeroPad16), "\n");
  const std::string temporary = absl::StrCat(
      path_, "/", kMarkerFile, "-", absl::Hex(nonce_, absl::kZeroPad16));
  // What an attempt before this one left.
  RETURN_IF_ERROR(RemoveTree(temporary));
  ASSIGN_OR_RETURN(const auto file, NewFile::Create(temporary));
  RETURN_IF_ERROR(file->Append(marker));
  RETURN_IF_ERROR(file->FinishAs(MarkerIn(path_)));
  marker_ = marker;
  return absl::OkStatus();
}

}  // namespace paramd
