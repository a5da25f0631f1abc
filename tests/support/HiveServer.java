import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.hadoop.hive.metastore.txn.TxnStore;
import org.apache.hadoop.hive.metastore.txn.TxnUtils;

/**
 * A Hive Metastore on Derby, with the tables of locks, which otherwise a script makes, and with the end of locks without
 * heartbeats, which otherwise a thread of HiveServer2 sees to. Arguments: those of HiveMetaStore.
 */
public class HiveServer {
  public static void main(String[] args) throws Throwable {
    HiveConf conf = new HiveConf();
    try {
      TxnDbUtil.prepDb(conf);
    } catch (java.sql.SQLException e) { // they are there: it ran in this folder before
    }
    TxnStore store = TxnUtils.getTxnStore(conf);
    Thread reaper = new Thread(() -> {
      while (true) {
        store.performTimeOuts();
        try {
          Thread.sleep(200);
        } catch (InterruptedException e) {
          return;
        }
      }
    });
    reaper.setDaemon(true);
    reaper.start();
    HiveMetaStore.main(args);
  }
}
