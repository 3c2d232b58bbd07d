#include "input/idx_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include <zlib.h>

#include "base/lfs_pointer.h"
#include "base/status_macros.h"
#include "input/file.h"

namespace paramd {
namespace {

constexpr uint32_t kUnsignedBytes = 0x08;

struct GzClose {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzFile = std::unique_ptr<gzFile_s, GzClose>;

// No IDX file begins so, compressed or not.
bool IsLfsPointer(int fd) {
  char begin[kLfsPointerBegin.size()];
  return pread(fd, begin, sizeof(begin), 0) == ssize_t{sizeof(begin)} &&
         absl::string_view(begin, sizeof(begin)) == kLfsPointerBegin;
}

// What is no file, a pipe without a writer for one, would hold us up.
absl::StatusOr<GzFile> OpenFile(const std::string& path) {
  const auto cannot = [&path](int error) {
    return absl::ErrnoToStatus(error, absl::StrCat("cannot open '", path, "'"));
  };
  const int fd =
      open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return cannot(errno);
  struct stat info = {};
  if (fstat(fd, &info) == 0 && !S_ISREG(info.st_mode)) {
    close(fd);
    return absl::FailedPreconditionError(
        absl::StrCat("'", path, "' is not a regular file"));
  }
  if (IsLfsPointer(fd)) {
    close(fd);
    return absl::InvalidArgumentError(LfsPointerSentence(path));
  }
  GzFile file(gzdopen(fd, "rb"));
  if (file != nullptr) return file;
  close(fd);
  return cannot(ENOMEM);
}

// Reads up to `size` bytes; fewer only where the file ends, which zlib says by
// Z_BUF_ERROR if it ends inside a compressed stream.
absl::StatusOr<size_t> ReadBytes(gzFile file, const std::string& path,
                                 size_t size, uint8_t* out) {
  errno = 0;
  const int got = gzread(file, out, static_cast<unsigned>(size));
  if (got >= 0) return static_cast<size_t>(got);
  int code = Z_OK;
  // zlib puts the descriptor before its words.
  absl::string_view text = gzerror(file, &code);
  if (absl::StartsWith(text, "<fd:")) text.remove_prefix(text.find(' ') + 1);
  if (code == Z_ERRNO) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read '", path, "'"));
  }
  if (code == Z_BUF_ERROR) return 0;
  return absl::DataLossError(
      absl::StrCat("'", path, "' is damaged: gzip finds \"", text, "\""));
}

std::string SizeText(const IdxFile& file, uint64_t total) {
  if (file.shape.size() == 1) return absl::StrCat(total);
  return absl::StrCat(absl::StrJoin(file.shape, "x"), " = ", total);
}

absl::Status ReadHeader(gzFile file, const std::string& path, int dimensions,
                        IdxFile* out) {
  uint8_t header[4 + 4 * 255];
  const size_t size = 4 + 4 * static_cast<size_t>(dimensions);
  ASSIGN_OR_RETURN(const size_t got, ReadBytes(file, path, 4, header));
  if (got < 4) {
    return absl::DataLossError(absl::StrFormat(
        "'%s' is truncated: it has %d bytes; an IDX header of %d dimension%s "
        "has %d",
        path, got, dimensions, dimensions == 1 ? "" : "s", size));
  }
  const uint32_t magic = uint32_t{header[0]} << 24 | uint32_t{header[1]} << 16 |
                         uint32_t{header[2]} << 8 | header[3];
  const uint32_t expected =
      kUnsignedBytes << 8 | static_cast<uint32_t>(dimensions);
  if (magic != expected) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "'%s' is not an IDX file of bytes in %d dimension%s: it begins with "
        "0x%08x; expected 0x%08x",
        path, dimensions, dimensions == 1 ? "" : "s", magic, expected));
  }
  ASSIGN_OR_RETURN(const size_t rest,
                   ReadBytes(file, path, size - 4, header + 4));
  if (rest < size - 4) {
    return absl::DataLossError(absl::StrFormat(
        "'%s' is truncated: it has %d bytes; its header alone has %d", path,
        4 + rest, size));
  }
  for (const uint8_t* p = header + 4; p < header + size; p += 4) {
    out->shape.push_back(uint64_t{p[0]} << 24 | uint64_t{p[1]} << 16 |
                         uint64_t{p[2]} << 8 | p[3]);
  }
  return absl::OkStatus();
}

// The number of bytes that the header claims.
absl::StatusOr<uint64_t> ClaimedBytes(const std::string& path,
                                      const IdxFile& file) {
  uint64_t total = 1;
  for (const uint64_t dimension : file.shape) {
    if (dimension == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", path, "' holds nothing: its header says ",
                       absl::StrJoin(file.shape, "x")));
    }
    if (total > IdxFile::kMaxBytes / dimension) {
      return absl::ResourceExhaustedError(
          absl::StrCat("'", path, "' is too large: its header says ",
                       absl::StrJoin(file.shape, "x"), " bytes; at most ",
                       IdxFile::kMaxBytes, " are admitted"));
    }
    total *= dimension;
  }
  return total;
}

absl::Status ReadContent(gzFile file, const std::string& path, uint64_t total,
                         IdxFile* out) {
  std::vector<uint8_t>& bytes = out->bytes;
  while (bytes.size() < total) {
    const uint64_t have = bytes.size();
    const uint64_t piece = std::min(kPieceBytes, total - have);
    if (bytes.capacity() < have + piece) {
      bytes.reserve(std::min(total, std::max(have + piece, 2 * have)));
    }
    bytes.resize(have + piece);
    ASSIGN_OR_RETURN(const size_t got,
                     ReadBytes(file, path, piece, bytes.data() + have));
    if (got < piece) {
      return absl::DataLossError(absl::StrCat(
          "'", path, "' is truncated: its header says ", SizeText(*out, total),
          " bytes follow; there are ", have + got));
    }
  }
  // Reading the end makes zlib verify the checksum.
  uint8_t extra;
  ASSIGN_OR_RETURN(const size_t got, ReadBytes(file, path, 1, &extra));
  if (got != 0) {
    return absl::DataLossError(absl::StrCat("'", path, "' has more than the ",
                                            SizeText(*out, total),
                                            " bytes that its header says"));
  }
  int code = Z_OK;
  gzerror(file, &code);
  if (code != Z_BUF_ERROR) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "'", path, "' is truncated: the checksum at its end is missing"));
}

}  // namespace

absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path, int dimensions) {
  ASSIGN_OR_RETURN(const GzFile file, OpenFile(path));
  gzbuffer(file.get(), 1 << 17);
  IdxFile out;
  RETURN_IF_ERROR(ReadHeader(file.get(), path, dimensions, &out));
  ASSIGN_OR_RETURN(const uint64_t total, ClaimedBytes(path, out));
  RETURN_IF_ERROR(ReadContent(file.get(), path, total, &out));
  return out;
}

}  // namespace paramd
