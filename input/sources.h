#ifndef PARAMD_INPUT_SOURCES_H_
#define PARAMD_INPUT_SOURCES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "input/example_source.h"
#include "input/file.h"
#include "proto/paramd/v1/input.pb.h"

namespace paramd {

using OpenedSource = absl::StatusOr<std::unique_ptr<ExampleSource>>;

// How a source is opened beside the one that was trained on.
struct SourceOptions {
  // The classes of image folders by name, in order; empty: they number what
  // they have.
  std::vector<std::string> classes;
  // false: there is no feature "label", and files need not have what makes one.
  bool labels = true;
};

// Each opens what its part of `input.train` or `input.test` names, and makes an
// index where it needs one. Errors name the file, the position, what was found
// and what is needed; INVALID_ARGUMENT is of the job, DATA_LOSS of the data.

// Rows of text, as TextLines and SplitColumns have them. Values are numbers as
// C writes them. What could be meant in two ways is refused: a name that is
// used and that two columns have, the label among the columns.
OpenedSource OpenCsv(const std::string& directory,
                     const v1::InputSource::Csv& config);

// Lines "label index:value ...", indices ascending; what stands behind # and
// "qid:..." behind the label count for nothing. A list's indices are below the
// least power of two that is above all in the files. DATA_LOSS, naming both
// lines, if one has the label -1 and another one 0, and there are two classes.
OpenedSource OpenLibSvm(const std::string& directory,
                        const v1::InputSource::LibSvm& config,
                        const SourceOptions& options = {});

// Arrays of NumPy, of any real type but long doubles. Big-endian ones are
// turned when they are read, those in Fortran's order when they are opened, in
// memory. .npz is a ZIP file of these (members that are stored are read in
// place, packed ones are unpacked into memory; either is read whole once, for
// its crc32).
OpenedSource OpenNpy(const std::string& directory,
                     const v1::InputSource::Npy& config);

// TFRecord files of tf.Example. Lengths are checked when the file is opened,
// the data of a record when it is read, both by their crc32c.
OpenedSource OpenTfRecord(const std::string& directory,
                          const v1::InputSource::TfRecord& config);

// Subfolders, in the order of their names, are the classes 0, 1, 2 and so on,
// or what `options` says: INVALID_ARGUMENT, naming the first that is not among
// them, or those that have no image. What has a name that begins with a dot
// counts for nothing. Without labels, images of the directory itself come
// first.
OpenedSource OpenImageFolders(const std::string& directory,
                              const v1::InputSource::ImageFolders& config,
                              const SourceOptions& options = {});

OpenedSource OpenRecords(const std::string& directory,
                         const v1::InputSource::Records& config);

// "tokens" are the bytes of a window, "label" those one further; no window
// spans two files.
OpenedSource OpenText(const std::string& directory,
                      const v1::InputSource::Text& config);

// The same numbers for the same config.
OpenedSource OpenSynthetic(const v1::InputSource::Synthetic& config);

// One feature "index" of int64: the example's own number.
OpenedSource OpenIndices(const v1::InputSource::Indices& config);

// The same of files that are open, of which the config's names are not read.
// They may have no example, and there may be none: what examples would have is
// then as the config says, which must tell (csv.columns, libsvm.columns).
using InputFiles = std::vector<std::unique_ptr<InputFile>>;
// `columns`: what the columns are called, where the files have no header but
// somebody else knows it.
OpenedSource ReadCsv(InputFiles files, const v1::InputSource::Csv& config,
                     const std::vector<std::string>& columns = {});
OpenedSource ReadLibSvm(InputFiles files, const v1::InputSource::LibSvm& config,
                        const SourceOptions& options = {});
OpenedSource ReadTfRecord(InputFiles files,
                          const v1::InputSource::TfRecord& config);
OpenedSource ReadRecords(InputFiles files,
                         const v1::InputSource::Records& config);

// What the config says of features. INVALID_ARGUMENT if two have one name, or
// one of real numbers has classes.
absl::StatusOr<InputSpec> ToSpec(
    const google::protobuf::RepeatedPtrField<v1::InputFeature>& features);

// A whole number as text, "1.0" and "+1e0" too. False if it is none, or beyond
// what a double has each of.
bool ParseWhole(absl::string_view text, int64_t* number);

// INVALID_ARGUMENT, naming the first of its files and what it lacks, "row", if
// the source has no example.
absl::Status CheckHasExamples(const ExampleSource& source,
                              absl::string_view path, absl::string_view what);

// Describes a source whose files are too large to be read for it: see
// ChecksumOf in file.h.
v1::DataSet DescribeFiles(const InputSpec& spec, uint64_t examples,
                          uint32_t checksum);

// DATA_LOSS, beginning with where(), unless `label` is below the classes of
// `feature`, if it has any; where an example has several of it, and it is not
// called "label", -1 is padding.
absl::Status CheckClass(const FeatureSpec& feature, int64_t label,
                        absl::FunctionRef<std::string()> where);

}  // namespace paramd

#endif  // PARAMD_INPUT_SOURCES_H_
