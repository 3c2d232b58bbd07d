#include "tests/sim/content_model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "config/wire_format.h"
#include "proto/refusal.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

std::string NameOf(uint32_t server, const Number& generation) {
  return absl::StrCat("ps-", server, " as generation ", generation.first, "-",
                      generation.second);
}

}  // namespace

ContentModel::ContentModel(const IntegerJob& job, const PushLedger& ledger,
                           const SimStorage& storage)
    : job_(job),
      ledger_(ledger),
      storage_(storage),
      optimizer_(*Optimizer::Create(job.config().optimizer(), 0)),
      initial_(job.blocks().size()) {
  for (size_t b = 0; b < initial_.size(); ++b) {
    initial_[b].parts.resize(job_.parts(b));
    const v1::Variable& variable = job_.variables()[job_.blocks()[b].variable];
    if (!variable.keyed() || !job_.has_policy()) continue;
    initial_[b].keys.emplace(variable, BucketRows(variable.shape(1)));
  }
}

absl::Status ContentModel::BeginWith(const ContentModel& trained) {
  const v1::Manifest& manifest = trained.storage_.committed().back();
  for (const v1::ShardFile& file : manifest.files()) {
    ASSIGN_OR_RETURN(const Content* sealed,
                     trained.SealedContent(manifest, file));
    for (size_t b = 0; b < initial_.size(); ++b) {
      if (!sealed->slices[job_.blocks()[b].slice].owned) continue;
      const BlockStory& there = sealed->blocks[b];
      initial_[b].parts = there.parts;
      for (PartStory& part : initial_[b].parts) part.slots.clear();
      if (there.keys.has_value()) initial_[b].keys->BeginWith(*there.keys);
    }
  }
  return absl::OkStatus();
}

