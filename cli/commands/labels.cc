#include "cli/commands/labels.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/random.h"

namespace paramd {
namespace {

bool IsEarlier(const GivenLabel& one, const GivenLabel& other) {
  return one.example < other.example;
}

bool IsSurer(const GivenLabel& one, const GivenLabel& other) {
  return one.confidence > other.confidence;
}

}  // namespace

std::vector<GivenLabel> ChooseLabels(const LabelChoice& choice,
                                     absl::Span<const GivenLabel> labels) {
  std::vector<GivenLabel> chosen;
  std::map<uint32_t, std::vector<GivenLabel>> by_class;
  for (const GivenLabel& one : labels) {
    const bool is_known = one.example < choice.known;
    // One that is not a number is not sure.
    if (!is_known && !(one.confidence >= choice.threshold)) continue;
    if (is_known || choice.per_class == 0) {
      chosen.push_back(one);
    } else {
      by_class[one.label].push_back(one);
    }
  }
  for (auto& [label, of_class] : by_class) {
    std::stable_sort(of_class.begin(), of_class.end(), IsSurer);
    for (uint32_t i = 0; i < choice.per_class; ++i) {
      chosen.push_back(of_class[i % of_class.size()]);
    }
  }
  std::stable_sort(chosen.begin(), chosen.end(), IsEarlier);
  return chosen;
}

std::string ModelKey(const v1::Manifest& manifest) {
  std::string text =
      absl::StrCat(manifest.run_id(), " ", manifest.snapshot().term(), ".",
                   manifest.snapshot().counter(), " ", manifest.global_step());
  for (const v1::ShardFile& file : manifest.files()) {
    absl::StrAppend(&text, "\n", file.name(), " ", file.bytes(), " ",
                    file.crc32c());
  }
  return absl::StrFormat("%016x", StableHash(text));
}

}  // namespace paramd
