#ifndef PARAMD_COORDINATOR_SUMMARY_TF_RECORD_H_
#define PARAMD_COORDINATOR_SUMMARY_TF_RECORD_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace paramd {

// `data` as a record of TFRecord: its length and their masked checksums around
// it.
std::string TfRecord(absl::string_view data);

// The data of the first record of `*rest`, which begins after it then. Nothing
// if it is not whole, or damaged; `*rest` stays then.
absl::optional<absl::string_view> TakeTfRecord(absl::string_view* rest);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_SUMMARY_TF_RECORD_H_
