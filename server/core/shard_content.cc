#include "server/core/shard_content.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

#include "base/crc32c.h"
#include "base/status_macros.h"
#include "config/optimizer_names.h"
#include "proto/refusal.h"
#include "server/core/describe_slices.h"
#include "server/core/layout_check.h"

namespace paramd {
namespace {

constexpr int kMaxVariables = 1000000;
constexpr uint64_t kMaxElements = uint64_t{1} << 48;

}  // namespace

absl::StatusOr<std::unique_ptr<ShardContent>> ShardContent::Create(
    const v1::Configuration& configuration, const Options& options) {
  auto optimizer =
      Optimizer::Create(configuration.optimizer(), configuration.decay_steps());
  if (!optimizer.ok()) {
    return Invalid("optimizer", optimizer.status().message());
  }
  optimizer->UseKernels(*options.kernels);
  std::unique_ptr<ShardContent> content(
      new ShardContent(options, *std::move(optimizer)));
  const auto& variables = configuration.layout().variables();
  content->all_slots_ = SlotsOf(configuration.optimizer(), variables);
  RETURN_IF_ERROR(
      content->AddSlices(configuration.layout(), configuration.seed()));
  const absl::Status named = content->optimizer_.CheckNames(
      {variables.data(), static_cast<size_t>(variables.size())});
  if (!named.ok()) return Invalid("optimizer", named.message());
  RETURN_IF_ERROR(content->CheckMemory(configuration));
  RETURN_IF_ERROR(content->CheckDisk());
  return content;
}

absl::Status ShardContent::CheckMemory(
    const v1::Configuration& configuration) const {
  if (options_.memory == nullptr) return absl::OkStatus();
  uint64_t weights = 0;
  uint64_t slots = 0;
  // Sums of sparse variables are of the rows that a step names.
  uint64_t dense = 0;
  const bool sums =
      configuration.consistency().mode() == v1::Consistency::SYNC &&
      configuration.workers_size() > 1;
  uint64_t keys = 0;
  for (const Slice* const slice : owned_) {
    const BlockPlacement& placement = slice->placement();
    for (int b = 0; b < slice->block_count(); ++b) {
      const uint64_t elements = slice->block_elements(b);
      const uint64_t bytes = elements * BytesOf(placement.format);
      weights += SpareBuffers::BudgetBytes(bytes, placement.values);
      slots += SpareBuffers::BudgetBytes(
          slice->SlotWords(elements) * sizeof(float), placement.slots);
      if (!slice->sparse()) dense += SpareBuffers::BudgetBytes(bytes);
      if (slice->keyed()) {
        keys += KeyTable::MostBytes(elements / slice->row_elements());
      }
    }
  }
  const absl::Status status =
      options_.memory->CheckParts({{"weights", weights},
                                   {"slots", slots},
                                   {"indexes of keys", keys},
                                   {"sums of gradients", sums ? dense : 0}});
  if (status.ok()) return status;
  return Invalid("memory_limit_bytes",
                 absl::StrCat("the variables do not fit: ", status.message()));
}

// Of all of it there may be a copy for a snapshot.
absl::Status ShardContent::CheckDisk() const {
  uint64_t bytes = 0;
  uint64_t mappings = 0;
  std::string variable;
  for (const Slice* const slice : owned_) {
    const BlockPlacement& placement = slice->placement();
    if (placement.disk_bytes() == 0) continue;
    variable = slice->variable().name();
    bytes += 2 * slice->block_count() * placement.disk_bytes();
    // Two buffers, in memory before and after each range.
    mappings += 2 * slice->block_count() *
                (2 * (placement.values.size() + placement.slots.size()) + 2);
  }
  if (bytes == 0) return absl::OkStatus();
  if (options_.disk == nullptr) {
    return Invalid("disk_directory",
                   absl::StrCat("not all rows of '", variable,
                                "' lie in memory (memory_rows), and "
                                "disk_directory of this server is empty: name "
                                "a directory on a disk of its machine"));
  }
  const absl::Status status = options_.disk->Reserve(bytes, mappings);
  return status.ok() ? status : Invalid("disk_directory", status.message());
}

ShardContent::ShardContent(const Options& options, Optimizer optimizer)
    : options_(options),
      spare_(options.memory, options.disk, options.kernels->device),
      optimizer_(std::move(optimizer)) {}

absl::Status ShardContent::AddSlices(const v1::Layout& layout, uint64_t seed) {
  if (layout.variables_size() > kMaxVariables) {
    return Invalid("layout",
                   absl::StrCat("layout has ", layout.variables_size(),
                                " variables; the limit is ", kMaxVariables));
  }
  std::vector<RowShape> shapes;
  absl::flat_hash_set<absl::string_view> names;
  for (const v1::Variable& variable : layout.variables()) {
    ASSIGN_OR_RETURN(const RowShape shape, CheckVariable(variable));
    shapes.push_back(shape);
    if (!names.insert(variable.name()).second) {
      return Invalid(variable.name(), absl::StrCat("layout names variable '",
                                                   variable.name(), "' twice"));
    }
  }
  const auto leads =
      optimizer_.LeadsOf({layout.variables().data(), shapes.size()});
  for (size_t v = 0; v < leads.size(); ++v) {
    if (leads[v] != v) continue;
    pruning_.AddLayer(*leads[v],
                      ChannelsOf(layout.variables(static_cast<int>(v))));
  }
  uint64_t elements = 0;
  for (const v1::Slice& s : layout.slices()) {
    if (s.variable() >= shapes.size() || s.row_begin() >= s.row_end() ||
        s.row_end() > shapes[s.variable()].rows) {
      return Invalid(
          "layout",
          absl::StrCat("slice ", slices_.size(), " is rows ", s.row_begin(),
                       " to ", s.row_end(), " of variable ", s.variable(),
                       ", which does not have them"));
    }
    servers_.push_back(s.server());
    slices_.emplace_back();
    if (s.server() != options_.server) continue;
    slices_.back() = std::make_unique<Slice>(
        layout.variables(s.variable()), shapes[s.variable()].row_elements,
        RowRange{s.row_begin(), s.row_end()}, &spare_);
    Slice* const slice = slices_.back().get();
    owned_.push_back(slice);
    RETURN_IF_ERROR(CheckBuckets(*slice));
    VariableOptions options = optimizer_.OptionsOf(slice->variable());
    options.channel_lead = leads[s.variable()];
    slice->SetTraining(options, optimizer_.slots(options), seed);
    elements += slice->elements();
    bytes_ += slice->BytesOf(slice->elements());
    if (elements > kMaxElements) {
      return Invalid("layout", absl::StrCat("more than ", kMaxElements,
                                            " elements on one server"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Slice*> ShardContent::Find(uint32_t slice,
                                          uint32_t block) const {
  if (slice >= slices_.size()) {
    return Invalid(absl::StrCat("slice ", slice),
                   absl::StrCat("chunk names slice ", slice,
                                "; the layout has ", slices_.size()));
  }
  Slice* const found = slices_[slice].get();
  if (found == nullptr) {
    return Refuse(v1::Refusal::WRONG_OWNER,
                  absl::StrCat("ps-", servers_[slice]),
                  absl::StrCat("slice ", slice, " is on ps-", servers_[slice],
                               "; this is ps-", options_.server));
  }
  if (block >= static_cast<uint32_t>(found->block_count())) {
    return Invalid(
        found->variable().name(),
        absl::StrCat("chunk names block ", block, " of '", found->TensorName(),
                     "', which has ", found->block_count()));
  }
  found->CountNamedBlock();
  return found;
}

bool ShardContent::HasRoom(const std::function<uint64_t()>& needed) {
  MemoryBudget* const memory = options_.memory;
  if (memory == nullptr || memory->limit() == 0) return true;
  if (memory->Fits(needed())) return true;
  // Recycled memory may be what a snapshot's copy is held by besides.
  spare_.Clear();
  pulls_.DropPacked();
  return memory->Fits(needed());
}

absl::Status ShardContent::MakeRoom(absl::string_view what,
                                    const std::function<uint64_t()>& needed) {
  if (HasRoom(needed)) return absl::OkStatus();
  return options_.memory->RefuseNow(absl::StrCat("ps-", options_.server), what,
                                    needed(), options_.retry_after);
}

void ShardContent::Describe(v1::ConfigureReply* reply) const {
  pushes_.staleness().Fill(reply->mutable_staleness());
  uint64_t most = 0;
  for (const Slice* const slice : owned_) {
    for (int b = 0; b < slice->block_count(); ++b) {
      most = std::max(most, slice->block(b).applied());
    }
  }
  reply->set_learning_rate(optimizer_.Rate(most));
  CountTables(owned_, reply->mutable_tables());
}

uint32_t ShardContent::Checksum() const {
  uint32_t sum = 0;
  for (const Slice* const slice : owned_) {
    for (int b = 0; b < slice->block_count(); ++b) {
      const Block& block = slice->block(b);
      const uint64_t applied = block.applied();
      sum = Crc32c(AsBytes(absl::MakeConstSpan(&applied, 1)),
                   block.Checksum(sum));
    }
  }
  return sum;
}

}  // namespace paramd
