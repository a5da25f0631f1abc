import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TimeZone;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.TimestampColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.CompressionKind;
import org.apache.orc.OrcFile;
import org.apache.orc.TypeDescription;
import org.apache.orc.Writer;

/**
 * Writes ORC files that pyarrow can't: of LZO and LZ4 by Apache ORC, by writers of several time zones, and with stripes of
 * several of them in one file. Run with Spark's jars: java -cp "$SPARK_HOME/jars/*" OrcFiles.java FOLDER
 */
public class OrcFiles {
  static final long[] SECONDS = {
    -1, 0, 1, 1420070400L, 1446354000L, 1446357600L, 1457852399L, 1457852401L, 1700000000L
  };
  static final List<Path> PARTS = new ArrayList<>();

  static void write(String folder, String name, String zone, CompressionKind kind) throws Exception {
    TimeZone.setDefault(TimeZone.getTimeZone(zone));
    TypeDescription schema = TypeDescription.fromString("struct<zone:string,at:timestamp>");
    Configuration conf = new Configuration();
    Path path = new Path(folder, name);
    Writer writer = OrcFile.createWriter(path, OrcFile.writerOptions(conf).setSchema(schema).compress(kind));
    VectorizedRowBatch batch = schema.createRowBatch();
    for (long second : SECONDS) {
      ((BytesColumnVector) batch.cols[0]).setVal(batch.size, zone.getBytes());
      TimestampColumnVector at = (TimestampColumnVector) batch.cols[1];
      at.time[batch.size] = second * 1000;
      at.nanos[batch.size] = 0;
      batch.size++;
    }
    writer.addRowBatch(batch);
    byte[] note = new byte[20000];
    for (int n = 0; n < note.length; n++) {
      note[n] = (byte) (n % 1000 < 500 ? 'a' : 'b' + n * n % 19);
    }
    writer.addUserMetadata("note", ByteBuffer.wrap(note));
    writer.close();
  }

  public static void main(String[] arguments) throws Exception {
    String folder = arguments[0];
    write(folder, "lz4.orc", "America/New_York", CompressionKind.LZ4);
    write(folder, "lzo.orc", "Asia/Kolkata", CompressionKind.LZO);
    for (String zone : Arrays.asList("America/New_York", "UTC", "Asia/Kolkata", "Europe/Berlin")) {
      PARTS.add(new Path(folder, "part" + PARTS.size()));
      write(folder, PARTS.get(PARTS.size() - 1).getName(), zone, CompressionKind.ZLIB);
    }
    OrcFile.mergeFiles(new Path(folder, "merged.orc"), OrcFile.writerOptions(new Configuration()), PARTS);
    for (Path part : PARTS) {
      part.getFileSystem(new Configuration()).delete(part, false);
    }
  }
}
