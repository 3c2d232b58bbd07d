#include "worker/stages/stage_process.h"

#include <string>
#include <utility>

#include "tensor/message.h"

namespace paramd {

StageProcess::StageProcess(const StageCore::Options& options, MakeStages make)
    : index_(options.index), make_(std::move(make)), core_(options) {}

void StageProcess::AddTo(Runtime* runtime) {
  runtime->AddCore(PeerId::Stage(index_), &core_);
  runtime->HandleIo(
      v1::ComputeStageRequest::descriptor(),
      [this](Outbox::IoItem item, Runtime::IoDone done) {
        const auto request =
            static_cast<const v1::ComputeStageRequest&>(*item.head);
        std::unique_ptr<Lane>& lane = lanes_[request.header().lane()];
        if (lane == nullptr) {
          lane = std::make_unique<Lane>(PeerName(PeerId::Stage(index_)), make_);
        }
        lane->thread.Post([request, content = std::move(item.payload),
                           done = std::move(done),
                           computer = &lane->computer]() {
          IoResult result;
          auto reply = std::make_unique<v1::ComputeStageReply>();
          result.status = computer->Compute(
              request, content.empty() ? Buffer() : content.front(),
              reply.get(), &result.payload);
          result.head = std::move(reply);
          done(std::move(result));
        });
      });
}

}  // namespace paramd
