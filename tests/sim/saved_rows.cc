#include "tests/sim/saved_rows.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "tensor/keyed_rows.h"

namespace paramd {

absl::StatusOr<SavedRows> ReadRows(const SimStorage& storage,
                                   const IntegerJob& job,
                                   const v1::Manifest& manifest, size_t v,
                                   const std::string& slot) {
  const v1::Variable& variable = job.variables()[v];
  SavedRows saved;
  ASSIGN_OR_RETURN(saved.numbers,
                   storage.ReadVariable(manifest, variable.name(), slot));
  if (!variable.keyed()) return saved;
  ASSIGN_OR_RETURN(const std::vector<uint64_t> keys,
                   storage.ReadRowNumbers(manifest, variable.name(), "key"));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> used,
                   storage.ReadRowNumbers(manifest, variable.name(), "used"));
  const uint64_t width = variable.shape(1);
  const std::vector<float> rows = std::move(saved.numbers);
  saved.numbers.clear();
  for (uint64_t e = 0; e < job.elements(v); ++e) {
    saved.numbers.push_back(slot.empty() ? job.ValueOf(v, e, 0) : 0);
  }
  saved.present.resize(job.keys().size());
  for (uint64_t row = 0; row < keys.size(); ++row) {
    if (used[row] == 0) continue;
    const uint64_t mixed = MixKey(keys[row]);
    const auto known =
        std::lower_bound(job.keys().begin(), job.keys().end(), mixed);
    const size_t place = known - job.keys().begin();
    const uint64_t bucket = BucketRows(width);
    if (known == job.keys().end() || *known != mixed || saved.present[place] ||
        BucketBegin(mixed, keys.size(), width) != row / bucket * bucket) {
      return absl::DataLossError(absl::StrCat(
          "row ", row, " of '", variable.name(), "' has key ", keys[row],
          ", which is nobody's, twice there, or of "
          "another bucket"));
    }
    saved.present[place] = true;
    std::copy_n(rows.begin() + static_cast<ptrdiff_t>(row * width), width,
                saved.numbers.begin() + static_cast<ptrdiff_t>(place * width));
  }
  return saved;
}

}  // namespace paramd
