#include "process/profile/named_stacks.h"

#include <dlfcn.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/debugging/symbolize.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace paramd {
namespace {

constexpr size_t kMostStacks = 5000;
constexpr size_t kLongestName = 256;

// Numbers for names, in the order in which they come.
class NameTable {
 public:
  explicit NameTable(v1::ProfileReply* reply) : reply_(*reply) {}

  uint32_t Of(const std::string& name) {
    const auto [place, is_new] =
        numbers_.emplace(name, static_cast<uint32_t>(numbers_.size()));
    if (is_new) reply_.add_names(name);
    return place->second;
  }
  // Of the function that has the code there.
  uint32_t OfAddress(uintptr_t address) {
    const auto known = functions_.find(address);
    if (known != functions_.end()) return known->second;
    const uint32_t number = Of(FunctionAt(address));
    functions_.emplace(address, number);
    return number;
  }

 private:
  v1::ProfileReply& reply_;
  std::unordered_map<std::string, uint32_t> numbers_;
  std::unordered_map<uintptr_t, uint32_t> functions_;
};

using NamedStack = std::vector<uint32_t>;

NamedStack NamesOf(const Stack& stack, NameTable* names) {
  NamedStack named = {names->Of(stack.thread)};
  for (size_t i = stack.addresses.size(); i-- > 0;) {
    // A call may be the last instruction of its function.
    named.push_back(names->OfAddress(stack.addresses[i] - (i > 0 ? 1 : 0)));
  }
  return named;
}

}  // namespace

std::string FunctionAt(uintptr_t address) {
  static std::once_flag once;
  std::call_once(once, [] { absl::InitializeSymbolizer("/proc/self/exe"); });
  void* const place = reinterpret_cast<void*>(address);
  char name[kLongestName];
  if (absl::Symbolize(place, name, sizeof(name))) return name;
  Dl_info info = {};
  if (dladdr(place, &info) == 0 || info.dli_fname == nullptr) return "?";
  const absl::string_view file = info.dli_fname;
  return absl::StrCat("[", file.substr(file.rfind('/') + 1), "]");
}

void AddNamedStacks(const StackSamples& samples, v1::ProfileReply* reply) {
  NameTable names(reply);
  std::map<NamedStack, uint64_t> counts;
  for (const auto& [stack, count] : samples.counts) {
    counts[NamesOf(stack, &names)] += count;
  }
  std::vector<std::pair<uint64_t, NamedStack>> by_count;
  for (auto& [stack, count] : counts) by_count.emplace_back(count, stack);
  std::stable_sort(
      by_count.begin(), by_count.end(),
      [](const auto& a, const auto& b) { return a.first > b.first; });
  std::map<NamedStack, uint64_t> rare;
  for (size_t i = 0; i < by_count.size(); ++i) {
    const auto& [count, stack] = by_count[i];
    if (i >= kMostStacks) {
      rare[{stack[0], names.Of("(rare stacks)")}] += count;
      continue;
    }
    v1::SampledStack* const added = reply->add_stacks();
    added->mutable_names()->Add(stack.begin(), stack.end());
    added->set_samples(count);
  }
  for (const auto& [stack, count] : rare) {
    v1::SampledStack* const added = reply->add_stacks();
    added->mutable_names()->Add(stack.begin(), stack.end());
    added->set_samples(count);
  }
}

}  // namespace paramd
