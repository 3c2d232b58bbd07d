#include "tensor/disk_memory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "tensor/unnamed_file.h"

namespace paramd {
namespace {

// Of all that reserved some.
std::atomic<uint64_t> mappings_of_process = 0;
// Of one call (UIO_MAXIOV).
constexpr size_t kMostPieces = 1024;
// Between two questions; then so many answers are yes.
constexpr uint64_t kManyWaits = 32;
constexpr int kAnswers = 64;
// Whatever else a process maps.
constexpr uint64_t kOtherMappings = 4096;

// Of one process.
uint64_t MostMappings() {
  std::ifstream file("/proc/sys/vm/max_map_count");
  uint64_t most = 0;
  return file >> most ? most : ~uint64_t{0};
}

size_t PageSize() {
  static const auto size = static_cast<size_t>(getpagesize());
  return size;
}

size_t RoundUp(size_t size, size_t unit) {
  return (size + unit - 1) / unit * unit;
}

std::string ErrorText() { return std::strerror(errno); }

// ---- a disk that fails ------------------------------------------------------

constexpr int kExitRetry = 138;          // As process/exit_code.h has it.
std::string* why_disk_failed = nullptr;  // Written once, by whoever is first.

void EndForTheDisk(int) {
  // What may be called in a handler is little.
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, why_disk_failed->data(), why_disk_failed->size());
  _exit(kExitRetry);
}

// A page that can't be read or written is a signal, and no error of a call.
void SayWhyADiskFails(const std::string& directory) {
  static const bool done = [&directory] {
    why_disk_failed = new std::string(absl::StrCat(
        "paramd: rows in disk_directory '", directory,
        "' can't be read or written: the disk failed (SIGBUS); start this "
        "server again, with another disk_directory\n"));
    struct sigaction action = {};
    action.sa_handler = EndForTheDisk;
    return sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  static_cast<void>(done);
}

// Makes it zeros that the disk has room for.
bool Clear(int file, uint64_t offset, uint64_t bytes) {
  const auto begin = static_cast<off_t>(offset);
  const auto length = static_cast<off_t>(bytes);
  if (fallocate(file, FALLOC_FL_ZERO_RANGE, begin, length) == 0) return true;
  return fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin,
                   length) == 0 &&
         fallocate(file, 0, begin, length) == 0;
}

}  // namespace

void AddPages(size_t begin, size_t end, DiskRanges* ranges) {
  begin = RoundUp(begin, PageSize());
  end = end / PageSize() * PageSize();
  if (begin < end) ranges->push_back({begin, end});
}

uint64_t BytesOf(const DiskRanges& ranges) {
  uint64_t bytes = 0;
  for (const DiskRange& range : ranges) bytes += range.end - range.begin;
  return bytes;
}

absl::StatusOr<std::shared_ptr<DiskMemory>> DiskMemory::Create(
    const std::string& directory) {
  const int file = OpenUnnamedFile(directory);
  if (file >= 0) {
    SayWhyADiskFails(directory);
    return std::shared_ptr<DiskMemory>(new DiskMemory(file, directory));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no file can be made in disk_directory '", directory,
                   "': ", ErrorText()));
}

std::shared_ptr<DiskMemory> DiskMemory::CreateInMemory() {
  return std::shared_ptr<DiskMemory>(
      new DiskMemory(memfd_create("rows", MFD_CLOEXEC), "memory"));
}

DiskMemory::~DiskMemory() {
  mappings_of_process -= mappings_;
  TakeBack();
  close(file_);
}

absl::Status DiskMemory::Reserve(uint64_t bytes, uint64_t mappings) {
  const uint64_t all = mappings_of_process += mappings - mappings_;
  mappings_ = mappings;
  const uint64_t most = MostMappings();
  if (all + kOtherMappings > most) {
    return absl::ResourceExhaustedError(
        absl::StrCat("rows that do not lie in memory need ", all,
                     " mappings; the kernel allows a process ", most,
                     ": raise vm.max_map_count to ", all + kOtherMappings,
                     ", or use more servers"));
  }
  if (bytes <= reserved_) return absl::OkStatus();
  if (fallocate(file_, 0, 0, static_cast<off_t>(bytes)) == 0) {
    reserved_ = bytes;
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "disk_directory '", directory_, "' has no room for the ", bytes,
      " bytes of rows that do not lie in memory and of their copies: ",
      ErrorText()));
}

bool DiskMemory::WaitsLately() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  const auto waits = static_cast<uint64_t>(usage.ru_majflt);
  if (waits - std::exchange(waits_, waits) >= kManyWaits) ahead_ = kAnswers;
  return ahead_ > 0 && ahead_-- > 0;
}

void DiskMemory::ReadAhead(
    absl::Span<const absl::Span<const std::byte>> pieces) {
  std::vector<iovec> pages;
  pages.reserve(pieces.size());
  for (const auto& piece : pieces) {
    const auto begin = reinterpret_cast<uintptr_t>(piece.data());
    const uintptr_t page = begin / PageSize() * PageSize();
    pages.push_back(
        {reinterpret_cast<void*>(page), begin + piece.size() - page});
  }
  static const auto self =
      static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  for (size_t done = 0; done < pages.size(); done += kMostPieces) {
    const size_t count = std::min(pages.size() - done, kMostPieces);
    ssize_t bytes = 0;
    for (size_t i = done; i < done + count; ++i) {
      bytes += static_cast<ssize_t>(pages[i].iov_len);
    }
    // By its number: of all that is called here, only this would need
    // glibc 2.36.
    if (syscall(SYS_process_madvise, self, &pages[done], count, MADV_WILLNEED,
                0) == bytes) {
      continue;
    }
    for (size_t i = done; i < done + count; ++i) {
      madvise(pages[i].iov_base, pages[i].iov_len, MADV_WILLNEED);
    }
  }
}

