#include "worker/collective/mirror_exchange.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/status_macros.h"

namespace paramd {

std::vector<double> MakeHeader(const v1::ComputeGradient& step,
                               const std::function<uint32_t()>& checksum) {
  std::vector<double> header = {static_cast<double>(step.epoch()),
                                static_cast<double>(step.begin()), 0, 0};
  if (checksum != nullptr) {
    header[2] = 1;
    header[3] = checksum();
  }
  return header;
}

absl::Status CheckHeaders(absl::Span<const double> headers,
                          const std::vector<std::string>& names) {
  const absl::Span<const double> first = headers.subspan(0, kHeaderNumbers);
  for (size_t r = 1; r * kHeaderNumbers < headers.size(); ++r) {
    const auto other = headers.subspan(r * kHeaderNumbers, kHeaderNumbers);
    if (other[0] != first[0] || other[1] != first[1]) {
      return absl::InternalError(absl::StrFormat(
          "%s is at example %.0f of epoch %.0f, %s at %.0f of epoch %.0f: "
          "their copies can't be the same any more",
          names[r], other[1], other[0], names[0], first[1], first[0]));
    }
    if (first[2] > 0 && other[3] != first[3]) {
      return absl::InternalError(absl::StrFormat(
          "the copies of %s and %s are not the same any more (checksums "
          "%08x and %08x, before example %.0f of epoch %.0f): memory or the "
          "processor of one of them has failed; go on from a checkpoint",
          names[0], names[r], static_cast<uint32_t>(first[3]),
          static_cast<uint32_t>(other[3]), first[1], first[0]));
    }
  }
  return absl::OkStatus();
}

MirrorExchange::MirrorExchange(Options options,
                               std::unique_ptr<Collective> collective)
    : options_(std::move(options)), collective_(std::move(collective)) {
  for (size_t r = 0; r < collective_->size(); ++r) {
    names_.push_back(absl::StrCat("replica ", r));
  }
}

std::vector<uint32_t> MirrorExchange::Begin(const v1::ComputeGradient& step,
                                            GradientSpans gradients) {
  if (sum_ == nullptr) {
    std::vector<uint64_t> elements;
    for (const absl::Span<float> gradient : gradients) {
      elements.push_back(gradient.size());
    }
    sum_ = std::make_unique<BucketedSum>(std::move(elements),
                                         options_.bucket_bytes);
  }
  const bool checks = options_.check_every_steps > 0 &&
                      steps_ % options_.check_every_steps == 0;
  ++steps_;
  header_ = MakeHeader(step, checks ? options_.checksum : nullptr);
  sums_are_made_ = false;
  sum_->Begin(gradients, collective_.get());
  std::vector<uint32_t> shares;
  for (uint32_t r = 0; r < options_.replicas; ++r) {
    shares.push_back(
        static_cast<uint32_t>(collective_->rank()) * options_.replicas + r);
  }
  return shares;
}

absl::Status MirrorExchange::End(std::vector<double>* figures) {
  absl::Status status = sums_are_made_ ? absl::OkStatus() : sum_->End();
  const size_t members = collective_->size();
  std::vector<double> headers(members * kHeaderNumbers);
  if (status.ok()) {
    status = collective_->Gather(header_, absl::MakeSpan(headers));
  }
  if (status.ok()) status = CheckHeaders(headers, names_);
  if (status.ok()) {
    std::vector<double> all(figures->size() * members);
    status = collective_->Gather(*figures, absl::MakeSpan(all));
    *figures = std::move(all);
  }
  // None is lost alone: whoever waits here waits for one that has ended.
  if (absl::IsUnavailable(status)) {
    return absl::CancelledError(status.message());
  }
  return status;
}

}  // namespace paramd
