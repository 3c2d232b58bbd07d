#include "server/parameter_server.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"

#include "checkpoint/shard_file.h"
#include "checkpoint/warm_start.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {
namespace {

IoResult WriteShard(const v1::WriteShard& request, const BufferChain& payload) {
  IoResult result;
  auto written = WriteShardFile(request, payload);
  result.status = written.status();
  if (written.ok()) {
    result.head = std::make_unique<v1::WriteShardResult>(*std::move(written));
  }
  return result;
}

IoResult ReadSlices(const v1::ReadSlices& request) {
  IoResult result;
  auto read = std::make_unique<v1::ReadSlicesResult>();
  result.status =
      ReadSlicesFromCheckpoint(request, read.get(), &result.payload);
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
                                 Runtime* runtime)
    : shard_(options), files_("ps-files") {
  runtime->AddCore(PeerId::Ps(options.index), &shard_);
  runtime->OnStatus(
      [this](v1::StatusReply* status) { shard_.FillStatus(status); });
  // Shared only because std::function must be copyable. The frozen bytes go
  // with the item: whoever drops it last releases them.
  runtime->HandleIo(v1::WriteShard::descriptor(), [this](Outbox::IoItem item,
                                                         Runtime::IoDone done) {
    auto work = std::make_shared<Outbox::IoItem>(std::move(item));
    files_.Post([work, done = std::move(done)] {
      const auto& request = static_cast<const v1::WriteShard&>(*work->head);
      IoResult result = WriteShard(request, work->payload);
      work->payload.clear();
      done(std::move(result));
    });
  });
  runtime->HandleIo(v1::ReadSlices::descriptor(), [this](Outbox::IoItem item,
                                                         Runtime::IoDone done) {
    auto work = std::make_shared<Outbox::IoItem>(std::move(item));
    files_.Post([work, done = std::move(done)] {
      done(ReadSlices(static_cast<const v1::ReadSlices&>(*work->head)));
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