DiskMemory::ExtentRef DiskMemory::FindRoom(uint64_t bytes, bool clear) {
  TakeBack();
  std::vector<uint64_t>& free = free_extents_[bytes];
  while (!free.empty()) {
    const uint64_t offset = free.back();
    free.pop_back();
    if (!clear || Clear(file_, offset, bytes)) {
      return std::make_shared<Extent>(Extent{offset, bytes});
    }
  }
  if (used_ + bytes > reserved_) {
    if (fallocate(file_, 0, static_cast<off_t>(used_),
                  static_cast<off_t>(bytes)) != 0) {
      return nullptr;
    }
    reserved_ = used_ + bytes;
  }
  return std::make_shared<Extent>(
      Extent{std::exchange(used_, used_ + bytes), bytes});
}

std::unique_ptr<DiskMemory::Mapping> DiskMemory::Map(size_t size,
                                                     const DiskRanges& ranges) {
  ExtentRef extent = FindRoom(BytesOf(ranges), /*clear=*/true);
  return extent == nullptr ? nullptr : MapTo(std::move(extent), size, ranges);
}

std::unique_ptr<DiskMemory::Mapping> DiskMemory::MapShared(
    const std::byte* original, size_t size, const DiskRanges& ranges) {
  TakeBack();
  const auto found = mapped_.find(original);
  if (found == mapped_.end() || found->second->bytes != BytesOf(ranges)) {
    return nullptr;
  }
  return MapTo(found->second, size, ranges);
}

std::unique_ptr<DiskMemory::Mapping> DiskMemory::MapTo(
    ExtentRef extent, size_t size, const DiskRanges& ranges) {
  void* const memory =
      mmap(nullptr, RoundUp(size, PageSize()), PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    Free(std::move(extent));
    return nullptr;
  }
  auto* const begin = static_cast<std::byte*>(memory);
  // Something else may have been there until just now.
  TakeBack();
  const uint64_t offset = extent->offset;
  auto mapping = std::make_unique<Mapping>(
      shared_from_this(), absl::Span<std::byte>(begin, size), extent->bytes);
  mapped_[begin] = std::move(extent);
  return MapRanges(begin, ranges, offset) ? std::move(mapping) : nullptr;
}

bool DiskMemory::MapRanges(std::byte* begin, const DiskRanges& ranges,
                           uint64_t offset) const {
  for (const DiskRange& range : ranges) {
    const size_t length = range.end - range.begin;
    if (mmap(begin + range.begin, length, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED, file_,
             static_cast<off_t>(offset)) == MAP_FAILED) {
      return false;
    }
    // A row is touched by itself: what lies around it is not worth reading.
    madvise(begin + range.begin, length, MADV_RANDOM);
    offset += length;
  }
  return true;
}

bool DiskMemory::Separate(std::byte* begin, const DiskRanges& ranges) {
  TakeBack();
  const auto found = mapped_.find(begin);
  if (found == mapped_.end() || found->second.use_count() == 1) return true;
  ExtentRef own = FindRoom(found->second->bytes, /*clear=*/false);
  if (own == nullptr) return false;
  if (!Write(begin, ranges, own->offset)) {
    Free(std::move(own));
    return false;
  }
  CHECK(MapRanges(begin, ranges, own->offset),
        "the kernel maps a file where it has been mapped before");
  Free(std::exchange(found->second, std::move(own)));
  return true;
}

// Pages that nobody has touched are written without mapping them.
bool DiskMemory::Write(const std::byte* begin, const DiskRanges& ranges,
                       uint64_t offset) const {
  std::vector<absl::Span<const std::byte>> pieces;
  for (const DiskRange& range : ranges) {
    pieces.emplace_back(begin + range.begin, range.end - range.begin);
  }
  ReadAhead(pieces);
  for (absl::Span<const std::byte> piece : pieces) {
    while (!piece.empty()) {
      const ssize_t written =
          pwrite(file_, piece.data(), piece.size(), static_cast<off_t>(offset));
      if (written <= 0) return false;
      offset += static_cast<uint64_t>(written);
      piece.remove_prefix(static_cast<size_t>(written));
    }
  }
  return true;
}

// Dropped first: who is given these addresses next will have heard of it.
DiskMemory::Mapping::~Mapping() {
  disk_->Drop(bytes_.data());
  munmap(bytes_.data(), RoundUp(bytes_.size(), PageSize()));
}

void DiskMemory::Drop(const std::byte* begin) {
  auto* const dropped = new Dropped{begin, dropped_.load()};
  while (!dropped_.compare_exchange_weak(dropped->next, dropped)) {
  }
}

void DiskMemory::TakeBack() {
  const Dropped* dropped = dropped_.exchange(nullptr);
  while (dropped != nullptr) {
    const std::unique_ptr<const Dropped> taken(dropped);
    const auto found = mapped_.find(taken->begin);
    ExtentRef extent = std::move(found->second);
    mapped_.erase(found);
    Free(std::move(extent));
    dropped = taken->next;
  }
}

void DiskMemory::Free(ExtentRef extent) {
  if (extent.use_count() > 1) return;
  free_extents_[extent->bytes].push_back(extent->offset);
}

}  // namespace paramd
