import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.hudi.common.config.LockConfiguration;
import org.apache.hudi.common.lock.LockProvider;
import org.apache.hudi.storage.StorageConfiguration;
import org.apache.hudi.storage.hadoop.HadoopStorageConfiguration;

/**
 * Takes and frees a table's lock by one of Hudi's providers, as lines on standard input say: `lock MS`, `unlock`, `count FILE SECONDS`.
 * Arguments: the provider's class, then key=value.
 */
public class HudiLock {
  public static void main(String[] args) throws Exception {
    Properties props = new Properties();
    for (int i = 1; i < args.length; i++) {
      int at = args[i].indexOf('=');
      props.setProperty(args[i].substring(0, at), args[i].substring(at + 1));
    }
    LockProvider<?> lock = (LockProvider<?>) Class.forName(args[0])
        .getConstructor(LockConfiguration.class, StorageConfiguration.class)
        .newInstance(new LockConfiguration(props), new HadoopStorageConfiguration(false));
    System.out.println("@ready");
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split(" ");
      switch (words[0]) {
        case "lock":
          System.out.println("@" + taken(lock, Long.parseLong(words[1])));
          break;
        case "unlock":
          lock.unlock();
          System.out.println("@free");
          break;
        default:
          System.out.println("@" + count(lock, java.nio.file.Path.of(words[1]), Double.parseDouble(words[2])));
      }
    }
    System.exit(0);
  }

  private static boolean taken(LockProvider<?> lock, long millis) {
    try {
      return lock.tryLock(millis, TimeUnit.MILLISECONDS);
    } catch (Exception e) {
      return false;
    }
  }

  /** Adds to the number in a file under the lock, by reading and writing it, for some seconds; how often it did. */
  private static int count(LockProvider<?> lock, java.nio.file.Path file, double seconds) throws Exception {
    int done = 0;
    for (long end = System.nanoTime() + (long) (seconds * 1e9); System.nanoTime() < end;) {
      if (taken(lock, 1000)) {
        int now = Integer.parseInt(java.nio.file.Files.readString(file));
        java.nio.file.Files.writeString(file, Integer.toString(now + 1));
        lock.unlock();
        done++;
      }
    }
    return done;
  }
}
