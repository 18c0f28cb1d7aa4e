// Reads and writes headers with the classes of the products: JsonKafkaHeaderMapper of Spring Kafka, and SimpleHeaderConverter
// of Kafka Connect. A request is a line, and so is its answer; fields are separated by tabs, values are
// base64, and "-" is null.
//
//   spring  key value ...         -> key class text copied ...          a record through the mapper, and back
//   connect key value ...         -> key type text copied ...           a record through SimpleHeaderConverter, and back
//   write   key class text ...    -> key value ...                      typed values as the mapper writes them

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.springframework.kafka.support.JsonKafkaHeaderMapper;
import org.springframework.messaging.MessageHeaders;

public class HeaderProducts {
  static final JsonKafkaHeaderMapper MAPPER = new JsonKafkaHeaderMapper();
  static final SimpleHeaderConverter CONVERTER = new SimpleHeaderConverter();

  static byte[] decode(String text) {
    return text.equals("-") ? null : Base64.getDecoder().decode(text);
  }

  static String encode(byte[] data) {
    return data == null ? "-" : Base64.getEncoder().encodeToString(data);
  }

  static String text(Object value) {
    if (value == null) return "-";
    return encode(value instanceof byte[] data ? data : value.toString().getBytes(StandardCharsets.UTF_8));
  }

  static RecordHeaders headers(String[] fields) {
    RecordHeaders found = new RecordHeaders();
    for (int at = 1; at + 1 < fields.length; at += 2) {
      found.add(new String(decode(fields[at]), StandardCharsets.UTF_8), decode(fields[at + 1]));
    }
    return found;
  }

  static void add(List<String> out, Map<String, Object> values, RecordHeaders copied) {
    values.forEach((key, value) -> {
      Header last = copied.lastHeader(key);
      out.add(encode(key.getBytes(StandardCharsets.UTF_8)));
      out.add(value == null ? "null" : value.getClass().getName());
      out.add(text(value));
      out.add(last == null ? "-" : encode(last.value()));
    });
    Header types = copied.lastHeader("spring_json_header_types");
    out.add(types == null ? "-" : encode(types.value()));
  }

  static void spring(String[] fields, List<String> out) {
    Map<String, Object> values = new LinkedHashMap<>();
    MAPPER.toHeaders(headers(fields), values);
    RecordHeaders copied = new RecordHeaders();
    MAPPER.fromHeaders(new MessageHeaders(new HashMap<>(values)), copied);
    add(out, values, copied);
  }

  static void connect(String[] fields, List<String> out) {
    for (Header header : headers(fields)) {
      SchemaAndValue found = CONVERTER.toConnectHeader("topic", header.key(), header.value());
      Object value = found == null ? null : found.value();
      byte[] copied = found == null ? null : CONVERTER.fromConnectHeader("topic", header.key(), found.schema(), value);
      String name = found == null || found.schema() == null ? "null" : found.schema().name();
      out.add(encode(header.key().getBytes(StandardCharsets.UTF_8)));
      out.add(value == null ? "null" : name != null ? name : found.schema().type().toString());
      out.add(text(value));
      out.add(encode(copied));
    }
  }

  static Object typed(String name, String text) {
    return switch (name) {
      case "Byte" -> Byte.valueOf(text);
      case "Short" -> Short.valueOf(text);
      case "Integer" -> Integer.valueOf(text);
      case "Long" -> Long.valueOf(text);
      case "Float" -> Float.valueOf(text);
      case "Double" -> Double.valueOf(text);
      case "Boolean" -> Boolean.valueOf(text);
      case "Character" -> text.charAt(0);
      case "bytes" -> text.getBytes(StandardCharsets.UTF_8);
      case "List" -> List.of(text);
      default -> text;
    };
  }

  static void write(String[] fields, List<String> out) {
    Map<String, Object> values = new LinkedHashMap<>();
    for (int at = 1; at + 2 < fields.length; at += 3) {
      values.put(
          new String(decode(fields[at]), StandardCharsets.UTF_8),
          typed(fields[at + 1], new String(decode(fields[at + 2]), StandardCharsets.UTF_8)));
    }
    RecordHeaders written = new RecordHeaders();
    MAPPER.fromHeaders(new MessageHeaders(values), written);
    for (Header header : written) {
      out.add(encode(header.key().getBytes(StandardCharsets.UTF_8)));
      out.add(encode(header.value()));
    }
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      String[] fields = line.split("\t", -1);
      List<String> out = new ArrayList<>();
      switch (fields[0]) {
        case "spring" -> spring(fields, out);
        case "connect" -> connect(fields, out);
        default -> write(fields, out);
      }
      System.out.println(String.join("\t", out));
    }
  }
}
