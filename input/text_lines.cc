#include "input/text_lines.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"
#include "input/unpack.h"

namespace paramd {
namespace {

constexpr uint64_t kMostLineBytes = uint64_t{16} << 20;
// What some programs put before a text in UTF-8.
constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

absl::Span<std::byte> BytesOf(char* text, uint64_t bytes) {
  return absl::MakeSpan(reinterpret_cast<std::byte*>(text), bytes);
}

// Goes through a file line by line. In memory are a piece of it and the line.
class LineScanner {
 public:
  LineScanner(const InputFile& file, uint64_t begin)
      : file_(file), buffer_at_(begin) {}

  // The line: its number in the file, from 1, its place, and its text without
  // its end, which is valid until the next call.
  uint64_t number() const { return number_; }
  uint64_t place() const { return buffer_at_ + begin_; }
  absl::string_view text() const {
    return absl::string_view(buffer_).substr(begin_, end_ - begin_);
  }

  // Goes on to the next line; false if there is none.
  absl::StatusOr<bool> Next() {
    begin_ = next_;
    number_ = ends_ + 1;
    return GoOn();
  }

  // Adds the line behind it to the line, with the end that is between them;
  // false if there is none. DATA_LOSS if it gets longer than is admitted.
  absl::StatusOr<bool> GoOn() {
    size_t at = next_;
    for (;;) {
      while (at < buffer_.size() && buffer_[at] != '\n' &&
             buffer_[at] != '\r') {
        ++at;
      }
      if (at - begin_ > kMostLineBytes) {
        return absl::DataLossError(absl::StrCat(
            "'", file_.path(), "' line ", number_, " has more than the ",
            kMostLineBytes, " bytes that are admitted"));
      }
      // What is behind \r says whether it is half of an end.
      const bool is_end = at + 1 < buffer_.size() ||
                          (at < buffer_.size() && buffer_[at] == '\n');
      if (is_end || AtEnd()) break;
      at -= begin_;
      RETURN_IF_ERROR(Fill());
    }
    if (next_ == buffer_.size()) return false;
    end_ = at;
    ++ends_;
    next_ = at +
            (absl::StartsWith(absl::string_view(buffer_).substr(at), "\r\n") ? 2
             : at < buffer_.size()                                           ? 1
                                   : 0);
    return true;
  }

 private:
  bool AtEnd() const { return buffer_at_ + buffer_.size() >= file_.size(); }

  // Reads one more piece, and drops what is before the line.
  absl::Status Fill() {
    buffer_.erase(0, begin_);
    buffer_at_ += begin_;
    end_ -= begin_;
    next_ -= begin_;
    begin_ = 0;
    const uint64_t have = buffer_.size();
    const uint64_t from = buffer_at_ + have;
    buffer_.resize(have + std::min(kPieceBytes, file_.size() - from));
    return file_.Read(from,
                      BytesOf(buffer_.data() + have, buffer_.size() - have));
  }

  const InputFile& file_;
  std::string buffer_;
  uint64_t buffer_at_;  // In the file.
  // In the buffer: the line, and what is behind its end.
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t next_ = 0;
  uint64_t number_ = 0;
  uint64_t ends_ = 0;  // Of lines, before `next_`.
};

}  // namespace

absl::Status TextLines::AddFile(uint32_t file, std::string* header) {
  return AddFile(file, header,
                 [](uint64_t, absl::string_view) { return absl::OkStatus(); });
}

absl::Status TextLines::AddFile(uint32_t file, Use use) {
  return AddFile(file, nullptr, use);
}

absl::Status TextLines::AddFile(uint32_t file, std::string* header, Use use) {
  const auto add = [&](const Line& line, absl::string_view text) {
    if (header != nullptr) {
      *header = std::string(text);
      header = nullptr;
      return absl::OkStatus();
    }
    lines_.push_back(line);
    return use(lines_.size() - 1, text);
  };
  const uint64_t first = lines_.size();
  if (files_[file]->has_messages()) {
    RETURN_IF_ERROR(FindMessages(*files_[file], file, add));
  } else {
    ASSIGN_OR_RETURN(files_[file], Unpacked(std::move(files_[file])));
    RETURN_IF_ERROR(FindLines(file, add));
  }
  if (lines_.size() > first) starts_.push_back(first);
  return absl::OkStatus();
}

std::string TextLines::Where(uint64_t line) const {
  const InputFile& file = *files_[lines_[line].file];
  if (file.has_messages()) return file.WhereMessage(lines_[line].number - 1);
  return absl::StrCat("'", path(lines_[line].file), "' line ",
                      lines_[line].number);
}

absl::StatusOr<std::string> TextLines::Read(uint64_t line) const {
  const Line& one = lines_[line];
  std::string text(one.bytes, '\0');
  RETURN_IF_ERROR(
      files_[one.file]->Read(one.begin, BytesOf(text.data(), text.size())));
  return text;
}

bool TextLines::IsBlank(absl::string_view line) const {
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(line);
  if (!text.empty()) {
    return options_.comment != 0 && text[0] == options_.comment;
  }
  return !options_.columns.has_value() ||
         !absl::StrContains(line, options_.columns->separator);
}

absl::StatusOr<uint64_t> TextLines::FirstByte(uint32_t file) const {
  std::string begin(kByteOrderMark.size(), '\0');
  if (files_[file]->size() < begin.size()) return 0;
  RETURN_IF_ERROR(files_[file]->Read(0, BytesOf(begin.data(), begin.size())));
  return begin == kByteOrderMark ? begin.size() : 0;
}

absl::Status TextLines::FindMessages(const InputFile& messages, uint32_t file,
                                     UseLine use) {
  std::string text;
  uint32_t number = 0;
  for (const InputFile::Message& message : messages.messages()) {
    text.resize(message.bytes);
    RETURN_IF_ERROR(
        messages.Read(message.begin, BytesOf(text.data(), text.size())));
    absl::string_view line = text;
    if (absl::ConsumeSuffix(&line, "\n")) absl::ConsumeSuffix(&line, "\r");
    RETURN_IF_ERROR(
        use({file, ++number, message.begin, static_cast<uint32_t>(line.size())},
            line));
  }
  return absl::OkStatus();
}

absl::Status TextLines::FindLines(uint32_t file, UseLine use) {
  ASSIGN_OR_RETURN(const uint64_t first, FirstByte(file));
  LineScanner lines(*files_[file], first);
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, lines.Next());
    if (!more) return absl::OkStatus();
    bool in_quote =
        options_.columns.has_value() &&
        EndsInQuote(lines.text(), *options_.columns, /*in_quote=*/false);
    while (in_quote) {
      const size_t had = lines.text().size();
      const auto goes_on = lines.GoOn();
      if (absl::IsDataLoss(goes_on.status())) {
        return absl::DataLossError(
            absl::StrCat(goes_on.status().message(), kIfNoQuotes));
      }
      RETURN_IF_ERROR(goes_on.status());
      if (!*goes_on) {
        std::vector<std::string> values;
        const absl::Status why =
            SplitColumns(lines.text(), *options_.columns, &values);
        return absl::DataLossError(absl::StrCat(
            "'", path(file), "' line ", lines.number(), ": ", why.message()));
      }
      in_quote = EndsInQuote(lines.text().substr(had), *options_.columns,
                             /*in_quote=*/true);
    }
    if (IsBlank(lines.text())) continue;
    RETURN_IF_ERROR(
        use({file, static_cast<uint32_t>(lines.number()), lines.place(),
             static_cast<uint32_t>(lines.text().size())},
            lines.text()));
  }
}

}  // namespace paramd
