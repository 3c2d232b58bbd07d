#include "server/parameter_server.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/crc32c.h"
#include "base/log.h"
#include "base/worker_thread.h"
#include "checkpoint/nonce_file.h"
#include "checkpoint/restore_reader.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/warm_start.h"
#include "net/heard_setting.h"
#include "net/threaded_core.h"
#include "net/traced_core.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "server/shard_stats.h"

namespace paramd {
namespace {

// What is not seen here is somebody else's to write.
IoResult WriteShard(const OwnDirectories& own, const v1::WriteShard& asked,
                    const BufferChain& payload) {
  IoResult result;
  const auto directory = own.Prepared(asked.directory());
  result.status = directory.status();
  if (!directory.ok()) return result;
  v1::WriteShard request = asked;
  request.set_directory(*directory);
  if (directory->empty() || !HasNonceFile(*directory, asked.nonce())) {
    auto bytes = ShardFileBytes(request, payload);
    result.status = bytes.status();
    if (!bytes.ok()) return result;
    auto unseen = std::make_unique<v1::WriteShardResult>();
    *unseen->mutable_file() = asked.file();
    unseen->set_unseen(true);
    result.head = std::move(unseen);
    result.payload = *std::move(bytes);
    return result;
  }
  auto written = WriteShardFile(request, payload);
  result.status = written.status();
  if (written.ok()) {
    result.head = std::make_unique<v1::WriteShardResult>(*std::move(written));
  }
  return result;
}

// Into `memory`, if there is any.
IoResult ReadSlices(const OwnDirectories& own, const v1::ReadSlices& asked,
                    BufferChain memory, RestoreReader* reader) {
  IoResult result;
  const auto directory = own.Committed(asked.path());
  result.status = directory.status();
  if (!directory.ok()) return result;
  result.payload = std::move(memory);
  auto read = std::make_unique<v1::ReadSlicesResult>();
  v1::ReadSlices request = asked;
  request.set_path(*directory);
  if (!directory->empty()) {
    result.status = reader->Read(request, read.get(), &result.payload);
  } else {
    result.payload.clear();
    read->set_unseen(true);
  }
  result.head = std::move(read);
  return result;
}

IoResult ReadInitial(const OwnDirectories& own,
                     const v1::ReadWarmStart& asked) {
  IoResult result;
  const auto path = own.WarmStart(asked.warm_start().path());
  result.status = path.status();
  if (!path.ok()) return result;
  auto read = std::make_unique<v1::ReadWarmStartResult>();
  read->set_unseen(path->empty());
  if (!path->empty()) {
    v1::ReadWarmStart request = asked;
    request.mutable_warm_start()->set_path(*path);
    result.status = ReadWarmStart(request, read.get(), &result.payload);
  }
  result.head = std::move(read);
  return result;
}

}  // namespace

// One shard, and what works for it outside.
class ParameterServer::Part {
 public:
  // Both outlive it.
  Part(const Shard::Options& options, const OwnDirectories* directories,
       ChromeTrace* trace)
      : directories_(directories),
        device_(options.kernels->device),
        shard_(options),
        traced_(&shard_, trace),
        files_("ps-files") {}

  // On the runtime's thread.
  void ServeOn(PeerId self, Runtime* runtime) {
    runtime->AddCore(self, &traced_);
    HandleIos([&](const auto* type, Runtime::IoHandler handler) {
      runtime->HandleIo(type, std::move(handler));
    });
  }

  // On a thread of its own.
  void ServeBeside(PeerId self, Runtime* runtime) {
    threaded_ = std::make_unique<ThreadedCore>(PeerName(self), &traced_,
                                               runtime->Waker());
    HandleIos([&](const auto* type, Runtime::IoHandler handler) {
      threaded_->HandleIo(type, std::move(handler));
    });
    runtime->AddCore(self, threaded_.get());
    runtime->OnExpired(
        self, [core = threaded_.get()](CallId call) { core->Withdraw(call); });
  }

  uint32_t Checksum() const {
    uint32_t sum = 0;
    if (threaded_ == nullptr) return shard_.Checksum();
    threaded_->Look([&] { sum = shard_.Checksum(); });
    return sum;
  }

  bool let_go() const { return shard_.let_go(); }
  bool is_missed() const { return shard_.is_missed(); }

