#include "input/kafka_topic.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/shorten.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

using Kafka = v1::InputSource::Kafka;

// How long one call waits before it looks whether the process ends.
constexpr int kAnswerMs = 2000;
constexpr int kPollMs = 50;
// Where no message comes for so long, Read says that it waits.
constexpr absl::Duration kSaysItWaits = absl::Seconds(2);
constexpr absl::Duration kLogsThatItWaits = absl::Seconds(10);
// Partitions that librdkafka reads ahead of us, and how far.
constexpr size_t kMostStarted = 8;
constexpr const char* kReadAheadKilobytes = "16384";
constexpr size_t kMessagesAtOnce = 4096;

struct Property {
  const char* name;
  const char* value;
};
// Offsets are ours, so these are as they have to be.
constexpr Property kOwn[] = {
    {"auto.offset.reset", "error"},  {"enable.partition.eof", "true"},
    {"enable.auto.commit", "false"}, {"enable.auto.offset.store", "false"},
    {"auto.commit.enable", "false"},
};
constexpr Property kDefaults[] = {
    {"client.id", "paramd"},
    {"check.crcs", "true"},
    {"queued.max.messages.kbytes", kReadAheadKilobytes},
    // Bounds a look for the ends, which heeds no other timeout.
    {"socket.timeout.ms", "10000"},
};
constexpr const char* kBrokers[] = {"bootstrap.servers",
                                    "metadata.broker.list"};

bool IsOwn(const std::string& name) {
  return std::any_of(std::begin(kOwn), std::end(kOwn),
                     [&](const Property& own) { return name == own.name; });
}

bool NamesBrokers(const std::string& name) {
  return std::any_of(std::begin(kBrokers), std::end(kBrokers),
                     [&](const char* one) { return name == one; });
}

using Conf = std::unique_ptr<rd_kafka_conf_t, void (*)(rd_kafka_conf_t*)>;
using Partitions = std::unique_ptr<rd_kafka_topic_partition_list_t,
                                   void (*)(rd_kafka_topic_partition_list_t*)>;

// What librdkafka says of it may have the value in it, which may be a secret.
absl::Status SetProperty(const std::string& name, const std::string& value,
                         rd_kafka_conf_t* conf) {
  char unused[256];
  switch (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), unused,
                            sizeof(unused))) {
    case RD_KAFKA_CONF_OK:
      return absl::OkStatus();
    case RD_KAFKA_CONF_UNKNOWN:
      return absl::InvalidArgumentError(
          absl::StrCat("input.train.kafka.properties names '", Shortened(name),
                       "', which librdkafka does not know"));
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "librdkafka does not take the value that input.train.kafka gives '",
          Shortened(name), "'"));
  }
}

absl::StatusOr<Conf> ConfOf(const Kafka& config) {
  Conf conf(rd_kafka_conf_new(), rd_kafka_conf_destroy);
  RETURN_IF_ERROR(SetProperty(kBrokers[0], config.brokers(), conf.get()));
  for (const Property& one : kDefaults) {
    RETURN_IF_ERROR(SetProperty(one.name, one.value, conf.get()));
  }
  for (const std::string& property : config.properties()) {
    const size_t equals = property.find('=');
    if (equals == std::string::npos) {
      return absl::InvalidArgumentError(
          "a property of input.train.kafka.properties is not name=value");
    }
    const std::string name = property.substr(0, equals);
    if (IsOwn(name) || NamesBrokers(name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input.train.kafka.properties names '", name,
          NamesBrokers(name) ? "'; that is input.train.kafka.brokers"
                             : "', which paramd sets itself"));
    }
    RETURN_IF_ERROR(SetProperty(name, property.substr(equals + 1), conf.get()));
  }
  for (const Property& own : kOwn) {
    RETURN_IF_ERROR(SetProperty(own.name, own.value, conf.get()));
  }
  return conf;
}

bool IsForbidden(rd_kafka_resp_err_t error) {
  return error == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
         error == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
}

bool IsUnknown(rd_kafka_resp_err_t error) {
  return error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
         error == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
         error == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
}

bool IsOutOfRange(rd_kafka_resp_err_t error) {
  return error == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
         error == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE;
}

class KafkaTopic : public Topic {
 public:
  explicit KafkaTopic(const Kafka& config)
      : brokers_(config.brokers()), topic_name_(config.topic()) {}

