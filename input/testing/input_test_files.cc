#include "input/testing/input_test_files.h"

#include <png.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include <jpeglib.h>
#include <zlib.h>

#include "base/crc32c.h"

namespace paramd {
namespace {

template <class T>
std::string Bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string Masked(const std::string& data) {
  const uint32_t crc =
      Crc32c({reinterpret_cast<const std::byte*>(data.data()), data.size()});
  return Bytes<uint32_t>(MaskedCrc32c(crc));
}

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes.push_back(static_cast<char>(value | 0x80));
  }
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

// Field `number` of length-delimited content.
std::string Field(uint32_t number, const std::string& content) {
  return absl::StrCat(Varint(number << 3 | 2), Varint(content.size()), content);
}

std::string Feature(const std::string& name, uint32_t kind,
                    const std::string& list) {
  return Field(1, Field(1, name) + Field(2, Field(kind, list)));
}

}  // namespace

std::string PngBytes(uint32_t height, uint32_t width, uint32_t channels,
                     const std::vector<uint8_t>& pixels) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = width;
  png.height = height;
  png.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  EXPECT_TRUE(
      png_image_write_get_memory_size(png, size, 0, pixels.data(), 0, nullptr));
  std::string bytes(size, '\0');
  EXPECT_TRUE(png_image_write_to_memory(&png, bytes.data(), &size, 0,
                                        pixels.data(), 0, nullptr));
  bytes.resize(size);
  return bytes;
}

std::string PngOfForm(
    const PngForm& form, const std::vector<std::string>& rows,
    const std::vector<std::pair<std::string, std::string>>& chunks) {
  const auto big = [](uint32_t number) {
    std::string bytes = Bytes(number);
    return std::string(bytes.rbegin(), bytes.rend());
  };
  std::string file = "\x89PNG\r\n\x1a\n";
  const auto add = [&](const std::string& name, const std::string& content) {
    const std::string all = name + content;
    absl::StrAppend(&file, big(static_cast<uint32_t>(content.size())), all,
                    big(static_cast<uint32_t>(
                        crc32(0, reinterpret_cast<const Bytef*>(all.data()),
                              static_cast<uInt>(all.size())))));
  };
  add("IHDR", big(form.width) + big(form.height) +
                  std::string{static_cast<char>(form.bits),
                              static_cast<char>(form.colour), 0, 0, 0});
  for (const auto& [name, content] : chunks) add(name, content);
  std::string filtered;
  for (const std::string& row : rows) {
    filtered.push_back(0);  // No filter.
    filtered += row;
  }
  std::string packed(compressBound(filtered.size()), '\0');
  uLongf size = packed.size();
  EXPECT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                     reinterpret_cast<const Bytef*>(filtered.data()),
                     filtered.size()),
            Z_OK);
  add("IDAT", packed.substr(0, size));
  add("IEND", "");
  return file;
}

namespace {

std::string CompressJpeg(uint32_t height, uint32_t width, uint32_t channels,
                         const std::vector<uint8_t>& pixels,
                         const std::vector<jpeg_scan_info>& scans) {
  jpeg_compress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type.
  jpeg_mem_dest(&jpeg, &buffer, &size);
  jpeg.image_width = width;
  jpeg.image_height = height;
  jpeg.input_components = static_cast<int>(channels);
  jpeg.in_color_space = channels == 1   ? JCS_GRAYSCALE
                        : channels == 4 ? JCS_CMYK
                                        : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, channels == 4 ? 100 : 95, TRUE);
  if (!scans.empty()) {
    jpeg.scan_info = scans.data();
    jpeg.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&jpeg, TRUE);
  for (uint32_t y = 0; y < height; ++y) {
    auto* row = const_cast<uint8_t*>(pixels.data() + y * width * channels);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string bytes(reinterpret_cast<char*>(buffer), size);
  jpeg_destroy_compress(&jpeg);
  std::free(buffer);
  return bytes;
}

}  // namespace

std::string JpegBytes(uint32_t height, uint32_t width, uint32_t channels,
                      const std::vector<uint8_t>& pixels) {
  return CompressJpeg(height, width, channels, pixels, {});
}

