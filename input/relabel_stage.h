#ifndef PARAMD_INPUT_RELABEL_STAGE_H_
#define PARAMD_INPUT_RELABEL_STAGE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "input/label_file.h"
#include "input/stage.h"
#include "proto/paramd/v1/input.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// The examples that a file of labels names, in its order, with its labels in
// place of theirs.
//
// Thread-safe.
class RelabelStage : public Stage {
 public:
  // `data` describes the source of `upstream`, with its meaning. Without a file
  // in `config`, for who only wants to know what examples look like: all
  // examples, with the labels that they have, or 0. INVALID_ARGUMENT if the
  // file can't be used, is of other examples or of another model than the
  // config says, or its classes do not suit the feature or are called
  // otherwise. REQUIRES: the upstream has at most 2^32 - 1 examples, the same
  // in each epoch, and does not grow.
  static absl::StatusOr<std::unique_ptr<RelabelStage>> Create(
      const Stage& upstream, const v1::DataSet& data,
      const v1::InputStage::Relabel& config);

  // Of the records; nothing without a file.
  absl::optional<uint32_t> file_crc32c() const;

  absl::Status GetFeature(const ExamplePlace& place, size_t feature,
                          Example* example) const override;
  uint64_t IndexAt(const ExamplePlace& place) const override {
    return upstream_.IndexAt(UpstreamOf(place));
  }

 protected:
  absl::Status DoGet(const ExamplePlace& place,
                     Example* example) const override;

 private:
  RelabelStage(const Stage& upstream, InputSpec spec, size_t feature,
               std::unique_ptr<LabelFile> file);

  ExamplePlace UpstreamOf(const ExamplePlace& place) const;
  bool is_added() const { return feature_ == upstream_.spec().features.size(); }
  // The label of the example at this offset.
  absl::Status SetLabel(uint64_t offset, Example* example) const;

  const Stage& upstream_;
  const size_t feature_;  // The upstream's number of features: it is added.
  const std::unique_ptr<LabelFile> file_;  // Null: there is none.
};

}  // namespace paramd

#endif  // PARAMD_INPUT_RELABEL_STAGE_H_
