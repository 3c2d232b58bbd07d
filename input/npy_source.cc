#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include <zlib.h>

#include "base/crc32c.h"
#include "base/shorten.h"
#include "base/status_macros.h"
#include "input/file.h"
#include "input/sources.h"
#include "input/transform.h"

namespace paramd {
namespace {

constexpr uint64_t kMostUnpacked = uint64_t{4} << 30;
constexpr uint64_t kMostHeader = uint64_t{1} << 20;
// Arrays of rows smaller than this are kept in memory, as long as they are not
// larger together: to read few bytes takes as long as to compute on them.
constexpr uint64_t kSmallRowBytes = 4096;
constexpr uint64_t kMostKept = uint64_t{256} << 20;

uint32_t LittleEndian(const std::byte* bytes, int count) {
  uint32_t number = 0;
  for (int i = 0; i < count; ++i) {
    number |= static_cast<uint32_t>(bytes[i]) << (8 * i);
  }
  return number;
}

// The bytes of an .npy file: within a file, or in memory.
struct Bytes {
  std::shared_ptr<const InputFile> file;
  uint64_t begin = 0;
  uint64_t size = 0;
  std::shared_ptr<const std::string> content;
  std::string name;  // For sentences.

  absl::Status Read(uint64_t at, absl::Span<std::byte> out) const {
    if (at > size || out.size() > size - at) {
      return absl::DataLossError(
          absl::StrCat("'", name, "' ends at byte ", size, "; ", out.size(),
                       " bytes from byte ", at, " are needed"));
    }
    if (content == nullptr) return file->Read(begin + at, out);
    if (!out.empty()) {
      std::memcpy(out.data(), content->data() + at, out.size());
    }
    return absl::OkStatus();
  }
};

// A type of NumPy's: "<f4".
struct NpyType {
  char kind = 'f';  // f, i, u, or b for bool.
  uint32_t bytes = 4;
  bool is_big = false;  // Most significant byte first.

  // The least of our types that has its values.
  DType dtype() const {
    if (kind == 'f') return bytes == 8 ? DType::kFloat64 : DType::kFloat32;
    if (kind == 'b' || (kind == 'u' && bytes == 1)) return DType::kUInt8;
    return bytes + (kind == 'u' ? 1 : 0) <= 4 ? DType::kInt32 : DType::kInt64;
  }
  // Whether its bytes are those of that type.
  bool is_ours() const {
    return !is_big && bytes == SizeOf(dtype()) && !(kind == 'u' && bytes == 8);
  }
};

struct Array {
  FeatureSpec feature;
  Bytes bytes;
  NpyType stored;
  bool is_fortran = false;  // The first dimension runs fastest.
  uint64_t data = 0;        // Where the values begin.
  uint64_t rows = 0;