absl::Status ContentModel::Configured(const v1::Configuration& configuration,
                                      bool is_layout) {
  const auto [known, is_new] = configurations_.try_emplace(
      NumberOf(configuration.version()), configuration);
  if (!is_new) return absl::OkStatus();
  const uint64_t term = configuration.version().term();
  const uint64_t filled = configuration.servers(0).generation().term();
  lines_.try_emplace(term, LineOf(filled));
  // One that took servers over may have them restore after all.
  if (is_layout) lines_[term] = term;
  for (const v1::ServerMember& member : configuration.servers()) {
    Beginning beginning;
    beginning.directory = member.restore_directory();
    beginning.incarnation = member.incarnation();
    beginning.first = is_layout;
    for (const v1::Slice& slice : configuration.layout().slices()) {
      beginning.slices.push_back(slice.server() == member.index());
    }
    const ServerLife life = {member.index(), NumberOf(member.generation())};
    const auto [other, is_first] = beginnings_.try_emplace(life, beginning);
    if (other->second.incarnation != member.incarnation()) {
      return Wrong("two processes are given ", NameOf(life.first, life.second));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ContentModel::Content*> ContentModel::Find(
    const SimProcess& process, uint32_t server,
    const v1::ServerLife& generation) {
  const ServerLife life = {server, NumberOf(generation)};
  const auto [content, is_new] = contents_.try_emplace(life);
  if (is_new) {
    content->second.process = process;
    const auto beginning = beginnings_.find(life);
    if (beginning == beginnings_.end()) {
      return Wrong(NameOf(server, life.second),
                   " answers, which no configuration lists");
    }
    RETURN_IF_ERROR(Restore(beginning->second, &content->second));
    begun_[life] = content->second;
  }
  if (content->second.process != process) {
    return Wrong("two processes answer as ", NameOf(server, life.second));
  }
  return &content->second;
}

absl::Status ContentModel::Restore(const Beginning& beginning,
                                   Content* content) const {
  content->blocks = initial_;
  content->slices.resize(job_.slices().size());
  content->lossy = !beginning.first;
  for (uint32_t s = 0; s < beginning.slices.size(); ++s) {
    content->slices[s].owned = beginning.slices[s];
  }
  if (beginning.directory.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const v1::Manifest* manifest,
                   ManifestOf(beginning.directory));
  for (const v1::ShardFile& file : manifest->files()) {
    ASSIGN_OR_RETURN(const Content* sealed, SealedContent(*manifest, file));
    for (uint32_t s = 0; s < content->slices.size(); ++s) {
      if (!content->slices[s].owned || !sealed->slices[s].owned) continue;
      content->lossy |= sealed->lossy;
      const IntegerJob::SlicePlace& slice = job_.slices()[s];
      std::copy_n(sealed->blocks.begin() + slice.first_block, slice.blocks,
                  content->blocks.begin() + slice.first_block);
    }
    for (const v1::SavedSlice& saved : file.slices()) {
      for (uint32_t s = 0; s < content->slices.size(); ++s) {
        const IntegerJob::SlicePlace& place = job_.slices()[s];
        if (!content->slices[s].owned ||
            job_.variables()[place.variable].name() != saved.variable() ||
            place.row_begin != saved.row_begin()) {
          continue;
        }
        for (const v1::PushRecord& record : saved.records()) {
          content->slices[s].records[record.worker()] = {
              NumberOf(record.generation()),
              record.sequence(),
              {record.missing_blocks().begin(), record.missing_blocks().end()},
              record.earlier()};
        }
        for (const v1::PushRecord& partial : saved.partial()) {
          content->slices[s].partial.emplace_back(
              partial.worker(), NumberOf(partial.generation()),
              partial.sequence(),
              std::vector<uint32_t>(partial.missing_blocks().begin(),
                                    partial.missing_blocks().end()));
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<const v1::Manifest*> ContentModel::ManifestOf(
    const std::string& directory) const {
  for (const v1::Manifest& manifest : storage_.committed()) {
    if (SimStorage::PathOf(manifest.snapshot()) == directory) return &manifest;
  }
  return Wrong("'", directory, "' was never committed");
}

absl::StatusOr<const ContentModel::Content*> ContentModel::SealedContent(
    const v1::Manifest& manifest, const v1::ShardFile& file) const {
  const ServerLife life = {file.server(), NumberOf(file.server_generation())};
  const auto sealed = sealed_.find({NumberOf(manifest.snapshot()), life});
  if (sealed != sealed_.end()) return &sealed->second;
  return Wrong("checkpoint ", VersionName(manifest.snapshot()), " has '",
               file.name(), "', but ", NameOf(life.first, life.second),
               " never said that it was sealed");
}

absl::StatusOr<uint32_t> ContentModel::BlockOf(uint32_t slice,
                                               uint32_t block) const {
  if (slice >= job_.slices().size() || block >= job_.slices()[slice].blocks) {
    return Wrong("an answer names block ", block, " of slice ", slice,
                 ", which the job has not");
  }
  return job_.slices()[slice].first_block + block;
}

bool ContentModel::Contains(uint32_t server, const Number& generation,
                            uint32_t block, PushIndex push) const {
  const auto content = contents_.find({server, generation});
  if (content == contents_.end()) return false;
  const std::vector<bool>& has = content->second.blocks[block].has;
  return push < has.size() && has[push];
}

absl::StatusOr<bool> ContentModel::Lacks(const v1::Manifest& manifest,
                                         const v1::ShardFile& file,
                                         PushIndex push) const {
  ASSIGN_OR_RETURN(const Content* sealed, SealedContent(manifest, file));
  for (uint32_t b = 0; b < job_.blocks().size(); ++b) {
    if (!sealed->slices[job_.blocks()[b].slice].owned) continue;
    const std::vector<bool>& has = sealed->blocks[b].has;
    if (push >= has.size() || !has[push]) return true;
  }
  return false;
}

std::string ContentModel::DirectoryOf(uint32_t server,
                                      const Number& generation) const {
  const auto beginning = beginnings_.find({server, generation});
  return beginning == beginnings_.end() ? "" : beginning->second.directory;
}

const v1::Configuration* ContentModel::ConfigurationOf(
    const v1::ConfigurationVersion& version) const {
  const auto known = configurations_.find(NumberOf(version));
  return known == configurations_.end() ? nullptr : &known->second;
}

absl::Status ContentModel::CheckVersion(const ServerLife& life, uint32_t block,
                                        const Content& content,
                                        const v1::BlockVersion& version) {
  const uint32_t slice = job_.blocks()[block].slice;
  const std::string name =
      absl::StrCat("block ", block, " of ", NameOf(life.first, life.second));
  if (!content.slices[slice].owned) return Wrong(name, " is not there");
  const auto [owner, is_new] = lives_.try_emplace(version.life(), life, slice);
  const auto [of, is_first] =
      life_of_.try_emplace({life, slice}, version.life());
  if (version.life() == 0 || owner->second != std::pair(life, slice) ||
      of->second != version.life()) {
    return Wrong(name, " has life ", version.life(),
                 ", which is that of other content");
  }
  const size_t pushes = content.blocks[block].pushes.size();
  if (version.counter() != pushes) {
    return Wrong(name, " has version ", version.counter(), "; ", pushes,
                 " pushes are in");
  }
  return absl::OkStatus();
}

absl::Status ContentModel::Pulled(const SimProcess& server,
                                  const v1::PullRequest& request,
                                  const BufferChain& names,
                                  const v1::PullReply& reply,
                                  const BufferChain& payload) {
  const uint32_t index = server.peer.index;
  ASSIGN_OR_RETURN(Content* const content,
                   Find(server, index, reply.server_generation()));
  const ServerLife life = {index, NumberOf(reply.server_generation())};
  const auto format = FormatOf(reply.encoding());
  if (!format.has_value()) return Wrong("a pull's answer has no format");
  ChainReader reader(payload);
  for (int i = 0; i < reply.blocks_size(); ++i) {
    const v1::PulledBlock& pulled = reply.blocks(i);
    ASSIGN_OR_RETURN(const uint32_t block,
                     BlockOf(pulled.slice(), pulled.block()));
    RETURN_IF_ERROR(CheckVersion(life, block, *content, pulled.version()));
    const v1::BlockVersion& known = request.blocks(i).known();
    if (pulled.elements() == 0) {
      ++counts_.blocks_unchanged;
      if (known.life() == pulled.version().life() &&
          known.counter() == pulled.version().counter()) {
        continue;
      }
      return Wrong(NameOf(index, life.second), " says that block ", block,
                   " is unchanged, which it is not");
    }
    const std::vector<float> wanted = WantedOf(block, *content);
    if (pulled.elements() != wanted.size()) {
      return Wrong("a pull's answer has ", pulled.elements(),
                   " elements of block ", block, ", not ", wanted.size());
    }
    RETURN_IF_ERROR(CheckPulled(life, block, wanted, *format, &reader));
  }
  return RowsPulled(life, request, names, reply, *content, *format, &reader);
}

absl::Status ContentModel::RowsPulled(
    const ServerLife& life, const v1::PullRequest& request,
    const BufferChain& names, const v1::PullReply& reply,
    const Content& content, NumberFormat format, ChainReader* reader) {
  const v1::RowBlocks& rows = request.rows();
  if (reply.row_versions().lives_size() != rows.rows_size() ||
      reply.row_versions().counters_size() != rows.rows_size()) {
    return Wrong("a pull's answer has not a version for each block");
  }
  ChainReader name_reader(names);
  for (int i = 0; i < rows.rows_size(); ++i) {
    ASSIGN_OR_RETURN(const uint32_t block,
                     BlockOf(rows.slices(i), rows.blocks(i)));
    v1::BlockVersion version;
    version.set_life(reply.row_versions().lives(i));
    version.set_counter(reply.row_versions().counters(i));
    RETURN_IF_ERROR(CheckVersion(life, block, content, version));
    ASSIGN_OR_RETURN(const std::vector<float> wanted,
                     WantedRowsOf(block, rows.rows(i), content, &name_reader));
    RETURN_IF_ERROR(CheckPulled(life, block, wanted, format, reader));
  }
  return absl::OkStatus();
}

absl::Status ContentModel::CheckListed(
    const v1::PushRequest& request,
    const v1::ConfigurationVersion& configuration) const {
  const v1::Header& header = request.header();
  const auto known = configurations_.find(NumberOf(configuration));
  if (known == configurations_.end()) {
    return Wrong("a server has configuration ", VersionName(configuration),
                 ", which nobody told");
  }
  for (const v1::WorkerMember& worker : known->second.workers()) {
    if (worker.index() == header.worker() &&
        worker.generation() == header.generation()) {
      return absl::OkStatus();
    }
  }
  return Wrong("worker-", header.worker(), " generation ",
               VersionName(header.generation()),
               " may push, which configuration ", VersionName(configuration),
               " does not list");
}

absl::Status ContentModel::Pushed(const SimProcess& server,
                                  const v1::PushRequest& request,
                                  const v1::PushReply& reply) {
  const uint32_t index = server.peer.index;
  ASSIGN_OR_RETURN(Content* const content,
                   Find(server, index, reply.server_generation()));
  ASSIGN_OR_RETURN(const PushIndex push, ledger_.Find(request.header()));
  RETURN_IF_ERROR(CheckListed(request, reply.configuration()));
  const ServerLife life = {index, NumberOf(reply.server_generation())};
  bool applied = false;
  for (const AnsweredBlock& pushed : AnsweredBlocks(request, reply)) {
    ASSIGN_OR_RETURN(const uint32_t block, BlockOf(pushed.slice, pushed.block));
    const std::vector<bool>& has = content->blocks[block].has;
    const bool is_in = push < has.size() && has[push];
    const std::string name =
        absl::StrCat(ledger_.NameOf(push), " in block ", block, " of ",
                     NameOf(index, life.second));
    switch (pushed.result) {
      case v1::PushedBlock::APPLIED:
        if (is_in) return Wrong(name, " is applied a second time");
        if (job_.SpoiledBlock(ledger_.push(push).batch) == block) {
          return Wrong(name, " is applied, and is not finite");
        }
        NoteFork(push, block, content);
        content->log.push_back({push, block, ReadBefore(pushed, life)});
        Apply(content->log.back(), content, &counts_);
        applied = true;
        break;
      case v1::PushedBlock::ALREADY_APPLIED:
        if (!is_in) return Wrong(name, " is said to be in, and is not");
        ++counts_.blocks_repeated;
        break;
      case v1::PushedBlock::SUPERSEDED:
        ++counts_.blocks_superseded;
        break;
      default:
        return Wrong(name, " has no result");
    }
    if (!content->slices[pushed.slice].owned) {
      return Wrong(name, ", which is not there");
    }
    if (!pushed.version.has_value()) continue;
    RETURN_IF_ERROR(CheckVersion(life, block, *content, *pushed.version));
  }
  counts_.chunks_applied += applied ? 1 : 0;
  return absl::OkStatus();
}

// What the server must have done of it, by what it was told.
void ContentModel::NoteFork(PushIndex push, uint32_t block, Content* content) {
  const Number& stamp = ledger_.push(push).stamp;
  if (stamp > content->snapshot) {
    counts_.forks_given_up += content->forked.empty() ? 0 : 1;
    content->snapshot = stamp;
    content->sealed = false;
    content->forked.clear();
  }
  if (content->sealed || content->snapshot == Number()) return;
  if (stamp == content->snapshot) {
    counts_.forked_by_stamp += content->forked.insert(block).second ? 1 : 0;
    return;
  }
  counts_.applied_to_both += content->forked.count(block);
  if (stamp != Number() && !content->forked.empty()) ++counts_.late_stamps;
}

void ContentModel::Apply(const Applied& applied, Content* content,
                         Counts* counts) const {
  const auto [push, block, read] = applied;
  if (counts != nullptr) ++counts->blocks_applied;
  const PushLedger::Push& known = ledger_.push(push);
  const IntegerJob::BlockPlace& place = job_.blocks()[block];
  BlockStory& story = content->blocks[block];
  Counts none;
  for (const size_t p :
       PartsFor(applied, &story, counts != nullptr ? counts : &none)) {
    PartStory& part = story.parts[p];
    if (job_.is_replayed()) Replay(applied, story.pushes.size(), p, &part);
    part.sum += known.coefficients[block];
  }
  story.pushes.push_back(push);
  if (story.has.size() <= push) story.has.resize(push + 64);
  story.has[push] = true;
  SliceStory& slice = content->slices[place.slice];
  Record& record = slice.records[known.session.worker];
  const auto newest = std::pair(record.generation, record.sequence);
  const auto now = std::pair(known.session.generation, known.sequence);
  if (now < newest) return;  // CheckRecords will find it.
  if (now > newest) {
    if (!record.missing.empty()) {
      slice.partial.emplace_back(known.session.worker, record.generation,
                                 record.sequence, record.missing);
    }
    const bool is_gap = record.generation == known.session.generation &&
                        known.sequence > record.sequence + 1;
    if (counts != nullptr) counts->gaps += is_gap ? 1 : 0;
    const uint64_t earlier = record.earlier + (record.sequence > 0 ? 1 : 0);
    record = {known.session.generation, known.sequence, {}, earlier};
    for (uint32_t b = 0; b < job_.slices()[place.slice].blocks; ++b) {
      record.missing.push_back(b);
    }
  }
  record.missing.erase(
      std::remove(record.missing.begin(), record.missing.end(), place.block),
      record.missing.end());
}

absl::Status ContentModel::Sealed(const SimProcess& server,
                                  const v1::SealRequest& request) {
  const auto index = static_cast<int>(server.peer.index);
  if (index >= request.server_generations_size()) {
    return Wrong("a snapshot of fewer servers is sealed");
  }
  const v1::ServerLife& generation = request.server_generations(index);
  ASSIGN_OR_RETURN(Content* const content,
                   Find(server, server.peer.index, generation));
  const ServerLife life = {server.peer.index, NumberOf(generation)};
  const Number number = NumberOf(request.header().snapshot());
  // The same call again freezes nothing.
  const auto [sealed, is_first] =
      sealed_.try_emplace({number, life}, begun_.at(life));
  if (!is_first) return absl::OkStatus();
  for (const Applied& applied : content->log) {
    if (ledger_.push(applied.push).stamp < number) {
      Apply(applied, &sealed->second, /*counts=*/nullptr);
    }
  }
  if (number > content->snapshot) {
    counts_.forks_given_up += content->forked.empty() ? 0 : 1;
    content->forked.clear();
  }
  for (uint32_t b = 0; b < job_.blocks().size(); ++b) {
    if (!content->slices[job_.blocks()[b].slice].owned) continue;
    counts_.forked_at_seal += content->forked.count(b) == 0 ? 1 : 0;
  }
  content->snapshot = number;
  content->sealed = true;
  content->forked.clear();
  return absl::OkStatus();
}

absl::Status ContentModel::CheckCheckpoint(const v1::Manifest& manifest) {
  std::vector<bool> saved_slices(job_.slices().size());
  std::vector<std::string> slots = {""};
  for (const Slot& slot : optimizer_.slots()) slots.emplace_back(slot.name);
  for (size_t v = 0; v < job_.variables().size(); ++v) {
    const size_t kept = job_.variables()[v].untrained() ? 1 : slots.size();
    for (size_t s = 0; s < kept; ++s) {
      ASSIGN_OR_RETURN(const SavedRows saved,
                       ReadRows(storage_, job_, manifest, v, slots[s]));
      for (const v1::ShardFile& file : manifest.files()) {
        ASSIGN_OR_RETURN(const Content* content, SealedContent(manifest, file));
        RETURN_IF_ERROR(
            CheckBlocks(*content, v, saved, static_cast<int>(s) - 1));
      }
    }
  }
  for (const v1::ShardFile& file : manifest.files()) {
    ASSIGN_OR_RETURN(const Content* content, SealedContent(manifest, file));
    for (size_t s = 0; s < saved_slices.size(); ++s) {
      saved_slices[s] = saved_slices[s] || content->slices[s].owned;
    }
    for (const v1::SavedSlice& saved : file.slices()) {
      RETURN_IF_ERROR(CheckSaved(saved, *content));
    }
  }
  return std::count(saved_slices.begin(), saved_slices.end(), false) == 0
             ? absl::OkStatus()
             : Wrong("a slice is in no file");
}

absl::Status ContentModel::CheckBlocks(const Content& content, size_t variable,
                                       const SavedRows& saved, int slot) const {
  for (uint32_t b = 0; b < job_.blocks().size(); ++b) {
    const IntegerJob::BlockPlace& place = job_.blocks()[b];
    if (place.variable != variable || !content.slices[place.slice].owned) {
      continue;
    }
    const uint64_t keys =
        saved.present.empty() ? 0 : place.elements / RowElements(variable);
    for (uint64_t k = 0; k < keys; ++k) {
      const std::vector<PartStory>& parts = content.blocks[b].parts;
      const PartStory& part = parts[k / (keys / parts.size())];
      const uint64_t key = place.first_element / RowElements(variable) + k;
      if (saved.present[key] == part.has_rows) continue;
      return Wrong("key ", key, " of '", job_.variables()[variable].name(),
                   part.has_rows ? "' has no row" : "' has a row", " (",
                   content.blocks[b].pushes.size(), " pushes)");
    }
    for (uint64_t e = 0; e < place.elements; ++e) {
      const float is = saved.numbers[place.first_element + e];
      const float wanted = Wanted(content, b, e, slot);
      if (is == wanted) continue;
      return Wrong("element ", place.first_element + e, " of '",
                   job_.variables()[variable].name(), "'",
                   slot < 0 ? "" : " in a slot", " is ", is, ", not ", wanted,
                   " (", content.blocks[b].pushes.size(), " pushes)");
    }
  }
  return absl::OkStatus();
}

absl::Status ContentModel::CheckSaved(const v1::SavedSlice& saved,
                                      const Content& content) {
  for (uint32_t s = 0; s < job_.slices().size(); ++s) {
    const IntegerJob::SlicePlace& place = job_.slices()[s];
    if (job_.variables()[place.variable].name() != saved.variable() ||
        place.row_begin != saved.row_begin()) {
      continue;
    }
    uint32_t block = place.first_block;
    for (const v1::AppliedRun& run : saved.applied()) {
      for (uint32_t i = 0; i < run.blocks(); ++i, ++block) {
        if (block >= place.first_block + place.blocks ||
            content.blocks[block].pushes.size() != run.applied()) {
          return Wrong("block ", block, " is saved with ", run.applied(),
                       " pushes, which are not what is in it");
        }
      }
    }
    return CheckRecords(saved, content.slices[s]);
  }
  return Wrong("'", saved.variable(), "' is saved, which the job has not");
}

// A record that only fences, with sequence 0, may follow on any; what it
// overwrote is partial.
absl::Status ContentModel::CheckRecords(const v1::SavedSlice& saved,
                                        const SliceStory& story) {
  std::vector<Unfinished> wanted = story.partial;
  std::map<uint32_t, Record> left = story.records;
  for (const v1::PushRecord& record : saved.records()) {
    const Number generation = NumberOf(record.generation());
    const std::string name = absl::StrCat(
        "the record of ", SessionName({record.worker(), generation}), " in '",
        saved.variable(), "'");
    const auto known = left.find(record.worker());
    const std::vector<uint32_t> missing(record.missing_blocks().begin(),
                                        record.missing_blocks().end());
    counts_.unfinished_in_manifests += missing.empty() ? 0 : 1;
    const bool fences = record.sequence() == 0;
    if (known != left.end()) {
      const bool more =
          NumberOf(record.generation()) != known->second.generation &&
          known->second.sequence > 0;
      const uint64_t earlier = known->second.earlier + (more ? 1 : 0);
      if (record.earlier() != earlier) {
        return Wrong(name, " says that ", record.earlier(),
                     " pushes came before; ", earlier, " did");
      }
    }
    if (known == left.end()) {
      if (fences) continue;
      return Wrong(name, " is of a push that was never applied");
    }
    Record told = std::move(known->second);
    left.erase(known);
    if (fences && generation > told.generation) {
      if (!told.missing.empty()) {
        wanted.emplace_back(record.worker(), told.generation, told.sequence,
                            told.missing);
      }
    } else if (generation != told.generation ||
               record.sequence() != told.sequence || missing != told.missing) {
      return Wrong(name, " says push ", record.sequence(), " without blocks ",
                   absl::StrJoin(missing, ","), "; in is push ", told.sequence,
                   " without blocks ", absl::StrJoin(told.missing, ","));
    }
  }
  if (!left.empty()) {
    return Wrong("no record of worker-", left.begin()->first, " in '",
                 saved.variable(), "'");
  }
  std::vector<Unfinished> partial;
  for (const v1::PushRecord& record : saved.partial()) {
    partial.emplace_back(record.worker(), NumberOf(record.generation()),
                         record.sequence(),
                         std::vector<uint32_t>(record.missing_blocks().begin(),
                                               record.missing_blocks().end()));
  }
  counts_.partial_in_manifests += partial.size();
  std::sort(wanted.begin(), wanted.end());
  std::sort(partial.begin(), partial.end());
  if (wanted == partial) return absl::OkStatus();
  return Wrong("'", saved.variable(), "' names ", partial.size(),
               " partial pushes; ", wanted.size(), " were left unfinished");
}

absl::StatusOr<std::vector<ContentModel::BlockContent>>
ContentModel::ContentsOf(const v1::Manifest& manifest) const {
  std::vector<BlockContent> contents(job_.blocks().size());
  for (const v1::ShardFile& file : manifest.files()) {
    ASSIGN_OR_RETURN(const Content* sealed, SealedContent(manifest, file));
    for (uint32_t b = 0; b < contents.size(); ++b) {
      if (!sealed->slices[job_.blocks()[b].slice].owned) continue;
      contents[b].lossy = sealed->lossy;
      for (const PushIndex push : sealed->blocks[b].pushes) {
        ++contents[b].batches[ledger_.push(push).batch];
      }
    }
  }
  return contents;
}

}  // namespace paramd
