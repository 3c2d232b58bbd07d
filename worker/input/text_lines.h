#ifndef PARAMD_WORKER_INPUT_TEXT_LINES_H_
#define PARAMD_WORKER_INPUT_TEXT_LINES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "worker/input/file.h"

namespace paramd {

// The lines of text files, read where they lie; an index of 24 bytes a line says
// where. Lines end with \n or \r\n; those without a character but spaces, and a
// byte order mark of UTF-8, count for nothing.
//
// Thread-safe but for AddFile.
class TextLines {
 public:
  explicit TextLines(std::vector<std::unique_ptr<InputFile>> files)
      : files_(std::move(files)) {}

  uint32_t files() const { return static_cast<uint32_t>(files_.size()); }
  const std::string& path(uint32_t file) const { return files_[file]->path(); }
  absl::StatusOr<uint32_t> Checksum() const { return ChecksumOf(files_); }

  // Appends the lines of a file. If there is a `header` it becomes the first one
  // instead, if there is one. Reads the file once. As CheckIsUnpacked;
  // DATA_LOSS, naming the line, if one has more than 16 MiB; the system's code
  // if the file can't be read.
  absl::Status AddFile(uint32_t file, std::string* header = nullptr);

  uint64_t size() const { return lines_.size(); }
  // Numbers of the first line of each file that has some.
  const std::vector<uint64_t>& starts() const { return starts_; }
  uint32_t FileOf(uint64_t line) const { return lines_[line].file; }
  // "'train.csv' line 18".
  std::string Where(uint64_t line) const;
  // Without its end. Fails as InputFile::Read does.
  absl::StatusOr<std::string> Read(uint64_t line) const;

 private:
  struct Line {
    uint32_t file = 0;
    uint32_t number = 0;  // In the file, from 1.
    uint64_t begin = 0;
    uint32_t bytes = 0;
  };

  absl::StatusOr<std::string> Read(const Line& line) const;
  // Behind the byte order mark, if the file has one.
  absl::StatusOr<uint64_t> FirstByte(uint32_t file) const;
  absl::Status FindLines(uint32_t file);

  const std::vector<std::unique_ptr<InputFile>> files_;
  std::vector<Line> lines_;
  std::vector<uint64_t> starts_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_INPUT_TEXT_LINES_H_
