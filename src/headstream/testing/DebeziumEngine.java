// Debezium's embedded engine, whose messages a Kafka producer sends. Rows of the table headstream_marks are not sent: the keys of
// inserted ones are written to the file of the setting marks.file, when everything before them has been sent.
import io.debezium.engine.*;
import io.debezium.engine.format.Json;
import java.io.*;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.ByteArraySerializer;

class Engine {
  static final String MARKS = ".headstream_marks";

  static byte[] bytes(Object value) throws Exception {
    return value == null ? null : value instanceof byte[] b ? b : value.toString().getBytes("UTF-8");
  }

  public static void main(String[] arguments) throws Exception {
    Properties engine = new Properties(), producer = new Properties();
    try (Reader reader = new FileReader(arguments[0])) { engine.load(reader); }
    for (String name : engine.stringPropertyNames())
      if (name.startsWith("producer.")) producer.setProperty(name.substring(9), (String) engine.remove(name));
    var kafka = new KafkaProducer<byte[], byte[]>(producer, new ByteArraySerializer(), new ByteArraySerializer());
    Properties given = engine;
    var marks = new PrintWriter(new FileWriter((String) engine.remove("marks.file"), true), true);
    var running = DebeziumEngine.create(Json.class, Json.class, Json.class).using(given)
      .notifying((records, committer) -> {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (var record : records) {
          if (record.destination().endsWith(MARKS)) continue;
          try {
            var message = new ProducerRecord<byte[], byte[]>(record.destination(), null, bytes(record.key()), bytes(record.value()));
            for (Header<?> header : record.<Object>headers()) message.headers().add(header.getKey(), bytes(header.getValue()));
            sent.add(kafka.send(message));
          } catch (Exception error) { throw new RuntimeException(error); }
        }
        kafka.flush();
        for (var one : sent) {
          try { one.get(); } catch (ExecutionException error) { throw new RuntimeException(error); }
        }
        for (var record : records) committer.markProcessed(record);
        committer.markBatchFinished();
        for (var record : records)
          if (record.destination().endsWith(MARKS) && ("" + record.value()).contains("\"op\":\"c\"")) marks.println(record.key());
      })
      .using((succeeded, message, error) -> {
        System.err.println("end " + succeeded + " " + message);
        if (error != null) error.printStackTrace();
        if (!succeeded) Runtime.getRuntime().halt(1);
      }).build();
    Executors.newSingleThreadExecutor().execute(running);
    Thread.currentThread().join();
  }
}