  uint64_t row_bytes() const { return feature.size() * stored.bytes; }
};

// ---- ZIP --------------------------------------------------------------------

absl::StatusOr<std::string> Unpack(const Bytes& packed, uint64_t size) {
  if (size > kMostUnpacked) {
    return absl::ResourceExhaustedError(
        absl::StrCat("'", packed.name, "' unpacks to ", size,
                     " bytes; at most ", kMostUnpacked, " are admitted"));
  }
  std::string from(packed.size, '\0');
  RETURN_IF_ERROR(packed.Read(
      0,
      absl::MakeSpan(reinterpret_cast<std::byte*>(from.data()), from.size())));
  std::string to;
  z_stream stream = {};
  inflateInit2(&stream, -15);  // No header: ZIP has its own.
  stream.next_in = reinterpret_cast<Bytef*>(from.data());
  stream.avail_in = static_cast<uInt>(from.size());
  int result = Z_OK;
  // By pieces: the size that the file claims takes no memory by itself.
  while (result == Z_OK && to.size() <= size) {
    const size_t have = to.size();
    to.resize(have + std::min(size - have + 1, kPieceBytes));
    stream.next_out = reinterpret_cast<Bytef*>(to.data() + have);
    stream.avail_out = static_cast<uInt>(to.size() - have);
    result = inflate(&stream, Z_NO_FLUSH);
    to.resize(to.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (result == Z_STREAM_END && to.size() == size) return to;
  return absl::DataLossError(
      absl::StrCat("'", packed.name, "' is damaged: it does not unpack to the ",
                   size, " bytes that the file says"));
}

// Reads the whole of a member: what is damaged in it shows at no other place.
absl::Status CheckCrc(const Bytes& member, uint32_t expected) {
  std::vector<std::byte> piece(std::min(member.size, kPieceBytes));
  uLong found = crc32(0, nullptr, 0);
  for (uint64_t at = 0; at < member.size; at += kPieceBytes) {
    const absl::Span<std::byte> out =
        absl::MakeSpan(piece).subspan(0, member.size - at);
    RETURN_IF_ERROR(member.Read(at, out));
    found = crc32(found, reinterpret_cast<const Bytef*>(out.data()),
                  static_cast<uInt>(out.size()));
  }
  if (found == expected) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "'%s' is damaged: it has the crc32 %08x; the file says %08x", member.name,
      found, expected));
}

absl::Status NoZip(const InputFile& file, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("'", file.path(), "' is no ZIP file: ", what));
}

// The central directory of a ZIP file.
absl::StatusOr<std::vector<std::byte>> ReadZipDirectory(const InputFile& file) {
  // The end record is the last, before a comment of at most 65535 bytes.
  const uint64_t tail_size = std::min<uint64_t>(file.size(), 22 + 65535);
  std::vector<std::byte> tail(tail_size);
  RETURN_IF_ERROR(file.Read(file.size() - tail_size, absl::MakeSpan(tail)));
  int64_t end = static_cast<int64_t>(tail_size) - 22;
  while (end >= 0 &&
         LittleEndian(&tail[static_cast<size_t>(end)], 4) != 0x06054b50) {
    --end;
  }
  if (end < 0) return NoZip(file, "it has no end record");
  const std::byte* record = &tail[static_cast<size_t>(end)];
  const uint32_t size = LittleEndian(record + 12, 4);
  const uint32_t at = LittleEndian(record + 16, 4);
  if (uint64_t{at} + size > file.size()) {
    return NoZip(file, "its directory lies beyond its end");
  }
  std::vector<std::byte> directory(size);
  RETURN_IF_ERROR(file.Read(at, absl::MakeSpan(directory)));
  return directory;
}

// The member of this name, whose entry of the directory this is.
absl::StatusOr<Bytes> OpenMember(std::shared_ptr<const InputFile> file,
                                 const std::string& name,
                                 const std::byte* entry) {
  const uint32_t method = LittleEndian(entry + 10, 2);
  const uint32_t crc = LittleEndian(entry + 16, 4);
  Bytes bytes;
  bytes.name = absl::StrCat(file->path(), ":", Shortened(name));
  bytes.size = LittleEndian(entry + 20, 4);
  const uint64_t unpacked_size = LittleEndian(entry + 24, 4);
  const uint64_t local = LittleEndian(entry + 42, 4);
  if (bytes.size == 0xffffffff || local == 0xffffffff) {
    return absl::UnimplementedError(absl::StrCat(
        "'", bytes.name, "' is of 4 GB or more: keep it as an .npy file"));
  }
  std::byte header[30];
  RETURN_IF_ERROR(file->Read(local, absl::MakeSpan(header)));
  bytes.begin =
      local + 30 + LittleEndian(header + 26, 2) + LittleEndian(header + 28, 2);
  if (bytes.begin + bytes.size > file->size()) {
    return NoZip(*file,
                 absl::StrCat("'", Shortened(name), "' lies beyond its end"));
  }
  bytes.file = std::move(file);
  if (method == 0) {
    RETURN_IF_ERROR(CheckCrc(bytes, crc));
    return bytes;
  }
  if (method != 8) {
    return absl::UnimplementedError(
        absl::StrCat("'", bytes.name, "' is packed by method ", method,
                     "; stored (0) and deflated (8) are known"));
  }
  ASSIGN_OR_RETURN(std::string content, Unpack(bytes, unpacked_size));
  bytes.size = content.size();
  bytes.content = std::make_shared<const std::string>(std::move(content));
  RETURN_IF_ERROR(CheckCrc(bytes, crc));
  return bytes;
}

// The member of a ZIP file, by its central directory.
absl::StatusOr<Bytes> FindMember(std::shared_ptr<const InputFile> file,
                                 const std::string& member) {
  ASSIGN_OR_RETURN(const std::vector<std::byte> directory,
                   ReadZipDirectory(*file));
  std::vector<std::string> names;
  for (uint64_t at = 0; at + 46 <= directory.size();) {
    const std::byte* entry = &directory[at];
    if (LittleEndian(entry, 4) != 0x02014b50) {
      return NoZip(*file, "its directory is damaged");
    }
    const uint64_t name_size = LittleEndian(entry + 28, 2);
    at += 46 + name_size + LittleEndian(entry + 30, 2) +
          LittleEndian(entry + 32, 2);
    if (at > directory.size()) return NoZip(*file, "its directory is damaged");
    std::string name(reinterpret_cast<const char*>(entry + 46), name_size);
    if (name == member || name == absl::StrCat(member, ".npy")) {
      return OpenMember(std::move(file), name, entry);
    }
    names.push_back(std::move(name));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", file->path(), "' has no array '", member, "'; it has ",
                   Shortened(absl::StrJoin(names, ", "), 150)));
}

