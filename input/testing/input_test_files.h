#ifndef PARAMD_INPUT_TESTING_INPUT_TEST_FILES_H_
#define PARAMD_INPUT_TESTING_INPUT_TEST_FILES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace paramd {

// The bytes of files, as other programs write them.

// A PNG or JPEG file of an image [height, width, channels] of 1 or 3 channels,
// or 4 of inks in a JPEG file, as Adobe writes them.
std::string PngBytes(uint32_t height, uint32_t width, uint32_t channels,
                     const std::vector<uint8_t>& pixels);
std::string JpegBytes(uint32_t height, uint32_t width, uint32_t channels,
                      const std::vector<uint8_t>& pixels);
// A PNG file of samples of any form: `bits` of each of `channels` in rows of
// bytes as the format has them, behind `chunks` (each a name of 4 letters and
// content).
struct PngForm {
  uint32_t height = 1;
  uint32_t width = 1;
  uint8_t bits = 8;
  uint8_t colour = 0;  // 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGBA.
};
std::string PngOfForm(
    const PngForm& form, const std::vector<std::string>& rows,
    const std::vector<std::pair<std::string, std::string>>& chunks = {});
// A progressive JPEG file of 8 x 8 grey pixels in so many scans, at most 704.
std::string JpegOfScans(size_t scans);

// An .npy file of version 1: type "<f4", shape "(3, 2)", and the values' bytes.
std::string NpyBytes(const std::string& type, const std::string& shape,
                     const std::string& values);
template <class T>
std::string ValueBytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

// A ZIP file of these (name, content); deflated or stored.
std::string ZipBytes(
    const std::vector<std::pair<std::string, std::string>>& members,
    bool deflated);

// A record of a TFRecord file.
std::string TfRecordBytes(const std::string& data);
// The features of a tf.Example, and one made of them.
std::string FloatFeature(const std::string& name, std::vector<float> values);
std::string Int64Feature(const std::string& name, std::vector<int64_t> values);
std::string BytesFeature(const std::string& name, const std::string& value);
std::string TfExample(const std::vector<std::string>& features);

}  // namespace paramd

#endif  // PARAMD_INPUT_TESTING_INPUT_TEST_FILES_H_
