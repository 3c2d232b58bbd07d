#ifndef PARAMD_CONFIG_TASK_ADDRESS_H_
#define PARAMD_CONFIG_TASK_ADDRESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace paramd {

// A cluster has no more tasks of one type than this, and indices stay below.
constexpr int kMostTasks = 65536;

// Nullopt if `address` is host:port as a task may have it, else what is wrong:
// `"a:0" has port 0; ports are from 1 to 65535`. IPv6 addresses stand in
// brackets: [::1]:7077. `source` names the
// variable or flag that the address stands in. For one that this process shall
// listen at, port 0 may be any: `least_port` is 0 then.
absl::optional<std::string> WrongAddress(absl::string_view address,
                                         absl::string_view source,
                                         int least_port = 1);

// Whether nobody can be reached there: some producers fill in 0.0.0.0 or ::
// for tasks whose addresses they don't know.
bool IsPlaceholder(absl::string_view address);

// The same address with the number that ends the first label of its host
// replaced by `index`: "job-worker-0.train:7077" of "job-worker-3.train:7077".
// Nullopt if that number is not `present`.
absl::optional<std::string> WithOrdinal(absl::string_view address, int present,
                                        int index);

// The number that ends the first label of a host's name, as a StatefulSet
// gives it: 3 for "train-ps-3.train.svc". Nullopt if there is none below
// kMostTasks.
absl::optional<int> OrdinalOf(absl::string_view host_name);

// Writes out each range "{0..3}" in `text`, the last one varying fastest:
// "ps-{0..1}:7077" is "ps-0:7077", "ps-1:7077". Leading zeros of the first
// number are kept. InvalidArgument with a sentence for a range that is none
// and for more than kMostTasks results.
absl::StatusOr<std::vector<std::string>> ExpandRanges(absl::string_view text);

}  // namespace paramd

#endif  // PARAMD_CONFIG_TASK_ADDRESS_H_
