package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// askAsConsole sends the requests of Redpanda Console about a topic and a group, and prints what came of each.
func askAsConsole(ctx context.Context, client *kgo.Client, topic string, group string) {
	topicText, any := topic, kmsg.ACLResourceTypeAny
	cluster, configs := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrDescribeConfigsRequest()
	configs.Resources = []kmsg.DescribeConfigsRequestResource{
		{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "1"}, {ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic},
	}
	described := kmsg.NewPtrDescribeGroupsRequest()
	described.Groups = []string{group}
	offsets := kmsg.NewPtrOffsetFetchRequest()
	offsets.Group = group
	listed := kmsg.NewPtrListOffsetsRequest()
	listed.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1, CurrentLeaderEpoch: -1}}}}
	committed := kmsg.NewPtrOffsetCommitRequest()
	committed.Group, committed.Generation = group, -1
	committed.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 5, LeaderEpoch: -1}}}}
	acls := kmsg.NewPtrDescribeACLsRequest()
	acls.ResourceType, acls.ResourcePatternType = any, kmsg.ACLResourcePatternTypeAny
	acls.Operation, acls.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	changed := kmsg.NewPtrIncrementalAlterConfigsRequest()
	value := "3600000"
	changed.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: &value}}}}
	deleted := kmsg.NewPtrDeleteRecordsRequest()
	deleted.TimeoutMillis = 10000
	deleted.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: 10}}}}
	forgotten := kmsg.NewPtrOffsetDeleteRequest()
	forgotten.Group = group
	forgotten.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}}
	groups := kmsg.NewPtrDeleteGroupsRequest()
	groups.Groups = []string{group}
	topics := kmsg.NewPtrDeleteTopicsRequest()
	topics.TimeoutMillis, topics.TopicNames = 10000, []string{topic}
	topics.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &topicText}}
	for _, request := range []kmsg.Request{
		kmsg.NewPtrApiVersionsRequest(), cluster, configs, kmsg.NewPtrDescribeLogDirsRequest(), kmsg.NewPtrListGroupsRequest(), described,
		offsets, listed, committed, acls, kmsg.NewPtrListPartitionReassignmentsRequest(), changed, deleted, forgotten, groups,
		kmsg.NewPtrAlterPartitionAssignmentsRequest(), kmsg.NewPtrDescribeClientQuotasRequest(),
		kmsg.NewPtrDescribeUserSCRAMCredentialsRequest(), kmsg.NewPtrAlterUserSCRAMCredentialsRequest(), topics,
	} {
		answer, err := client.Request(ctx, request)
		name := kmsg.NameForKey(request.Key())
		if err != nil {
			fmt.Println(name, err)
		} else {
			fmt.Println(name, codesOf(answer))
		}
	}
}

// codesOf returns the error codes of an answer.
func codesOf(answer kmsg.Response) []int16 {
	codes := []int16{}
	add := func(code int16) { codes = append(codes, code) }
	switch found := answer.(type) {
	case *kmsg.ApiVersionsResponse:
		add(found.ErrorCode)
	case *kmsg.MetadataResponse:
		for _, topic := range found.Topics {
			add(topic.ErrorCode)
		}
	case *kmsg.DescribeConfigsResponse:
		for _, resource := range found.Resources {
			add(resource.ErrorCode)
		}
	case *kmsg.DescribeLogDirsResponse:
		for _, dir := range found.Dirs {
			add(dir.ErrorCode)
		}
	case *kmsg.ListGroupsResponse:
		add(found.ErrorCode)
	case *kmsg.DescribeGroupsResponse:
		for _, group := range found.Groups {
			add(group.ErrorCode)
		}
	case *kmsg.OffsetFetchResponse:
		add(found.ErrorCode)
		for _, topic := range found.Topics {
			for _, partition := range topic.Partitions {
				add(partition.ErrorCode)
			}
		}
	case *kmsg.ListOffsetsResponse:
		for _, topic := range found.Topics {
			for _, partition := range topic.Partitions {
				add(partition.ErrorCode)
			}
		}
	case *kmsg.OffsetCommitResponse:
		for _, topic := range found.Topics {
			for _, partition := range topic.Partitions {
				add(partition.ErrorCode)
			}
		}
	case *kmsg.DescribeACLsResponse:
		add(found.ErrorCode)
	case *kmsg.ListPartitionReassignmentsResponse:
		add(found.ErrorCode)
	case *kmsg.IncrementalAlterConfigsResponse:
		for _, resource := range found.Resources {
			add(resource.ErrorCode)
		}
	case *kmsg.DeleteRecordsResponse:
		for _, topic := range found.Topics {
			for _, partition := range topic.Partitions {
				add(partition.ErrorCode)
			}
		}
	case *kmsg.OffsetDeleteResponse:
		add(found.ErrorCode)
	case *kmsg.DeleteGroupsResponse:
		for _, group := range found.Groups {
			add(group.ErrorCode)
		}
	case *kmsg.DeleteTopicsResponse:
		for _, topic := range found.Topics {
			add(topic.ErrorCode)
		}
	default:
		panic(fmt.Sprintf("%T", answer))
	}
	return codes
}
