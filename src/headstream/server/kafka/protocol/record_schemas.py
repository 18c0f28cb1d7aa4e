"""The schemas for producing and fetching.

schema.py describes the notation; names and versions are as in Kafka's message definitions.
"""

from __future__ import annotations

from typing import Final

from headstream.server.kafka.protocol.schema import parse_schemas

SCHEMAS: Final = parse_schemas(
    """
produce request key=0 versions=3-9 flexible=9+
  transactional_id string ?
  acks int16
  timeout_ms int32
  topic_data [] {
    name string
    partition_data [] {
      index int32
      records records ?
    }
  }
produce response key=0 versions=3-9 flexible=9+
  responses [] {
    name string
    partition_responses [] {
      index int32
      error_code int16
      base_offset int64
      log_append_time int64 =-1
      log_start_offset int64 5+ =-1
      record_errors [] 8+ {
        batch_index int32
        batch_index_error_message string ?
      }
      error_message string 8+ ?
    }
  }
  throttle_time_ms int32
fetch request key=1 versions=4-12 flexible=12+
  cluster_id string 12+ ? tag=0
  replica_id int32 =-1
  max_wait_ms int32
  min_bytes int32
  max_bytes int32 =2147483647
  isolation_level int8
  session_id int32 7+
  session_epoch int32 7+ =-1
  topics [] {
    topic string
    partitions [] {
      partition int32
      current_leader_epoch int32 9+ =-1
      fetch_offset int64
      last_fetched_epoch int32 12+ =-1
      log_start_offset int64 5+ =-1
      partition_max_bytes int32
    }
  }
  forgotten_topics_data [] 7+ {
    topic string
    partitions []int32
  }
  rack_id string 11+
fetch response key=1 versions=4-12 flexible=12+
  throttle_time_ms int32
  error_code int16 7+
  session_id int32 7+
  responses [] {
    topic string
    partitions [] {
      partition_index int32
      error_code int16
      high_watermark int64
      last_stable_offset int64 =-1
      log_start_offset int64 5+ =-1
      aborted_transactions [] ? {
        producer_id int64
        first_offset int64
      }
      preferred_read_replica int32 11+ =-1
      records records ?
    }
  }
list_offsets request key=2 versions=1-7 flexible=6+
  replica_id int32
  isolation_level int8 2+
  topics [] {
    name string
    partitions [] {
      partition_index int32
      current_leader_epoch int32 4+ =-1
      timestamp int64
    }
  }
list_offsets response key=2 versions=1-7 flexible=6+
  throttle_time_ms int32 2+
  topics [] {
    name string
    partitions [] {
      partition_index int32
      error_code int16
      timestamp int64 =-1
      offset int64 =-1
      leader_epoch int32 4+ =-1
    }
  }
offset_for_leader_epoch request key=23 versions=2-4 flexible=4+
  replica_id int32 3+ =-2
  topics [] {
    topic string
    partitions [] {
      partition int32
      current_leader_epoch int32 =-1
      leader_epoch int32
    }
  }
offset_for_leader_epoch response key=23 versions=2-4 flexible=4+
  throttle_time_ms int32
  topics [] {
    topic string
    partitions [] {
      error_code int16
      partition int32
      leader_epoch int32 =-1
      end_offset int64 =-1
    }
  }
init_producer_id request key=22 versions=0-4 flexible=2+
  transactional_id string ?
  transaction_timeout_ms int32
  producer_id int64 3+ =-1
  producer_epoch int16 3+ =-1
init_producer_id response key=22 versions=0-4 flexible=2+
  throttle_time_ms int32
  error_code int16
  producer_id int64 =-1
  producer_epoch int16
"""
)
