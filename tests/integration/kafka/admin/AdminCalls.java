import java.util.*;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.serialization.StringSerializer;

/** The calls that Kafka UI and AKHQ make of Java's AdminClient, in the order of a session: a line per call, with its outcome. */
public class AdminCalls {
    public static void main(String[] arguments) throws Exception {
        var settings = Map.<String, Object>of("bootstrap.servers", arguments[0], "default.api.timeout.ms", 20000, "request.timeout.ms", 10000);
        String topic = arguments[1], group = arguments[2];
        var first = new TopicPartition(topic, 0);
        var ofTopic = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try (var admin = Admin.create(settings)) {
            call("createTopics", () -> {
                var made = admin.createTopics(List.of(new NewTopic(topic, Optional.of(1), Optional.empty()).configs(Map.of("retention.ms", "86400000"))));
                made.all().get();
                return made.numPartitions(topic).get() + " " + made.replicationFactor(topic).get();
            });
            call("createPartitions", () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all().get());
            try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
                for (int n = 0; n < 10; n++) producer.send(new ProducerRecord<>(topic, 0, 1000L + n, "k", "v" + n)).get();
            }
            int broker = admin.describeCluster().controller().get().id();
            var ofBroker = new ConfigResource(ConfigResource.Type.BROKER, "" + broker);
            call("describeCluster", () -> {
                var found = admin.describeCluster();
                return found.nodes().get().size() + " " + !found.clusterId().get().isEmpty() + " " + found.authorizedOperations().get();
            });
            call("describeCluster.operations", () ->
                sorted(admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true)).authorizedOperations().get()));
            call("describeFeatures", () -> admin.describeFeatures().featureMetadata().get().finalizedFeatures().containsKey("metadata.version"));
            call("listTopics", () -> admin.listTopics(new ListTopicsOptions().listInternal(true)).listings().get().stream()
                .filter(each -> each.name().equals(topic)).map(each -> each.isInternal()).toList());
            call("describeTopics", () -> {
                var found = admin.describeTopics(List.of(topic), new DescribeTopicsOptions().includeAuthorizedOperations(true)).allTopicNames().get().get(topic);
                return found.partitions().stream().map(each -> each.partition() + ":" + (each.leader().id() == broker)
                    + each.replicas().size() + each.isr().size()).toList() + " " + sorted(found.authorizedOperations());
            });
            call("describeTopics.unknown", () -> admin.describeTopics(List.of("no-such-topic")).allTopicNames().get());
            call("describeConfigs.topic", () -> {
                var options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
                var found = admin.describeConfigs(List.of(ofTopic), options).all().get().get(ofTopic);
                return List.of("cleanup.policy", "retention.ms", "retention.bytes", "delete.retention.ms", "message.timestamp.type").stream()
                    .map(name -> name + "=" + found.get(name).value() + " " + found.get(name).isDefault()).toList();
            });
            call("describeConfigs.broker", () -> !admin.describeConfigs(List.of(ofBroker)).all().get().get(ofBroker).entries().isEmpty());
            call("incrementalAlterConfigs.topic", () -> {
                var set = new AlterConfigOp(new ConfigEntry("retention.ms", "3600000"), AlterConfigOp.OpType.SET);
                admin.incrementalAlterConfigs(Map.of(ofTopic, List.of(set))).all().get();
                return admin.describeConfigs(List.of(ofTopic)).all().get().get(ofTopic).get("retention.ms").value();
            });
            call("incrementalAlterConfigs.broker", () -> {
                var set = new AlterConfigOp(new ConfigEntry("log.cleaner.threads", "1"), AlterConfigOp.OpType.SET);
                return admin.incrementalAlterConfigs(Map.of(ofBroker, List.of(set))).all().get();
            });
            call("describeLogDirs", () -> admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker).values().stream()
                .map(each -> each.error() + " " + (each.replicaInfos().get(first).size() > 0) + each.replicaInfos().get(first).isFuture()
                    + each.replicaInfos().get(first).offsetLag() + each.totalBytes().isPresent()).toList());
            for (var spec : new TreeMap<>(Map.of("earliest", OffsetSpec.earliest(), "latest", OffsetSpec.latest(),
                "timestamp", OffsetSpec.forTimestamp(1L), "maxTimestamp", OffsetSpec.maxTimestamp(),
                "earliestLocal", OffsetSpec.earliestLocal(), "latestTiered", OffsetSpec.latestTiered())).entrySet())
                call("listOffsets." + spec.getKey(), () -> admin.listOffsets(Map.of(first, spec.getValue())).all().get().get(first).offset());
            call("alterConsumerGroupOffsets", () -> admin.alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(3))).all().get());
            call("listConsumerGroupOffsets", () -> admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(first).offset());
            call("listConsumerGroups", () -> admin.listConsumerGroups().all().get().stream().filter(each -> each.groupId().equals(group))
                .map(each -> "" + each.groupState().get() + each.isSimpleConsumerGroup()).toList());
            call("listGroups", () -> admin.listGroups().all().get().stream().filter(each -> each.groupId().equals(group))
                .map(each -> "" + each.groupState().get() + each.isSimpleConsumerGroup()).toList());
            call("listGroups.consumers", () -> admin.listGroups(ListGroupsOptions.forConsumerGroups()).all().get().stream()
                .filter(each -> each.groupId().equals(group)).count());
            call("describeConsumerGroups", () -> {
                var found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
                return found.groupState() + " " + found.members().size() + " " + (found.coordinator().id() == broker) + " " + found.type();
            });
            call("describeConsumerGroups.unknown", () -> {
                var found = admin.describeConsumerGroups(List.of("no-such-group")).all().get();
                return found.size() + " " + found.get("no-such-group").groupState();
            });
            call("deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets(group, Set.of(first)).all().get());
            call("deleteConsumerGroups", () -> admin.deleteConsumerGroups(List.of(group)).all().get());
            call("deleteConsumerGroups.unknown", () -> admin.deleteConsumerGroups(List.of("no-such-group")).all().get());
            call("deleteRecords", () -> admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(4))).lowWatermarks().get(first).get().lowWatermark());
            call("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get());
            var rule = new AclBinding(new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL),
                new AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW));
            call("createAcls", () -> admin.createAcls(List.of(rule)).all().get());
            call("deleteAcls", () -> admin.deleteAcls(List.of(rule.toFilter())).all().get());
            call("describeClientQuotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
            var entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "a"));
            var alteration = new ClientQuotaAlteration(entity, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null)));
            call("alterClientQuotas", () -> admin.alterClientQuotas(List.of(alteration)).all().get());
            call("describeUserScramCredentials", () -> admin.describeUserScramCredentials().all().get());
            call("alterUserScramCredentials", () -> admin.alterUserScramCredentials(List.of(
                new UserScramCredentialDeletion("no-such-user", ScramMechanism.SCRAM_SHA_256))).all().get());
            call("listPartitionReassignments", () -> admin.listPartitionReassignments().reassignments().get());
            call("alterPartitionReassignments", () -> admin.alterPartitionReassignments(
                Map.of(first, Optional.of(new NewPartitionReassignment(List.of(broker))))).all().get());
            call("electLeaders", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(first)).partitions().get());
            call("alterReplicaLogDirs", () -> admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica(topic, 0, broker), "/no/such")).all().get());
            call("describeProducers", () -> admin.describeProducers(List.of(first)).all().get().get(first).activeProducers().size());
            call("listTransactions", () -> admin.listTransactions().all().get());
            call("describeMetadataQuorum", () -> admin.describeMetadataQuorum().quorumInfo().get().leaderId() == broker);
            call("deleteTopics", () -> admin.deleteTopics(List.of(topic)).all().get());
        }
    }

    private static List<String> sorted(Collection<AclOperation> operations) {
        return operations == null ? null : operations.stream().map(Enum::name).sorted().collect(Collectors.toList());
    }

    private static void call(String name, Callable<Object> work) throws Exception {
        String found;
        try {
            found = String.valueOf(work.call());
        } catch (ExecutionException error) {
            found = error.getCause().getClass().getSimpleName() + ": " + error.getCause().getMessage();
        } catch (NullPointerException | NoSuchElementException error) {
            found = error.toString();
        }
        System.out.println(name + "\t" + found);
    }
}
