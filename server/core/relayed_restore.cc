#include "server/core/relayed_restore.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

absl::Status Invalid(uint32_t slice, absl::string_view sentence) {
  return Refuse(v1::Refusal::INVALID, absl::StrCat("slice ", slice), sentence);
}

// What the first piece says of the slice, as a reader would.
v1::ReadSlicesResult ReadOf(const v1::FillRequest& request) {
  v1::ReadSlicesResult read;
  read.mutable_manifest()->set_run_id(request.run_id());
  v1::ShardFile* const file = read.mutable_manifest()->add_files();
  *file->mutable_lost() = request.lost();
  v1::ReadSlicesResult::Got* const got = read.add_slices();
  for (const v1::FillRequest::Piece& piece : request.pieces()) {
    v1::ReadSlicesResult::Piece* const taken = got->add_pieces();
    taken->set_row_begin(piece.row_begin());
    taken->set_row_end(piece.row_end());
    *taken->mutable_saved() = piece.saved();
    v1::SavedSlice* const source = file->add_slices();
    source->set_variable(piece.saved().variable());
    source->set_row_begin(piece.saved().row_begin());
  }
  return read;
}

}  // namespace

uint64_t RelayedRestore::total() const {
  if (slice_ >= content_->owned().size()) return 0;
  const Slice& slice = *content_->owned()[slice_];
  return brought_ == Content::kInitialValues ? slice.initial_bytes()
                                             : slice.read_bytes();
}

v1::FillReply RelayedRestore::next() const {
  v1::FillReply next;
  next.set_slice(slice_);
  next.set_offset(ChainSize(bytes_));
  return next;
}

absl::StatusOr<bool> RelayedRestore::Add(const v1::FillRequest& request,
                                         const BufferChain& payload) {
  const uint64_t had = ChainSize(bytes_);
  if (request.slice() != slice_ || request.offset() != had) return false;
  const bool is_end = slice_ == content_->owned().size();
  if (is_end && (slice_ > 0 || took_nothing_)) return false;
  const uint64_t bytes = ChainSize(payload);
  if (request.total() != total()) {
    return Invalid(
        slice_, absl::StrCat("slice ", slice_, " has ", total(),
                             " bytes here; ", request.total(), " are to come"));
  }
  if (bytes > total() - had || (bytes == 0 && !is_end)) {
    return Invalid(slice_, absl::StrCat(bytes, " bytes from ", had, " of ",
                                        total(), " of slice ", slice_));
  }
  if (had == 0 && !is_end) read_ = ReadOf(request);
  bytes_.insert(bytes_.end(), payload.begin(), payload.end());
  return had + bytes == total();
}

IoResult RelayedRestore::Take() {
  IoResult result;
  if (brought_ == Content::kInitialValues) {
    auto read = std::make_unique<v1::ReadWarmStartResult>();
    if (!content_->owned().empty()) read->add_found(true);
    result.head = std::move(read);
  } else {
    result.head = std::make_unique<v1::ReadSlicesResult>(std::move(read_));
  }
  result.payload = std::move(bytes_);
  read_.Clear();
  bytes_.clear();
  if (content_->owned().empty()) {
    took_nothing_ = true;
  } else {
    ++slice_;
  }
  return result;
}

}  // namespace paramd
