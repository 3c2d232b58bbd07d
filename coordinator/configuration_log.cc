#include "coordinator/configuration_log.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/util/json_util.h"

#include "base/crc32c.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "checkpoint/file_error.h"
#include "tensor/buffer.h"

namespace paramd {
namespace {

// A layout of a million slices fits; more is damage.
constexpr uint64_t kMaxEntryBytes = uint64_t{256} << 20;
constexpr char kTemporary[] = ".tmp-";

// "crc32c=0123abcd bytes=42\n": of the JSON that follows.
std::string FirstLine(const std::string& json) {
  return absl::StrFormat("crc32c=%08x bytes=%d\n",
                         Crc32c(AsBytes<char>({json.data(), json.size()})),
                         json.size());
}

absl::StatusOr<std::string> EncodeEntry(const v1::LogEntry& entry) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status =
      google::protobuf::util::MessageToJsonString(entry, &json, options);
  if (!status.ok() || json.size() > kMaxEntryBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "log entry ", entry.number(), " cannot be written as JSON of at most ",
        kMaxEntryBytes, " bytes"));
  }
  json.push_back('\n');
  return absl::StrCat(FirstLine(json), json);
}

// `random`: a crash leaves the file, so its name is new each time.
std::string TemporaryName(uint64_t number, uint64_t nonce, uint32_t random) {
  return absl::StrFormat("%s%d-%016x-%08x", kTemporary, number, nonce, random);
}

bool IsTemporary(const std::string& name) {
  if (!absl::StartsWith(name, kTemporary)) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(
      absl::string_view(name).substr(sizeof(kTemporary) - 1), '-');
  uint64_t number;
  uint64_t nonce;
  uint32_t random;
  return parts.size() == 3 && absl::SimpleAtoi(parts[0], &number) &&
         absl::SimpleHexAtoi(parts[1], &nonce) &&
         absl::SimpleHexAtoi(parts[2], &random) &&
         name == TemporaryName(number, nonce, random);
}

absl::StatusOr<v1::LogEntry> DecodeEntry(const std::string& text,
                                         uint64_t number) {
  const size_t line_end = text.find('\n');
  const std::string json =
      line_end == std::string::npos ? "" : text.substr(line_end + 1);
  if (json.empty() || text.substr(0, line_end + 1) != FirstLine(json)) {
    return absl::DataLossError("it is not what its checksum says");
  }
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  v1::LogEntry entry;
  const auto status =
      google::protobuf::util::JsonStringToMessage(json, &entry, options);
  if (!status.ok()) {
    return absl::DataLossError(
        absl::StrCat("it is not JSON of an entry: ", status.ToString()));
  }
  if (entry.number() != number) {
    return absl::DataLossError(
        absl::StrCat("it says that its number is ", entry.number()));
  }
  return entry;
}

}  // namespace

DirectoryLog::DirectoryLog(std::string directory)
    : directory_(std::move(directory)) {}

std::string DirectoryLog::PathOf(uint64_t number) const {
  return absl::StrFormat("%s/%08d", directory_, number);
}

absl::StatusOr<std::vector<uint64_t>> DirectoryLog::Numbers() const {
  std::vector<uint64_t> numbers;
  const auto names = ListDirectory(directory_);
  if (absl::IsNotFound(names.status())) return numbers;
  RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    uint64_t number;
    if (absl::SimpleAtoi(name, &number) && number > 0 &&
        PathOf(number) == absl::StrCat(directory_, "/", name)) {
      numbers.push_back(number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

absl::StatusOr<v1::LogEntry> DirectoryLog::Read(uint64_t number) const {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadWholeFile(PathOf(number), kMaxEntryBytes + 64));
  auto entry = DecodeEntry(text, number);
  if (entry.ok()) return entry;
  return absl::DataLossError(
      absl::StrCat("configuration log entry ", number, " ('", PathOf(number),
                   "') is damaged: ", entry.status().message()));
}

absl::StatusOr<std::vector<v1::LogEntry>> DirectoryLog::ReadAll() const {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> numbers, Numbers());
  std::vector<v1::LogEntry> entries;
  entries.reserve(numbers.size());
  for (const uint64_t number : numbers) {
    if (number != entries.size() + 1) {
      return absl::DataLossError(
          absl::StrCat("configuration log entry ", entries.size() + 1, " ('",
                       PathOf(entries.size() + 1), "') is missing; there is '",
                       PathOf(number), "'"));
    }
    ASSIGN_OR_RETURN(v1::LogEntry entry, Read(number));
    entries.push_back(std::move(entry));
  }
  return entries;
}

absl::Status DirectoryLog::RemoveCutOff() const {
  const auto names = ListDirectory(directory_);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    if (!IsTemporary(name)) continue;
    RETURN_IF_ERROR(RemoveTree(absl::StrCat(directory_, "/", name)));
  }
  return absl::OkStatus();
}

absl::Status DirectoryLog::WriteAndLink(const v1::LogEntry& entry) {
  ASSIGN_OR_RETURN(const std::string text, EncodeEntry(entry));
  std::random_device random;
  const std::string temporary = absl::StrCat(
      directory_, "/", TemporaryName(entry.number(), entry.nonce(), random()));
  ASSIGN_OR_RETURN(const std::unique_ptr<NewFile> file,
                   NewFile::Create(temporary));
  RETURN_IF_ERROR(file->Append(text));
  RETURN_IF_ERROR(file->Finish());
  const std::string path = PathOf(entry.number());
  const int error = ::link(temporary.c_str(), path.c_str()) == 0 ? 0 : errno;
  RETURN_IF_ERROR(RemoveTree(temporary));
  RETURN_IF_ERROR(SyncDirectory(directory_));
  // Whether it is ours is read, not believed; other errors can't be a success.
  if (error != 0 && error != EEXIST && ::access(path.c_str(), F_OK) != 0) {
    return FileError(error, "link a log entry to", path);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> DirectoryLog::Store(const v1::LogEntry& entry) {
  if (entry.number() == 0) {
    return absl::InvalidArgumentError("log entries are numbered from 1");
  }
  // One that has entries is not made again: it would have none of them.
  if (entry.number() == 1) RETURN_IF_ERROR(MakeDirectories(directory_));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> before, Numbers());
  if (entry.number() > 1 &&
      !std::binary_search(before.begin(), before.end(), entry.number() - 1)) {
    return absl::FailedPreconditionError(
        absl::StrCat("log entry ", entry.number(), " cannot be appended: '",
                     PathOf(entry.number() - 1), "' is missing"));
  }
  RETURN_IF_ERROR(WriteAndLink(entry));
  ASSIGN_OR_RETURN(const v1::LogEntry there, Read(entry.number()));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> after, Numbers());
  if (there.nonce() != entry.nonce()) return "is another coordinator's";
  if (after.empty() || after.back() != entry.number()) {
    return "is not the newest: another coordinator is at work";
  }
  return "";
}

absl::Status DirectoryLog::Append(const v1::LogEntry& entry) {
  const absl::StatusOr<std::string> others = Store(entry);
  // A file server that fails over (ESTALE) is not another coordinator.
  if (absl::IsAborted(others.status())) {
    return absl::UnavailableError(others.status().message());
  }
  RETURN_IF_ERROR(others.status());
  if (others->empty()) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("log entry ", entry.number(), " in '",
                                         directory_, "' ", *others));
}

}  // namespace paramd
