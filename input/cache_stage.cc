#include "input/cache_stage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "input/file.h"

namespace paramd {
namespace {

constexpr uint64_t kMostDimensions = 16;

template <class T>
void AppendValue(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Reads values from bytes that another program may have written.
class ByteReader {
 public:
  explicit ByteReader(absl::Span<const std::byte> bytes) : left_(bytes) {}

  template <class T>
  bool Take(T* value) {
    if (left_.size() < sizeof(T)) return false;
    std::memcpy(value, left_.data(), sizeof(T));
    left_.remove_prefix(sizeof(T));
    return true;
  }
  bool Take(absl::Span<std::byte> out) {
    if (left_.size() < out.size()) return false;
    std::copy_n(left_.data(), out.size(), out.data());
    left_.remove_prefix(out.size());
    return true;
  }
  size_t left() const { return left_.size(); }

 private:
  absl::Span<const std::byte> left_;
};

// Whether so many bytes may hold a tensor of this shape.
bool IsWithin(const Dims& dims, uint64_t bytes) {
  if (std::count(dims.begin(), dims.end(), 0u) > 0) return true;
  for (const uint64_t dimension : dims) bytes /= dimension;
  return bytes > 0;
}

std::string ToBytes(const Example& example) {
  std::string bytes;
  AppendValue(example.index, &bytes);
  AppendValue(example.dropped, &bytes);
  AppendValue(static_cast<uint64_t>(example.values.size()), &bytes);
  for (const OwnedTensor& value : example.values) {
    AppendValue(static_cast<uint8_t>(value.dtype()), &bytes);
    AppendValue(static_cast<uint64_t>(value.dims().size()), &bytes);
    for (const uint64_t dimension : value.dims()) {
      AppendValue(dimension, &bytes);
    }
    bytes.append(reinterpret_cast<const char*>(value.bytes().data()),
                 value.bytes().size());
  }
  return bytes;
}

// Of the types that `spec` has. False if these are the bytes of nothing like
// it.
bool FromBytes(absl::Span<const std::byte> bytes, const InputSpec& spec,
               Example* example) {
  ByteReader reader(bytes);
  uint8_t dropped = 0;
  uint64_t count = 0;
  if (!reader.Take(&example->index) || !reader.Take(&dropped) ||
      !reader.Take(&count) || count != spec.features.size()) {
    return false;
  }
  example->dropped = dropped != 0;
  example->values.resize(count);
  for (size_t f = 0; f < count; ++f) {
    const FeatureSpec& feature = spec.features[f];
    uint8_t dtype = 0;
    uint64_t rank = 0;
    if (!reader.Take(&dtype) || dtype != static_cast<uint8_t>(feature.dtype) ||
        !reader.Take(&rank) || rank > kMostDimensions) {
      return false;
    }
    Dims dims(rank);
    for (uint64_t& dimension : dims) {
      if (!reader.Take(&dimension)) return false;
    }
    if (!IsWithin(dims, reader.left())) return false;
    example->values[f].Reset(feature.dtype, dims);
    if (!reader.Take(example->values[f].bytes())) return false;
  }
  return reader.left() == 0;
}

absl::Span<const std::byte> AsSpan(const std::string& bytes) {
  return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
}

// Before the bytes of an example in a file that stays.
struct RecordHead {
  static constexpr uint64_t kMagic = 0x3165686361637470;
  static constexpr size_t kBytes = 4 * 8;

  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t crc32c = 0;

  std::string ToText() const {
    std::string text;
    AppendValue(kMagic, &text);
    AppendValue(offset, &text);
    AppendValue(bytes, &text);
    AppendValue(crc32c, &text);
    AppendValue(Crc32c(AsSpan(text)), &text);
    return text;
  }
  // False if these are none.
  bool Parse(absl::Span<const std::byte> text) {
    ByteReader reader(text);
    uint64_t magic = 0;
    uint32_t crc = 0;
    return reader.Take(&magic) && magic == kMagic && reader.Take(&offset) &&
           reader.Take(&bytes) && reader.Take(&crc32c) && reader.Take(&crc) &&
           crc == Crc32c(text.first(kBytes - sizeof(crc)));
  }
};

// Files that one process opens; others are not looked into.
constexpr size_t kMostFiles = 64;
constexpr char kFileEnding[] = ".examples";

// False at an error, or at the end of the file.
bool ReadAll(int fd, uint64_t position, absl::Span<std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = pread(fd, bytes.data() + done, bytes.size() - done,
                              static_cast<off_t>(position + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

absl::Status WriteAll(int fd, uint64_t position, const std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = pwrite(fd, bytes.data() + done, bytes.size() - done,
                               static_cast<off_t>(position + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      return absl::ErrnoToStatus(errno, "cannot write the file of the cache");
    }
    done += static_cast<size_t>(put);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Stage>> CacheStage::Create(
    const Stage& upstream, const Options& options) {
  if (options.key.empty()) {
    const Where where =
        options.directory.empty() ? Where::kMemory : Where::kFile;
    std::unique_ptr<CacheStage> cache(
        new CacheStage(upstream, where, options.max_bytes, options.directory));
    if (where == Where::kFile) {
      MutexLock lock(&cache->mutex_);
      RETURN_IF_ERROR(cache->OpenOwnLocked());
    }
    return cache;
  }
  if (access(options.directory.c_str(), R_OK | W_OK | X_OK) != 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot write to '", options.directory,
                            "' for the cache"));
  }
  std::unique_ptr<CacheStage> cache(new CacheStage(
      upstream, Where::kFilesThatStay, options.max_bytes,
      PathIn(options.directory, absl::StrCat("paramd-cache-", options.key))));
  RETURN_IF_ERROR(cache->FindFiles());
  return cache;
}

CacheStage::CacheStage(const Stage& upstream, Where where, uint64_t max_bytes,
                       std::string directory)
    : Stage("cache", upstream.spec(), upstream.size()),
      upstream_(upstream),
      where_(where),
      max_bytes_(max_bytes),
      directory_(std::move(directory)),
      entries_(upstream.size()) {}

CacheStage::~CacheStage() {
  MutexLock lock(&mutex_);
  for (const int fd : fds_) close(fd);
}

absl::Status CacheStage::FindFiles() {
  std::error_code error;
  if (!std::filesystem::exists(directory_, error)) return absl::OkStatus();
  std::vector<std::string> paths;
  for (std::filesystem::directory_iterator it(directory_, error), end;
       !error && it != end; it.increment(error)) {
    if (absl::EndsWith(it->path().string(), kFileEnding)) {
      paths.push_back(it->path().string());
    }
  }
  if (error) {
    return absl::ErrnoToStatus(
        error.value(),
        absl::StrCat("cannot read directory '", directory_, "'"));
  }
  std::sort(paths.begin(), paths.end());
  if (paths.size() > kMostFiles) paths.resize(kMostFiles);
  for (const std::string& path : paths) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;  // Of another user, or just removed.
    FindRecords(fd);
  }
  return absl::OkStatus();
}

// Up to the first that is not whole: behind it nobody knows where one begins.
void CacheStage::FindRecords(int fd) {
  MutexLock lock(&mutex_);
  fds_.push_back(fd);
  struct stat status;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return;
  const auto size = static_cast<uint64_t>(status.st_size);
  std::array<std::byte, RecordHead::kBytes> text;
  uint64_t at = 0;
  while (size - at >= text.size()) {
    RecordHead head;
    if (!ReadAll(fd, at, absl::MakeSpan(text)) || !head.Parse(text)) return;
    at += text.size();
    if (head.bytes > size - at || head.offset >= entries_.size()) return;
    Entry& entry = entries_[head.offset];
    if (entry.bytes == 0 && kept_bytes_ + head.bytes <= max_bytes_) {
      entry = {
          .fd = fd, .position = at, .bytes = head.bytes, .crc32c = head.crc32c};
      kept_bytes_ += head.bytes;
    }
    at += head.bytes;
  }
}

absl::Status CacheStage::OpenOwnLocked() const {
  if (own_ >= 0) return absl::OkStatus();
  const bool stays = where_ == Where::kFilesThatStay;
  if (stays && mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot make '", directory_, "' for the cache"));
  }
  std::string path =
      stays ? PathIn(directory_, absl::StrCat("XXXXXX", kFileEnding))
            : PathIn(directory_, "paramd-cache-XXXXXX");
  own_ = mkostemps(path.data(),
                   stays ? static_cast<int>(sizeof(kFileEnding)) - 1 : 0,
                   O_CLOEXEC);
  if (own_ < 0) {
    return absl::ErrnoToStatus(
        errno,
        absl::StrCat("cannot make a file of the cache in '", directory_, "'"));
  }
  if (!stays) unlink(path.c_str());
  fds_.push_back(own_);
  return absl::OkStatus();
}

absl::Status CacheStage::DoGet(const ExamplePlace& place,
                               Example* example) const {
  Entry entry;
  {
    MutexLock lock(&mutex_);
    entry = entries_[place.offset];
  }
  if (entry.bytes > 0) {
    const absl::Status status = Load(entry, example);
    if (where_ != Where::kFilesThatStay) return status;
    const bool is_right =
        status.ok() && example->index == upstream_.IndexAt({0, place.offset});
    if (is_right) return status;
    // What a disk has damaged since is read again.
    MutexLock lock(&mutex_);
    if (entries_[place.offset].position == entry.position) {
      entries_[place.offset] = {};
    }
  }
  RETURN_IF_ERROR(upstream_.Get({0, place.offset}, example));
  return Store(place.offset, *example);
}

absl::Status CacheStage::Load(const Entry& entry, Example* example) const {
  const auto damaged = [&entry] {
    return absl::DataLossError(
        absl::StrCat("the file of the cache has other bytes at ",
                     entry.position, " than were written"));
  };
  if (entry.memory != nullptr) {
    CHECK(FromBytes(AsSpan(*entry.memory), spec(), example),
          "a kept example is read whole");
    return absl::OkStatus();
  }
  example->scratch.Reset(DType::kUInt8, {entry.bytes});
  const absl::Span<std::byte> bytes = example->scratch.bytes();
  if (!ReadAll(entry.fd, entry.position, bytes) ||
      Crc32c(bytes) != entry.crc32c || !FromBytes(bytes, spec(), example)) {
    return damaged();
  }
  return absl::OkStatus();
}

absl::Status CacheStage::Store(uint64_t offset, const Example& example) const {
  std::string bytes = ToBytes(example);
  const bool stays = where_ == Where::kFilesThatStay;
  Entry entry;
  entry.bytes = bytes.size();
  {
    MutexLock lock(&mutex_);
    // Another thread was as quick.
    if (entries_[offset].bytes > 0) return absl::OkStatus();
    if (kept_bytes_ + entry.bytes > max_bytes_) return absl::OkStatus();
    if (own_ < 0 && fds_.size() >= kMostFiles) return absl::OkStatus();
    if (where_ != Where::kMemory) RETURN_IF_ERROR(OpenOwnLocked());
    entry.fd = own_;
    entry.position = own_bytes_ + (stays ? RecordHead::kBytes : 0);
    kept_bytes_ += entry.bytes;
    own_bytes_ = entry.position + entry.bytes;
  }
  if (where_ == Where::kMemory) {
    entry.memory = std::make_shared<const std::string>(std::move(bytes));
  } else {
    entry.crc32c = Crc32c(AsSpan(bytes));
    uint64_t position = entry.position;
    if (stays) {
      const RecordHead head = {
          .offset = offset, .bytes = entry.bytes, .crc32c = entry.crc32c};
      bytes = head.ToText() + bytes;
      position -= RecordHead::kBytes;
    }
    RETURN_IF_ERROR(WriteAll(entry.fd, position, bytes));
  }
  MutexLock lock(&mutex_);
  entries_[offset] = std::move(entry);
  return absl::OkStatus();
}

}  // namespace paramd
