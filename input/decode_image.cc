#include "input/decode_image.h"

#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include <jpeglib.h>

#include "base/status_macros.h"
#include "input/exif.h"

namespace paramd {
namespace {

absl::Status TooLarge(uint64_t width, uint64_t height) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the image has ", width, "x", height, " pixels; at most ",
                   kMaxPixels, " are admitted"));
}

// A header of a few bytes takes no memory for an image that can't follow.
constexpr char kTooShort[] = "the file ends too early";
// Huffman codes take a bit at least, and each block of 64 pixels has one.
constexpr uint64_t kMostPixelsOfByte = uint64_t{64} * 8;
// Deflate makes no more of a byte (zlib.net, "Technical Details").
constexpr uint64_t kMostBytesOfByte = 1032;

// By ITU-R BT.601, as PIL rounds it.
void ToGrey(OwnedTensor* image) {
  uint8_t* to = image->values<uint8_t>().data();
  const uint8_t* from = to;
  const uint64_t pixels = image->dims()[0] * image->dims()[1];
  for (uint64_t i = 0; i < pixels; ++i, from += 3) {
    to[i] = static_cast<uint8_t>(
        (19595u * from[0] + 38470u * from[1] + 7471u * from[2] + 0x8000u) >>
        16);
  }
  image->Reset(DType::kUInt8, {image->dims()[0], image->dims()[1], 1});
}

// Of cyan, magenta, yellow and black; Adobe's files have how little of each.
void ToColour(bool is_adobe, OwnedTensor* image) {
  uint8_t* to = image->values<uint8_t>().data();
  const uint8_t* from = to;
  const uint64_t pixels = image->dims()[0] * image->dims()[1];
  for (uint64_t i = 0; i < pixels; ++i, from += 4, to += 3) {
    const uint32_t light = is_adobe ? from[3] : 255u - from[3];
    for (int c = 0; c < 3; ++c) {
      const uint32_t part = is_adobe ? from[c] : 255u - from[c];
      to[c] = static_cast<uint8_t>(part * light / 255);
    }
  }
  image->Reset(DType::kUInt8, {image->dims()[0], image->dims()[1], 3});
}

// ---- JPEG: libjpeg reports errors by a call that must not return ------------

// A progressive image is gone through once for each scan, however few bytes
// that has; encoders write about ten.
constexpr int kMostScans = 100;

struct JpegErrors {
  jpeg_error_mgr base;  // First: libjpeg hands over a pointer to it.
  std::jmp_buf jump;
  jpeg_progress_mgr scans;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void FailJpeg(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->jump, 1);
}

// A warning is of damaged data that libjpeg would guess around.
void WarnJpeg(j_common_ptr info, int level) {
  if (level < 0) FailJpeg(info);
}

// Called between the scans, and more often.
void CheckScans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <=
      kMostScans) {
    return;
  }
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  std::snprintf(errors->message, sizeof(errors->message), "more than %d scans",
                kMostScans);
  std::longjmp(errors->jump, 1);
}

// What `out` has: a grey image, one of colours, or the four inks.
uint32_t ChannelsOf(const jpeg_decompress_struct& jpeg, uint32_t wanted) {
  const bool is_inks =
      jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
  return is_inks ? 4 : wanted;
}

// Nothing here has a destructor: longjmp would pass it by.
bool ReadJpeg(jpeg_decompress_struct* jpeg, JpegErrors* errors,
              absl::Span<const std::byte> bytes, uint32_t wanted,
              OwnedTensor* out, bool* too_large) {
  if (setjmp(errors->jump) != 0) return false;
  jpeg_create_decompress(jpeg);
  jpeg->progress = &errors->scans;
  jpeg_mem_src(jpeg, reinterpret_cast<const unsigned char*>(bytes.data()),
               bytes.size());
  jpeg_read_header(jpeg, TRUE);
  const uint64_t pixels =
      uint64_t{jpeg->image_width} * uint64_t{jpeg->image_height};
  *too_large = pixels > kMaxPixels;
  if (*too_large) return false;
  if (jpeg->arith_code == 0 && pixels > kMostPixelsOfByte * bytes.size()) {
    std::snprintf(errors->message, sizeof(errors->message), "%s", kTooShort);
    return false;
  }
  const uint32_t channels = ChannelsOf(*jpeg, wanted);
  jpeg->out_color_space = channels == 4   ? JCS_CMYK
                          : channels == 1 ? JCS_GRAYSCALE
                                          : JCS_RGB;
  jpeg_start_decompress(jpeg);
  out->Reset(DType::kUInt8,
             {jpeg->output_height, jpeg->output_width, channels});
  uint8_t* row = out->values<uint8_t>().data();
  const size_t width = size_t{jpeg->output_width} * channels;
  while (jpeg->output_scanline < jpeg->output_height) {
    jpeg_read_scanlines(jpeg, &row, 1);
    row += width;
  }
  jpeg_finish_decompress(jpeg);
  return true;
}

