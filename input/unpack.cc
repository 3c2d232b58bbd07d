#include "input/unpack.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <zlib.h>

#include "base/status_macros.h"

namespace paramd {
namespace {

constexpr uint64_t kMostInMemory = uint64_t{4} << 30;
// Gzip makes a thousandth of what says nothing: a small file could fill a disk.
constexpr uint64_t kMostInFile = uint64_t{1} << 40;

// What text and records do not begin with.
constexpr struct {
  absl::string_view begin;
  absl::string_view name;
} kUnknown[] = {{"BZh", "bzip2"},
                {absl::string_view("\xfd"
                                   "7zXZ\0",
                                   6),
                 "xz"},
                {"\x28\xb5\x2f\xfd", "zstd"},
                {"\x04\x22\x4d\x18", "lz4"},
                {"PK\x03\x04", "zip"}};
constexpr absl::string_view kGzip = "\x1f\x8b\x08";
constexpr size_t kBeginBytes = 10;
// Of a block of bzip2, behind "BZh" and a digit: a text may begin with those.
constexpr absl::string_view kBzip2Block = "\x31\x41\x59\x26\x53\x59";

// RFC 1950: deflate, and a sum of two bytes that 31 divides.
bool IsZlib(absl::string_view begin) {
  if (begin.size() < 2) return false;
  const unsigned first = static_cast<unsigned char>(begin[0]);
  const unsigned second = static_cast<unsigned char>(begin[1]);
  return (first & 15) == 8 && first >> 4 <= 7 &&
         (256 * first + second) % 31 == 0;
}

bool IsOf(absl::string_view begin, absl::string_view format) {
  return absl::StartsWith(begin, format) &&
         (format != "BZh" ||
          absl::StartsWith(begin.substr(std::min<size_t>(4, begin.size())),
                           kBzip2Block));
}

// Where the content goes: a file that has lost its name, or memory.
class Target {
 public:
  static absl::StatusOr<Target> Open(const std::string& of) {
    const char* const said = std::getenv("TMPDIR");
    Target target;
    target.directory_ = said == nullptr || *said == '\0' ? "/tmp" : said;
    std::string path = PathIn(target.directory_, "paramd-unpacked-XXXXXX");
    target.fd_ = mkostemp(path.data(), O_CLOEXEC);
    if (target.fd_ >= 0) {
      unlink(path.c_str());
      return target;
    }
    target.in_memory_ = true;
    target.fd_ = memfd_create("paramd-unpacked", MFD_CLOEXEC);
    if (target.fd_ >= 0) return target;
    return absl::ErrnoToStatus(
        errno, absl::StrCat("there is no memory to unpack '", of, "'"));
  }

  Target(Target&& other)
      : fd_(std::exchange(other.fd_, -1)),
        size_(other.size_),
        in_memory_(other.in_memory_),
        directory_(std::move(other.directory_)) {}
  ~Target() {
    if (fd_ >= 0) close(fd_);
  }

  absl::Status Append(absl::string_view bytes, const std::string& of) {
    const uint64_t most = in_memory_ ? kMostInMemory : kMostInFile;
    if (bytes.size() > most - size_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "'", of, "' unpacks to more than ", most, " bytes",
          in_memory_ ? absl::StrCat(", what is kept in memory at most, since "
                                    "no file can be made in '",
                                    directory_,
                                    "': name a directory with room by TMPDIR")
                     : std::string()));
    }
    size_ += bytes.size();
    while (!bytes.empty()) {
      const ssize_t put = write(fd_, bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        return absl::ErrnoToStatus(
            errno, absl::StrCat("cannot unpack '", of, "' into '",
                                in_memory_ ? "memory" : directory_.c_str(),
                                "'; name a directory with room by TMPDIR"));
      }
      bytes.remove_prefix(static_cast<size_t>(put));
    }
    return absl::OkStatus();
  }

  std::unique_ptr<InputFile> Close(const std::string& path) {
    return InputFile::Adopt(path, std::exchange(fd_, -1), size_);
  }

 private:
  Target() = default;

  int fd_ = -1;
  uint64_t size_ = 0;
  bool in_memory_ = false;
  std::string directory_;
};

// zlib's state, freed with the object.
class Inflater {
 public:
  Inflater() { inflateInit2(&stream_, 15 + 32); }  // Of gzip or zlib.
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream* operator->() { return &stream_; }
  z_stream* get() { return &stream_; }

 private:
  z_stream stream_ = {};
};

// A file may have several streams one behind the other, which are one content,
// and zeros behind the last.
absl::Status Inflate(const InputFile& file, Target* target) {
  const auto damaged = [&file](uint64_t at, absl::string_view what) {
    return absl::DataLossError(absl::StrCat(
        "'", file.path(), "' is damaged after byte ", at, ": ", what));
  };
  std::string packed, content(kPieceBytes, '\0');
  Inflater inflater;
  bool between = false;  // One stream has ended, and no other one begun.
  for (uint64_t at = 0; at < file.size(); at += packed.size()) {
    packed.resize(std::min(kPieceBytes, file.size() - at));
    RETURN_IF_ERROR(file.Read(
        at, absl::MakeSpan(reinterpret_cast<std::byte*>(packed.data()),
                           packed.size())));
    inflater->next_in = reinterpret_cast<Bytef*>(packed.data());
    inflater->avail_in = static_cast<uInt>(packed.size());
    // Also what the inflater holds back when all is read is asked for.
    bool more = true;
    while (more) {
      const uint64_t place = at + packed.size() - inflater->avail_in;
      if (between) {
        while (inflater->avail_in > 0 && *inflater->next_in == 0) {
          ++inflater->next_in;
          --inflater->avail_in;
        }
        if (inflater->avail_in == 0) break;
        inflateReset(inflater.get());
        between = false;
      }
      inflater->next_out = reinterpret_cast<Bytef*>(content.data());
      inflater->avail_out = static_cast<uInt>(content.size());
      const int result = inflate(inflater.get(), Z_NO_FLUSH);
      const size_t got = content.size() - inflater->avail_out;
      RETURN_IF_ERROR(target->Append({content.data(), got}, file.path()));
      between = result == Z_STREAM_END;
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        return damaged(place,
                       inflater->msg != nullptr
                           ? absl::StrCat("zlib finds \"", inflater->msg, "\"")
                           : std::string("zlib can't unpack it"));
      }
      more = inflater->avail_in > 0 || inflater->avail_out == 0;
    }
  }
  if (between) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "'", file.path(), "' is truncated: what is packed in it has no end"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<InputFile>> Unpacked(
    std::unique_ptr<InputFile> file, bool or_zlib) {
  std::string begin(std::min<uint64_t>(kBeginBytes, file->size()), '\0');
  RETURN_IF_ERROR(
      file->Read(0, absl::MakeSpan(reinterpret_cast<std::byte*>(begin.data()),
                                   begin.size())));
  for (const auto& format : kUnknown) {
    if (!IsOf(begin, format.begin)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", file->path(), "' is compressed by ", format.name,
                     "; unpack it, or compress it by gzip"));
  }
  if (!absl::StartsWith(begin, kGzip) && !(or_zlib && IsZlib(begin))) {
    return file;
  }
  ASSIGN_OR_RETURN(Target target, Target::Open(file->path()));
  RETURN_IF_ERROR(Inflate(*file, &target));
  return target.Close(file->path());
}

}  // namespace paramd
