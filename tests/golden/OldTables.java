import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.client.HoodieJavaWriteClient;
import org.apache.hudi.client.WriteStatus;
import org.apache.hudi.client.common.HoodieJavaEngineContext;
import org.apache.hudi.common.model.EmptyHoodieRecordPayload;
import org.apache.hudi.common.model.HoodieKey;
import org.apache.hudi.common.model.HoodieRecord;
import org.apache.hudi.common.model.HoodieRecordLocation;
import org.apache.hudi.common.model.HoodieRecordPayload;
import org.apache.hudi.common.model.HoodieTableType;
import org.apache.hudi.common.model.OverwriteWithLatestAvroPayload;
import org.apache.hudi.common.table.HoodieTableMetaClient;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.config.HoodieIndexConfig;
import org.apache.hudi.config.HoodieWriteConfig;
import org.apache.hudi.index.HoodieIndex;

/**
 * Writes a table with Hudi's Java client of a release from 0.8 to 0.11, whose bundles for Spark aren't on Maven Central.
 * `make_java.py` runs it: OldTables FOLDER COPY_ON_WRITE|MERGE_ON_READ FURTHER_COMMITS
 */
public class OldTables {
  static final Schema SCHEMA = new Schema.Parser().parse("{\"type\": \"record\", \"name\": \"trip\", \"fields\": ["
      + "{\"name\": \"uuid\", \"type\": \"string\"}, {\"name\": \"ts\", \"type\": \"long\"},"
      + "{\"name\": \"rider\", \"type\": \"string\"}, {\"name\": \"fare\", \"type\": \"double\"},"
      + "{\"name\": \"city\", \"type\": \"string\"}]}");

  static HoodieKey key(int n) {
    return new HoodieKey(String.format("k%02d", n), n % 2 == 0 ? "nyc" : "sf");
  }

  /** Of a merge-on-read table: where the first commit put the records of a partition. */
  static final Map<String, HoodieRecordLocation> PLACES = new HashMap<>();

  static HoodieRecord<?> trip(int n, long ts, String rider) throws Exception {
    GenericRecord record = new GenericData.Record(SCHEMA);
    record.put("uuid", key(n).getRecordKey());
    record.put("ts", ts);
    record.put("rider", rider);
    record.put("fare", n * 1.5);
    record.put("city", key(n).getPartitionPath());
    return record(key(n), rider == null ? new EmptyHoodieRecordPayload() : new OverwriteWithLatestAvroPayload(record, ts));
  }

  static HoodieRecord<?> record(HoodieKey key, HoodieRecordPayload<?> payload) throws Exception {
    Class<?> kind;
    try {
      kind = Class.forName("org.apache.hudi.common.model.HoodieAvroRecord");
    } catch (ClassNotFoundException before011) {
      kind = HoodieRecord.class;
    }
    for (Constructor<?> made : kind.getConstructors()) {
      if (made.getParameterCount() == 2 && made.getParameterTypes()[0] == HoodieKey.class) {
        HoodieRecord<?> record = (HoodieRecord<?>) made.newInstance(key, payload);
        if (PLACES.containsKey(key.getPartitionPath())) {
          record.unseal();
          record.setCurrentLocation(PLACES.get(key.getPartitionPath()));
          record.seal();
        }
        return record;
      }
    }
    throw new IllegalStateException("no constructor of " + kind);
  }

  static List<HoodieRecord<?>> trips(long ts, String rider, int... numbers) throws Exception {
    List<HoodieRecord<?>> all = new ArrayList<>();
    for (int n : numbers) {
      all.add(trip(n, ts, rider));
    }
    return all;
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  static void append(HoodieJavaWriteClient client, String instant, List<HoodieRecord<?>> records) throws Exception {
    Object statuses = client.upsertPreppedRecords(records, instant);
    said(client, "transitionInflight", instant);
    client.commit(instant, statuses, Option.empty());
  }

  /** Calls what not every release has. */
  static void said(Object called, String name, Object value) throws Exception {
    for (Method method : called.getClass().getMethods()) {
      if (method.getName().equals(name)) {
        method.invoke(called, value);
      }
    }
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  public static void main(String[] arguments) throws Exception {
    String path = arguments[0];
    HoodieTableType type = HoodieTableType.valueOf(arguments[1]);
    Configuration conf = new Configuration();
    HoodieTableMetaClient.PropertyBuilder made = HoodieTableMetaClient.withPropertyBuilder().setTableType(type).setTableName("trips")
        .setPreCombineField("ts").setPayloadClassName(OverwriteWithLatestAvroPayload.class.getName());
    said(made, "setRecordKeyFields", "uuid");
    said(made, "setPartitionFields", "city");
    said(made, "setKeyGeneratorClassProp", "org.apache.hudi.keygen.SimpleKeyGenerator");
    said(made, "setHiveStylePartitioningEnable", false);
    said(made, "setUrlEncodePartitioning", false);
    made.initTable(conf, path);
    Properties more = new Properties();
    more.put("hoodie.write.markers.type", "DIRECT");
    more.put("hoodie.metadata.enable", "false");
    int further = Integer.parseInt(arguments[2]);
    if (further > 0) { // which are archived
      more.put("hoodie.cleaner.commits.retained", "1");
      more.put("hoodie.keep.min.commits", "2");
      more.put("hoodie.keep.max.commits", "3");
    }
    HoodieIndexConfig index = HoodieIndexConfig.newBuilder().withIndexType(HoodieIndex.IndexType.INMEMORY).build();
    HoodieWriteConfig config = HoodieWriteConfig.newBuilder().withPath(path).withSchema(SCHEMA.toString()).withParallelism(1, 1)
        .withDeleteParallelism(1).forTable("trips").withEmbeddedTimelineServerEnabled(false).withIndexConfig(index)
        .withProps(more).build();
    try (HoodieJavaWriteClient client = new HoodieJavaWriteClient(new HoodieJavaEngineContext(conf), config)) {
      String first = client.startCommit();
      List<WriteStatus> written = client.insert(trips(10, "ann", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9), first);
      if (type == HoodieTableType.MERGE_ON_READ) { // its upserts write base files, those with known places log files
        for (WriteStatus status : written) {
          PLACES.put(status.getPartitionPath(), new HoodieRecordLocation(first, status.getFileId()));
        }
        String second = client.startCommit();
        append(client, second, trips(20, "bob", 0, 1, 2, 3));
        String third = client.startCommit();
        append(client, third, trips(30, null, 6, 7, 0));
        String fourth = client.startCommit();
        append(client, fourth, trips(40, "cid", 1, 8, 7));
        return;
      }
      String second = client.startCommit();
      client.upsert(trips(20, "bob", 0, 1, 2, 3, 20), second);
      String third = client.startCommit();
      client.delete(Arrays.asList(key(6), key(7), key(0)), third);
      String fourth = client.startCommit();
      client.upsert(trips(40, "cid", 1, 8, 7), fourth);
      for (int n = 0; n < further; n++) {
        String next = client.startCommit();
        client.upsert(trips(50 + n, "dan", 1, 9), next);
      }
    }
  }
}
