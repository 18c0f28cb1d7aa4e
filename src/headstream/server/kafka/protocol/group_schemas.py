"""The schemas for consumer groups and group offsets.

schema.py describes the notation; names and versions are as in Kafka's message definitions.
"""

from __future__ import annotations

from typing import Final

from headstream.server.kafka.protocol.schema import parse_schemas

SCHEMAS: Final = parse_schemas(
    """
find_coordinator request key=10 versions=0-4 flexible=3+
  key string 0-3
  key_type int8 1+
  coordinator_keys []string 4+
find_coordinator response key=10 versions=0-4 flexible=3+
  throttle_time_ms int32 1+
  coordinators [] 4+ {
    key string
    node_id int32
    host string
    port int32
    error_code int16
    error_message string ?
  }
  error_code int16 0-3
  error_message string 1-3 ?
  node_id int32 0-3
  host string 0-3
  port int32 0-3
join_group request key=11 versions=0-9 flexible=6+
  group_id string
  session_timeout_ms int32
  rebalance_timeout_ms int32 1+ =-1
  member_id string
  group_instance_id string 5+ ?
  protocol_type string
  protocols [] {
    name string
    metadata bytes
  }
  reason string 8+ ?
join_group response key=11 versions=0-9 flexible=6+
  throttle_time_ms int32 2+
  error_code int16
  generation_id int32 =-1
  protocol_type string 7+ ?
  protocol_name string ?7+
  leader string
  skip_assignment bool 9+
  member_id string
  members [] {
    member_id string
    group_instance_id string 5+ ?
    metadata bytes
  }
sync_group request key=14 versions=0-5 flexible=4+
  group_id string
  generation_id int32
  member_id string
  group_instance_id string 3+ ?
  protocol_type string 5+ ?
  protocol_name string 5+ ?
  assignments [] {
    member_id string
    assignment bytes
  }
sync_group response key=14 versions=0-5 flexible=4+
  throttle_time_ms int32 1+
  error_code int16
  protocol_type string 5+ ?
  protocol_name string 5+ ?
  assignment bytes
heartbeat request key=12 versions=0-4 flexible=4+
  group_id string
  generation_id int32
  member_id string
  group_instance_id string 3+ ?
heartbeat response key=12 versions=0-4 flexible=4+
  throttle_time_ms int32 1+
  error_code int16
leave_group request key=13 versions=0-5 flexible=4+
  group_id string
  members [] 3+ {
    member_id string
    group_instance_id string ?
    reason string 5+ ?
  }
  member_id string 0-2
leave_group response key=13 versions=0-5 flexible=4+
  throttle_time_ms int32 1+
  error_code int16
  members [] 3+ {
    member_id string
    group_instance_id string ?
    error_code int16
  }
describe_groups request key=15 versions=0-5 flexible=5+
  groups []string
  include_authorized_operations bool 3+
describe_groups response key=15 versions=0-5 flexible=5+
  throttle_time_ms int32 1+
  groups [] {
    error_code int16
    group_id string
    group_state string
    protocol_type string
    protocol_data string
    members [] {
      member_id string
      group_instance_id string 4+ ?
      client_id string
      client_host string
      member_metadata bytes
      member_assignment bytes
    }
    authorized_operations int32 3+ =-2147483648
  }
list_groups request key=16 versions=0-4 flexible=3+
  states_filter []string 4+
list_groups response key=16 versions=0-4 flexible=3+
  throttle_time_ms int32 1+
  error_code int16
  groups [] {
    group_id string
    protocol_type string
    group_state string 4+
  }
delete_groups request key=42 versions=0-2 flexible=2+
  groups_names []string
delete_groups response key=42 versions=0-2 flexible=2+
  throttle_time_ms int32
  results [] {
    group_id string
    error_code int16
  }
offset_commit request key=8 versions=2-8 flexible=8+
  group_id string
  generation_id_or_member_epoch int32 =-1
  member_id string
  group_instance_id string 7+ ?
  retention_time_ms int64 2-4 =-1
  topics [] {
    name string
    partitions [] {
      partition_index int32
      committed_offset int64
      committed_leader_epoch int32 6+ =-1
      committed_metadata string ?
    }
  }
offset_commit response key=8 versions=2-8 flexible=8+
  throttle_time_ms int32 3+
  topics [] {
    name string
    partitions [] {
      partition_index int32
      error_code int16
    }
  }
offset_fetch request key=9 versions=1-8 flexible=6+
  groups [] 8+ {
    group_id string
    topics [] ? {
      name string
      partition_indexes []int32
    }
  }
  group_id string 1-7
  topics [] 1-7 ?2+ {
    name string
    partition_indexes []int32
  }
  require_stable bool 7+
offset_fetch response key=9 versions=1-8 flexible=6+
  throttle_time_ms int32 3+
  groups [] 8+ {
    group_id string
    topics [] {
      name string
      partitions [] {
        partition_index int32
        committed_offset int64
        committed_leader_epoch int32 =-1
        metadata string ?
        error_code int16
      }
    }
    error_code int16
  }
  topics [] 1-7 {
    name string
    partitions [] {
      partition_index int32
      committed_offset int64
      committed_leader_epoch int32 5+ =-1
      metadata string ?
      error_code int16
    }
  }
  error_code int16 2-7
offset_delete request key=47 versions=0-0
  group_id string
  topics [] {
    name string
    partitions [] {
      partition_index int32
    }
  }
offset_delete response key=47 versions=0-0
  error_code int16
  throttle_time_ms int32
  topics [] {
    name string
    partitions [] {
      partition_index int32
      error_code int16
    }
  }
"""
)
