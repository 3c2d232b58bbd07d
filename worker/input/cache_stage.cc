#include "worker/input/cache_stage.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "worker/input/file.h"

namespace paramd {
namespace {

template <class T>
void AppendValue(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// What this process wrote is read as it is; a file's checksum says whether it
// still is that.
template <class T>
T TakeValue(const std::byte** bytes) {
  T value;
  std::memcpy(&value, *bytes, sizeof(value));
  *bytes += sizeof(value);
  return value;
}

std::string ToBytes(const Example& example) {
  std::string bytes;
  AppendValue(example.index, &bytes);
  AppendValue(example.dropped, &bytes);
  AppendValue(example.values.size(), &bytes);
  for (const OwnedTensor& value : example.values) {
    AppendValue(value.dtype(), &bytes);
    AppendValue(value.dims().size(), &bytes);
    for (const uint64_t dimension : value.dims()) {
      AppendValue(dimension, &bytes);
    }
    bytes.append(reinterpret_cast<const char*>(value.bytes().data()),
                 value.bytes().size());
  }
  return bytes;
}

void FromBytes(absl::Span<const std::byte> bytes, Example* example) {
  const std::byte* at = bytes.data();
  example->index = TakeValue<uint64_t>(&at);
  example->dropped = TakeValue<bool>(&at);
  example->values.resize(TakeValue<size_t>(&at));
  for (OwnedTensor& value : example->values) {
    const auto dtype = TakeValue<DType>(&at);
    Dims dims(TakeValue<size_t>(&at));
    for (uint64_t& dimension : dims) dimension = TakeValue<uint64_t>(&at);
    value.Reset(dtype, dims);
    std::memcpy(value.bytes().data(), at, value.bytes().size());
    at += value.bytes().size();
  }
  CHECK(at == bytes.data() + bytes.size(), "a kept example is read whole");
}

absl::Span<const std::byte> AsSpan(const std::string& bytes) {
  return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Stage>> CacheStage::Create(
    const Stage& upstream, const std::string& directory, uint64_t max_bytes) {
  int fd = -1;
  if (!directory.empty()) {
    std::string path = PathIn(directory, "paramd-cache-XXXXXX");
    fd = mkostemp(path.data(), O_CLOEXEC);
    if (fd < 0) {
      return absl::ErrnoToStatus(
          errno,
          absl::StrCat("cannot make a file of the cache in '", directory, "'"));
    }
    unlink(path.c_str());
  }
  return std::unique_ptr<Stage>(new CacheStage(upstream, fd, max_bytes));
}

CacheStage::CacheStage(const Stage& upstream, int fd, uint64_t max_bytes)
    : Stage("cache", upstream.spec(), upstream.size()),
      upstream_(upstream),
      fd_(fd),
      max_bytes_(max_bytes),
      entries_(upstream.size()) {}

CacheStage::~CacheStage() {
  if (fd_ >= 0) close(fd_);
}

absl::Status CacheStage::DoGet(const ExamplePlace& place,
                               Example* example) const {
  Entry entry;
  {
    MutexLock lock(&mutex_);
    entry = entries_[place.offset];
  }
  if (entry.bytes > 0) return Load(entry, example);
  RETURN_IF_ERROR(upstream_.Get({0, place.offset}, example));
  return Store(place.offset, *example);
}

absl::Status CacheStage::Load(const Entry& entry, Example* example) const {
  if (entry.memory != nullptr) {
    FromBytes(AsSpan(*entry.memory), example);
    return absl::OkStatus();
  }
  example->scratch.Reset(DType::kUInt8, {entry.bytes});
  const absl::Span<std::byte> bytes = example->scratch.bytes();
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = pread(fd_, bytes.data() + done, bytes.size() - done,
                              static_cast<off_t>(entry.position + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return absl::ErrnoToStatus(got < 0 ? errno : EIO,
                                 "cannot read the file of the cache");
    }
    done += static_cast<size_t>(got);
  }
  if (Crc32c(bytes) != entry.crc32c) {
    return absl::DataLossError(
        absl::StrCat("the file of the cache has other bytes at ",
                     entry.position, " than were written"));
  }
  FromBytes(bytes, example);
  return absl::OkStatus();
}

absl::Status CacheStage::Store(uint64_t offset, const Example& example) const {
  std::string bytes = ToBytes(example);
  Entry entry;
  entry.bytes = bytes.size();
  {
    MutexLock lock(&mutex_);
    // Another thread was as quick.
    if (entries_[offset].bytes > 0) return absl::OkStatus();
    if (kept_bytes_ + entry.bytes > max_bytes_) return absl::OkStatus();
    entry.position = kept_bytes_;
    kept_bytes_ += entry.bytes;
  }
  if (fd_ < 0) {
    entry.memory = std::make_shared<const std::string>(std::move(bytes));
  } else {
    entry.crc32c = Crc32c(AsSpan(bytes));
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t put = pwrite(fd_, bytes.data() + done, bytes.size() - done,
                                 static_cast<off_t>(entry.position + done));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        return absl::ErrnoToStatus(errno, "cannot write the file of the cache");
      }
      done += static_cast<size_t>(put);
    }
  }
  MutexLock lock(&mutex_);
  entries_[offset] = std::move(entry);
  return absl::OkStatus();
}

}  // namespace paramd
