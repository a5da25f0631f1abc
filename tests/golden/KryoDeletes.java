import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Timestamp;
import java.time.LocalDate;
import java.util.Base64;
import org.apache.avro.util.Utf8;
import org.apache.hudi.common.model.DeleteRecord;
import org.apache.hudi.common.model.HoodieKey;
import org.apache.hudi.common.util.SerializationUtils;

/** Prints what Hudi before 0.14 has in delete blocks, as lines of JSON: name, bytes. Run with hudi-common, Kryo 4 and Avro. */
public class KryoDeletes {
  static void print(String name, Object array) throws Exception {
    System.out.println("  \"" + name + "\": \"" + Base64.getEncoder().encodeToString(SerializationUtils.serialize(array)) + "\",");
  }

  static void records(String name, Comparable<?>... orders) throws Exception {
    DeleteRecord[] all = new DeleteRecord[orders.length];
    String partition = "nyc";
    for (int n = 0; n < orders.length; n++) {
      all[n] = orders[n] == null ? DeleteRecord.create("k" + n, partition) : DeleteRecord.create("k" + n, partition, orders[n]);
    }
    print(name, all);
  }

  public static void main(String[] arguments) throws Exception {
    String partition = "nyc", longText = new String(new char[200]).replace('\0', 'x') + "\u00e9";
    HoodieKey twice = new HoodieKey("twice", "p");
    print("keys", new HoodieKey[] {new HoodieKey("k1", partition), new HoodieKey("k2", partition),
        new HoodieKey("k3", new String("nyc")), new HoodieKey("klju\u010d", null), new HoodieKey("", "\ud83d\ude00"),
        new HoodieKey(longText, "a"), twice, twice});
    print("no keys", new HoodieKey[0]);
    records("none", null, 7, null);
    records("int", 1, -5, 0, Integer.MIN_VALUE);
    records("long", 300L, -7000000000L, 0L, Long.MAX_VALUE, Long.MIN_VALUE);
    records("text", "abc", "abc", "z\u00fcrich");
    records("float", 2.5f, -0.5f);
    records("double", 1.5, -1e300);
    records("boolean", true, false);
    records("short", (short) 3, (short) -3);
    records("decimal", new BigDecimal("12.340"), new BigDecimal("-99999999999999999999.999"));
    records("utf8", new Utf8("abc"), new Utf8("z\u00fcrich"));
    records("timestamp", new Timestamp(1700000000123L), new Timestamp(1L));
    records("day", LocalDate.of(2020, 1, 2), LocalDate.of(1969, 12, 31));
    records("other", new java.util.Date(5));
  }
}
