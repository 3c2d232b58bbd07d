#include "config/optimizer_names.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "base/status_macros.h"
#include "config/name_pattern.h"

namespace paramd {
namespace {

using Pruning = v1::OptimizerConfig::Pruning;

// Inputs and outputs.
constexpr int kKernelRank = 2;
// Of all layers: their sums fit what a server answers with, ten bytes each.
constexpr uint64_t kMostChannels = 32768;
// That a mistake is compared with, and that are proposed.
constexpr size_t kMostCompared = 10000;
constexpr size_t kMostProposed = 3;

// How many letters have to be put in, left out or changed to make one of the
// other, where a star is any text.
size_t DistanceOf(absl::string_view pattern, absl::string_view name) {
  std::vector<size_t> row(name.size() + 1);
  for (size_t n = 0; n < row.size(); ++n) row[n] = n;
  for (const char letter : pattern) {
    size_t diagonal = row[0];
    if (letter != '*') ++row[0];
    for (size_t n = 1; n < row.size(); ++n) {
      const size_t above = row[n];
      if (letter == '*') {
        row[n] = std::min(above, row[n - 1]);
      } else {
        row[n] = std::min({above + 1, row[n - 1] + 1,
                           diagonal + (letter == name[n - 1] ? 0 : 1)});
      }
      diagonal = above;
    }
  }
  return row.back();
}

// "the closest are 'dense_1/kernel', 'dense_2/kernel'"
std::string ClosestNames(absl::string_view pattern,
                         VariablePointers variables) {
  if (variables.empty()) return "there are none";
  std::vector<std::string> closest;
  size_t least = std::numeric_limits<size_t>::max();
  for (const v1::Variable* const variable :
       variables.subspan(0, kMostCompared)) {
    const size_t distance = DistanceOf(pattern, variable->name());
    if (distance < least) closest.clear();
    least = std::min(least, distance);
    if (distance == least && closest.size() < kMostProposed) {
      closest.push_back(absl::StrCat("'", variable->name(), "'"));
    }
  }
  return absl::StrCat(
      closest.size() == 1 ? "the closest is " : "the closest are ",
      absl::StrJoin(closest, ", "));
}

absl::Status CheckPatterns(const v1::OptimizerConfig& config,
                           VariablePointers variables) {
  std::vector<std::pair<absl::string_view, absl::string_view>> settings = {
      {"no_decay", config.no_decay()}};
  for (const v1::OptimizerConfig::RateFactor& some : config.rate_factors()) {
    settings.emplace_back("rate_factors", some.variables());
  }
  for (const v1::OptimizerConfig::Group& some : config.groups()) {
    settings.emplace_back("groups", some.variables());
  }
  for (const Pruning& some : config.pruning()) {
    settings.emplace_back("pruning", some.variables());
  }
  for (const auto& [setting, patterns] : settings) {
    for (const absl::string_view pattern :
         absl::StrSplit(patterns, ',', absl::SkipEmpty())) {
      const bool found =
          std::any_of(variables.begin(), variables.end(),
                      [&](const v1::Variable* variable) {
                        return MatchesAny(pattern, variable->name());
                      });
      if (found) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("optimizer.", setting, " names '", pattern,
                       "', which no variable is called; ",
                       ClosestNames(pattern, variables)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPruned(const v1::OptimizerConfig& config,
                         const v1::Variable& variable) {
  const auto pruned = PruningOf(config, variable);
  if (!pruned.has_value()) return absl::OkStatus();
  if (variable.sparse()) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.pruning names '", variable.name(),
                     "', whose rows are trained one by one; name dense "
                     "variables alone"));
  }
  if (config.pruning(*pruned).structure() == Pruning::TWO_OF_FOUR &&
      variable.shape_size() < kKernelRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.pruning names '", variable.name(),
                     "' with structure two_of_four, which is of the inputs "
                     "of outputs; name kernels alone"));
  }
  return absl::OkStatus();
}

absl::Status CheckChannels(const v1::OptimizerConfig& config,
                           VariablePointers variables) {
  const auto leads = ChannelLeads(config, variables);
  std::vector<bool> has_kernel(variables.size());
  uint64_t channels = 0;
  for (size_t v = 0; v < variables.size(); ++v) {
    if (!leads[v].has_value()) continue;
    if (*leads[v] == v) channels += ChannelsOf(*variables[v]);
    if (variables[v]->shape_size() >= kKernelRank) has_kernel[*leads[v]] = true;
  }
  for (size_t v = 0; v < variables.size(); ++v) {
    if (!leads[v].has_value() || has_kernel[*leads[v]]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.pruning names '", variables[v]->name(),
                     "' with structure channels, and no kernel before it that "
                     "has as many channels; name the kernel, too, or leave it "
                     "out"));
  }
  if (channels <= kMostChannels) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer.pruning names ", channels,
                   " channels with structure channels; at most ", kMostChannels,
                   " are pruned in one job: name fewer layers"));
}

}  // namespace

uint64_t ChannelsOf(const v1::Variable& variable) {
  const int rank = variable.shape_size();
  return rank == 0 ? 1 : variable.shape(rank - 1);
}

absl::optional<int> PruningOf(const v1::OptimizerConfig& config,
                              const v1::Variable& variable) {
  if (variable.untrained()) return absl::nullopt;
  for (int p = 0; p < config.pruning_size(); ++p) {
    if (MatchesAny(config.pruning(p).variables(), variable.name())) return p;
  }
  return absl::nullopt;
}

std::vector<absl::optional<uint32_t>> ChannelLeads(
    const v1::OptimizerConfig& config, VariablePointers variables) {
  std::vector<absl::optional<uint32_t>> leads(variables.size());
  // By entry and number of channels, the last kernel.
  std::map<std::pair<int, uint64_t>, uint32_t> kernels;
  for (size_t v = 0; v < variables.size(); ++v) {
    const auto pruned = PruningOf(config, *variables[v]);
    if (!pruned.has_value() ||
        config.pruning(*pruned).structure() != Pruning::CHANNELS) {
      continue;
    }
    const auto place = static_cast<uint32_t>(v);
    const std::pair<int, uint64_t> kind = {*pruned, ChannelsOf(*variables[v])};
    if (variables[v]->shape_size() >= kKernelRank) kernels[kind] = place;
    const auto before = kernels.find(kind);
    leads[v] = before == kernels.end() ? place : before->second;
  }
  return leads;
}

absl::Status CheckOptimizerNames(const v1::OptimizerConfig& config,
                                 VariablePointers variables) {
  RETURN_IF_ERROR(CheckPatterns(config, variables));
  for (const v1::Variable* const variable : variables) {
    RETURN_IF_ERROR(CheckPruned(config, *variable));
  }
  return CheckChannels(config, variables);
}

}  // namespace paramd
