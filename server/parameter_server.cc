#include "server/parameter_server.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "checkpoint/file.h"
#include "checkpoint/nonce_file.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/warm_start.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {
namespace {

// Where this process has what the coordinator calls `directory`: beneath a root
// of its own, if it was given one.
std::string SeenAs(const std::string& root, const std::string& directory) {
  if (root.empty() || root[0] != '/') return directory;
  return absl::StrCat(root, "/", directory.substr(directory.rfind('/') + 1));
}

// What is not seen here is somebody else's to write.
IoResult WriteShard(const std::string& root, const v1::WriteShard& asked,
                    const BufferChain& payload) {
  IoResult result;
  v1::WriteShard request = asked;
  request.set_directory(SeenAs(root, asked.directory()));
  if (asked.nonce() != 0 &&
      !HasNonceFile(request.directory(), asked.nonce())) {
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

IoResult ReadSlices(const std::string& root, const v1::ReadSlices& asked,
                    RestoreReader* reader) {
  IoResult result;
  auto read = std::make_unique<v1::ReadSlicesResult>();
  v1::ReadSlices request = asked;
  request.set_path(SeenAs(root, asked.path()));
  if (IsDirectory(request.path())) {
    result.status = reader->Read(request, read.get(), &result.payload);
  } else {
    read->set_unseen(true);
  }
  result.head = std::move(read);
  return result;
}

IoResult ReadInitial(const v1::ReadWarmStart& request) {
  IoResult result;
  auto read = std::make_unique<v1::ReadWarmStartResult>();
  result.status = ReadWarmStart(request, read.get(), &result.payload);
  result.head = std::move(read);
  return result;
}

}  // namespace

ParameterServer::ParameterServer(const Shard::Options& options,
                                 std::string checkpoint_directory,
                                 Runtime* runtime)
    : checkpoint_directory_(std::move(checkpoint_directory)),
      shard_(options),
      files_("ps-files") {
  runtime->AddCore(PeerId::Ps(options.index), &shard_);
  runtime->OnStatus(
      [this](v1::StatusReply* status) { shard_.FillStatus(status); });
  // Shared only because std::function must be copyable. The frozen bytes go
  // with the item: whoever drops it last releases them.
  runtime->HandleIo(v1::WriteShard::descriptor(), [this](Outbox::IoItem item,
                                                         Runtime::IoDone done) {
    auto work = std::make_shared<Outbox::IoItem>(std::move(item));
    files_.Post([this, work, done = std::move(done)] {
      const auto& request = static_cast<const v1::WriteShard&>(*work->head);
      IoResult result =
          WriteShard(checkpoint_directory_, request, work->payload);
      work->payload.clear();
      done(std::move(result));
    });
  });
  runtime->HandleIo(v1::ReadSlices::descriptor(), [this](Outbox::IoItem item,
                                                         Runtime::IoDone done) {
    auto work = std::make_shared<Outbox::IoItem>(std::move(item));
    files_.Post([this, work, done = std::move(done)] {
      done(ReadSlices(checkpoint_directory_,
                      static_cast<const v1::ReadSlices&>(*work->head),
                      &restore_));
    });
  });
  runtime->HandleIo(
      v1::ReadWarmStart::descriptor(),
      [this](Outbox::IoItem item, Runtime::IoDone done) {
        auto work = std::make_shared<Outbox::IoItem>(std::move(item));
        files_.Post([work, done = std::move(done)] {
          done(ReadInitial(static_cast<const v1::ReadWarmStart&>(*work->head)));
        });
      });
}

}  // namespace paramd
