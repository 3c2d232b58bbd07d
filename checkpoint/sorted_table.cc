#include "checkpoint/sorted_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "tensor/buffer.h"

namespace paramd {
namespace {

constexpr size_t kBlockBytes = 4096;
constexpr size_t kFooterHandleBytes = 40;
constexpr uint64_t kMagic = 0xdb4775248b80fb57;
constexpr char kNotCompressed = 0;

template <typename Integer>
void AppendFixed(Integer value, std::string* out) {
  for (size_t i = 0; i < sizeof(value); ++i) {
    out->push_back(static_cast<char>(value >> (8 * i)));
  }
}

}  // namespace

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) {
    out->push_back(static_cast<char>(value | 0x80));
  }
  out->push_back(static_cast<char>(value));
}

void SortedTableWriter::Block::Add(absl::string_view key,
                                   absl::string_view value) {
  size_t shared = 0;
  if (entries_ == entries_per_restart_ || restarts_.empty()) {
    restarts_.push_back(bytes_.size());
    entries_ = 0;
  } else {
    const size_t most = std::min(key.size(), last_key_.size());
    while (shared < most && key[shared] == last_key_[shared]) ++shared;
  }
  AppendVarint(shared, &bytes_);
  AppendVarint(key.size() - shared, &bytes_);
  AppendVarint(value.size(), &bytes_);
  bytes_.append(key.data() + shared, key.size() - shared);
  bytes_.append(value.data(), value.size());
  last_key_ = std::string(key);
  ++entries_;
}

std::string SortedTableWriter::Block::Take() {
  // A block without entries has a restart all the same.
  if (restarts_.empty()) restarts_.push_back(0);
  for (const uint32_t restart : restarts_) AppendFixed(restart, &bytes_);
  AppendFixed(static_cast<uint32_t>(restarts_.size()), &bytes_);
  restarts_.clear();
  last_key_.clear();
  entries_ = 0;
  return std::exchange(bytes_, "");
}

absl::Status SortedTableWriter::Add(absl::string_view key,
                                    absl::string_view value) {
  CHECK((block_.size() == 0 && last_key_.empty()) || key > last_key_,
        "keys of a table come in order");
  block_.Add(key, value);
  last_key_ = std::string(key);
  return block_.size() < kBlockBytes ? absl::OkStatus() : FinishBlock();
}

absl::Status SortedTableWriter::Write(Block* block, std::string* handle) {
  std::string bytes = block->Take();
  AppendVarint(file_->bytes(), handle);
  AppendVarint(bytes.size(), handle);
  bytes.push_back(kNotCompressed);
  AppendFixed(MaskedCrc32c(Crc32c(AsBytes<char>({bytes.data(), bytes.size()}))),
              &bytes);
  return file_->Append(bytes);
}

absl::Status SortedTableWriter::FinishBlock() {
  if (block_.size() == 0) return absl::OkStatus();
  std::string handle;
  RETURN_IF_ERROR(Write(&block_, &handle));
  index_.Add(last_key_, handle);
  return absl::OkStatus();
}

absl::Status SortedTableWriter::Finish() {
  RETURN_IF_ERROR(FinishBlock());
  std::string footer;
  Block meta{1};  // What LevelDB keeps filters in; there are none.
  RETURN_IF_ERROR(Write(&meta, &footer));
  RETURN_IF_ERROR(Write(&index_, &footer));
  footer.resize(kFooterHandleBytes, '\0');
  AppendFixed(kMagic, &footer);
  return file_->Append(footer);
}

}  // namespace paramd
