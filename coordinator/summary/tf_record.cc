#include "coordinator/summary/tf_record.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/crc32c.h"

namespace paramd {
namespace {

constexpr size_t kHeadBytes = 12;   // The length and its checksum.
constexpr size_t kFrameBytes = 16;  // And the data's.

uint32_t SumOf(absl::string_view bytes) {
  return MaskedCrc32c(
      Crc32c({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}));
}

template <typename Number>
void AppendLittleEndian(Number number, std::string* out) {
  for (size_t i = 0; i < sizeof(number); ++i) {
    out->push_back(static_cast<char>(number >> (8 * i)));
  }
}

}  // namespace

std::string TfRecord(absl::string_view data) {
  std::string record;
  AppendLittleEndian(uint64_t{data.size()}, &record);
  AppendLittleEndian(SumOf(record), &record);
  absl::StrAppend(&record, data);
  AppendLittleEndian(SumOf(data), &record);
  return record;
}

absl::optional<absl::string_view> TakeTfRecord(absl::string_view* rest) {
  if (rest->size() < kFrameBytes) return absl::nullopt;
  uint64_t length = 0;
  for (size_t i = 0; i < sizeof(length); ++i) {
    length |= uint64_t{static_cast<uint8_t>((*rest)[i])} << (8 * i);
  }
  if (length > rest->size() - kFrameBytes) return absl::nullopt;
  const absl::string_view data = rest->substr(kHeadBytes, length);
  if (!absl::StartsWith(*rest, TfRecord(data))) return absl::nullopt;
  rest->remove_prefix(kFrameBytes + length);
  return data;
}

}  // namespace paramd