std::string JpegOfScans(size_t scans) {
  constexpr int kMostBits = 10;  // Of a coefficient that may come later.
  std::vector<jpeg_scan_info> all;
  for (int coefficient = 0; coefficient < 64; ++coefficient) {
    for (int bits = kMostBits; bits >= 0 && all.size() < scans; --bits) {
      all.push_back({.comps_in_scan = 1,
                     .component_index = {},
                     .Ss = coefficient,
                     .Se = coefficient,
                     .Ah = bits == kMostBits ? 0 : bits + 1,
                     .Al = bits});
    }
  }
  return CompressJpeg(8, 8, 1, std::vector<uint8_t>(64, 100), all);
}

std::string NpyBytes(const std::string& type, const std::string& shape,
                     const std::string& values) {
  std::string header =
      absl::StrCat("{'descr': '", type,
                   "', 'fortran_order': False, 'shape': ", shape, ", }");
  header.resize((header.size() + 10 + 64) / 64 * 64 - 10 - 1, ' ');
  header.push_back('\n');
  return absl::StrCat("\x93NUMPY", std::string("\x01\0", 2),
                      Bytes(static_cast<uint16_t>(header.size())), header,
                      values);
}

std::string ZipBytes(
    const std::vector<std::pair<std::string, std::string>>& members,
    bool deflated) {
  std::string out, directory;
  for (const auto& [name, content] : members) {
    std::string packed = content;
    if (deflated) {
      z_stream stream = {};
      EXPECT_EQ(
          deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY),
          Z_OK);
      packed.resize(deflateBound(&stream, content.size()));
      stream.next_in =
          reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
      stream.avail_in = static_cast<uInt>(content.size());
      stream.next_out = reinterpret_cast<Bytef*>(packed.data());
      stream.avail_out = static_cast<uInt>(packed.size());
      EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
      packed.resize(stream.total_out);
      deflateEnd(&stream);
    }
    // Version, flags, method, time, date, crc32, sizes, length of the name.
    const std::string facts = absl::StrCat(
        Bytes<uint16_t>(20), Bytes<uint16_t>(0),
        Bytes<uint16_t>(deflated ? 8 : 0), Bytes<uint32_t>(0),
        Bytes(static_cast<uint32_t>(
            crc32(0, reinterpret_cast<const Bytef*>(content.data()),
                  static_cast<uInt>(content.size())))),
        Bytes(static_cast<uint32_t>(packed.size())),
        Bytes(static_cast<uint32_t>(content.size())),
        Bytes(static_cast<uint16_t>(name.size())), Bytes<uint16_t>(0));
    absl::StrAppend(&directory, Bytes<uint32_t>(0x02014b50),
                    Bytes<uint16_t>(20), facts, std::string(10, '\0'),
                    Bytes(static_cast<uint32_t>(out.size())), name);
    absl::StrAppend(&out, Bytes<uint32_t>(0x04034b50), facts, name, packed);
  }
  const auto count = static_cast<uint16_t>(members.size());
  return absl::StrCat(out, directory, Bytes<uint32_t>(0x06054b50),
                      Bytes<uint32_t>(0), Bytes(count), Bytes(count),
                      Bytes(static_cast<uint32_t>(directory.size())),
                      Bytes(static_cast<uint32_t>(out.size())),
                      Bytes<uint16_t>(0));
}

std::string TfRecordBytes(const std::string& data) {
  const std::string length = Bytes<uint64_t>(data.size());
  return absl::StrCat(length, Masked(length), data, Masked(data));
}

std::string FloatFeature(const std::string& name, std::vector<float> values) {
  return Feature(name, 2, Field(1, ValueBytes(values)));
}

std::string Int64Feature(const std::string& name, std::vector<int64_t> values) {
  std::string packed;
  for (const int64_t value : values) {
    packed += Varint(static_cast<uint64_t>(value));
  }
  return Feature(name, 3, Field(1, packed));
}

std::string BytesFeature(const std::string& name, const std::string& value) {
  return Feature(name, 1, Field(1, value));
}

std::string TfExample(const std::vector<std::string>& features) {
  std::string all;
  for (const std::string& feature : features) all += feature;
  return Field(1, all);
}

}  // namespace paramd
