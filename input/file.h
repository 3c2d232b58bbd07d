#ifndef PARAMD_INPUT_FILE_H_
#define PARAMD_INPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace paramd {

// What is read at a time of a file that is gone through from end to end.
inline constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

// A file that is read at any place, by pread: one that shrinks while it is read
// is an error, where a mapping would end the process (SIGBUS). Or messages that
// are in memory, which are read as the records of a file.
//
// Thread-safe. Holds one descriptor, or the messages.
class InputFile {
 public:
  // A message: where it lies, and its number where it came from.
  struct Message {
    uint64_t begin = 0;
    uint32_t bytes = 0;
    uint64_t offset = 0;
  };

  // The system's code if it can't be opened; FAILED_PRECONDITION if it is no
  // regular file (a pipe without a writer would hold us up); INVALID_ARGUMENT
  // if it is a Git LFS pointer.
  static absl::StatusOr<std::unique_ptr<InputFile>> Open(
      const std::string& path);
  // Takes over a descriptor, of a file of so many bytes.
  static std::unique_ptr<InputFile> Adopt(std::string path, int fd,
                                          uint64_t size);
  // Of messages in `content`, each a record whatever is in it; `name`, "topic
  // 'clicks' partition 3", says where they came from.
  static std::unique_ptr<InputFile> OfMessages(std::string name,
                                               std::string content,
                                               std::vector<Message> messages);
  ~InputFile();

  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // When it was opened.
  bool has_messages() const { return fd_ < 0; }
  const std::vector<Message>& messages() const { return messages_; }
  // "topic 'clicks' partition 3 offset 17".
  std::string WhereMessage(size_t number) const;

  // Fills `out` from byte `offset` on. DATA_LOSS, with both sizes, if the file
  // ends before; the system's code if it can't be read.
  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const;

 private:
  InputFile(std::string path, int fd, uint64_t size)
      : path_(std::move(path)), fd_(fd), size_(size) {}

  const std::string path_;
  const int fd_;
  const uint64_t size_;
  std::string content_;  // Without a descriptor.
  std::vector<Message> messages_;
};

// `name` in `directory`, unless it begins with '/'.
std::string PathIn(absl::string_view directory, absl::string_view name);

// The files that the patterns ("train-*.csv") name, each pattern's in the order
// of their names. INVALID_ARGUMENT if there are no patterns; NOT_FOUND, with
// the pattern, if one names nothing.
absl::StatusOr<std::vector<std::string>> FindFiles(
    const std::string& directory, const std::vector<std::string>& patterns);

// Opens all of them. INVALID_ARGUMENT, naming both, if two are one file, which
// two patterns name, or a link beside it: it would be read twice.
absl::StatusOr<std::vector<std::unique_ptr<InputFile>>> OpenFiles(
    const std::string& directory, const std::vector<std::string>& patterns);

// The whole content of a file.
absl::StatusOr<std::string> ReadWhole(const std::string& path);

// Of files that are too large to be summed up as a whole: their number, sizes,
// and the first and last 64 KiB of each.
absl::StatusOr<uint32_t> ChecksumOf(
    absl::Span<const std::unique_ptr<InputFile>> files);

}  // namespace paramd

#endif  // PARAMD_INPUT_FILE_H_