  void FillStatus(v1::StatusReply* status) const {
    if (threaded_ == nullptr) return shard_.FillStatus(status);
    threaded_->Look([&] { shard_.FillStatus(status); });
  }

 private:
  using Work = std::function<IoResult(Outbox::IoItem& item)>;

  template <typename HandleIo>
  void HandleIos(HandleIo handle) {
    handle(v1::WriteShard::descriptor(), OnFiles([this](const auto& item) {
             Fetch(item.payload);
             return WriteShard(*directories_,
                               static_cast<const v1::WriteShard&>(*item.head),
                               item.payload);
           }));
    handle(v1::ReadSlices::descriptor(), OnFiles([this](auto& item) {
             return ReadSlices(*directories_,
                               static_cast<const v1::ReadSlices&>(*item.head),
                               std::exchange(item.payload, {}), &restore_);
           }));
    handle(v1::SettingChange::descriptor(),
           [](Outbox::IoItem item, const Runtime::IoDone& done) {
             done(HearSetting(*item.head));
           });
    handle(v1::ReadWarmStart::descriptor(), OnFiles([this](const auto& item) {
             return ReadInitial(
                 *directories_,
                 static_cast<const v1::ReadWarmStart&>(*item.head));
           }));
  }

  // What is going to be written, of all that lies on a device.
  void Fetch(const BufferChain& payload) const {
    for (const Buffer& buffer : payload) {
      if (device_ == nullptr || !device_->Has(buffer.bytes())) continue;
      device_->Fetch(buffer.bytes());
    }
  }

  // Shared only because std::function must be copyable. The frozen bytes go
  // with the item: whoever drops it last releases them.
  Runtime::IoHandler OnFiles(Work work) {
    return [this, work = std::move(work)](Outbox::IoItem item,
                                          Runtime::IoDone done) {
      auto held = std::make_shared<Outbox::IoItem>(std::move(item));
      files_.Post([work, held, done = std::move(done)] {
        IoResult result = work(*held);
        held->payload.clear();
        done(std::move(result));
      });
    };
  }

  const OwnDirectories* const directories_;
  LoopDevice* const device_;  // May be null.
  Shard shard_;
  TracedCore traced_;
  RestoreReader restore_;  // Of files_.
  WorkerThread files_;
  std::unique_ptr<ThreadedCore> threaded_;  // Null: there is one shard.
};

ParameterServer::ParameterServer(const std::vector<Shard::Options>& shards,
                                 const OwnDirectories::Settings& settings,
                                 Runtime* runtime, ChromeTrace* trace)
    : directories_(settings) {
  if (directories_.checkpoints().empty()) {
    Log(LogLevel::kInfo,
        "checkpoint.directory and run_dir are not set here: this server's part "
        "of each checkpoint goes through the chief");
  }
  for (const Shard::Options& options : shards) {
    const PeerId self = PeerId::Ps(options.peer_or_index());
    parts_.push_back(std::make_unique<Part>(options, &directories_, trace));
    if (shards.size() == 1) {
      parts_.back()->ServeOn(self, runtime);
    } else {
      parts_.back()->ServeBeside(self, runtime);
    }
  }
  runtime->OnStatus([this](v1::StatusReply* status) { FillStatus(status); });
}

ParameterServer::~ParameterServer() = default;

uint32_t ParameterServer::Checksum() const {
  uint32_t all = 0;
  for (const auto& part : parts_) {
    const uint32_t sum = part->Checksum();
    all = Crc32c(AsBytes(absl::MakeConstSpan(&sum, 1)), all);
  }
  return all;
}

bool ParameterServer::was_drained() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part->let_go(); });
}

bool ParameterServer::is_missed() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part->is_missed(); });
}

void ParameterServer::FillStatus(v1::StatusReply* status) const {
  if (parts_.size() == 1) return parts_.front()->FillStatus(status);
  for (const auto& part : parts_) {
    v1::StatusReply one;
    part->FillStatus(&one);
    *status->mutable_generation() = one.generation();
    *status->mutable_configuration() = one.configuration();
    *status->add_shards() = one.server();
  }
  *status->mutable_server() = TogetherOf(status->shards());
}

}  // namespace paramd