absl::Status DecodeJpeg(absl::Span<const std::byte> bytes, uint32_t channels,
                        OwnedTensor* out) {
  jpeg_decompress_struct jpeg = {};
  JpegErrors errors = {};
  jpeg.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = FailJpeg;
  errors.base.emit_message = WarnJpeg;
  errors.scans.progress_monitor = CheckScans;
  bool too_large = false;
  const bool done = ReadJpeg(&jpeg, &errors, bytes, channels, out, &too_large);
  if (done && out->dims()[2] == 4) {
    ToColour(jpeg.saw_Adobe_marker != 0, out);
    if (channels == 1) ToGrey(out);
  }
  const absl::Status status =
      done        ? absl::OkStatus()
      : too_large ? TooLarge(jpeg.image_width, jpeg.image_height)
                  : absl::DataLossError(
                        absl::StrCat("libjpeg finds \"", errors.message, "\""));
  jpeg_destroy_decompress(&jpeg);
  return status;
}

// ---- PNG: libpng reports errors so, too -------------------------------------

struct PngReader {
  absl::Span<const std::byte> left;
  std::jmp_buf jump;
  char message[128];
};

[[noreturn]] void FailPng(png_structp png, png_const_charp message) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader->message, sizeof(reader->message), "%s", message);
  std::longjmp(reader->jump, 1);
}

// Of what does not concern the pixels.
void WarnPng(png_structp, png_const_charp) {}

void TakePngBytes(png_structp png, png_bytep out, size_t size) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (size > reader->left.size()) png_error(png, kTooShort);
  std::memcpy(out, reader->left.data(), size);
  reader->left.remove_prefix(size);
}

// What is to be made of the samples, of which nothing depends on a gamma: grey
// or red, green and blue, of 8 bits each.
void ChoosePngFormat(png_structp png, png_infop info, bool grey) {
  png_set_strip_16(png);
  png_set_palette_to_rgb(png);
  png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_alpha(png);
  if (!grey) png_set_gray_to_rgb(png);
  png_read_update_info(png, info);
}

// Nothing here has a destructor: longjmp would pass it by.
bool ReadPng(png_structp png, png_infop info, PngReader* reader,
             uint32_t wanted, OwnedTensor* out, bool* too_large) {
  if (setjmp(reader->jump) != 0) return false;
  png_set_read_fn(png, reader, TakePngBytes);
  png_set_benign_errors(png, 1);  // As warnings.
  // Of what does not concern the pixels nothing is read: libpng takes memory
  // for as much as a chunk says it has.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(png, info);
  const uint32_t width = png_get_image_width(png, info);
  const uint32_t height = png_get_image_height(png, info);
  *too_large = uint64_t{width} * height > kMaxPixels;
  if (*too_large) return false;
  if (png_get_rowbytes(png, info) * uint64_t{height} >
      kMostBytesOfByte * reader->left.size()) {
    png_error(png, kTooShort);
  }
  // Colour is read as colour and made grey later.
  const bool grey = wanted == 1 &&
                    (png_get_color_type(png, info) & PNG_COLOR_MASK_COLOR) == 0;
  const int passes = png_set_interlace_handling(png);
  ChoosePngFormat(png, info, grey);
  const uint32_t channels = grey ? 1 : 3;
  if (png_get_rowbytes(png, info) != size_t{width} * channels) {
    png_error(png, "samples of an unknown form");
  }
  out->Reset(DType::kUInt8, {height, width, channels});
  // A pass fills in the pixels that it has.
  for (int pass = 0; pass < passes; ++pass) {
    uint8_t* row = out->values<uint8_t>().data();
    for (uint32_t y = 0; y < height; ++y, row += size_t{width} * channels) {
      png_read_row(png, row, nullptr);
    }
  }
  png_read_end(png, nullptr);
  return true;
}

absl::Status DecodePng(absl::Span<const std::byte> bytes, uint32_t channels,
                       OwnedTensor* out) {
  PngReader reader = {.left = bytes, .jump = {}, .message = {}};
  png_structp png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, FailPng, WarnPng);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  if (info == nullptr) {
    png_destroy_read_struct(&png, nullptr, nullptr);
    return absl::ResourceExhaustedError("there is no memory to read a PNG");
  }
  bool too_large = false;
  const bool done = ReadPng(png, info, &reader, channels, out, &too_large);
  const absl::Status status =
      done        ? absl::OkStatus()
      : too_large ? TooLarge(png_get_image_width(png, info),
                             png_get_image_height(png, info))
                  : absl::DataLossError(
                        absl::StrCat("libpng finds \"", reader.message, "\""));
  png_destroy_read_struct(&png, &info, nullptr);
  if (done && channels == 1 && out->dims()[2] == 3) ToGrey(out);
  return status;
}

}  // namespace

absl::Status DecodeImage(absl::Span<const std::byte> bytes, uint32_t channels,
                         OwnedTensor* out) {
  const auto begins = [&bytes](const char* magic, size_t size) {
    return bytes.size() >= size && std::memcmp(bytes.data(), magic, size) == 0;
  };
  if (begins("\xff\xd8\xff", 3)) return DecodeJpeg(bytes, channels, out);
  if (begins("\x89PNG\r\n\x1a\n", 8)) return DecodePng(bytes, channels, out);
  return absl::DataLossError(
      absl::StrCat("neither PNG nor JPEG: it has ", bytes.size(), " bytes"));
}

absl::Status DecodeUpright(absl::Span<const std::byte> bytes, uint32_t channels,
                           OwnedTensor* out) {
  RETURN_IF_ERROR(DecodeImage(bytes, channels, out));
  const int orientation = ExifOrientation(bytes);
  if (orientation == 1) return absl::OkStatus();
  OwnedTensor turned;
  Orient(orientation, *out, &turned);
  *out = std::move(turned);
  return absl::OkStatus();
}

}  // namespace paramd
