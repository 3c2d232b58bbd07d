#include "worker/input/decode_image.h"

#include <jpeglib.h>
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

absl::Status TooLarge(uint64_t width, uint64_t height) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the image has ", width, "x", height, " pixels; at most ",
                   kMaxPixels, " are admitted"));
}

// ---- JPEG: libjpeg reports errors by a call that must not return ------------

// A progressive image is gone through once for each scan, however few bytes that
// has; encoders write about ten.
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

// Nothing here has a destructor: longjmp would pass it by.
bool ReadJpeg(jpeg_decompress_struct* jpeg, JpegErrors* errors,
              absl::Span<const std::byte> bytes, uint32_t channels,
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
  jpeg->out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
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
  const absl::Status status =
      done        ? absl::OkStatus()
      : too_large ? TooLarge(jpeg.image_width, jpeg.image_height)
                  : absl::DataLossError(
                        absl::StrCat("libjpeg finds \"", errors.message, "\""));
  jpeg_destroy_decompress(&jpeg);
  return status;
}

// ---- PNG: the simplified interface ------------------------------------------

absl::Status DecodePng(absl::Span<const std::byte> bytes, uint32_t channels,
                       OwnedTensor* out) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  const auto fail = [&png] {
    const absl::Status status =
        absl::DataLossError(absl::StrCat("libpng finds \"", png.message, "\""));
    png_image_free(&png);
    return status;
  };
  if (png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()) == 0) {
    return fail();
  }
  if (uint64_t{png.width} * png.height > kMaxPixels) {
    png_image_free(&png);
    return TooLarge(png.width, png.height);
  }
  // Colour is read as colour and made grey below: libpng's own grey depends on
  // gamma.
  const bool grey = channels == 1 && (png.format & PNG_FORMAT_FLAG_COLOR) == 0;
  png.format = grey ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  const uint32_t read = grey ? 1 : 3;
  out->Reset(DType::kUInt8, {png.height, png.width, read});
  const png_color black = {0, 0, 0};
  if (png_image_finish_read(&png, &black, out->values<uint8_t>().data(),
                            static_cast<png_int_32>(png.width * read),
                            nullptr) == 0) {
    return fail();
  }
  if (read == channels) return absl::OkStatus();
  // ITU-R BT.601, as libjpeg.
  uint8_t* to = out->values<uint8_t>().data();
  const uint8_t* from = to;
  const uint64_t pixels = uint64_t{png.width} * png.height;
  for (uint64_t i = 0; i < pixels; ++i, from += 3) {
    to[i] = static_cast<uint8_t>(
        (299u * from[0] + 587u * from[1] + 114u * from[2] + 500u) / 1000u);
  }
  out->Reset(DType::kUInt8, {png.height, png.width, 1});
  return absl::OkStatus();
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

}  // namespace paramd
