#ifndef PARAMD_INPUT_EXAMPLE_SOURCE_H_
#define PARAMD_INPUT_EXAMPLE_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "input/batch.h"
#include "input/example.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

class GrowingSource;

// Names that a source has numbered, of its files or of the job.
struct SourceNames {
  // Of what the numbers of a feature stand in, of each feature that is made of
  // columns.
  std::vector<std::vector<std::string>> columns;
  // Of the labels 0, 1, 2 and so on.
  std::vector<std::string> classes;
  // Of a zip, those of each of its sources; else none.
  std::vector<SourceNames> parts = {};
};

// In what the epochs of a source, or of stages behind it, differ.
struct Variation {
  bool shuffled = false;  // Each has an order of its own.
  bool repeated = false;  // Some examples come more than once in each.
  bool seeded = false;    // Something is drawn, be it once for all epochs.
  // Which examples there are, or which features meet in one, differs; and what
  // stands there that makes it so. Empty: it does not.
  std::string varies = {};
  absl::flat_hash_set<std::string> drawn = {};  // Features, anew in each.
};

// Examples numbered from 0, in files or drawn. Access is random: a source that
// is read record by record makes an index when it is opened. To add a format,
// write one of these and a branch in open_pipeline.cc.
//
// A dimension of 0 in its spec may differ from example to example.
//
// Every epoch has all examples, but in a source that grows (growing_source.h):
// there each has its own.
//
// Thread-safe: immutable once opened.
class ExampleSource : public ExampleNames {
 public:
  virtual const InputSpec& spec() const = 0;

  // Number of examples of every epoch; at least 1, below 2^32. 0: the source
  // grows, or was opened on files without examples.
  virtual uint64_t size() const = 0;

  // What tells it from another one: all but the directory and the host.
  virtual v1::DataSet Describe() const = 0;

  // None, where numbers are told apart by their places alone.
  virtual SourceNames Names() const { return {}; }

  // Overwrites `example` with example `index`: as many tensors as features. An
  // error that names the file, the position, what was found and what is needed;
  // FAILED_PRECONDITION if the files are not those that the chief found.
  // REQUIRES: IndexOf gave it.
  virtual absl::Status Read(uint64_t index, Example* example) const = 0;
  // The same of one feature: the other tensors may be what they were. Where
  // that costs less than Read.
  virtual absl::Status ReadFeature(uint64_t index, size_t /*feature*/,
                                   Example* example) const {
    return Read(index, example);
  }

  // The same of the one at a place, of which IndexOf says the number: a source
  // that has stages within it may draw another one in each epoch. On error,
  // example->index says which one it is about.
  virtual absl::Status ReadAt(const ExamplePlace& place,
                              Example* example) const {
    return Read(IndexOf(place.epoch, place.offset), example);
  }
  virtual absl::Status ReadFeatureAt(const ExamplePlace& place, size_t feature,
                                     Example* example) const {
    return ReadFeature(IndexOf(place.epoch, place.offset), feature, example);
  }

  // Numbers of examples are below it.
  virtual uint64_t numbers() const { return size(); }
  virtual Variation variation() const { return {}; }
  // Of a zip, what the numbers of each of its sources mean; else none.
  virtual std::vector<v1::DataMeaning> PartMeanings() const { return {}; }
  // Whether a source within it makes one example of several, as the stage
  // window does: its number is that of the first of them.
  virtual bool has_windows() const { return false; }
  // As Describe, but of a zip it also tells which examples of its other
  // sources stand beside those of the first, whose numbers they have. REQUIRES:
  // they are the same in every epoch.
  virtual v1::DataSet DescribeToLabel() const { return Describe(); }

  std::string Where(uint64_t index) const override {
    return absl::StrCat("example ", index);
  }

  // Numbers of the first example of each file, ascending, the first of them 0.
  virtual std::vector<uint64_t> FileStarts() const { return {0}; }

  // The same of an epoch: its number of examples, 0 if nobody has told it; the
  // number of its example at an offset below that; where its files begin.
  virtual uint64_t SizeIn(uint64_t /*epoch*/) const { return size(); }
  virtual uint64_t IndexOf(uint64_t /*epoch*/, uint64_t offset) const {
    return offset;
  }
  virtual std::vector<uint64_t> FileStartsIn(uint64_t /*epoch*/) const {
    return FileStarts();
  }

  // Itself, if it grows.
  virtual GrowingSource* growing() { return nullptr; }
};

}  // namespace paramd

#endif  // PARAMD_INPUT_EXAMPLE_SOURCE_H_
