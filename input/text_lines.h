#ifndef PARAMD_INPUT_TEXT_LINES_H_
#define PARAMD_INPUT_TEXT_LINES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "input/columns.h"
#include "input/file.h"

namespace paramd {

// The lines of text files, read where they lie; an index of 24 bytes a line
// says where. Lines end with \n, \r\n or \r, outside of quotes; a byte order
// mark of UTF-8 counts for nothing. So does a line without a character but
// white space, unless that separates columns: then it is a row of empty ones.
// Of messages each is a line, with or without an end, whatever is in it.
//
// Thread-safe but for AddFile.
class TextLines {
 public:
  struct Options {
    // Of rows of columns; without it a line has no quotes.
    absl::optional<ColumnFormat> columns;
    // A line that begins with this, behind white space, counts for nothing,
    // too.
    char comment = 0;
  };
  // Called with the number and the text of a line.
  using Use =
      absl::FunctionRef<absl::Status(uint64_t line, absl::string_view text)>;

  TextLines(std::vector<std::unique_ptr<InputFile>> files, Options options)
      : options_(std::move(options)), files_(std::move(files)) {}

  uint32_t files() const { return static_cast<uint32_t>(files_.size()); }
  const std::string& path(uint32_t file) const { return files_[file]->path(); }
  absl::StatusOr<uint32_t> Checksum() const { return ChecksumOf(files_); }

  // Appends the lines of a file, unpacked if it is compressed. If there is a
  // `header` it becomes the first one instead, if there is one. Reads the file
  // once. As Unpacked; DATA_LOSS, naming the line, if one has more than 16 MiB
  // or a quote has no end; the system's code if the file can't be read; what
  // `use` says of a line.
  absl::Status AddFile(uint32_t file, std::string* header = nullptr);
  absl::Status AddFile(uint32_t file, Use use);

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

  absl::Status AddFile(uint32_t file, std::string* header, Use use);
  bool IsBlank(absl::string_view line) const;
  // Behind the byte order mark, if the file has one.
  absl::StatusOr<uint64_t> FirstByte(uint32_t file) const;
  using UseLine =
      absl::FunctionRef<absl::Status(const Line& line, absl::string_view text)>;
  absl::Status FindLines(uint32_t file, UseLine use);
  absl::Status FindMessages(const InputFile& messages, uint32_t file,
                            UseLine use);

  const Options options_;
  std::vector<std::unique_ptr<InputFile>> files_;
  std::vector<Line> lines_;
  std::vector<uint64_t> starts_;
};

}  // namespace paramd

#endif  // PARAMD_INPUT_TEXT_LINES_H_
