#include "proto/data_meaning.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paramd {
namespace {

using Fact = v1::DataMeaning::Fact;

// What a sentence has room for.
constexpr int kMostValues = 8;
constexpr size_t kMostDifferences = 4;

bool Has(absl::Span<const std::string> names, absl::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string ValuesOf(const Fact& fact) {
  return fact.values().empty() ? "none" : absl::StrJoin(fact.values(), ", ");
}

std::string DifferenceOf(const Fact& ours, const Fact& meant) {
  if (ours.hash() == meant.hash() && ours.count() == meant.count()) return "";
  const std::string& name = ours.name();
  if (ours.values_size() <= kMostValues && meant.values_size() <= kMostValues) {
    return absl::StrCat(name, " ", ValuesOf(ours), ", not ", ValuesOf(meant));
  }
  const int shared = std::min(ours.values_size(), meant.values_size());
  for (int i = 0; i < shared; ++i) {
    if (ours.values(i) == meant.values(i)) continue;
    return absl::StrCat(name, " with ", ours.values(i), " in place ", i + 1,
                        ", not ", meant.values(i));
  }
  if (ours.count() != meant.count()) {
    return absl::StrCat(name, " of ", ours.count(), ", not ", meant.count());
  }
  return absl::StrCat(name, " that differ after place ", shared);
}

const Fact* Find(const v1::DataMeaning& meaning, const std::string& name) {
  for (const Fact& fact : meaning.facts()) {
    if (fact.name() == name) return &fact;
  }
  return nullptr;
}

bool HasNamesOfItsOwn(const v1::DataMeaning& meaning,
                      absl::Span<const std::string> unread) {
  const std::string& source = meaning.source();
  return source == "csv" || source == "libsvm" || source == "zip" ||
         (source == "image_folders" && !Has(unread, "label"));
}

// Numbers of one source may be real from the start, and bytes in another.
void DropLoneCast(Fact* one, Fact* other) {
  const auto is_cast = [](const Fact& fact) {
    return !fact.values().empty() && absl::StartsWith(fact.values(0), "cast");
  };
  if (is_cast(*one) == is_cast(*other)) return;
  Fact* const cast = is_cast(*one) ? one : other;
  cast->mutable_values()->DeleteSubrange(0, 1);
}

std::string DifferenceOfKinds(Fact ours, Fact meant) {
  DropLoneCast(&ours, &meant);
  const bool same = std::equal(ours.values().begin(), ours.values().end(),
                               meant.values().begin(), meant.values().end());
  if (same) return "";
  return absl::StrCat(ours.name(), " ", ValuesOf(ours), ", not ",
                      ValuesOf(meant));
}

}  // namespace

std::string MeaningDifference(const v1::DataMeaning& ours,
                              const v1::DataMeaning& meant,
                              absl::Span<const std::string> unread) {
  if (ours.source().empty() || meant.source().empty()) return "";
  const bool same_kind = ours.source() == meant.source();
  if (!same_kind &&
      (HasNamesOfItsOwn(ours, unread) || HasNamesOfItsOwn(meant, unread))) {
    return absl::StrCat("source ", ours.source(), ", not ", meant.source());
  }
  std::vector<std::string> differences;
  for (const Fact& fact : ours.facts()) {
    const Fact* const other = Find(meant, fact.name());
    if (other == nullptr || Has(unread, fact.feature())) continue;
    std::string difference = same_kind ? DifferenceOf(fact, *other)
                                       : DifferenceOfKinds(fact, *other);
    if (!difference.empty()) differences.push_back(std::move(difference));
  }
  if (differences.size() > kMostDifferences) {
    const size_t more = differences.size() - kMostDifferences;
    differences.resize(kMostDifferences);
    differences.push_back(absl::StrCat("and ", more, " more"));
  }
  return absl::StrJoin(differences, "; ");
}

}  // namespace paramd
