"""The schemas for connections, topics and topic settings.

schema.py describes the notation; names and versions are as in Kafka's message definitions.
"""

from __future__ import annotations

from typing import Final

from headstream.server.kafka.protocol.schema import parse_schemas

SCHEMAS: Final = parse_schemas(
    """
api_versions request key=18 versions=0-3 flexible=3+
  client_software_name string 3+
  client_software_version string 3+
api_versions response key=18 versions=0-3 flexible=3+
  error_code int16
  api_keys [] {
    api_key int16
    min_version int16
    max_version int16
  }
  throttle_time_ms int32 1+
  supported_features [] 3+ tag=0 {
    name string
    min_version int16
    max_version int16
  }
  finalized_features_epoch int64 3+ tag=1 =-1
  finalized_features [] 3+ tag=2 {
    name string
    max_version_level int16
    min_version_level int16
  }
  zk_migration_ready bool 3+ tag=3
sasl_handshake request key=17 versions=0-1
  mechanism string
sasl_handshake response key=17 versions=0-1
  error_code int16
  mechanisms []string
sasl_authenticate request key=36 versions=0-2 flexible=2+
  auth_bytes bytes
sasl_authenticate response key=36 versions=0-2 flexible=2+
  error_code int16
  error_message string ?
  auth_bytes bytes
  session_lifetime_ms int64 1+
metadata request key=3 versions=0-12 flexible=9+
  topics [] ?1+ {
    topic_id uuid 10+
    name string ?10+
  }
  allow_auto_topic_creation bool 4+ =True
  include_cluster_authorized_operations bool 8-10
  include_topic_authorized_operations bool 8+
metadata response key=3 versions=0-12 flexible=9+
  throttle_time_ms int32 3+
  brokers [] {
    node_id int32
    host string
    port int32
    rack string 1+ ?
  }
  cluster_id string 2+ ?
  controller_id int32 1+ =-1
  topics [] {
    error_code int16
    name string ?12+
    topic_id uuid 10+
    is_internal bool 1+
    partitions [] {
      error_code int16
      partition_index int32
      leader_id int32
      leader_epoch int32 7+ =-1
      replica_nodes []int32
      isr_nodes []int32
      offline_replicas []int32 5+
    }
    topic_authorized_operations int32 8+ =-2147483648
  }
  cluster_authorized_operations int32 8-10 =-2147483648
describe_cluster request key=60 versions=0-1 flexible=0+
  include_cluster_authorized_operations bool
  endpoint_type int8 1+ =1
describe_cluster response key=60 versions=0-1 flexible=0+
  throttle_time_ms int32
  error_code int16
  error_message string ?
  endpoint_type int8 1+ =1
  cluster_id string
  controller_id int32 =-1
  brokers [] {
    broker_id int32
    host string
    port int32
    rack string ?
  }
  cluster_authorized_operations int32 =-2147483648
describe_acls request key=29 versions=1-3 flexible=2+
  resource_type_filter int8
  resource_name_filter string ?
  pattern_type_filter int8 =3
  principal_filter string ?
  host_filter string ?
  operation int8
  permission_type int8
describe_acls response key=29 versions=1-3 flexible=2+
  throttle_time_ms int32
  error_code int16
  error_message string ?
  resources [] {
    resource_type int8
    resource_name string
    pattern_type int8 =3
    acls [] {
      principal string
      host string
      operation int8
      permission_type int8
    }
  }
describe_log_dirs request key=35 versions=1-4 flexible=2+
  topics [] ? {
    topic string
    partitions []int32
  }
describe_log_dirs response key=35 versions=1-4 flexible=2+
  throttle_time_ms int32
  error_code int16 3+
  results [] {
    error_code int16
    log_dir string
    topics [] {
      name string
      partitions [] {
        partition_index int32
        partition_size int64
        offset_lag int64
        is_future_key bool
      }
    }
    total_bytes int64 4+ =-1
    usable_bytes int64 4+ =-1
  }
list_partition_reassignments request key=46 versions=0-0 flexible=0+
  timeout_ms int32 =60000
  topics [] ? {
    name string
    partition_indexes []int32
  }
list_partition_reassignments response key=46 versions=0-0 flexible=0+
  throttle_time_ms int32
  error_code int16
  error_message string ?
  topics [] {
    name string
    partitions [] {
      partition_index int32
      replicas []int32
      adding_replicas []int32
      removing_replicas []int32
    }
  }
create_topics request key=19 versions=2-7 flexible=5+
  topics [] {
    name string
    num_partitions int32
    replication_factor int16
    assignments [] {
      partition_index int32
      broker_ids []int32
    }
    configs [] {
      name string
      value string ?
    }
  }
  timeout_ms int32 =60000
  validate_only bool
create_topics response key=19 versions=2-7 flexible=5+
  throttle_time_ms int32
  topics [] {
    name string
    topic_id uuid 7+
    error_code int16
    error_message string ?
    topic_config_error_code int16 5+ tag=0
    num_partitions int32 5+ =-1
    replication_factor int16 5+ =-1
    configs [] 5+ ? {
      name string
      value string ?
      read_only bool
      config_source int8 =-1
      is_sensitive bool
    }
  }
delete_topics request key=20 versions=1-6 flexible=4+
  topics [] 6+ {
    name string ?
    topic_id uuid
  }
  topic_names []string 1-5
  timeout_ms int32
delete_topics response key=20 versions=1-6 flexible=4+
  throttle_time_ms int32
  responses [] {
    name string ?6+
    topic_id uuid 6+
    error_code int16
    error_message string 5+ ?
  }
create_partitions request key=37 versions=0-3 flexible=2+
  topics [] {
    name string
    count int32
    assignments [] ? {
      broker_ids []int32
    }
  }
  timeout_ms int32
  validate_only bool
create_partitions response key=37 versions=0-3 flexible=2+
  throttle_time_ms int32
  results [] {
    name string
    error_code int16
    error_message string ?
  }
describe_configs request key=32 versions=1-4 flexible=4+
  resources [] {
    resource_type int8
    resource_name string
    configuration_keys []string ?
  }
  include_synonyms bool
  include_documentation bool 3+
describe_configs response key=32 versions=1-4 flexible=4+
  throttle_time_ms int32
  results [] {
    error_code int16
    error_message string ?
    resource_type int8
    resource_name string
    configs [] {
      name string
      value string ?
      read_only bool
      config_source int8 =-1
      is_sensitive bool
      synonyms [] {
        name string
        value string ?
        source int8
      }
      config_type int8 3+
      documentation string 3+ ?
    }
  }
delete_records request key=21 versions=0-2 flexible=2+
  topics [] {
    name string
    partitions [] {
      partition_index int32
      offset int64
    }
  }
  timeout_ms int32
delete_records response key=21 versions=0-2 flexible=2+
  throttle_time_ms int32
  topics [] {
    name string
    partitions [] {
      partition_index int32
      low_watermark int64
      error_code int16
    }
  }
alter_configs request key=33 versions=0-2 flexible=2+
  resources [] {
    resource_type int8
    resource_name string
    configs [] {
      name string
      value string ?
    }
  }
  validate_only bool
alter_configs response key=33 versions=0-2 flexible=2+
  throttle_time_ms int32
  responses [] {
    error_code int16
    error_message string ?
    resource_type int8
    resource_name string
  }
incremental_alter_configs request key=44 versions=0-1 flexible=1+
  resources [] {
    resource_type int8
    resource_name string
    configs [] {
      name string
      config_operation int8
      value string ?
    }
  }
  validate_only bool
incremental_alter_configs response key=44 versions=0-1 flexible=1+
  throttle_time_ms int32
  responses [] {
    error_code int16
    error_message string ?
    resource_type int8
    resource_name string
  }
"""
)
