#ifndef PARAMD_PROCESS_OBSERVE_TOP_VIEW_H_
#define PARAMD_PROCESS_OBSERVE_TOP_VIEW_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/report.pb.h"

namespace paramd {

// By what the processes of a page stand in order.
enum class TopOrder { kWorst, kName, kRate, kMemory };

// "worst", "name", "rate", "memory".
absl::string_view TopOrderName(TopOrder order);
// Nullopt: none is called that.
absl::optional<TopOrder> TopOrderNamed(absl::string_view name);
// The one after it, and after the last the first.
TopOrder NextTopOrder(TopOrder order);

// The status page as lines of a terminal, at most `rows` of at most `columns`
// each; the last one is not ended. `rows` 0: as many as there are, all ended.
std::string RenderTop(const v1::StatusPage& page, TopOrder order, int columns,
                      int rows);

}  // namespace paramd

#endif  // PARAMD_PROCESS_OBSERVE_TOP_VIEW_H_