// ---- .npy -------------------------------------------------------------------

// What stands behind 'key': in the header's dictionary, up to its end.
absl::string_view ValueOf(absl::string_view header, absl::string_view key) {
  const size_t at = header.find(absl::StrCat("'", key, "':"));
  if (at == absl::string_view::npos) return "";
  header.remove_prefix(at + key.size() + 3);
  while (absl::StartsWith(header, " ")) header.remove_prefix(1);
  const size_t end =
      absl::StartsWith(header, "(") ? header.find(')') + 1 : header.find(',');
  return header.substr(0, end);
}

absl::StatusOr<NpyType> ParseType(absl::string_view text,
                                  const std::string& name) {
  NpyType type;
  // 'order, kind, bytes'
  const bool is_word = text.size() == 5 && text[0] == '\'' && text[4] == '\'';
  if (is_word && absl::StrContains("<>|=", text[1])) {
    type.is_big = text[1] == '>';
    type.kind = text[2];
    type.bytes = static_cast<uint32_t>(text[3] - '0');
    const absl::string_view sizes = type.kind == 'f'   ? "248"
                                    : type.kind == 'b' ? "1"
                                    : type.kind == 'i' || type.kind == 'u'
                                        ? "1248"
                                        : "";
    if (absl::StrContains(sizes, text[3])) return type;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", name, "' holds ", text.empty() ? "no type" : Shortened(text),
      "; bool, int8 to int64, uint8 to uint64, and float16 to float64 are "
      "known"));
}

