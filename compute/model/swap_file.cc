#include "compute/model/swap_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "tensor/unnamed_file.h"

namespace paramd {
namespace {

// Of the kernel's pages; a piece begins with one.
constexpr uint64_t kPage = 4096;
constexpr uint64_t kMeasured = 16 << 20;

uint64_t Pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::string In(const std::string& directory) {
  return absl::StrCat("memory.swap_directory '", directory, "'");
}

absl::Status NoFile(const std::string& directory) {
  return absl::FailedPreconditionError(absl::StrCat(
      In(directory), ": no file can be made there: ", std::strerror(errno)));
}

// Takes the room that is between the file's beginning and there.
bool TakeRoom(int file, uint64_t bytes) {
  int failed;
  do {
    failed = fallocate(file, 0, 0, static_cast<off_t>(bytes));
  } while (failed != 0 && errno == EINTR);
  return failed == 0;
}

absl::Status NoRoom(const std::string& directory, uint64_t bytes) {
  if (errno == EOPNOTSUPP) {
    return absl::FailedPreconditionError(absl::StrCat(
        In(directory),
        ": its file system can't reserve room for a file; name a directory of "
        "another one, as ext4, xfs or tmpfs"));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(In(directory), " has no room for ", bytes,
                   " bytes of activations: ", std::strerror(errno),
                   "; name a directory of a larger disk, or give a smaller "
                   "batch_per_replica"));
}

absl::Status Failed(const std::string& directory, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat(In(directory), ": activations can't be ", what,
                   "; name a directory of another disk"));
}

bool WriteAll(int file, absl::Span<const std::byte> bytes, uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    offset += static_cast<uint64_t>(written);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// False also where the file ends; then errno is 0.
bool ReadAll(int file, absl::Span<std::byte> bytes, uint64_t offset) {
  errno = 0;
  while (!bytes.empty()) {
    const ssize_t read =
        pread(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) return false;
    offset += static_cast<uint64_t>(read);
    bytes.remove_prefix(static_cast<size_t>(read));
  }
  return true;
}

// Closes it.
class OpenFile {
 public:
  explicit OpenFile(int file) : file_(file) {}
  ~OpenFile() {
    if (file_ >= 0) close(file_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return file_; }

 private:
  const int file_;
};

}  // namespace

SwapFile::~SwapFile() {
  if (file_ >= 0) close(file_);
}

const absl::Status& SwapFile::Reserve(uint64_t bytes) {
  if (!status_.ok() || bytes <= reserved_) return status_;
  if (file_ < 0) file_ = OpenUnnamedFile(directory_);
  if (file_ < 0) {
    Fail(NoFile(directory_));
  } else if (!TakeRoom(file_, bytes)) {
    Fail(NoRoom(directory_, bytes));
  } else {
    reserved_ = bytes;
  }
  return status_;
}

SwapFile::Piece* SwapFile::RoomFor(const void* layer, uint64_t bytes) {
  Piece& piece = pieces_[layer];
  if (piece.room >= bytes) return &piece;
  // What was the layer's is nobody's now: a larger batch comes but a few times.
  const uint64_t room = Pages(bytes);
  if (!Reserve(used_ + room).ok()) return nullptr;
  piece.offset = std::exchange(used_, used_ + room);
  piece.room = room;
  return &piece;
}

void SwapFile::Write(const void* layer, absl::Span<const std::byte> bytes) {
  if (!status_.ok() || bytes.empty()) return;
  Piece* const piece = RoomFor(layer, bytes.size());
  if (piece == nullptr) return;
  if (!WriteAll(file_, bytes, piece->offset)) {
    return Fail(
        Failed(directory_, absl::StrCat("written: ", std::strerror(errno))));
  }
  piece->bytes = bytes.size();
  piece->checksum = Crc32c(bytes);
  piece->before = last_ == layer ? nullptr : last_;
  last_ = layer;
  // From now on, so that the kernel can do without the pages soon.
  sync_file_range(file_, static_cast<off_t>(piece->offset),
                  static_cast<off_t>(bytes.size()), SYNC_FILE_RANGE_WRITE);
}

void SwapFile::Read(const void* layer, absl::Span<std::byte> bytes) {
  if (!status_.ok() || bytes.empty()) return;
  const auto found = pieces_.find(layer);
  CHECK(found != pieces_.end() && found->second.bytes == bytes.size(),
        "what is read has been written");
  const Piece& piece = found->second;
  if (!ReadAll(file_, bytes, piece.offset)) {
    return Fail(
        Failed(directory_,
               absl::StrCat("read: ", errno == 0 ? "the file has become shorter"
                                                 : std::strerror(errno))));
  }
  if (Crc32c(bytes) != piece.checksum) {
    return Fail(Failed(directory_,
                       "read: the disk gives other bytes than were written"));
  }
  last_ = nullptr;  // What is written next begins a forward pass.
  const auto next = pieces_.find(piece.before);
  if (next == pieces_.end()) return;
  posix_fadvise(file_, static_cast<off_t>(next->second.offset),
                static_cast<off_t>(next->second.bytes), POSIX_FADV_WILLNEED);
}

absl::StatusOr<double> MeasureSwap(const std::string& directory) {
  const OpenFile file(OpenUnnamedFile(directory));
  if (file.get() < 0) return NoFile(directory);
  if (!TakeRoom(file.get(), kMeasured)) {
    return NoRoom(directory, kMeasured);
  }
  std::vector<std::byte> piece(kMeasured, std::byte{0x5a});
  const Time begin = MonotonicNow();
  if (!WriteAll(file.get(), piece, 0) || fdatasync(file.get()) != 0) {
    return Failed(directory, absl::StrCat("written: ", std::strerror(errno)));
  }
  // Else it would be read from memory.
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  if (!ReadAll(file.get(), absl::MakeSpan(piece), 0)) {
    return Failed(directory, absl::StrCat("read: ", std::strerror(errno)));
  }
  return absl::ToDoubleSeconds(MonotonicNow() - begin) /
         static_cast<double>(piece.size());
}

}  // namespace paramd
