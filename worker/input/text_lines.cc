#include "worker/input/text_lines.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/status_macros.h"

namespace paramd {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
constexpr uint64_t kMostLineBytes = uint64_t{16} << 20;
// What some programs put before a text in UTF-8.
constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

absl::Span<std::byte> BytesOf(std::string* text, uint64_t bytes) {
  return absl::MakeSpan(reinterpret_cast<std::byte*>(text->data()), bytes);
}

}  // namespace

absl::Status TextLines::AddFile(uint32_t file, std::string* header) {
  const uint64_t first = lines_.size();
  RETURN_IF_ERROR(CheckIsUnpacked(*files_[file]));
  RETURN_IF_ERROR(FindLines(file));
  if (header != nullptr && lines_.size() > first) {
    const auto line = lines_.begin() + static_cast<ptrdiff_t>(first);
    ASSIGN_OR_RETURN(*header, Read(*line));
    lines_.erase(line);
  }
  if (lines_.size() > first) starts_.push_back(first);
  return absl::OkStatus();
}

std::string TextLines::Where(uint64_t line) const {
  return absl::StrCat("'", path(lines_[line].file), "' line ",
                      lines_[line].number);
}

absl::StatusOr<std::string> TextLines::Read(uint64_t line) const {
  return Read(lines_[line]);
}

absl::StatusOr<std::string> TextLines::Read(const Line& line) const {
  std::string text(line.bytes, '\0');
  RETURN_IF_ERROR(
      files_[line.file]->Read(line.begin, BytesOf(&text, text.size())));
  if (!text.empty() && text.back() == '\r') text.pop_back();
  return text;
}

absl::StatusOr<uint64_t> TextLines::FirstByte(uint32_t file) const {
  std::string begin(kByteOrderMark.size(), '\0');
  if (files_[file]->size() < begin.size()) return 0;
  RETURN_IF_ERROR(files_[file]->Read(0, BytesOf(&begin, begin.size())));
  return begin == kByteOrderMark ? begin.size() : 0;
}

absl::Status TextLines::FindLines(uint32_t file) {
  const uint64_t size = files_[file]->size();
  std::string piece(std::min(kPieceBytes, size), '\0');
  ASSIGN_OR_RETURN(const uint64_t first, FirstByte(file));
  uint64_t begin = first;
  uint32_t number = 1;
  bool blank = true;
  const auto end_line = [&](uint64_t end) -> absl::Status {
    if (end - begin > kMostLineBytes) {
      return absl::DataLossError(absl::StrCat(
          "'", path(file), "' line ", number, " has ", end - begin,
          " bytes; at most ", kMostLineBytes, " are admitted"));
    }
    if (!blank) {
      lines_.push_back(
          {file, number, begin, static_cast<uint32_t>(end - begin)});
    }
    return absl::OkStatus();
  };
  for (uint64_t at = first; at < size; at += kPieceBytes) {
    const uint64_t bytes = std::min(kPieceBytes, size - at);
    RETURN_IF_ERROR(files_[file]->Read(at, BytesOf(&piece, bytes)));
    for (uint64_t i = 0; i < bytes; ++i) {
      if (piece[i] == '\n') {
        RETURN_IF_ERROR(end_line(at + i));
        begin = at + i + 1;
        ++number;
        blank = true;
      } else if (!absl::ascii_isspace(static_cast<unsigned char>(piece[i]))) {
        blank = false;
      }
    }
  }
  return end_line(size);
}

}  // namespace paramd