absl::Status ParseHeader(Array* array) {
  const std::string& name = array->bytes.name;
  std::byte begin[12];
  RETURN_IF_ERROR(array->bytes.Read(0, absl::MakeSpan(begin).subspan(0, 10)));
  if (std::memcmp(begin, "\x93NUMPY", 6) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' is no .npy file"));
  }
  uint64_t size = LittleEndian(begin + 8, 2);
  uint64_t at = 10;
  if (begin[6] != std::byte{1}) {
    RETURN_IF_ERROR(array->bytes.Read(0, absl::MakeSpan(begin)));
    size = LittleEndian(begin + 8, 4);
    at = 12;
  }
  if (size > kMostHeader) {
    return absl::DataLossError(absl::StrCat("'", name, "' has a header of ",
                                            size, " bytes; at most ",
                                            kMostHeader, " are admitted"));
  }
  std::string header(size, '\0');
  RETURN_IF_ERROR(array->bytes.Read(
      at, absl::MakeSpan(reinterpret_cast<std::byte*>(header.data()), size)));
  array->data = at + size;
  ASSIGN_OR_RETURN(array->stored, ParseType(ValueOf(header, "descr"), name));
  array->is_fortran =
      absl::StartsWith(ValueOf(header, "fortran_order"), "True");
  absl::string_view shape = ValueOf(header, "shape");
  Dims dims;
  uint64_t values = 1;
  for (absl::string_view part :
       absl::StrSplit(shape.substr(shape.empty() ? 0 : 1),
                      absl::ByAnyChar(",)"), absl::SkipWhitespace())) {
    uint64_t dimension = 0;
    if (!absl::SimpleAtoi(part, &dimension) || dims.size() == 16 ||
        (dimension > 0 && values > (uint64_t{1} << 60) / dimension)) {
      return absl::DataLossError(
          absl::StrCat("'", name, "' has the shape ", shape.substr(0, 60)));
    }
    values *= dimension;
    dims.push_back(dimension);
  }
  if (dims.empty() || values == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' has the shape ",
                     shape.empty() ? "?" : shape.substr(0, 60),
                     "; examples need rows with values"));
  }
  array->rows = dims[0];
  array->feature.dims.assign(dims.begin() + 1, dims.end());
  const uint64_t bytes = values * array->stored.bytes;
  if (array->data + bytes <= array->bytes.size) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "'", name, "' is truncated: it has ", array->bytes.size - array->data,
      " bytes of values; its shape ", shape.substr(0, 60), " needs ", bytes));
}

// Brings an array in Fortran's order into C's, in memory: a row of it lies all
// over the file.
absl::Status Reorder(Array* array) {
  Bytes& bytes = array->bytes;
  const uint64_t element = array->stored.bytes;
  const uint64_t values = array->rows * array->feature.size();
  if (values * element > kMostUnpacked) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "'", bytes.name, "' is in Fortran's order and has ", values * element,
        " bytes; at most ", kMostUnpacked,
        " are reordered in memory: save it by numpy.ascontiguousarray"));
  }
  Dims dims = {array->rows};
  dims.insert(dims.end(), array->feature.dims.begin(),
              array->feature.dims.end());
  Dims strides(dims.size(), 1);  // Of C's order.
  for (size_t d = dims.size() - 1; d > 0; --d) {
    strides[d - 1] = strides[d] * dims[d];
  }
  std::string content(values * element, '\0');
  std::vector<std::byte> piece;
  Dims at(dims.size(), 0);
  uint64_t to = 0;
  for (uint64_t value = 0; value < values;) {
    const uint64_t count = std::min(values - value, kPieceBytes / element);
    piece.resize(count * element);
    RETURN_IF_ERROR(
        bytes.Read(array->data + value * element, absl::MakeSpan(piece)));
    for (uint64_t i = 0; i < count; ++i) {
      std::memcpy(&content[to * element], &piece[i * element], element);
      for (size_t d = 0; d < dims.size(); ++d) {
        to += strides[d];
        if (++at[d] < dims[d]) break;
        to -= dims[d] * strides[d];
        at[d] = 0;
      }
    }
    value += count;
  }
  bytes.size = content.size();
  bytes.content = std::make_shared<const std::string>(std::move(content));
  array->data = 0;
  return absl::OkStatus();
}

absl::StatusOr<Array> OpenArray(const std::string& directory,
                                const v1::InputSource::Npy::Array& config) {
  Array array;
  ASSIGN_OR_RETURN(std::shared_ptr<const InputFile> file,
                   InputFile::Open(PathIn(directory, config.file())));
  if (config.member().empty()) {
    array.bytes.file = file;
    array.bytes.size = file->size();
    array.bytes.name = file->path();
  } else {
    ASSIGN_OR_RETURN(array.bytes, FindMember(file, config.member()));
  }
  RETURN_IF_ERROR(ParseHeader(&array));
  array.feature.name = config.name();
  array.feature.classes = config.classes();
  // What losses take.
  array.feature.dtype =
      config.classes() > 0 ? DType::kInt32 : array.stored.dtype();
  if (array.is_fortran) RETURN_IF_ERROR(Reorder(&array));
  return array;
}

