#include "input/file.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/lfs_pointer.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

constexpr uint64_t kSampleBytes = 64 << 10;

absl::Span<std::byte> BytesOf(std::string* text) {
  return absl::MakeSpan(reinterpret_cast<std::byte*>(text->data()),
                        text->size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<InputFile>> InputFile::Open(
    const std::string& path) {
  const int fd =
      open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open '", path, "'"));
  }
  struct stat info = {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return absl::FailedPreconditionError(
        absl::StrCat("'", path, "' is not a regular file"));
  }
  std::unique_ptr<InputFile> file =
      Adopt(path, fd, static_cast<uint64_t>(info.st_size));
  if (file->size() >= kMostLfsPointerBytes ||
      file->size() < kLfsPointerBegin.size()) {
    return file;
  }
  std::string begin(kLfsPointerBegin.size(), '\0');
  RETURN_IF_ERROR(file->Read(0, BytesOf(&begin)));
  if (begin != kLfsPointerBegin) return file;
  return absl::InvalidArgumentError(LfsPointerSentence(path));
}

std::unique_ptr<InputFile> InputFile::Adopt(std::string path, int fd,
                                            uint64_t size) {
  return std::unique_ptr<InputFile>(new InputFile(std::move(path), fd, size));
}

std::unique_ptr<InputFile> InputFile::OfMessages(
    std::string name, std::string content, std::vector<Message> messages) {
  std::unique_ptr<InputFile> file = Adopt(std::move(name), -1, content.size());
  file->content_ = std::move(content);
  file->messages_ = std::move(messages);
  return file;
}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

std::string InputFile::WhereMessage(size_t number) const {
  return absl::StrCat(path_, " offset ", messages_[number].offset);
}

absl::Status InputFile::Read(uint64_t offset, absl::Span<std::byte> out) const {
  if (has_messages()) {
    CHECK(offset + out.size() <= content_.size(), "messages are read whole");
    if (!out.empty()) std::memcpy(out.data(), &content_[offset], out.size());
    return absl::OkStatus();
  }
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = pread(fd_, out.data() + done, out.size() - done,
                              static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::ErrnoToStatus(
          errno, absl::StrCat("cannot read '", path_, "' at byte ", offset));
    }
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(
          "'", path_, "' ends at byte ", offset + done, "; ", out.size(),
          " bytes from byte ", offset, " are needed",
          offset + out.size() <= size_
              ? absl::StrCat(": it had ", size_, " bytes when it was opened")
              : ""));
    }
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

std::string PathIn(absl::string_view directory, absl::string_view name) {
  if (directory.empty() || absl::StartsWith(name, "/")) {
    return std::string(name);
  }
  return absl::StrCat(directory, absl::EndsWith(directory, "/") ? "" : "/",
                      name);
}

absl::StatusOr<std::vector<std::string>> FindFiles(
    const std::string& directory, const std::vector<std::string>& patterns) {
  if (patterns.empty()) {
    return absl::InvalidArgumentError("the input names no files");
  }
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    const std::string path = PathIn(directory, pattern);
    glob_t found = {};
    const int result = glob(
        path.c_str(), 0,
        // A directory that can't be read now is no empty one.
        [](const char*, int error) {
          return static_cast<int>(error != ENOENT && error != ENOTDIR &&
                                  error != EACCES);
        },
        &found);
    for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
      files.emplace_back(found.gl_pathv[i]);
    }
    globfree(&found);
    if (result == GLOB_NOMATCH) {
      return absl::NotFoundError(absl::StrCat("there is no file '", path, "'"));
    }
    if (result != 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot look for files '", path, "'"));
    }
  }
  return files;
}

absl::StatusOr<std::vector<std::unique_ptr<InputFile>>> OpenFiles(
    const std::string& directory, const std::vector<std::string>& patterns) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                   FindFiles(directory, patterns));
  std::vector<std::unique_ptr<InputFile>> files;
  std::map<std::string, std::string> seen;  // By what links lead to.
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(std::unique_ptr<InputFile> file, InputFile::Open(path));
    std::error_code error;
    std::string real = std::filesystem::canonical(path, error).string();
    const auto [first, is_new] =
        seen.insert({error ? path : std::move(real), path});
    if (!is_new) {
      return absl::InvalidArgumentError(
          first->second == path
              ? absl::StrCat("'", path, "' is named twice by ",
                             absl::StrJoin(patterns, ", "),
                             ": it would be read twice")
              : absl::StrCat("'", first->second, "' and '", path,
                             "' are one file: it would be read twice"));
    }
    files.push_back(std::move(file));
  }
  return files;
}

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<InputFile> file,
                   InputFile::Open(path));
  std::string content(file->size(), '\0');
  RETURN_IF_ERROR(file->Read(0, BytesOf(&content)));
  return content;
}

absl::StatusOr<uint32_t> ChecksumOf(
    absl::Span<const std::unique_ptr<InputFile>> files) {
  std::string sample;
  std::string text = absl::StrCat(files.size());
  for (const std::unique_ptr<InputFile>& file : files) {
    const uint64_t size = std::min(file->size(), kSampleBytes);
    sample.resize(size);
    const absl::Span<std::byte> out(reinterpret_cast<std::byte*>(sample.data()),
                                    size);
    for (const uint64_t begin : {uint64_t{0}, file->size() - size}) {
      RETURN_IF_ERROR(file->Read(begin, out));
      absl::StrAppend(&text, " ", file->size(), " ", Crc32c(out));
    }
  }
  return Crc32c(absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(text.data()), text.size()));
}

}  // namespace paramd
