#include <cmath>
#include <limits>

#include "process/observe/metric_table.h"

namespace paramd::metric_table {
namespace {

// Servers count in powers of two: 0, 1, 2 to 3, 4 to 7 and so on.
void FillStaleness(const Source& from, Samples* to) {
  if (!from.status.has_server()) return;
  const v1::Staleness& staleness = from.server().staleness();
  ClientMetric::Histogram histogram;
  histogram.sample_count = staleness.blocks();
  histogram.sample_sum = static_cast<double>(staleness.sum());
  uint64_t below = 0;
  for (int i = 0; i + 1 < staleness.histogram_size(); ++i) {
    below += staleness.histogram(i);
    histogram.bucket.push_back({below, std::exp2(i) - 1});
  }
  histogram.bucket.push_back(
      {staleness.blocks(), std::numeric_limits<double>::infinity()});
  to->Add(histogram);
}

// One figure of a role, if the process has the role.
template <auto Figure>
void OfServer(const Source& from, Samples* to) {
  if (from.status.has_server()) {
    to->Add(static_cast<double>((from.server().*Figure)()));
  }
}

// One figure of each table of a server.
template <auto Figure>
void OfTables(const Source& from, Samples* to) {
  for (const v1::TableStats& table : from.server().tables()) {
    to->Add(static_cast<double>((table.*Figure)()),
            {{"variable", table.variable()}});
  }
}

// One figure of the places of servers that a process has, with replication.
template <auto Figure>
void OfPlaces(const Source& from, Samples* to) {
  const auto& shards = from.status.shards();
  const bool has_places =
      !shards.empty() && shards[0].replica() != v1::REPLICA_ROLE_UNSPECIFIED;
  if (has_places) OfServer<Figure>(from, to);
}

constexpr Metric kServerMetrics[] = {
    {"paramd_server_values_bytes", kGauge, "",
     "Bytes of the values that this server owns.",
     OfServer<&v1::ServerStats::bytes>},
    {"paramd_server_restored_shards", kGauge, "",
     "1 if the shard is filled and may be pulled, else 0.",
     OfServer<&v1::ServerStats::restored>},
    {"paramd_server_answered_pulls_total", kCounter, "", "Pulls answered.",
     OfServer<&v1::ServerStats::pulls>},
    {"paramd_server_parked_pulls_total", kCounter, "",
     "Pulls that had to wait for a slower worker.",
     OfServer<&v1::ServerStats::pulls_parked>},
    {"paramd_server_waiting_pulls", kGauge, "",
     "Pulls that wait for a slower worker now.",
     OfServer<&v1::ServerStats::pulls_waiting>},
    {"paramd_server_pull_wait_seconds_total", kCounter, "",
     "How long pulls waited for slower workers, all together.",
     OfServer<&v1::ServerStats::pull_wait_seconds>},
    {"paramd_server_applied_blocks_total", kCounter, "",
     "Pushed blocks that were applied.",
     OfServer<&v1::ServerStats::blocks_applied>},
    {"paramd_server_repeated_blocks_total", kCounter, "",
     "Pushed blocks that had been applied already.",
     OfServer<&v1::ServerStats::blocks_repeated>},
    {"paramd_server_refused_blocks_total", kCounter, "",
     "Pushed blocks that were refused.",
     OfServer<&v1::ServerStats::blocks_refused>},
    {"paramd_server_quarantined_blocks_total", kCounter, "",
     "Of those refused: blocks of chunks with numbers that are not finite or "
     "far too large.",
     OfServer<&v1::ServerStats::blocks_quarantined>},
    {"paramd_server_frozen_bytes", kGauge, "",
     "Bytes of values and slots that exist twice for a snapshot.",
     OfServer<&v1::ServerStats::frozen_bytes>},
    {"paramd_server_memory_bytes", kGauge, "",
     "Bytes of weights, slots and what is made of them, wherever they are "
     "held, and of gradients that are kept.",
     OfServer<&v1::ServerStats::memory_bytes>},
    {"paramd_server_memory_limit_bytes", kGauge, "",
     "The most that paramd_server_memory_bytes may be; 0: no limit.",
     OfServer<&v1::ServerStats::memory_limit_bytes>},
    {"paramd_server_memory_refusals_total", kCounter, "",
     "Chunks and pulls that were refused because they did not fit into memory.",
     OfServer<&v1::ServerStats::memory_refusals>},
    {"paramd_server_spare_bytes", kGauge, "",
     "Of paramd_server_memory_bytes: memory that waits for its next use.",
     OfServer<&v1::ServerStats::spare_bytes>},
    {"paramd_server_lost_pushes", kGauge, "",
     "Acknowledged pushes that were lost with earlier lives of this server.",
     OfServer<&v1::ServerStats::pushes_lost>},
    {"paramd_server_alone_chunks_total", kCounter, "",
     "With replication: chunks of pushes that were acknowledged when only one "
     "server had them.",
     OfPlaces<&v1::ServerStats::acknowledged_alone>},
    {"paramd_server_replicated_bytes_total", kCounter, "",
     "With replication: bytes that were sent to backups.",
     OfPlaces<&v1::ServerStats::replicated_bytes>},
    {"paramd_server_replicating_chunks", kGauge, "",
     "With replication: chunks sent to backups that they have not taken yet.",
     OfPlaces<&v1::ServerStats::replicating>},
    {"paramd_table_used_rows", kGauge, "variable",
     "Of a keyed variable on this server: rows that have a key.",
     OfTables<&v1::TableStats::rows>},
    {"paramd_table_capacity_rows", kGauge, "variable",
     "The most rows that can have a key.", OfTables<&v1::TableStats::capacity>},
    {"paramd_table_memory_rows", kGauge, "variable",
     "Of the capacity: rows that lie in memory. The others lie on the disk.",
     OfTables<&v1::TableStats::memory_rows>},
    {"paramd_table_looked_up_keys_total", kCounter, "variable",
     "Keys that were looked up.", OfTables<&v1::TableStats::looked_up>},
    {"paramd_table_disk_keys_total", kCounter, "variable",
     "Keys that were looked up and whose rows lay on the disk.",
     OfTables<&v1::TableStats::on_disk>},
    {"paramd_table_created_rows_total", kCounter, "variable",
     "Keys that got a row.", OfTables<&v1::TableStats::created>},
    {"paramd_table_asking_keys", kGauge, "variable",
     "Different keys that asked for a row since the server took up its "
     "content, whether or not they got it; within a few percent.",
     OfTables<&v1::TableStats::keys>},
    {"paramd_table_evicted_rows_total", kCounter, "variable",
     "Keys that lost their row to another one.",
     OfTables<&v1::TableStats::evicted>},
    {"paramd_table_expired_rows_total", kCounter, "variable",
     "Keys that lost their row because nothing named them any more.",
     OfTables<&v1::TableStats::expired>},
    {"paramd_table_dropped_gradients_total", kCounter, "variable",
     "Gradients of keys that got no row, because none was left or too few had "
     "named them.",
     [](const Source& from, Samples* to) {
       for (const v1::TableStats& table : from.server().tables()) {
         to->Add(static_cast<double>(table.ignored() + table.not_admitted()),
                 {{"variable", table.variable()}});
       }
     }},
    {"paramd_server_staleness_pushes", kHistogram, "",
     "How many other pushes a block had taken in between the read that a "
     "gradient was computed on and its application.",
     FillStaleness},
};

}  // namespace

absl::Span<const Metric> OfServers() { return kServerMetrics; }

}  // namespace paramd::metric_table