// ---- values -----------------------------------------------------------------

// IEEE 754 of 16 bits: a sign, 5 bits of exponent, 10 of a fraction.
float OfHalf(uint64_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const auto fraction = static_cast<float>(bits & 1023);
  const float size = exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                     : exponent == 0
                         ? std::ldexp(fraction, -24)
                         : std::ldexp(fraction + 1024, exponent - 25);
  return bits >> 15 != 0 ? -size : size;
}

uint64_t BitsAt(const NpyType& type, const std::byte* at) {
  uint64_t bits = 0;
  for (uint32_t i = 0; i < type.bytes; ++i) {
    const uint32_t place = type.is_big ? type.bytes - 1 - i : i;
    bits |= static_cast<uint64_t>(at[place]) << (8 * i);
  }
  return bits;
}

// REQUIRES: type.kind is f.
double RealAt(const NpyType& type, const std::byte* at) {
  const uint64_t bits = BitsAt(type, at);
  if (type.bytes == 2) return OfHalf(bits);
  if (type.bytes == 4) {
    return absl::bit_cast<float>(static_cast<uint32_t>(bits));
  }
  return absl::bit_cast<double>(bits);
}

// False if it is no whole number, or none of 64 bits with a sign.
bool WholeAt(const NpyType& type, const std::byte* at, int64_t* number) {
  if (type.kind == 'f') {
    const double real = RealAt(type, at);
    if (!(std::abs(real) < 0x1p63) || real != std::floor(real)) return false;
    *number = static_cast<int64_t>(real);
    return true;
  }
  const uint64_t bits = BitsAt(type, at);
  const uint32_t unused = 64 - 8 * type.bytes;
  // Shifted to the top and back it has its sign.
  *number = type.kind == 'i' ? static_cast<int64_t>(bits << unused) >> unused
                             : static_cast<int64_t>(bits);
  return type.kind == 'i' || *number >= 0;
}

// Reads a small array into memory. `room`: what it may take, and what is left.
absl::Status KeepIfSmall(Array* array, uint64_t* room) {
  Bytes& bytes = array->bytes;
  if (bytes.content != nullptr || bytes.size > *room ||
      array->row_bytes() >= kSmallRowBytes) {
    return absl::OkStatus();
  }
  std::string content(bytes.size, '\0');
  RETURN_IF_ERROR(
      bytes.Read(0, absl::MakeSpan(reinterpret_cast<std::byte*>(content.data()),
                                   content.size())));
  bytes.content = std::make_shared<const std::string>(std::move(content));
  *room -= bytes.size;
  return absl::OkStatus();
}