  absl::Status Open(const Kafka& config) {
    ASSIGN_OR_RETURN(Conf conf, ConfOf(config));
    rd_kafka_conf_set_opaque(conf.get(), this);
    rd_kafka_conf_set_error_cb(conf.get(), OnError);
    rd_kafka_conf_set_log_cb(conf.get(), OnLog);
    char why[512];
    client_ = rd_kafka_new(RD_KAFKA_CONSUMER, conf.get(), why, sizeof(why));
    if (client_ == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("librdkafka can't begin: ", why));
    }
    conf.release();  // The client has it.
    topic_ = rd_kafka_topic_new(client_, topic_name_.c_str(), nullptr);
    if (topic_ != nullptr) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("librdkafka can't read ", name(), ": ",
                     rd_kafka_err2str(rd_kafka_last_error())));
  }

  ~KafkaTopic() override {
    if (topic_ != nullptr) {
      MutexLock reading(&reading_);
      for (const Started& one : started_) StopPartition(one.partition);
      rd_kafka_topic_destroy(topic_);
    }
    if (client_ != nullptr) rd_kafka_destroy(client_);
  }

  std::string name() const override {
    return absl::StrCat("topic '", topic_name_, "'");
  }

  absl::StatusOr<std::vector<Ends>> FindEnds(
      const std::atomic<bool>* stopped) override {
    ASSIGN_OR_RETURN(const uint32_t partitions, CountPartitions());
    std::vector<Ends> ends;
    for (uint32_t partition = 0; partition < partitions; ++partition) {
      if (stopped != nullptr && stopped->load(std::memory_order_relaxed)) {
        return absl::CancelledError("the process ends");
      }
      ASSIGN_OR_RETURN(ends.emplace_back(), EndsOf(partition));
    }
    return ends;
  }

  absl::StatusOr<std::vector<uint64_t>> FindTime(
      absl::Time time, const std::vector<Ends>& ends) override {
    const Partitions asked(
        rd_kafka_topic_partition_list_new(static_cast<int>(ends.size())),
        rd_kafka_topic_partition_list_destroy);
    for (size_t p = 0; p < ends.size(); ++p) {
      rd_kafka_topic_partition_list_add(asked.get(), topic_name_.c_str(),
                                        static_cast<int32_t>(p))
          ->offset = std::max<int64_t>(absl::ToUnixMillis(time), 0);
    }
    rd_kafka_resp_err_t error =
        rd_kafka_offsets_for_times(client_, asked.get(), kAnswerMs);
    std::vector<uint64_t> offsets;
    for (size_t p = 0; p < ends.size(); ++p) {
      const rd_kafka_topic_partition_t& found = asked->elems[p];
      if (error == RD_KAFKA_RESP_ERR_NO_ERROR) error = found.err;
      // Below 0: none is so young.
      offsets.push_back(
          found.offset < 0
              ? ends[p].end
              : std::min(static_cast<uint64_t>(found.offset), ends[p].end));
    }
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return offsets;
    return ErrorOf(error,
                   absl::StrCat("can't find messages of ", name(), " by time"));
  }

  absl::StatusOr<Messages> Read(uint32_t partition, uint64_t begin,
                                uint64_t end) override {
    MutexLock reading(&reading_);
    Reading wanted = {partition, begin, end, {}};
    last_message_ = MonotonicNow();
    absl::Status status;
    while (status.ok() && wanted.next < end) {
      status = stopped_ ? absl::CancelledError("the process ends")
                        : ReadSome(&wanted);
    }
    SetWaiting("");
    RETURN_IF_ERROR(status);
    return std::move(wanted.messages);
  }

  Wait waiting() const override {
    MutexLock lock(&mutex_);
    if (waiting_.empty()) return {};
    return {waiting_, MonotonicNow() - waiting_since_};
  }

  void Stop() override { stopped_ = true; }

 private:
  struct Started {
    uint32_t partition = 0;
    uint64_t next = 0;  // Offset.
  };
  struct Reading {
    uint32_t partition = 0;
    uint64_t next = 0;  // Offset: those before it are decided.
    uint64_t end = 0;
    Messages messages;
    bool is_lost = false;  // Where librdkafka stands is not `next`.
  };

  static void OnError(rd_kafka_t*, int error, const char* reason,
                      void* opaque) {
    static_cast<KafkaTopic*>(opaque)->SetReason(
        absl::StrCat(rd_kafka_err2str(static_cast<rd_kafka_resp_err_t>(error)),
                     ": ", reason));
  }
  static void OnLog(const rd_kafka_t*, int, const char* facility,
                    const char* text) {
    Log(LogLevel::kDebug, "librdkafka says",
        {{"facility", facility}, {"text", text}});
  }

  // ---- who answers, and what

  absl::Status ErrorOf(rd_kafka_resp_err_t error, const std::string& what) {
    rd_kafka_poll(client_, 0);  // Errors of connections, with their reasons.
    const std::string why = error == RD_KAFKA_RESP_ERR_NO_ERROR
                                ? "no answer"
                                : rd_kafka_err2str(error);
    if (IsForbidden(error)) {
      return absl::PermissionDeniedError(absl::StrCat(what, ": ", why));
    }
    const std::string reason = this->reason();
    return absl::UnavailableError(absl::StrCat(
        what, " at ", brokers_, ": ", why, reason.empty() ? "" : "; ", reason));
  }

  absl::StatusOr<uint32_t> CountPartitions() {
    const rd_kafka_metadata_t* found = nullptr;
    rd_kafka_resp_err_t error =
        rd_kafka_metadata(client_, /*all_topics=*/0, topic_, &found, kAnswerMs);
    uint32_t partitions = 0;
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR && found->topic_cnt > 0) {
      error = found->topics[0].err;
      partitions = static_cast<uint32_t>(found->topics[0].partition_cnt);
    }
    if (found != nullptr) rd_kafka_metadata_destroy(found);
    if (IsUnknown(error) ||
        (error == RD_KAFKA_RESP_ERR_NO_ERROR && partitions == 0)) {
      return absl::UnavailableError(
          absl::StrCat("there is no ", name(), " at ", brokers_));
    }
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return partitions;
    return ErrorOf(error, absl::StrCat("can't find ", name()));
  }

  absl::StatusOr<Ends> EndsOf(uint32_t partition) {
    int64_t low = 0;
    int64_t high = 0;
    const rd_kafka_resp_err_t error = rd_kafka_query_watermark_offsets(
        client_, topic_name_.c_str(), static_cast<int32_t>(partition), &low,
        &high, kAnswerMs);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR && low >= 0 && high >= low) {
      return Ends{static_cast<uint64_t>(low), static_cast<uint64_t>(high)};
    }
    return ErrorOf(error, absl::StrCat("can't find the ends of ", name(),
                                       " partition ", partition));
  }

  // ---- reading

  // From where librdkafka reads this partition on.
  absl::Status Start(const Reading& wanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_) {
    const auto found = std::find_if(
        started_.begin(), started_.end(),
        [&](const Started& one) { return one.partition == wanted.partition; });
    if (found != started_.end()) {
      if (found->next == wanted.next) return absl::OkStatus();
      StopPartition(found->partition);
      started_.erase(found);
    }
    if (started_.size() == kMostStarted) {
      StopPartition(started_.front().partition);
      started_.erase(started_.begin());
    }
    if (rd_kafka_consume_start(topic_, static_cast<int32_t>(wanted.partition),
                               static_cast<int64_t>(wanted.next)) != 0) {
      return absl::InternalError(
          absl::StrCat("librdkafka can't read ", WhereOf(wanted), ": ",
                       rd_kafka_err2str(rd_kafka_last_error())));
    }
    started_.push_back({wanted.partition, wanted.next});
    return absl::OkStatus();
  }

  void StopPartition(uint32_t partition) {
    rd_kafka_consume_stop(topic_, static_cast<int32_t>(partition));
  }

  // Where it stands now; a later Start begins anew if that is not known.
  void Keep(const Reading& wanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_) {
    for (auto it = started_.begin(); it != started_.end(); ++it) {
      if (it->partition != wanted.partition) continue;
      if (wanted.is_lost) {
        StopPartition(wanted.partition);
        started_.erase(it);
      } else {
        it->next = wanted.next;
      }
      return;
    }
  }

  absl::Status ReadSome(Reading* wanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_) {
    RETURN_IF_ERROR(Start(*wanted));
    const size_t most =
        std::min<uint64_t>(wanted->end - wanted->next, kMessagesAtOnce);
    batch_.resize(most);
    const ssize_t count =
        rd_kafka_consume_batch(topic_, static_cast<int32_t>(wanted->partition),
                               kPollMs, batch_.data(), most);
    absl::Status status;
    const uint64_t before = wanted->next;
    wanted->is_lost = count < 0;
    for (ssize_t i = 0; i < count; ++i) {
      if (status.ok()) status = Take(*batch_[i], wanted);
      rd_kafka_message_destroy(batch_[i]);
    }
    Keep(*wanted);
    RETURN_IF_ERROR(status);
    rd_kafka_poll(client_, 0);
    if (wanted->next == before) {
      SayThatItWaits(*wanted);
    } else {
      last_message_ = MonotonicNow();
      SetReason("");
    }
    return status;
  }

  // Of a message, or of an event that stands for one.
  absl::Status Take(const rd_kafka_message_t& message, Reading* wanted) {
    if (wanted->is_lost || wanted->next >= wanted->end) {
      // It was read beyond what is wanted, or behind an error.
      wanted->is_lost = true;
      return absl::OkStatus();
    }
    const auto offset = static_cast<uint64_t>(message.offset);
    if (message.err == RD_KAFKA_RESP_ERR_NO_ERROR) {
      if (offset < wanted->next) return absl::OkStatus();
      wanted->next = std::min(offset + 1, wanted->end);
      wanted->is_lost = offset >= wanted->end;
      if (!wanted->is_lost) Append(message, &wanted->messages);
      return absl::OkStatus();
    }
    if (message.err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      // Behind the last message there are only marks of transactions.
      if (offset < wanted->end) return absl::OkStatus();
      wanted->next = wanted->end;
      // It stands behind that and says so once: a later Read begins anew.
      wanted->is_lost = offset > wanted->end;
      return absl::OkStatus();
    }
    wanted->is_lost = true;
    if (IsOutOfRange(message.err)) return PassOver(wanted);
    if (IsForbidden(message.err)) {
      return absl::PermissionDeniedError(
          absl::StrCat(WhereOf(*wanted), ": ", rd_kafka_err2str(message.err)));
    }
    // Also that there is no such topic, which one broker may say by mistake.
    SetReason(rd_kafka_message_errstr(&message));
    return absl::OkStatus();
  }

  static void Append(const rd_kafka_message_t& message, Messages* messages) {
    // One without a value says that a key is no more: nothing to train on.
    if (message.payload == nullptr) return;
    messages->list.push_back({messages->content.size(),
                              static_cast<uint32_t>(message.len),
                              static_cast<uint64_t>(message.offset)});
    Stamp& stamp = messages->stamps.emplace_back();
    stamp.time_ms = rd_kafka_message_timestamp(&message, nullptr);
    stamp.has_key = message.key != nullptr && message.key_len > 0;
    if (stamp.has_key) {
      stamp.key =
          StableHash({static_cast<const char*>(message.key), message.key_len});
    }
    messages->content.append(static_cast<const char*>(message.payload),
                             message.len);
  }

  // The next offset is not there any more: where the partition begins now.
  absl::Status PassOver(Reading* wanted) {
    const absl::StatusOr<Ends> ends = EndsOf(wanted->partition);
    if (absl::IsUnavailable(ends.status())) {
      SetReason(ends.status().message());
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(ends.status());
    if (ends->begin > wanted->next) {
      const uint64_t end = std::min(ends->begin, wanted->end);
      Messages& messages = wanted->messages;
      if (messages.gone_begin == messages.gone_end) {
        messages.gone_begin = wanted->next;
      }
      messages.gone_end = end;
      wanted->next = end;
      return absl::OkStatus();
    }
    if (ends->end >= wanted->end) return absl::OkStatus();  // It was away.
    return absl::FailedPreconditionError(
        absl::StrCat(WhereOf(*wanted), " is past its end, which is ", ends->end,
                     ": it is another topic, or has lost messages"));
  }

  std::string WhereOf(const Reading& wanted) const {
    return absl::StrCat(name(), " partition ", wanted.partition, " offset ",
                        wanted.next);
  }

  // ---- what is said

  void SayThatItWaits(const Reading& wanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_) {
    const absl::Duration waited = MonotonicNow() - last_message_;
    if (waited < kSaysItWaits) return;
    const std::string reason = this->reason();
    const std::string whom = absl::StrCat(WhereOf(wanted), " at ", brokers_,
                                          reason.empty() ? "" : ": ", reason);
    SetWaiting(whom);
    if (waited < kLogsThatItWaits || is_logged_) return;
    is_logged_ = true;
    Log(LogLevel::kWarning, "messages are waited for", {{"of", whom}});
  }

  std::string reason() const {
    MutexLock lock(&mutex_);
    return reason_;
  }
  void SetReason(absl::string_view reason) {
    MutexLock lock(&mutex_);
    reason_ = std::string(reason);
  }
  void SetWaiting(absl::string_view whom)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_) {
    if (whom.empty() && std::exchange(is_logged_, false)) {
      Log(LogLevel::kInfo, "messages come again", {{"of", name()}});
    }
    MutexLock lock(&mutex_);
    waiting_ = std::string(whom);
    waiting_since_ = last_message_;
  }

  const std::string brokers_;
  const std::string topic_name_;
  rd_kafka_t* client_ = nullptr;
  rd_kafka_topic_t* topic_ = nullptr;
  std::atomic<bool> stopped_{false};
  Mutex reading_;  // One thread reads; taken before mutex_.
  // In the order in which they were started.
  std::vector<Started> started_ ABSL_GUARDED_BY(reading_);
  std::vector<rd_kafka_message_t*> batch_ ABSL_GUARDED_BY(reading_);
  Time last_message_ ABSL_GUARDED_BY(reading_);
  bool is_logged_ ABSL_GUARDED_BY(reading_) = false;
  mutable Mutex mutex_;
  std::string reason_ ABSL_GUARDED_BY(mutex_);  // Of the newest error.
  std::string waiting_ ABSL_GUARDED_BY(mutex_);
  Time waiting_since_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Topic>> OpenKafkaTopic(const Kafka& config) {
  auto topic = std::make_unique<KafkaTopic>(config);
  RETURN_IF_ERROR(topic->Open(config));
  return topic;
}

}  // namespace paramd
