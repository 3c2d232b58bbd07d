#include "input/exif.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace paramd {
namespace {

constexpr int kAsStored = 1;
constexpr uint64_t kOrientationTag = 0x0112;
constexpr uint64_t kShort = 3;  // A type: 16 bits.
constexpr absl::string_view kJpeg = "\xff\xd8";
constexpr absl::string_view kPng = "\x89PNG\r\n\x1a\n";
constexpr absl::string_view kExif("Exif\0\0", 6);

// A number of so many bytes; 0 beyond the end.
uint64_t Number(absl::string_view bytes, uint64_t at, int count, bool is_big) {
  if (at > bytes.size() || bytes.size() - at < static_cast<size_t>(count)) {
    return 0;
  }
  uint64_t number = 0;
  for (int i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned char>(
        bytes[at + static_cast<uint64_t>(is_big ? i : count - 1 - i)]);
    number = number << 8 | byte;
  }
  return number;
}

// Of a TIFF directory, the form of Exif data.
int OfTiff(absl::string_view tiff) {
  const bool is_big = absl::StartsWith(tiff, "MM");
  if (!is_big && !absl::StartsWith(tiff, "II")) return kAsStored;
  const uint64_t directory = Number(tiff, 4, 4, is_big);
  const uint64_t entries = Number(tiff, directory, 2, is_big);
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t entry = directory + 2 + 12 * i;
    if (Number(tiff, entry, 2, is_big) != kOrientationTag ||
        Number(tiff, entry + 2, 2, is_big) != kShort) {
      continue;
    }
    const uint64_t orientation = Number(tiff, entry + 8, 2, is_big);
    return orientation >= 1 && orientation <= 8 ? static_cast<int>(orientation)
                                                : kAsStored;
  }
  return kAsStored;
}

// Marker by marker, as far as the first scan.
int OfJpeg(absl::string_view file) {
  for (uint64_t at = 2; at + 4 <= file.size();) {
    const auto marker = static_cast<unsigned char>(file[at + 1]);
    if (static_cast<unsigned char>(file[at]) != 0xff) return kAsStored;
    if (marker == 0xff) {  // Padding.
      ++at;
      continue;
    }
    if (marker == 0xda || marker == 0xd9) return kAsStored;
    const uint64_t size = Number(file, at + 2, 2, /*is_big=*/true);
    if (size < 2 || size > file.size() - at - 2) return kAsStored;
    const absl::string_view segment = file.substr(at + 4, size - 2);
    if (marker == 0xe1 && absl::StartsWith(segment, kExif)) {
      return OfTiff(segment.substr(kExif.size()));
    }
    at += 2 + size;
  }
  return kAsStored;
}

// Chunk by chunk.
int OfPng(absl::string_view file) {
  for (uint64_t at = kPng.size(); at + 12 <= file.size();) {
    const uint64_t size = Number(file, at, 4, /*is_big=*/true);
    if (size > file.size() - at - 12) return kAsStored;
    if (file.substr(at + 4, 4) == "eXIf") {
      return OfTiff(file.substr(at + 8, size));
    }
    at += 12 + size;
  }
  return kAsStored;
}

}  // namespace

int ExifOrientation(absl::Span<const std::byte> file) {
  const absl::string_view bytes(reinterpret_cast<const char*>(file.data()),
                                file.size());
  if (absl::StartsWith(bytes, kJpeg)) return OfJpeg(bytes);
  if (absl::StartsWith(bytes, kPng)) return OfPng(bytes);
  return kAsStored;
}

void Orient(int orientation, const OwnedTensor& in, OwnedTensor* out) {
  const uint64_t height = in.dims()[0];
  const uint64_t width = in.dims()[1];
  const uint64_t channels = in.dims()[2];
  // Of 5 to 8 the stored rows are columns of what is seen.
  const bool is_turned = orientation >= 5;
  // Where the stored image's rows and columns run against what is seen.
  const bool rows_back = orientation == 3 || orientation == 4 ||
                         orientation == 6 || orientation == 7;
  const bool columns_back = orientation == 2 || orientation == 3 ||
                            orientation == 7 || orientation == 8;
  out->Reset(DType::kUInt8, {is_turned ? width : height,
                             is_turned ? height : width, channels});
  const uint8_t* const from = in.values<uint8_t>().data();
  uint8_t* to = out->values<uint8_t>().data();
  for (uint64_t y = 0; y < out->dims()[0]; ++y) {
    for (uint64_t x = 0; x < out->dims()[1]; ++x, to += channels) {
      uint64_t row = is_turned ? x : y;
      uint64_t column = is_turned ? y : x;
      if (rows_back) row = height - 1 - row;
      if (columns_back) column = width - 1 - column;
      std::memcpy(to, from + (row * width + column) * channels, channels);
    }
  }
}

}  // namespace paramd