class NpySource : public ExampleSource {
 public:
  explicit NpySource(std::vector<Array> arrays) : arrays_(std::move(arrays)) {
    for (const Array& array : arrays_) spec_.features.push_back(array.feature);
  }

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return arrays_[0].rows; }
  v1::DataSet Describe() const override {
    std::string text;
    for (const Array& array : arrays_) {
      absl::StrAppend(&text, array.feature.name, " ", array.bytes.size, " ",
                      Sample(array), "\n");
    }
    return DescribeFiles(spec_, size(), Sum(text));
  }

  std::string Where(uint64_t index) const override {
    return Where(arrays_[0], index);
  }

  absl::Status Read(uint64_t index, Example* example) const override {
    example->values.resize(arrays_.size());
    for (size_t a = 0; a < arrays_.size(); ++a) {
      const Array& array = arrays_[a];
      OwnedTensor& value = example->values[a];
      value.Reset(array.feature.dtype, array.feature.dims);
      const uint64_t begin = array.data + index * array.row_bytes();
      if (array.feature.classes == 0 && array.stored.is_ours()) {
        RETURN_IF_ERROR(array.bytes.Read(begin, value.bytes()));
        continue;
      }
      example->scratch.Reset(DType::kUInt8, {array.row_bytes()});
      RETURN_IF_ERROR(array.bytes.Read(begin, example->scratch.bytes()));
      RETURN_IF_ERROR(
          Convert(array, index, example->scratch.bytes().data(), &value));
    }
    return absl::OkStatus();
  }

 private:
  static std::string Where(const Array& array, uint64_t row) {
    return absl::StrCat("'", array.bytes.name, "' row ", row);
  }
  static uint32_t Sum(absl::string_view text) {
    return Crc32c(
        {reinterpret_cast<const std::byte*>(text.data()), text.size()});
  }
  // `stored`: a row.
  static absl::Status Convert(const Array& array, uint64_t row,
                              const std::byte* stored, OwnedTensor* out) {
    const NpyType& type = array.stored;
    for (uint64_t i = 0; i < out->size(); ++i, stored += type.bytes) {
      if (out->dtype() == DType::kFloat64) {
        out->values<double>()[i] = RealAt(type, stored);
        continue;
      }
      if (out->dtype() == DType::kFloat32) {
        out->values<float>()[i] = static_cast<float>(RealAt(type, stored));
        continue;
      }
      int64_t number = 0;
      if (!WholeAt(type, stored, &number)) {
        return absl::DataLossError(
            absl::StrCat(Where(array, row), ": '", array.feature.name, "' is ",
                         type.kind == 'f' ? absl::StrCat(RealAt(type, stored))
                                          : absl::StrCat(BitsAt(type, stored)),
                         "; it must be a whole number of int64"));
      }
      RETURN_IF_ERROR(
          CheckClass(array.feature, number, [&] { return Where(array, row); }));
      if (out->dtype() == DType::kInt64) {
        out->values<int64_t>()[i] = number;
      } else if (out->dtype() == DType::kInt32) {
        out->values<int32_t>()[i] = static_cast<int32_t>(number);
      } else {
        out->values<uint8_t>()[i] = static_cast<uint8_t>(number);
      }
    }
    return absl::OkStatus();
  }

  // Of the first and the last bytes.
  static uint32_t Sample(const Array& array) {
    const uint64_t size = std::min<uint64_t>(array.bytes.size, 64 << 10);
    std::string sample(2 * size, '\0');
    auto* bytes = reinterpret_cast<std::byte*>(sample.data());
    const bool ok =
        array.bytes.Read(0, absl::MakeSpan(bytes, size)).ok() &&
        array.bytes
            .Read(array.bytes.size - size, absl::MakeSpan(bytes + size, size))
            .ok();
    return ok ? Sum(sample) : 0;
  }

  const std::vector<Array> arrays_;
  InputSpec spec_;
};

}  // namespace

OpenedSource OpenNpy(const std::string& directory,
                     const v1::InputSource::Npy& config) {
  std::vector<Array> arrays;
  for (const v1::InputSource::Npy::Array& one : config.arrays()) {
    ASSIGN_OR_RETURN(Array array, OpenArray(directory, one));
    if (!arrays.empty() && array.rows != arrays[0].rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", array.bytes.name, "' has ", array.rows, " rows; '",
                       arrays[0].bytes.name, "' has ", arrays[0].rows));
    }
    for (const Array& other : arrays) {
      if (other.feature.name != array.feature.name) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("two arrays have the name '", array.feature.name, "'"));
    }
    arrays.push_back(std::move(array));
  }
  if (arrays.empty()) {
    return absl::InvalidArgumentError("the input names no arrays");
  }
  uint64_t room = kMostKept;
  for (Array& array : arrays) RETURN_IF_ERROR(KeepIfSmall(&array, &room));
  return std::make_unique<NpySource>(std::move(arrays));
}

}  // namespace paramd
